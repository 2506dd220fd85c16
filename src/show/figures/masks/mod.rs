//! Figures of masks and of gradient dropping.
//!
//! A figure reveals what its mask, scores or record reveals. Figures of scores or masks that were
//! computed from private examples without noise, and figures of signal and noise, carry
//! [`NOT_COVERED`](crate::show::NOT_COVERED).

mod kept;
mod overlap;
mod saliency;
mod selection_log;
mod signal;
mod tensor_names;
#[cfg(test)]
mod tests;
mod tiles;

pub use kept::kept;
pub use overlap::{chance_overlap, overlap, overlap_over_epsilon};
pub(crate) use saliency::saliency_histograms;
pub use saliency::{SaliencyInput, mask, saliency};
pub use selection_log::selection_log;
pub use signal::signal_and_noise;
pub use tiles::tiles;

use super::as_sentence;
use crate::data::format_shape as shape;
use crate::mask::{Mask, MaskTensor, PrivacyStatus};
use crate::show::{Coverage, format};

use tensor_names::tensor_names;

/// Maximum number of tensors that are drawn.
const MAX_PANELS: usize = 12;

/// Returns the indices of the `most` largest sizes, in ascending order.
fn largest_indices(sizes: &[usize], most: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(sizes[i]), i));
    order.truncate(most);
    order.sort_unstable();
    order
}

/// Returns the note of a figure that shows `shown` of `total` tensors; empty if it shows all.
fn omission_note(shown: usize, total: usize) -> String {
    if shown == total {
        return String::new();
    }
    format!("The {shown} largest of {total} tensors are drawn; the text form lists all.")
}

/// Returns whether only one coordinate of a larger tensor is kept.
fn is_collapsed(tensor: &MaskTensor) -> bool {
    tensor.kept.len() > 1 && tensor.kept_count() == 1
}

/// Returns the coverage of a mask or of scores with this status.
fn status_coverage(status: &PrivacyStatus) -> Coverage {
    match status {
        PrivacyStatus::DataFree => Coverage::Public,
        PrivacyStatus::Released { .. } | PrivacyStatus::Assumption(_) => Coverage::Covered,
        PrivacyStatus::NotPrivate(_) => Coverage::NotCovered,
    }
}

/// Returns the coverage of a mask and its scores.
pub(crate) fn mask_coverage(mask: &Mask) -> Coverage {
    let scores = mask.saliency().map(|saliency| status_coverage(saliency.privacy()));
    mask.origin()
        .privacy
        .iter()
        .map(status_coverage)
        .chain(scores)
        .max()
        .unwrap_or(Coverage::Unmarked)
}

/// Returns the display names of the tensors of a mask.
fn mask_tensor_names(mask: &Mask) -> Vec<String> {
    tensor_names(mask.tensors().iter().map(|t| (t.path.as_str(), t.shape.as_slice())))
}

/// Returns a display name as a cell of a table beside the path: empty if it is the path.
fn layer_cell(name: &str, path: &str) -> String {
    if name == path { String::new() } else { name.to_owned() }
}

/// Describes a mask, as in `312 of 1,024 coordinates kept (30.5 %). Data-free: costs nothing.`
fn kept_summary(mask: &Mask) -> String {
    let covers: Vec<String> = mask.origin().privacy.iter().map(ToString::to_string).collect();
    format!(
        "{} of {} coordinates kept ({}). {}",
        format::format_count(mask.kept_count()),
        format::format_count(mask.len()),
        percent(1.0 - mask.pruning_rate()),
        as_sentence(&covers.join("; "))
    )
}

/// Formats a fraction as percent; small ones keep one significant digit: `0.006 %`.
fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.001 {
        format!("{} %", format::significant(100.0 * share, 1))
    } else {
        format::percent(share)
    }
}
