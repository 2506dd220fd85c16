//! Figures of masks and of gradient dropping.
//!
//! What they reveal is what the mask, the scores or the record reveals that is drawn; figures of
//! scores or masks that were made from private examples without noise, and of signal against
//! noise, carry [`NOT_COVERED`](crate::show::NOT_COVERED).

mod kept;
mod overlap;
mod saliency;
mod selection_log;
mod signal;
#[cfg(test)]
mod tests;
mod tiles;

pub use kept::kept;
pub use overlap::{chance_overlap, overlap, overlap_over_epsilon};
pub use saliency::{Scored, mask, of_saliency, saliency};
pub use selection_log::selection_log;
pub use signal::signal_and_noise;
pub use tiles::tiles;

use crate::mask::{Mask, MaskTensor};
use crate::show::format;

/// Width of figures with several panels in a row.
const WIDE: f64 = 800.0;
/// Most tensors that are drawn one by one.
const MOST_PANELS: usize = 12;

/// How wide a card is for this many panels, and how many stand in a row.
fn columns(panels: usize) -> (f64, usize) {
    match panels {
        0 | 1 => (480.0, 1),
        2 | 4 => (640.0, 2),
        _ => (WIDE, 3),
    }
}

/// The places of the `most` largest, in their own order.
fn largest(sizes: &[usize], most: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(sizes[i]), i));
    order.truncate(most);
    order.sort_unstable();
    order
}

/// What the note of a figure says that shows `shown` of `all` tensors.
fn left_out(shown: usize, all: usize) -> String {
    if shown == all {
        return String::new();
    }
    format!("The {shown} largest of {all} tensors are drawn; the text form lists all.")
}

/// `16x1x8x8`.
fn shape(shape: &[usize]) -> String {
    shape.iter().map(ToString::to_string).collect::<Vec<_>>().join("x")
}

/// Whether nothing but one coordinate is left of a tensor that had more.
fn is_collapsed(tensor: &MaskTensor) -> bool {
    tensor.kept.len() > 1 && tensor.count() == 1
}

/// Whether a mask was chosen by looking at private examples without noise.
fn is_not_covered(mask: &Mask) -> bool {
    let own = mask.origin().privacy.iter().any(|cover| !cover.is_private());
    own || mask.saliency().is_some_and(|saliency| !saliency.privacy().is_private())
}

/// `312 of 1,024 coordinates kept (30.5 %). Data-free: costs nothing.`
fn kept_in_all(mask: &Mask) -> String {
    let covers: Vec<String> = mask.origin().privacy.iter().map(ToString::to_string).collect();
    format!(
        "{} of {} coordinates kept ({}). {}",
        format::count(mask.kept()),
        format::count(mask.len()),
        percent(1.0 - mask.rate()),
        sentence(&covers.join("; "))
    )
}

/// A share as percent; one that is hardly there still has a digit: `0.006 %`.
fn percent(share: f64) -> String {
    match share > 0.0 && share < 0.001 {
        true => format!("{} %", format::significant(100.0 * share, 1)),
        false => format::percent(share),
    }
}

/// With a capital at the beginning and a full stop at the end.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}
