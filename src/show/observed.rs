//! A training run, watched: the live chart while it goes and the figure that stays.

use super::{Bundle, LiveDisplay, RunCurve, display, run_bundle, run_chart};
use crate::Error;
use crate::methods::Plan;
use crate::train::{Curve, Observer, Progress, Run};

/// Draws a run while it goes, in one place of the notebook.
#[derive(Default)]
pub struct LiveRun {
    display: LiveDisplay,
}

impl LiveRun {
    /// Nothing is shown before the first step.
    pub fn new() -> Self {
        Self::default()
    }

    fn draw(&self, progress: &Progress<'_>) {
        if self.display.is_due() {
            let title = format!("{}, training", progress.plan.method());
            let curve = run_curve(progress.plan, progress.curve);
            self.display.update(&run_bundle(&title, &curve, false));
        }
    }
}

impl Observer for LiveRun {
    fn noted(&mut self, words: &str) {
        display(&Bundle::text(words));
    }
    fn started(&mut self, progress: &Progress<'_>) {
        self.draw(progress);
    }
    fn progressed(&mut self, progress: &Progress<'_>) {
        self.draw(progress);
    }
    fn trouble(&mut self, error: &Error) {
        display(&Bundle::text(format!("the run is kept, but: {error}")));
    }
    fn finished(&mut self, run: &Run) {
        self.display.finish(&run_figure(run));
    }
}

/// The figure of a run, in every form.
pub fn run_figure(run: &Run) -> Bundle {
    let mut bundle = run_bundle(&run_title(run), &run_curve(run.plan(), run.curve()), true);
    bundle.text = format!("{run}\n{}", bundle.text);
    bundle
}

/// The figure of a run as files: name and bytes.
pub fn run_files(run: &Run) -> Vec<(&'static str, Vec<u8>)> {
    let chart = run_chart(&run_title(run), &run_curve(run.plan(), run.curve()));
    vec![("run.svg", chart.svg().into_bytes()), ("run.png", chart.png())]
}

fn run_title(run: &Run) -> String {
    let marks = [
        (" (shown again, not trained)", run.is_restored()),
        (" (interrupted)", run.interrupted()),
        (" (ended by unreadable data)", !run.is_finished() && !run.interrupted()),
        (" (study mode)", run.plan().seed().is_some()),
    ];
    let marks: String = marks.iter().filter(|(_, set)| *set).map(|(mark, _)| *mark).collect();
    format!("{} on {}{marks}", run.plan().method(), run.record().data)
}

fn run_curve(plan: &Plan, curve: &Curve) -> RunCurve {
    RunCurve {
        loss: curve.series(|p| p.loss),
        test_accuracy: curve.series(|p| p.test_accuracy),
        epsilon: curve.series(|p| p.epsilon),
        target_epsilon: plan.privacy().and_then(|privacy| privacy.target).map(|e| e.0),
        total_steps: plan.steps() as f64,
        private: plan.is_private(),
    }
}
