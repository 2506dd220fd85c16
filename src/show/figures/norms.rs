//! Norms of the examples' gradients over training.

use crate::show::chart::NOT_COVERED;
use crate::show::{Chart, Panel, Series};
use crate::train::Run;
use crate::{Error, Result};

/// The mean norm of the examples' gradients before clipping, over the epochs of each run (the
/// figure 1 of "Auto DP-SGD").
///
/// # Guarantee
/// None: the norms are computed from the examples without noise. The figure carries
/// [`NOT_COVERED`](crate::show::NOT_COVERED).
///
/// # Errors
/// `Setting` for an empty list, and for a run that recorded no norms: training without privacy and
/// backpropagation clipping do not compute them.
pub fn gradient_norms(runs: &[(&str, &Run)]) -> Result<Chart> {
    if runs.is_empty() {
        return Err(Error::setting("runs", "an empty list", "there is nothing to draw")
            .fix("pass names and runs, such as &[(\"DP-SGD\", &run)]"));
    }
    let mut panel = Panel::new("mean gradient norm").from_zero().note(NOT_COVERED);
    for (slot, (name, run)) in runs.iter().enumerate() {
        let norms = run.curve().series(|point| point.gradient_norm);
        if norms.is_empty() {
            let why = "its steps did not compute the norms of single examples' gradients";
            return Err(Error::setting("runs", name, why)
                .fix("leave this run out; a stored run of an older version can be trained anew"));
        }
        let plan = run.plan();
        let per_epoch = plan.expected_batch_size() as f64 / plan.examples() as f64;
        let points: Vec<_> = norms.iter().map(|(step, norm)| (step * per_epoch, *norm)).collect();
        panel = panel.series(Series::line(*name, points).colour(slot));
    }
    Ok(Chart::new("Gradient norms during training")
        .note("Mean over the examples of each batch, before clipping.")
        .panel(panel)
        .x_label("epoch"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data;
    use crate::methods::{AutoDpSgd, DpSgd, Method, NonPrivate};
    use crate::nn::models;
    use crate::privacy::Ledger;
    use crate::train::{Silent, fit};

    #[test]
    fn norms_are_drawn_over_epochs_with_a_warning_and_auto_thresholds_are_their_multiple() {
        let data = data::glyphs_with(64, 10, 41).unwrap();
        let model = models::linear(&data).seed(1).build().unwrap();
        let n = data.train().len();
        let run = |method: &dyn Method| {
            let plan = method.plan(&data).unwrap();
            let ledger = Ledger::in_memory();
            fit("norms", &plan, &model, &data, &ledger, &mut Silent).unwrap()
        };
        let dp_sgd = DpSgd::new().noise_multiplier(1.0).batch_size(n).steps(4);
        let auto = AutoDpSgd::new().scale(0.5).noise_multiplier(1.0).batch_size(n).steps(4);
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
        let last = chart.panels()[0].lines()[0].points().last().unwrap().0;
        assert!((last - 4.0).abs() < 1e-9, "{last}");

        let plain = run(&NonPrivate::new().batch_size(n).steps(2));
        assert!(gradient_norms(&[("plain", &plain)]).is_err_and(|e| e.advice().contains("out")));
        assert!(gradient_norms(&[]).is_err());
    }
}
