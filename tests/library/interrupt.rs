//! An interrupt keeps the run. The signal is for a whole process, so the test has one of its own.

use epsilab::lab::open_ledger;
use epsilab::prelude::*;
use epsilab::train::{Observer, Progress, fit};

use crate::support::process;

/// Presses the stop button after three steps.
struct StopsAtThree;

impl Observer for StopsAtThree {
    fn on_step(&mut self, progress: &Progress<'_>) {
        if progress.step == 3 {
            // SAFETY: raises a signal that the run is listening for.
            unsafe { libc::raise(libc::SIGINT) };
        }
    }
}

#[test]
fn an_interrupted_run_keeps_its_model_and_reports_what_was_truly_spent() -> Result<()> {
    if process::alone(this_test!()) {
        return Ok(());
    }
    let data = data::glyphs_with(1000, 200, 3)?;
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let delta = Delta(1e-4);
    let plan = DpSgd::new().target(Epsilon(4.0), delta).batch_size(100).epochs(10).plan(&data)?;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(format!("{}.jsonl", data.origin()));
    let ledger = open_ledger(&path)?;
    let run = fit("stopped", &plan, &model, &data, &ledger, &mut StopsAtThree)?;

    assert!(run.is_interrupted());
    assert_eq!(run.record().steps, 3);
    let badge = run.badge().to_string();
    assert!(badge.contains("planned epsilon, 4"), "{badge}");
    // The ledger says the same of the stop as the run does.
    let condition = "chosen independently of the data and of everything the run showed";
    let note = ledger.entries()?.pop().expect("the correction").note;
    assert!(badge.contains(condition) && note.contains(condition), "{badge}; {note}");
    assert!(note.contains("3 of 100 steps"), "{note}");
    assert!(badge.contains("training loss") && badge.contains("no epsilon covers"), "{badge}");
    let three = privacy::epsilon(&[plan.event_after(3)], delta)?.epsilon;
    assert_eq!(run.epsilon(), three);
    assert!(three < 4.0 && three > 0.0);
    // A float read back from JSON may differ in its last bit, which the comparison allows for.
    let (on_record, taken) = (open_ledger(&path)?.events()?, plan.event_after(3));
    assert_eq!(on_record.len(), 1);
    assert_eq!(taken.reduced_to(&on_record[0])?, taken);
    assert_eq!(on_record[0].reduced_to(&taken)?, on_record[0]);
    assert_ne!(run.model().predict(&data)?, model.predict(&data)?, "three steps were taken");
    Ok(())
}
