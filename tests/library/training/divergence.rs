//! Warnings about diverging runs, from released parameters only.

use super::*;
use epsilab::lab::open_ledger;
use epsilab::show::{LiveRun, run_figure, with_capture};
use epsilab::train::Divergence;

/// Notes the step at which the observer could first see that the run diverges.
#[derive(Default)]
struct Watches {
    seen: Option<(u64, Divergence)>,
}

impl Observer for Watches {
    fn on_step(&mut self, progress: &Progress<'_>) {
        if self.seen.is_none() {
            self.seen = progress.curve.divergence().map(|found| (progress.step, found));
        }
    }
}

/// Shows a run that takes at least 20 ms for a step, so that several frames are due.
struct Slow(LiveRun);

impl Observer for Slow {
    fn on_start(&mut self, progress: &Progress<'_>) {
        self.0.on_start(progress);
    }
    fn on_step(&mut self, progress: &Progress<'_>) {
        std::thread::sleep(std::time::Duration::from_millis(20));
        self.0.on_step(progress);
    }
    fn on_finish(&mut self, run: &Run) {
        self.0.on_finish(run);
    }
}

#[test]
fn a_learning_rate_a_thousand_times_too_large_is_warned_of_while_the_run_can_be_stopped()
-> Result<()> {
    let data = glyphs(171);
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let plan = settings().learning_rate(4000.0).seed(3).steps(20).plan(&data)?;
    let ledger = open_ledger(&ledger_file("diverges", &data))?;
    let mut watch = Watches::default();
    let run = fit("diverges", &plan, &model, &data, &ledger, &mut watch)?;
    let (step, found) = watch.seen.expect("a warning");
    assert!(step <= 3 && found.step == step, "step {step}: {found}");
    assert_eq!(run.curve().divergence(), Some(found));
    assert!(run.to_string().contains("(diverged)"), "{run}");
    let figure = run_figure(&run);
    assert!(figure.svg.expect("an SVG").contains("training diverges"));
    assert!(figure.text.contains("warning: training diverges"), "{}", figure.text);

    // The live chart of the same run, frame by frame.
    let ledger = open_ledger(&ledger_file("diverges again", &data))?;
    let mut done = None;
    let frames = with_capture(|| {
        let mut observer = Slow(LiveRun::new());
        done = Some(fit("diverges again", &plan, &model, &data, &ledger, &mut observer));
    });
    done.expect("it ran")?;
    let (last, live) = frames.split_last().expect("frames");
    assert!(live.iter().any(|frame| frame.first_line().contains("WARNING: training diverges")));
    assert!(live.iter().any(|frame| frame.first_line().contains(" left ")), "{live:?}");
    assert!(last.text.contains("step 20 of 20 in "), "{}", last.text);
    Ok(())
}

#[test]
fn runs_that_learn_are_not_warned_of_and_have_an_accuracy_from_the_first_step() -> Result<()> {
    let data = glyphs(172);
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let private = settings().seed(3).epochs(4).plan(&data)?;
    let open = NonPrivate::new().batch_size(250).epochs(4).seed(3).plan(&data)?;
    for (name, plan) in [("private", private), ("open", open)] {
        let ledger = open_ledger(&ledger_file(name, &data))?;
        let run = fit(name, &plan, &model, &data, &ledger, &mut NoopObserver)?;
        assert_eq!(run.curve().divergence(), None, "{run}");
        let ratios: Vec<f64> = run.curve().points.iter().filter_map(|p| p.norm_ratio).collect();
        assert_eq!(ratios.len(), run.curve().points.len());
        assert!(ratios.iter().all(|ratio| (0.5..5.0).contains(ratio)), "{ratios:?}");
        assert!(run.curve().points[0].step == 1 && run.curve().points[0].test_accuracy.is_some());
        assert!(run.record().trained_at.as_ref().is_some_and(|at| at.starts_with("20")), "{run}");
    }
    Ok(())
}

#[test]
fn a_stored_run_is_shown_again_with_the_day_of_its_training() -> Result<()> {
    let data = glyphs(173);
    let model = models::mlp(&data, &[4]).seed(1).build()?;
    let method = settings().seed(3).steps(3);
    method.train(&model, &data)?;
    let mut again = None;
    let frames = with_capture(|| again = Some(method.train(&model, &data)));
    let run = again.expect("it is stored")?;
    let day = &run.record().trained_at.as_ref().expect("a date")[..10];
    assert!(run.is_restored());
    let expected = format!("Shown again: trained on {day}, step 3 of 3 in ");
    assert_eq!(frames.len(), 1);
    assert!(frames[0].text.contains(&expected), "{}", frames[0].text);
    assert!(frames[0].svg.as_ref().is_some_and(|svg| svg.contains(&expected)));
    Ok(())
}
