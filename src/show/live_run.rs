//! Training runs as figures: the live chart, the figure of a finished run, and its replay.

use super::{Coverage, LiveDisplay, MimeBundle, RunSnapshot, display, run_bundle, run_chart, sink};
use crate::Error;
use crate::methods::Plan;
use crate::train::{Curve, Ending, Observer, Progress, Run, RunRecord};
use std::time::Duration;

/// Frames of a replay and the time that each is shown.
const REPLAY_FRAMES: (u32, Duration) = (8, Duration::from_millis(130));

/// Live drawing of a run while it is trained, in one place of the notebook.
#[derive(Default)]
pub struct LiveRun {
    display: LiveDisplay,
}

impl LiveRun {
    /// Creates a live chart. Nothing is shown before the first step.
    pub fn new() -> Self {
        Self::default()
    }

    fn draw(&self, progress: &Progress<'_>) {
        if self.display.is_due() {
            let title = format!("{}, training", progress.plan.method());
            self.display.update(&run_bundle(&title, &live_curve(progress), false));
        }
    }
}

impl Observer for LiveRun {
    fn on_note(&mut self, text: &str) {
        display(&MimeBundle::prose(text).with_coverage(Coverage::Public));
    }
    fn on_start(&mut self, progress: &Progress<'_>) {
        self.draw(progress);
    }
    fn on_step(&mut self, progress: &Progress<'_>) {
        self.draw(progress);
    }
    fn on_warning(&mut self, error: &Error) {
        self.on_note(&format!("The run is trained, but: {error}"));
    }
    fn on_finish(&mut self, run: &Run) {
        self.display.finish(&run_figure(run));
    }
}

/// Shows a stored run: where figures can be replaced, its curves grow for about a second; then its
/// figure stays, with the day of training.
pub(crate) fn replay(run: &Run) {
    let live = LiveDisplay::new();
    if sink::replaces_frames() {
        for frame in replay_frames(run) {
            live.update(&frame);
            std::thread::sleep(REPLAY_FRAMES.1);
        }
    }
    live.finish(&run_figure(run));
}

fn replay_frames(run: &Run) -> impl Iterator<Item = MimeBundle> {
    let (title, curve) = (run_title(run.record()), finished_curve(run));
    let steps = run.record().steps as f64;
    (1..REPLAY_FRAMES.0).map(move |frame| {
        let part = curve.up_to((steps * f64::from(frame) / f64::from(REPLAY_FRAMES.0)).floor());
        run_bundle(&title, &part, false)
    })
}

/// Renders the figure of a run, in every form.
pub fn run_figure(run: &Run) -> MimeBundle {
    let mut bundle = run_bundle(&run_title(run.record()), &finished_curve(run), true);
    bundle.text = format!("{run}\n{}", bundle.text);
    bundle
}

/// Returns the figure of a run from its record, without the note that it is shown again.
pub(crate) fn figure_from_record(record: &RunRecord) -> MimeBundle {
    run_bundle(&run_title(record), &record_curve(record, None), true)
}

/// Renders the figure of a run to files: name and bytes.
pub(crate) fn run_files(run: &Run) -> Vec<(&'static str, Vec<u8>)> {
    let chart = run_chart(&run_title(run.record()), &finished_curve(run));
    vec![("run.svg", chart.svg().into_bytes())]
}

fn run_title(record: &RunRecord) -> String {
    let marks = [
        (" (interrupted)", record.ending == Ending::Interrupted),
        (" (study mode)", record.plan.seed().is_some()),
    ];
    let marks: String = marks.iter().filter(|(_, set)| *set).map(|(mark, _)| *mark).collect();
    format!("{} on {}{marks}", record.plan.method(), record.data)
}

fn live_curve(progress: &Progress<'_>) -> RunSnapshot {
    let curve = progress.curve;
    let warning = curve.divergence().map(|divergence| {
        let rate = progress.plan.learning_rate();
        format!(
            "{divergence} (now {rate}). Interrupting the run saves time; still count its planned \
             epsilon, because a released result triggers the interruption"
        )
    });
    RunSnapshot {
        steps_taken: progress.step as f64,
        seconds: Some(progress.seconds),
        warning: join_warnings(progress.plan, warning),
        ..plan_curve(progress.plan, curve, Coverage::Unmarked)
    }
}

fn finished_curve(run: &Run) -> RunSnapshot {
    let record = run.record();
    let day = || {
        let day = record.trained_at.as_deref().and_then(|at| at.get(..10));
        day.unwrap_or("a day that was not recorded").to_owned()
    };
    record_curve(record, run.is_restored().then(day))
}

fn record_curve(record: &RunRecord, shown_again: Option<String>) -> RunSnapshot {
    let (plan, curve) = (&record.plan, &record.curve);
    let divergence = curve.divergence();
    RunSnapshot {
        steps_taken: record.steps as f64,
        seconds: record.publishable_seconds(),
        ended: true,
        trained_on: shown_again,
        warning: join_warnings(
            plan,
            divergence.map(|warning| format!("{warning} (now {})", plan.learning_rate())),
        ),
        ..plan_curve(plan, curve, run_coverage(record))
    }
}

/// Returns the warnings: first that a method with noise has no guarantee, then `other`; `None`
/// without any.
fn join_warnings(plan: &Plan, other: Option<String>) -> Option<String> {
    let why = plan.privacy().and_then(|_| plan.not_covered_reason());
    let none = why.map(|why| format!("no guarantee, so no epsilon covers this figure: {why}"));
    let all: Vec<String> = none.into_iter().chain(other).collect();
    (!all.is_empty()).then(|| all.join(". "))
}

fn plan_curve(plan: &Plan, curve: &Curve, coverage: Coverage) -> RunSnapshot {
    RunSnapshot {
        loss: curve.series(|p| p.loss),
        test_accuracy: curve.series(|p| p.test_accuracy),
        epsilon: curve.series(|p| p.epsilon),
        clip_threshold: curve.series(|p| p.threshold),
        target_epsilon: plan.privacy().and_then(|privacy| privacy.target).map(|e| e.0),
        total_steps: plan.steps() as f64,
        private: plan.has_guarantee(),
        coverage,
        ..RunSnapshot::default()
    }
}

/// Returns the coverage of a run apart from its loss: what it reveals of its data.
pub(crate) fn run_coverage(record: &RunRecord) -> Coverage {
    // In study mode, whoever knows the seed can compute the noise.
    let plan = &record.plan;
    let is_noisy = plan.has_guarantee() && plan.seed().is_none();
    match (record.is_public(), is_noisy && record.epsilon.is_some(), record.public_test) {
        (true, ..) => Coverage::Public,
        (false, false, _) => Coverage::NotCovered,
        (false, true, true) => Coverage::Covered,
        (false, true, false) => Coverage::TestPart,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data;
    use crate::methods::NonPrivate;
    use crate::nn::models;
    use crate::store::open_ledger;
    use crate::train::{NoopObserver, fit};

    #[test]
    fn a_replay_takes_about_a_second_and_its_curve_grows() -> crate::Result<()> {
        let total = REPLAY_FRAMES.1 * REPLAY_FRAMES.0;
        assert!(total > Duration::from_millis(800) && total < Duration::from_millis(1500));
        let data = data::glyphs_with(40, 10, 5)?;
        let model = models::linear(&data).seed(1).build()?;
        let plan = NonPrivate::new().batch_size(10).steps(40).seed(1).plan(&data)?;
        let folder = tempfile::tempdir().unwrap();
        let ledger = open_ledger(&folder.path().join(format!("{}.jsonl", data.origin())))?;
        let run = fit("replayed", &plan, &model, &data, &ledger, &mut NoopObserver)?;
        let steps: Vec<String> = replay_frames(&run)
            .map(|frame| frame.first_line().split("  ").next().unwrap_or("").to_owned())
            .collect();
        let expected = [5, 10, 15, 20, 25, 30, 35].map(|step| format!("step {step} of 40"));
        assert_eq!(steps, expected);
        Ok(())
    }
}
