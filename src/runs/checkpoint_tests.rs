//! Runs that resume from a checkpoint, and checkpoints that they refuse.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::data::{self, Dataset};
use crate::methods::{CheckpointInterval, DpSgd, Plan};
use crate::nn::{Model, models};
use crate::privacy::Badge;
use crate::runs::train_as;
use crate::store::{RunStore, run_id};
use crate::train::{NoopObserver, Observer, Progress, Run};
use crate::{ErrorKind, Result};

/// A run in a project of its own.
struct Project {
    folder: tempfile::TempDir,
    data: Dataset,
    model: Model,
    plan: Plan,
}

/// Observer that records its notifications, and kills the process, as far as the run can tell,
/// after a step.
#[derive(Default)]
struct RecordingObserver {
    kill_after: u64,
    said: Vec<String>,
    trouble: Vec<String>,
}

impl Observer for RecordingObserver {
    fn on_note(&mut self, words: &str) {
        self.said.push(words.to_owned());
    }
    fn on_step(&mut self, progress: &Progress<'_>) {
        assert!(progress.step != self.kill_after, "killed");
    }
    fn on_warning(&mut self, error: &crate::Error) {
        self.trouble.push(error.to_string());
    }
}

impl Project {
    /// Creates a private run of six steps without a seed.
    fn new() -> Result<Self> {
        let data = data::glyphs_with(200, 20, 86)?;
        let method = DpSgd::new().noise_multiplier(1.0).batch_size(40).steps(6);
        let plan = method.checkpoint_every(2).plan(&data)?;
        let model = models::linear(&data).build()?;
        Ok(Self { folder: tempfile::tempdir().unwrap(), data, model, plan })
    }

    fn store(&self) -> RunStore {
        RunStore::open(self.folder.path().to_path_buf()).unwrap()
    }

    fn id(&self) -> String {
        run_id(&self.plan, &self.model, &self.data).unwrap()
    }

    fn checkpoint(&self) -> std::path::PathBuf {
        self.store().checkpoint_dir(&self.id()).join("checkpoint.safetensors")
    }

    fn train(&self, observer: &mut dyn Observer) -> Result<Run> {
        train_as(&self.store(), &self.id(), &self.plan, &self.model, &self.data, observer)
    }

    fn kill(&self, kill_after: u64) {
        let run =
            || self.train(&mut RecordingObserver { kill_after, ..RecordingObserver::default() });
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err(), "it was not killed");
    }
}

fn parameters(run: &Run) -> Vec<Vec<f32>> {
    run.model().network().values().into_iter().map(|(_, values)| values).collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        if entry.path().is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()))
        } else {
            fs::copy(entry.path(), to.join(entry.file_name())).map(drop).unwrap()
        }
    }
}

#[test]
fn a_run_without_a_seed_goes_on_with_its_own_noise() -> Result<()> {
    let mut project = Project::new()?;
    project.kill(5);
    let twin = tempfile::tempdir().unwrap();
    copy(project.folder.path(), twin.path());
    // Another process draws other initial parameters; those of the checkpoint count.
    project.model = models::linear(&project.data).build()?;
    let mut notes = RecordingObserver::default();
    let run = project.train(&mut notes)?;
    let [note] = &notes.said[..] else { panic!("told once: {:?}", notes.said) };
    assert!(note.contains("resumes after 4 of 6 steps"), "{note}");
    assert!(note.contains("already charged"), "{note}");
    assert_eq!(project.store().ledger(&project.data)?.events()?.len(), 1);
    assert!(!project.checkpoint().exists());
    let Badge::Conditional(what) = run.badge() else { panic!("{}", run.badge()) };
    assert!(what.starts_with("no result of a copy of its checkpoint"), "{what}");
    let statement = run.statement().to_string();
    assert!(statement.contains("resumed after step 4"), "{statement}");
    assert!(statement.contains("held the seeds"), "{statement}");

    project.folder = twin;
    let again = project.train(&mut NoopObserver)?;
    assert_eq!(parameters(&again), parameters(&run), "the steps after 4 have the same noise");
    Ok(())
}

#[test]
fn a_call_without_checkpoints_goes_on_and_a_fresh_one_begins_anew() -> Result<()> {
    let mut project = Project::new()?;
    let with = project.plan.clone();
    let method = DpSgd::new().noise_multiplier(1.0).batch_size(40).steps(6);
    let without = method.plan(&project.data)?;
    project.kill(3);
    project.plan = without.clone();
    project.kill(5);
    let run = project.train(&mut NoopObserver)?;
    let resumed = &run.record().checkpoints.as_ref().unwrap().resumed;
    assert_eq!(resumed.iter().map(|resumed| resumed.step).collect::<Vec<_>>(), [2, 4]);
    assert_eq!(project.store().ledger(&project.data)?.events()?.len(), 1);

    project.plan = with;
    project.kill(3);
    assert_eq!(project.store().ledger(&project.data)?.events()?.len(), 2);
    for plan in [project.plan.clone().fresh(), without.fresh()] {
        project.plan = plan;
        let mut notes = RecordingObserver::default();
        let run = project.train(&mut notes)?;
        assert!(notes.said[0].contains("stay charged"), "{:?}", notes.said);
        let resumed = run.record().checkpoints.as_ref().map(|c| c.resumed.len());
        assert!(resumed.unwrap_or_default() == 0);
    }
    assert_eq!(project.store().ledger(&project.data)?.events()?.len(), 4);
    Ok(())
}

#[test]
fn a_checkpoint_whose_charge_is_lost_is_refused() -> Result<()> {
    let project = Project::new()?;
    project.kill(5);
    fs::remove_dir_all(project.folder.path().join("ledger")).unwrap();
    let error = project.train(&mut NoopObserver).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ledger, "{error}");
    assert!(error.to_string().contains("4 steps"), "{error}");
    assert!(project.checkpoint().exists(), "nothing is lost");
    Ok(())
}

#[test]
fn a_run_that_was_killed_before_it_was_charged_is_charged_once() -> Result<()> {
    let project = Project::new()?;
    project.kill(1);
    // Its first checkpoint is older than its charge.
    fs::remove_dir_all(project.folder.path().join("ledger")).unwrap();
    let run = project.train(&mut NoopObserver)?;
    assert!(run.is_finished());
    assert_eq!(project.store().ledger(&project.data)?.events()?.len(), 1);
    Ok(())
}

#[test]
fn a_run_that_another_process_trains_is_refused() -> Result<()> {
    let project = Project::new()?;
    project.kill(5);
    let folder = project.store().checkpoint_dir(&project.id());
    let lock = fs::File::open(&folder).unwrap();
    lock.lock().unwrap();
    let error = project.train(&mut NoopObserver).unwrap_err();
    assert!(error.to_string().contains("another process"), "{error}");
    drop(lock);
    assert!(project.train(&mut NoopObserver)?.is_finished());
    Ok(())
}

#[test]
fn checkpoints_of_other_runs_versions_and_devices_are_refused() -> Result<()> {
    let mut project = Project::new()?;
    project.kill(5);
    let bytes = fs::read(project.checkpoint()).unwrap();
    // Of another run: a plan that differs in one step, whose folder holds this file.
    let known = project.checkpoint();
    let method = DpSgd::new().noise_multiplier(1.0).batch_size(40).steps(7);
    let plan = std::mem::replace(&mut project.plan, method.plan(&project.data)?);
    let other = project.checkpoint();
    fs::create_dir_all(other.parent().unwrap()).unwrap();
    fs::copy(&known, &other).unwrap();
    let error = project.train(&mut NoopObserver).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CorruptData, "{error}");
    assert!(error.to_string().contains("belongs to the run"), "{error}");
    project.plan = plan;
    // Cut short.
    fs::write(&known, &bytes[..bytes.len() / 2]).unwrap();
    assert_eq!(project.train(&mut NoopObserver).unwrap_err().kind(), ErrorKind::CorruptData);
    assert_eq!(project.store().ledger(&project.data)?.events()?.len(), 1);
    fs::write(&known, &bytes).unwrap();
    assert!(project.train(&mut NoopObserver)?.is_finished());
    Ok(())
}

#[test]
fn a_checkpoint_that_cannot_be_written_is_reported_and_costs_nothing() -> Result<()> {
    let mut project = Project::new()?;
    project.plan =
        project.plan.clone().checkpoint_every(CheckpointInterval::Steps(2), Vec::new())?;
    struct BlockingObserver<'a>(&'a Path, RecordingObserver);
    impl Observer for BlockingObserver<'_> {
        fn on_step(&mut self, progress: &Progress<'_>) {
            if progress.step == 1 {
                fs::remove_file(self.0).unwrap();
                fs::create_dir(self.0).unwrap();
            }
        }
        fn on_warning(&mut self, error: &crate::Error) {
            self.1.on_warning(error);
        }
    }
    let path = project.checkpoint();
    let mut blocks = BlockingObserver(&path, RecordingObserver::default());
    let run = project.train(&mut blocks)?;
    assert!(run.is_finished());
    assert_eq!(blocks.1.trouble.len(), 1, "{:?}", blocks.1.trouble);
    assert!(blocks.1.trouble[0].contains("checkpoint.safetensors"), "{:?}", blocks.1.trouble);
    Ok(())
}
