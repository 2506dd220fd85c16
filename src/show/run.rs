use super::chart::NOT_COVERED;
use super::{Bundle, Chart, Panel, Series, format};

/// What is drawn of a training run. All x are steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunCurve {
    /// Mean training loss of each step.
    pub loss: Vec<(f64, f64)>,
    /// Accuracy on the test part, as a share of one.
    pub test_accuracy: Vec<(f64, f64)>,
    /// Epsilon spent so far.
    pub epsilon: Vec<(f64, f64)>,
    /// The epsilon that the run may spend.
    pub target_epsilon: Option<f64>,
    /// Steps of the whole run.
    pub total_steps: f64,
    /// Whether the run is trained under differential privacy.
    pub private: bool,
}

impl RunCurve {
    /// The newest step that any curve has; 0 before the first.
    fn step(&self) -> f64 {
        let curves = [&self.loss, &self.test_accuracy, &self.epsilon];
        let ends = curves.into_iter().filter_map(|curve| curve.last()).map(|p| p.0);
        ends.filter(|step| step.is_finite()).fold(0.0, f64::max)
    }
}

/// The figure of a run: training loss, test accuracy and, if it is private, epsilon spent.
///
/// # Guarantee
/// None by itself. Training loss is computed on private data outside the ledger, so for a private
/// run its panel carries [`NOT_COVERED`]. Test accuracy is taken from the test part, which the
/// guarantee does not cover either way: it protects the training part.
pub fn run_chart(title: &str, curve: &RunCurve) -> Chart {
    let mut loss = Panel::new("training loss")
        .series(Series::line("loss", curve.loss.clone()).smooth().colour(1));
    if curve.private {
        loss = loss.note(NOT_COVERED);
    }
    let accuracy = Panel::new("test accuracy")
        .percent()
        .series(Series::line("accuracy", curve.test_accuracy.clone()).colour(0));
    let mut chart = Chart::new(title).panel(loss).panel(accuracy).x_label("step");
    if curve.private {
        let mut epsilon = Panel::new("epsilon spent")
            .epsilon()
            .series(Series::line("epsilon", curve.epsilon.clone()).colour(2));
        if let Some(target) = curve.target_epsilon {
            epsilon = epsilon.reference(target, format!("target {}", format::eps(target)));
        }
        chart = chart.panel(epsilon);
    }
    chart.x_range(0.0, curve.total_steps.max(curve.step()))
}

/// The run in one line: `step 120/879  loss 0.41  accuracy 93.1 %  eps 1.92 of 3.00`. What is
/// not known yet is left out.
pub fn run_line(curve: &RunCurve) -> String {
    let last = |points: &[(f64, f64)]| points.iter().rev().map(|p| p.1).find(|y| y.is_finite());
    let whole = |steps: f64| format::fixed(steps, 0);
    let mut parts = vec![if curve.total_steps > 0.0 {
        format!("step {}/{}", whole(curve.step()), whole(curve.total_steps))
    } else {
        format!("step {}", whole(curve.step()))
    }];
    parts.extend(last(&curve.loss).map(|loss| format!("loss {}", format::significant(loss, 2))));
    parts.extend(
        last(&curve.test_accuracy).map(|share| format!("accuracy {}", format::percent(share))),
    );
    // Infinity is an answer here, not a gap: it is what an unaccountable step costs.
    let spent = curve.epsilon.last().map(|p| p.1).filter(|_| curve.private);
    parts.extend(spent.map(|spent| match curve.target_epsilon {
        Some(target) => format!("eps {} of {}", format::eps(spent), format::eps(target)),
        None => format!("eps {}", format::eps(spent)),
    }));
    parts.join("  ")
}

/// The run as a bundle whose text starts with [`run_line`]. A frame of a live display
/// (`is_last` false) goes without PNG.
pub fn run_bundle(title: &str, curve: &RunCurve, is_last: bool) -> Bundle {
    let chart = run_chart(title, curve);
    let mut bundle = if is_last { chart.bundle() } else { chart.live_bundle() };
    bundle.text = format!("{}\n{}", run_line(curve), bundle.text);
    bundle
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve() -> RunCurve {
        RunCurve {
            loss: (1..=120).map(|i| (f64::from(i), 0.41)).collect(),
            test_accuracy: vec![(60.0, 0.88), (120.0, 0.931)],
            epsilon: vec![(60.0, 1.4), (120.0, 1.92)],
            target_epsilon: Some(3.0),
            total_steps: 879.0,
            private: true,
        }
    }

    #[test]
    fn the_line_says_how_far_the_run_is_and_what_it_cost() {
        assert_eq!(
            run_line(&curve()),
            "step 120/879  loss 0.41  accuracy 93.1 %  eps 1.92 of 3.00"
        );
        let free = RunCurve { private: false, target_epsilon: None, ..curve() };
        assert_eq!(run_line(&free), "step 120/879  loss 0.41  accuracy 93.1 %");
        assert_eq!(run_line(&RunCurve::default()), "step 0");
        let mut broken = curve();
        broken.epsilon.push((121.0, f64::INFINITY));
        assert!(run_line(&broken).ends_with("eps ∞ of 3.00"));
    }

    #[test]
    fn the_loss_of_a_private_run_is_marked_and_of_another_is_not() {
        assert!(run_chart("r", &curve()).svg().contains(NOT_COVERED));
        assert!(run_chart("r", &curve()).text().contains(NOT_COVERED));
        let free = RunCurve { private: false, ..curve() };
        let chart = run_chart("r", &free);
        assert!(!chart.svg().contains(NOT_COVERED) && !chart.svg().contains("epsilon"));
    }

    #[test]
    fn a_live_frame_has_no_png_and_its_headline_is_the_line() {
        let frame = run_bundle("r", &curve(), false);
        assert!(frame.png.is_none() && frame.svg.is_some());
        assert_eq!(frame.headline(), run_line(&curve()));
        assert!(run_bundle("r", &curve(), true).png.is_some());
    }
}
