//! Histograms of saliency scores.

use super::{
    MAX_PANELS, as_sentence, kept_summary, largest_indices, layer_cell, mask_coverage,
    omission_note, percent, shape, tensor_names,
};
use crate::mask::{Mask, MaskTensor, Saliency, SaliencyTensor};
use crate::show::figure_card::FigureHeader;
use crate::show::histogram::{Histogram, HistogramPanel, Histograms};
use crate::show::multiples::PanelHead;
use crate::show::{Coverage, Figure, Table, format, palette};
use crate::{Error, ErrorKind, Result};

/// Saliency scores, alone or with the mask made from them: the argument of [`saliency`].
#[derive(Clone, Debug)]
pub struct SaliencyInput {
    saliency: Option<Saliency>,
    mask: Option<Mask>,
}

impl From<&Saliency> for SaliencyInput {
    fn from(saliency: &Saliency) -> Self {
        Self { saliency: Some(saliency.clone()), mask: None }
    }
}

impl From<&Mask> for SaliencyInput {
    fn from(mask: &Mask) -> Self {
        Self { saliency: mask.saliency().cloned(), mask: Some(mask.clone()) }
    }
}

/// Draws histograms of the saliency scores of the twelve largest tensors, on a common logarithmic
/// axis. The argument is a `&Saliency` or a `&Mask` made from scores. For a mask, kept and dropped
/// coordinates have different colours, and a dashed line marks the threshold if there is one.
/// Scores of exactly zero do not fit on the axis; their fraction is written.
///
/// ```
/// use epsilab::prelude::*;
/// let data = data::glyphs_with(20, 0, 1)?;
/// let model = models::mlp(&data, &[4]).seed(1).build()?;
/// let scores = Synflow::saliency(&model)?;
/// let figure = figures::saliency(&scores)?;
/// assert_eq!((figure.title(), figure.table().len()), ("Saliencies: Synflow", 2));
/// figures::saliency(&scores.keep(0.25)?)?.show(); // with what a mask keeps of them
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// The figure reveals what the scores reveal. For scores of private examples without noise it
/// carries [`NOT_COVERED`](crate::show::NOT_COVERED).
///
/// # Errors
/// Kind `Model` for a mask without scores: one made in another way, or read from a file.
pub fn saliency(input: impl Into<SaliencyInput>) -> Result<Figure> {
    let SaliencyInput { saliency, mask } = input.into();
    let Some(saliency) = saliency else {
        let why = "the mask was not made from scores, or was read from a file";
        return Err(Error::new(ErrorKind::Model, "the saliencies of a mask", why)
            .fix("draw figures::kept(&mask)"));
    };
    Ok(histograms(&saliency, mask.as_ref()))
}

/// Draws the figure of [`saliency`] for scores alone, which can't fail.
pub(crate) fn saliency_histograms(saliency: &Saliency) -> Figure {
    histograms(saliency, None)
}

/// Draws the figure of a mask: [`saliency`] if it was made from scores, else
/// [`kept`](super::kept()).
///
/// ```
/// use epsilab::prelude::*;
/// let data = data::glyphs_with(20, 0, 1)?;
/// let model = models::mlp(&data, &[4]).seed(1).build()?;
/// let scored = figures::mask(&MagnitudeMask::keep(0.25).mask(&model)?);
/// assert!(scored.title().starts_with("Saliencies and what is kept: magnitude"));
/// let random = figures::mask(&RandomMask::keep(0.25).seed(1).mask(&model)?);
/// assert!(random.title().starts_with("Kept in each tensor: random"));
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// As [`saliency`] and [`kept`](super::kept()).
pub fn mask(mask: &Mask) -> Figure {
    match mask.saliency() {
        Some(saliency) => histograms(saliency, Some(mask)),
        None => super::kept(mask),
    }
}

fn histograms(saliency: &Saliency, mask: Option<&Mask>) -> Figure {
    let tensors = saliency.tensors().iter();
    let names = tensor_names(tensors.clone().map(|t| (t.path.as_str(), t.shape.as_slice())));
    let parts: Vec<TensorScores<'_>> = tensors
        .zip(names)
        .map(|(scores, name)| {
            TensorScores::new(scores, name, mask.and_then(|m| m.get(&scores.path)))
        })
        .collect();
    let threshold = mask.and_then(|_| dropping_threshold(&parts));
    let sizes: Vec<usize> = parts.iter().map(|part| part.scores.values.len()).collect();
    let shown = largest_indices(&sizes, MAX_PANELS);
    let title = match mask {
        Some(mask) => format!("Saliencies and what is kept: {}", mask.origin().method),
        None => format!("Saliencies: {}", saliency.method()),
    };
    let cut = threshold.map(|t| format!("Dashed: the largest score dropped, {}.", format_score(t)));
    let scaled = "Histograms: coordinates over their score; the number at the left is the tallest \
                  bar's count.";
    let mut head = FigureHeader::new(title)
        .note(mask.map_or_else(|| as_sentence(&saliency.privacy().to_string()), kept_summary))
        .note(format!("{scaled} {}", cut.unwrap_or_default()))
        .note(omission_note(shown.len(), parts.len()))
        .coverage(
            super::status_coverage(saliency.privacy())
                .max(mask.map_or(Coverage::Public, mask_coverage)),
        );
    if mask.is_some() {
        head = head.key(palette::KEPT, "kept").key(palette::DROPPED, "dropped");
    }
    let range = axis_range(shown.iter().map(|&i| &parts[i]));
    let drawing = Histograms {
        name: "score",
        panels: shown.iter().map(|&i| parts[i].draw_panel(range)).collect(),
        threshold,
        above: ("kept", palette::KEPT),
        below: ("dropped", palette::DROPPED),
    };
    head.figure(&drawing, table(&parts))
}

/// The scores of one tensor with their statistics.
struct TensorScores<'a> {
    scores: &'a SaliencyTensor,
    name: String,
    /// Flags of the mask, if the mask has one for each score.
    kept: Option<&'a MaskTensor>,
    zeros: usize,
    /// Number of scores that are NaN, infinite or negative, which do not fit on the axis.
    off_axis: usize,
    /// The 1 % quantile and the maximum of the scores on the axis.
    axis_range: Option<(f64, f64)>,
    median: f64,
}

impl<'a> TensorScores<'a> {
    fn new(scores: &'a SaliencyTensor, name: String, kept: Option<&'a MaskTensor>) -> Self {
        let values = &scores.values;
        let zeros = values.iter().filter(|&&v| v == 0.0).count();
        let mut on_axis: Vec<f64> = values.iter().copied().filter(|v| is_on_axis(*v)).collect();
        let odd = values.len() - zeros - on_axis.len();
        let order_statistic = |values: &mut [f64], index: usize| {
            (!values.is_empty()).then(|| *values.select_nth_unstable_by(index, f64::total_cmp).1)
        };
        let last = on_axis.len().saturating_sub(1);
        let low = order_statistic(&mut on_axis, (last as f64 * 0.01) as usize);
        let ends = low.zip(order_statistic(&mut on_axis, last));
        let mut finite: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        let middle = finite.len() / 2;
        let median = order_statistic(&mut finite, middle).unwrap_or(f64::NAN);
        let kept = kept.filter(|kept| kept.kept.len() == values.len());
        Self { scores, name, kept, zeros, off_axis: odd, axis_range: ends, median }
    }

    fn format_share(&self, count: usize) -> String {
        percent(count as f64 / self.scores.values.len().max(1) as f64)
    }

    /// Returns the histogram of the scores on an axis over this range.
    fn draw_panel(&self, (low, high): (f64, f64)) -> HistogramPanel {
        let mut histogram = Histogram::new(low, high);
        for (i, &score) in self.scores.values.iter().enumerate().filter(|(_, v)| is_on_axis(**v)) {
            histogram.add(score, self.kept.is_none_or(|kept| kept.kept[i]));
        }
        let size = format::format_count(self.scores.values.len());
        let head = PanelHead { title: self.name.clone(), size, remarks: vec![self.remark()] };
        HistogramPanel { head, histogram, zeros: self.zeros }
    }

    /// Describes the fractions of kept, zero and off-axis scores.
    fn remark(&self) -> String {
        let kept = self.kept.map(|kept| format!("{} kept", self.format_share(kept.kept_count())));
        let zeros =
            (self.zeros > 0).then(|| format!("{} exactly zero", self.format_share(self.zeros)));
        let odd = (self.off_axis > 0)
            .then(|| format!("{} off the axis", self.format_share(self.off_axis)));
        let parts: Vec<String> = [kept, zeros, odd].into_iter().flatten().collect();
        parts.join(", ")
    }
}

fn is_on_axis(value: f64) -> bool {
    value > 0.0 && value.is_finite()
}

fn format_score(value: f64) -> String {
    format::significant(value, 3)
}

/// Returns the largest dropped score, if every kept score is at least as large. The last
/// coordinate of a tensor is exempt, since it is never dropped.
fn dropping_threshold(parts: &[TensorScores<'_>]) -> Option<f64> {
    let (mut dropped, mut least_kept) = (f64::NEG_INFINITY, f64::INFINITY);
    for part in parts {
        let kept = part.kept?;
        let last = kept.kept_count() == 1;
        for (&score, &kept) in part.scores.values.iter().zip(&kept.kept) {
            if !kept {
                dropped = dropped.max(score);
            } else if !last {
                least_kept = least_kept.min(score);
            }
        }
    }
    (is_on_axis(dropped) && dropped <= least_kept).then_some(dropped)
}

/// Returns the range of the axis: from the lowest 1 % quantile of any tensor to the largest score.
/// Smaller scores are counted in the first bin.
fn axis_range<'a>(parts: impl Iterator<Item = &'a TensorScores<'a>>) -> (f64, f64) {
    let ends: Vec<(f64, f64)> = parts.filter_map(|part| part.axis_range).collect();
    let low = ends.iter().map(|e| e.0).fold(f64::INFINITY, f64::min).max(1e-300);
    let high = ends.iter().map(|e| e.1).fold(0.0, f64::max).min(1e300);
    if ends.is_empty() {
        return (1e-3, 1.0);
    }
    if high > low * 1.01 { (low, high) } else { (low / 3.0, low * 3.0) }
}

fn table(parts: &[TensorScores<'_>]) -> Table {
    let names = ["tensor", "layer", "shape", "scores", "median", "largest", "exactly zero", "kept"];
    let row = |part: &TensorScores<'_>| {
        [
            part.scores.path.clone(),
            layer_cell(&part.name, &part.scores.path),
            shape(&part.scores.shape),
            format::format_count(part.scores.values.len()),
            if part.median.is_nan() { "-".into() } else { format_score(part.median) },
            part.axis_range.map_or("-".into(), |ends| format_score(ends.1)),
            part.format_share(part.zeros),
            part.kept.map_or("-".into(), |kept| part.format_share(kept.kept_count())),
        ]
    };
    Table::new(names).rows(parts.iter().map(row))
}
