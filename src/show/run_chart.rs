//! The figure of a training run.

use super::{Chart, Coverage, MimeBundle, Panel, Series, format};

/// Curves of a training run, and its progress. All x are steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunSnapshot {
    /// Points of the mean training loss.
    pub loss: Vec<(f64, f64)>,
    /// Points of the accuracy on the test part, in [0, 1].
    pub test_accuracy: Vec<(f64, f64)>,
    /// Points of the epsilon spent so far.
    pub epsilon: Vec<(f64, f64)>,
    /// Points of the clip norm, of a method that adapts it. A private run releases it with
    /// noise.
    pub clip_threshold: Vec<(f64, f64)>,
    /// The epsilon that the noise was calibrated to.
    pub target_epsilon: Option<f64>,
    /// Number of steps of the whole run.
    pub total_steps: f64,
    /// Number of steps taken so far, where that is more than the curves show.
    pub steps_taken: f64,
    /// Seconds since the first step, if known.
    pub seconds: Option<f64>,
    /// Whether the run has ended.
    pub ended: bool,
    /// Day of training of a run that is shown again, or a text in its place.
    pub trained_on: Option<String>,
    /// A warning about the run, such as that it diverges.
    pub warning: Option<String>,
    /// Whether the run is trained with differential privacy.
    pub private: bool,
    /// Coverage of everything but the training loss: what it reveals of private data.
    pub coverage: Coverage,
}

impl RunSnapshot {
    /// Returns the newest step; 0 before the first.
    fn step(&self) -> f64 {
        let curves = [&self.loss, &self.test_accuracy, &self.epsilon];
        let ends = curves.into_iter().filter_map(|curve| curve.last()).map(|p| p.0);
        ends.filter(|step| step.is_finite()).fold(self.steps_taken, f64::max)
    }

    /// Returns the curves up to a step, as they were at that time.
    pub(super) fn up_to(&self, step: f64) -> Self {
        let before = |points: &[(f64, f64)]| {
            points.iter().copied().filter(|point| point.0 <= step).collect::<Vec<_>>()
        };
        Self {
            loss: before(&self.loss),
            test_accuracy: before(&self.test_accuracy),
            epsilon: before(&self.epsilon),
            clip_threshold: before(&self.clip_threshold),
            steps_taken: step,
            ..self.clone()
        }
    }

    /// Formats the progress in steps: `step 120 of 879`.
    fn steps_text(&self) -> String {
        let text = |steps: f64| format::fixed(steps, 0);
        let total = (self.total_steps > 0.0).then(|| format!(" of {}", text(self.total_steps)));
        format!("step {}{}", text(self.step()), total.unwrap_or_default())
    }

    /// Formats the times as `12 s elapsed, 10 steps/s, about 1 min 16 s left`; empty if no time is
    /// known.
    fn time_text(&self) -> String {
        let Some(seconds) = self.seconds else { return String::new() };
        let elapsed = format::seconds(seconds);
        if self.ended {
            return format!("in {elapsed}");
        }
        // The first step also compiles kernels and allocates memory: it predicts nothing.
        let (taken, left) = (self.step(), self.total_steps - self.step());
        if taken >= 2.0 && left > 0.0 {
            let left = format::seconds(seconds / taken * left);
            let pace = format::step_rate(taken, seconds);
            format!("{elapsed} elapsed, {pace}, about {left} left")
        } else {
            format!("{elapsed} elapsed")
        }
    }

    /// Returns the line under the title: the progress of the run, and whether it is shown again.
    fn progress_note(&self) -> String {
        let time = self.time_text();
        let progress = match (self.ended, time.is_empty()) {
            (_, true) => self.steps_text(),
            (true, false) => format!("{} {time}", self.steps_text()),
            (false, false) => format!("{}, {time}", self.steps_text()),
        };
        match &self.trained_on {
            Some(when) => format!(
                "Shown again: trained on {when}, {progress}. This call trains nothing and spends \
                 no epsilon."
            ),
            None => progress,
        }
    }
}

/// Returns the figure of a run: training loss, test accuracy, epsilon spent if it is private, and
/// the clip norm if the method adapts it.
///
/// Loss and epsilon begin at 0 and accuracy goes from 0 % to 100 %, so that figures of several
/// runs can be compared by eye.
///
/// # Guarantee
/// None by itself. Training loss is computed on private data outside the ledger, so for a private
/// run its panel carries [`NOT_COVERED`](super::NOT_COVERED). Test accuracy is computed on the test
/// part. Epsilon protects the training part only.
pub fn run_chart(title: &str, curve: &RunSnapshot) -> Chart {
    let mut loss = Panel::new("training loss")
        .from_zero()
        .series(Series::line("loss", curve.loss.clone()).smooth().colour(1));
    loss = if curve.private {
        private_loss(loss, curve.coverage)
    } else {
        loss.coverage(curve.coverage)
    };
    let accuracy = Panel::new("test accuracy")
        .coverage(curve.coverage)
        .percent()
        .y_range(0.0, 1.0)
        .series(Series::line("accuracy", curve.test_accuracy.clone()).colour(0));
    let mut chart = Chart::new(title)
        .note(curve.progress_note())
        .panel(loss)
        .panel(accuracy)
        .x_label("step")
        .coverage(Coverage::Public);
    chart.warning.clone_from(&curve.warning);
    if curve.private {
        let mut epsilon = Panel::new("epsilon spent")
            .epsilon()
            .series(Series::line("epsilon", curve.epsilon.clone()).colour(2));
        if let Some(target) = curve.target_epsilon {
            epsilon = epsilon.reference(target, format!("target {}", format::eps(target)));
        }
        chart = chart.panel(epsilon);
    }
    if !curve.clip_threshold.is_empty() {
        let series = Series::line("threshold", curve.clip_threshold.clone()).colour(3);
        let panel = Panel::new("clip norm").from_zero().coverage(curve.coverage);
        chart = chart.panel(panel.series(series));
    }
    chart.x_range(0.0, curve.total_steps.max(curve.step()))
}

/// Returns the panel of the training loss of private runs, with the badge. Its coverage is
/// `NotCovered`, or `Public` if `coverage` is: there the badge tells of the same run on private
/// data.
pub(super) fn private_loss(panel: Panel, coverage: Coverage) -> Panel {
    panel.not_covered().coverage(Coverage::for_raw_data(coverage != Coverage::Public))
}

/// Formats the run in one line: `step 120 of 879  12 s elapsed, 10 steps/s, about 1 min 16 s left
/// loss 0.41  accuracy 93.1 %  epsilon 1.92 of 3`. Values that are not known yet are left out.
pub(crate) fn run_summary_line(curve: &RunSnapshot) -> String {
    let last = |points: &[(f64, f64)]| points.iter().rev().map(|p| p.1).find(|y| y.is_finite());
    let mut parts = vec![curve.steps_text()];
    parts.extend(Some(curve.time_text()).filter(|time| !time.is_empty()));
    parts.extend(last(&curve.loss).map(|loss| format!("loss {}", format::significant(loss, 2))));
    parts.extend(
        last(&curve.test_accuracy).map(|share| format!("accuracy {}", format::percent(share))),
    );
    // An infinite epsilon is a value, not a gap: a step that no accountant covers costs that much.
    let spent = curve.epsilon.last().map(|p| p.1).filter(|_| curve.private);
    parts.extend(spent.map(|spent| match curve.target_epsilon {
        Some(target) => format!("epsilon {} of {}", format::eps(spent), format::eps(target)),
        None => format!("epsilon {}", format::eps(spent)),
    }));
    parts.extend(curve.warning.as_ref().map(|warning| format!("WARNING: {warning}")));
    parts.join("  ")
}

/// Returns the chart of the run as a bundle, whose text starts with the summary line. A frame of a
/// live display (`is_last` false) goes without PNG.
pub fn run_bundle(title: &str, curve: &RunSnapshot, is_last: bool) -> MimeBundle {
    let chart = run_chart(title, curve);
    let mut bundle = if is_last { chart.bundle() } else { chart.live_bundle() };
    bundle.text = format!("{}\n{}", run_summary_line(curve), bundle.text);
    bundle
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::NOT_COVERED;

    fn curve() -> RunSnapshot {
        RunSnapshot {
            loss: (1..=120).map(|i| (f64::from(i), 0.41)).collect(),
            test_accuracy: vec![(60.0, 0.88), (120.0, 0.931)],
            epsilon: vec![(60.0, 1.4), (120.0, 1.92)],
            target_epsilon: Some(3.0),
            total_steps: 879.0,
            private: true,
            ..RunSnapshot::default()
        }
    }

    #[test]
    fn the_line_has_progress_and_cost_of_the_run() {
        assert_eq!(
            run_summary_line(&curve()),
            "step 120 of 879  loss 0.41  accuracy 93.1 %  epsilon 1.92 of 3"
        );
        let free = RunSnapshot { private: false, target_epsilon: None, ..curve() };
        assert_eq!(run_summary_line(&free), "step 120 of 879  loss 0.41  accuracy 93.1 %");
        assert_eq!(run_summary_line(&RunSnapshot::default()), "step 0");
        let mut broken = curve();
        broken.epsilon.push((121.0, f64::INFINITY));
        assert!(run_summary_line(&broken).ends_with("epsilon ∞ of 3"));
    }

    #[test]
    fn a_chart_shows_step_time_and_remaining_time() {
        let mut run = RunSnapshot { seconds: Some(30.0), ..curve() };
        let text = "step 120 of 879, 30 s elapsed, 4.0 steps/s, about 3 min 10 s left";
        assert!(run_chart("r", &run).svg().contains(text), "{}", run_chart("r", &run));
        assert!(
            run_summary_line(&run).contains("30 s elapsed, 4.0 steps/s, about 3 min 10 s left")
        );
        // Steps since the last measurement count.
        run.steps_taken = 240.0;
        let line = "step 240 of 879  30 s elapsed, 8.0 steps/s, about 1 min 20 s left";
        assert!(run_summary_line(&run).starts_with(line));
        run.ended = true;
        assert!(run_chart("r", &run).text().contains("step 240 of 879 in 30 s"));
        let first =
            RunSnapshot { seconds: Some(9.0), total_steps: 100.0, ..RunSnapshot::default() };
        assert_eq!(
            run_summary_line(&first),
            "step 0 of 100  9.0 s elapsed",
            "one step predicts nothing"
        );
    }

    #[test]
    fn a_run_that_is_shown_again_has_the_time_of_its_training() {
        let again = RunSnapshot { trained_on: Some("2026-11-21".into()), ended: true, ..curve() };
        let chart = run_chart("r", &again);
        for form in [chart.svg(), chart.text()] {
            assert!(form.contains("Shown again: trained on 2026-11-21, step 120 of 879"), "{form}");
        }
        let half = again.up_to(100.0);
        assert_eq!((half.loss.len(), half.test_accuracy.len(), half.step()), (100, 1, 100.0));
    }

    #[test]
    fn a_warning_stands_above_the_curves_and_in_the_line() {
        let warned = RunSnapshot { warning: Some("training diverges".into()), ..curve() };
        assert!(run_chart("r", &warned).svg().contains("training diverges"));
        assert!(run_chart("r", &warned).text().contains("warning: training diverges"));
        assert!(run_summary_line(&warned).ends_with("WARNING: training diverges"));
        assert!(!run_summary_line(&curve()).contains("WARNING"));
    }

    #[test]
    fn figures_of_two_runs_have_the_same_axes() {
        let accurate = RunSnapshot { test_accuracy: vec![(1.0, 0.97), (9.0, 0.98)], ..curve() };
        for run in [curve(), accurate] {
            let svg = run_chart("r", &run).svg();
            assert!(svg.contains("\n0 %\n") && svg.contains("\n100 %\n"), "accuracy");
            assert!(svg.contains("\n0.0\n"), "loss begins at 0");
        }
        let zoomed = Panel::new("accuracy").percent();
        let zoomed = zoomed.series(Series::line("a", [(0.0, 0.952), (1.0, 0.978)]));
        let svg = Chart::new("t").panel(zoomed.clone()).svg();
        assert!(svg.contains("axis begins at 95 %"), "{svg}");
        let whole = Chart::new("t").panel(zoomed.y_range(0.0, 1.0)).svg();
        assert!(!whole.contains("axis begins"));
    }

    #[test]
    fn the_loss_of_a_private_run_is_marked_and_of_another_is_not() {
        assert!(run_chart("r", &curve()).svg().contains(NOT_COVERED));
        assert!(run_chart("r", &curve()).text().contains(NOT_COVERED));
        let free = RunSnapshot { private: false, ..curve() };
        let chart = run_chart("r", &free);
        assert!(!chart.svg().contains(NOT_COVERED) && !chart.svg().contains("epsilon"));
    }

    #[test]
    fn the_redacted_chart_of_a_private_run_has_accuracy_and_epsilon_but_no_loss() {
        let covered = RunSnapshot { coverage: Coverage::TestPart, ..curve() };
        let whole = run_bundle("r", &covered, true);
        assert_eq!(whole.coverage, Coverage::NotCovered);
        let part = *whole.covered_part.expect("a covered part");
        assert_eq!(part.coverage, Coverage::TestPart);
        let spec = part.vega_lite.expect("a specification").to_string();
        for form in [part.text, part.svg.expect("a drawing"), spec] {
            assert!(!form.contains("loss") && !form.contains("0.41"), "{form}");
            assert!(form.contains("accuracy") && form.contains("epsilon"), "{form}");
        }
        // Without a guarantee, only the epsilon that was planned or claimed is left.
        let unsound = RunSnapshot { coverage: Coverage::NotCovered, ..curve() };
        let part = run_bundle("r", &unsound, true).covered_part.expect("the epsilon");
        assert!(!part.text.contains("accuracy") && part.coverage == Coverage::Public);
        let unknown = RunSnapshot { coverage: Coverage::Unmarked, ..curve() };
        let part = run_bundle("r", &unknown, true).covered_part.expect("the epsilon");
        assert!(!part.text.contains("accuracy"));
        // On public data, all may be shown.
        for private in [false, true] {
            let public = RunSnapshot { coverage: Coverage::Public, private, ..curve() };
            let whole = run_bundle("r", &public, true);
            assert!(whole.coverage == Coverage::Public && whole.covered_part.is_none());
        }
    }

    #[test]
    fn a_live_frame_has_no_png_and_its_headline_is_the_line() {
        let frame = run_bundle("r", &curve(), false);
        assert!(frame.png.is_none() && frame.svg.is_some());
        assert_eq!(frame.first_line(), run_summary_line(&curve()));
        assert!(run_bundle("r", &curve(), true).png.is_some());
    }
}
