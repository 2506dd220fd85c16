//! Norms of the examples' gradients over training.

use super::check_not_empty;
use crate::engine::GradientNorms;
use crate::show::figure_card::FigureHeader;
use crate::show::histogram::{Histogram, HistogramPanel, Histograms};
use crate::show::multiples::PanelHead;
use crate::show::series::extent;
use crate::show::{Chart, Coverage, Figure, Panel, Series, Table, format, palette};
use crate::train::Run;
use crate::{Error, Result};

/// Plots the mean norm of the examples' gradients before clipping, over the epochs of each run
/// (Figure 1 of "Auto DP-SGD").
///
/// ```no_run
/// # use epsilab::prelude::*;
/// # fn draw(small: &Run, large: &Run) -> Result<()> {
/// figures::gradient_norms(&[("batch 256", small), ("batch 1024", large)])?.show();
/// # Ok(())
/// # }
/// ```
///
/// # Guarantee
/// None: the norms are computed from the examples without noise. The figure carries
/// [`NOT_COVERED`](crate::show::NOT_COVERED).
///
/// # Errors
/// `Setting` for an empty list, and for a run that recorded no norms: training without privacy and
/// backpropagation clipping do not compute them.
pub fn gradient_norms(runs: &[(&str, &Run)]) -> Result<Chart> {
    check_not_empty("runs", runs, "pass names and runs, such as &[(\"DP-SGD\", &run)]")?;
    let mut panel = Panel::new("mean gradient norm").from_zero().not_covered();
    for (slot, (name, run)) in runs.iter().enumerate() {
        let norms = run.curve().series(|point| point.gradient_norm);
        if norms.is_empty() {
            let why = "the steps of the run did not compute per-example gradient norms";
            return Err(Error::setting("runs", name, why).fix("leave out this run"));
        }
        let per_epoch = run.plan().sampling_rate();
        let points: Vec<_> = norms.iter().map(|(step, norm)| (step * per_epoch, *norm)).collect();
        panel = panel.series(Series::line(*name, points).colour(slot));
    }
    Ok(Chart::new("Gradient norms during training")
        .note("Mean over the examples of each batch, before clipping.")
        .panel(panel)
        .x_label("epoch"))
}

/// Draws the distribution of the norms of single examples' gradients, on a logarithmic axis. With
/// a clip norm, longer gradients have another colour and a dashed line marks it.
///
/// ```
/// use epsilab::prelude::*;
/// let data = data::glyphs_with(20, 0, 1)?;
/// let model = models::linear(&data).seed(1).build()?;
/// let norms = lab::gradient_norms(&model, data.train())?.assumed_public().with_clip(1.0);
/// assert_eq!(norms.norms.len(), 20);
/// let figure = figures::gradient_norm_histogram(&norms);
/// assert!(figure.title().starts_with("A clip norm of 1 clips"));
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// None: see [`GradientNorms`]. The figure carries [`NOT_COVERED`](crate::show::NOT_COVERED) unless
/// the examples are declared public.
pub fn gradient_norm_histogram(norms: &GradientNorms) -> Figure {
    let all = norms.norms.len();
    let drawn = norms.norms.iter().map(|&norm| f64::from(norm));
    let drawn: Vec<f64> = drawn.filter(|norm| norm.is_finite() && *norm > 0.0).collect();
    let title = match (norms.clip, norms.clipped_fraction()) {
        (Some(clip), Some(share)) => {
            format!("A clip norm of {clip} clips {} of the gradients", format::percent(share))
        }
        _ => "Per-example gradient norms".to_owned(),
    };
    let left_out = all - drawn.len();
    let mut head = FigureHeader::new(title)
        .note(format!("{} before clipping.", format::pluralise(all, "gradient")))
        .note_if(left_out > 0, || {
            format!("{} zero or not finite, not drawn.", format::format_count(left_out))
        })
        .coverage(Coverage::for_raw_data(norms.private));
    if norms.clip.is_some() {
        head = head.key(palette::KEPT, "unchanged").key(palette::DROPPED, "shortened");
    }
    let ends = extent(drawn.iter().copied().chain(norms.clip).filter(|norm| *norm > 0.0));
    let (low, high) = ends.map_or((0.1, 10.0), |(low, high)| (low / 1.05, high * 1.05));
    let mut histogram = Histogram::new(low, high);
    for &norm in &drawn {
        histogram.add(norm, norms.clip.is_none_or(|clip| norm <= clip));
    }
    let panel_head = PanelHead {
        title: "gradients".into(),
        size: format::format_count(all),
        remarks: Vec::new(),
    };
    let drawing = Histograms {
        name: "L2 norm",
        panels: vec![HistogramPanel { head: panel_head, histogram, zeros: 0 }],
        threshold: norms.clip,
        above: ("shortened", palette::DROPPED),
        below: ("unchanged", palette::KEPT),
    };
    head.figure(&drawing, quantile_table(norms))
}

fn quantile_table(norms: &GradientNorms) -> Table {
    let row = |share: f64| {
        let norm = norms.quantile(share).map(|norm| format::significant(norm, 3));
        [format::percent(share), norm.unwrap_or("-".into())]
    };
    let rows = [0.05, 0.25, 0.5, 0.75, 0.95, 1.0].map(row);
    Table::new(["fraction of gradients", "norm at most"]).rows(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data;
    use crate::methods::{AutoDpSgd, DpSgd, Method, NonPrivate};
    use crate::nn::models;
    use crate::privacy::Ledger;
    use crate::show::NOT_COVERED;
    use crate::train::{NoopObserver, fit};

    #[test]
    fn the_distribution_names_the_share_above_the_clip_norm_and_is_marked() {
        let norms = GradientNorms { norms: vec![0.5, 1.0, 2.0, 4.0], clip: None, private: true };
        let plain = gradient_norm_histogram(&norms).text();
        assert!(plain.contains(NOT_COVERED) && plain.contains("4 gradients"), "{plain}");
        let clipped = gradient_norm_histogram(&norms.clone().with_clip(3.0)).text();
        assert!(clipped.contains("A clip norm of 3 clips 25.0 % of the gradients"), "{clipped}");
        let public = gradient_norm_histogram(&norms.clone().assumed_public()).text();
        assert!(!public.contains(NOT_COVERED), "{public}");
        // Nothing to draw is no reason to fail.
        let none = GradientNorms { norms: vec![f32::NAN, 0.0], clip: None, private: true };
        assert!(gradient_norm_histogram(&none).text().contains("2 zero or not finite"));
    }

    #[test]
    fn norms_are_drawn_over_epochs_with_a_warning_and_auto_thresholds_are_their_multiple() {
        let data = data::glyphs_with(64, 10, 41).unwrap();
        let model = models::linear(&data).seed(1).build().unwrap();
        let n = data.train().len();
        let run = |method: &dyn Method| {
            let plan = method.plan(&data).unwrap();
            let ledger = Ledger::in_memory();
            fit("norms", &plan, &model, &data, &ledger, &mut NoopObserver).unwrap()
        };
        let dp_sgd = DpSgd::new().noise_multiplier(1.0).batch_size(n).steps(4);
        let auto =
            AutoDpSgd::new().gradient_scale(0.5).noise_multiplier(1.0).batch_size(n).steps(4);
        let (dp_sgd, auto) = (run(&dp_sgd), run(&auto));
        for point in &auto.curve().points {
            let (norm, threshold) = (point.gradient_norm.unwrap(), point.threshold.unwrap());
            assert!((0.5 * norm / threshold - 1.0).abs() < 1e-6, "{point:?}");
        }
        // Both see all examples with the same parameters in the first step.
        let first = |run: &Run| run.curve().points[0].gradient_norm.unwrap();
        assert!((first(&dp_sgd) / first(&auto) - 1.0).abs() < 1e-5);

        let chart = gradient_norms(&[("DP-SGD", &dp_sgd), ("Auto DP-SGD", &auto)]).unwrap();
        assert!(chart.text().contains(NOT_COVERED), "{}", chart.text());
        let last = chart.panels()[0].all_series()[0].points().last().unwrap().0;
        assert!((last - 4.0).abs() < 1e-9, "{last}");

        let plain = run(&NonPrivate::new().batch_size(n).steps(2));
        assert!(gradient_norms(&[("plain", &plain)]).is_err_and(|e| e.advice().contains("out")));
        assert!(gradient_norms(&[]).is_err());
    }
}
