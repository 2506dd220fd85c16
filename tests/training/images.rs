//! Training on images that stay in their files, and what happens when one of them breaks.

use super::*;
use epsilab::data::ImageOptions;
use std::fs;
use std::path::Path;

/// 60 dark and 60 light images for training, 10 and 10 for testing, 4x4 grey pixels each.
fn folder() -> tempfile::TempDir {
    home();
    let root = tempfile::tempdir().expect("a temporary folder");
    for (part, each) in [("train", 60), ("test", 10)] {
        for (class, value) in [("dark", 10), ("light", 180)] {
            let folder = root.path().join(part).join(class);
            fs::create_dir_all(&folder).expect("a folder");
            for i in 0..each {
                fs::write(folder.join(format!("{i}.png")), flat(value + i)).expect("an image");
            }
        }
    }
    root
}

/// A PNG image of one grey.
fn flat(value: u8) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, 4, 4);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().expect("a header");
    writer.write_image_data(&[value; 16]).expect("pixels");
    drop(writer);
    out
}

fn open(root: &Path, side: usize) -> Result<Dataset> {
    data::image_folder(root, &ImageOptions::size(side).grey())
}

fn settings() -> DpSgd {
    DpSgd::new().target(Epsilon(8.0), Delta(1e-3)).batch_size(60).steps(20)
}

/// Removes a part of the folder after three steps.
struct Breaks<'a> {
    part: &'a Path,
    troubles: Vec<String>,
}

impl Observer for Breaks<'_> {
    fn progressed(&mut self, progress: &Progress<'_>) {
        if progress.step == 3 {
            fs::remove_dir_all(self.part).expect("removed");
        }
    }
    fn trouble(&mut self, error: &Error) {
        self.troubles.push(error.to_string());
    }
}

#[test]
fn images_in_files_train_like_images_in_memory() -> Result<()> {
    let root = folder();
    let data = open(root.path(), 4)?;
    let model = models::mlp(&data, &[8]).seed(1).build()?;
    let run = settings().seed(1).train(&model, &data)?;
    assert!(run.accuracy() > 0.9, "{run}");
    let loaded = data.in_memory()?;
    assert_eq!(run.accuracy(), run.model().accuracy(&loaded)?);
    assert_eq!(run.model().predict(&data)?, run.model().predict(&loaded)?);
    assert_eq!(run.model().loss(data.train())?, run.model().loss(loaded.train())?);

    let versions = epsilab::data::Augment::new().copies(2).flip().crop(1);
    let run = settings().augment(versions).train(&model, &data)?;
    assert!(run.accuracy() > 0.9, "{run}");
    Ok(())
}

#[test]
fn a_training_image_that_breaks_ends_the_run_keeps_it_and_voids_its_guarantee() -> Result<()> {
    let root = folder();
    let data = open(root.path(), 5)?;
    let model = models::mlp(&data, &[8]).seed(1).build()?;
    let plan = settings().plan(&data)?;
    let ledger = Ledger::in_memory();
    let part = root.path().join("train/dark");
    let mut observer = Breaks { part: &part, troubles: Vec::new() };
    let error = fit("breaks", &plan, &model, &data, &ledger, &mut observer).expect_err("it ended");
    let said = error.to_string();
    let run = Run::from_error(&error).expect("the error carries the run");
    assert!(!run.interrupted() && !run.is_finished());
    // The batch of the fourth step may have been gathered before.
    let steps = run.record().steps;
    assert!((3..=4).contains(&steps), "{steps}");
    let ended = format!("{steps} of 20 steps");
    for part in [&ended, "train/dark", "privacy of the whole plan", "lab::last_run()"] {
        assert!(said.contains(part), "{part} is not in: {said}");
    }
    assert!(run.accuracy().is_finite());
    assert_ne!(weights(&run), bits(&model), "the steps are kept");
    // One example decided when to stop: no epsilon covers that, and nothing is taken off the
    // charge.
    assert_eq!(run.epsilon(), f64::INFINITY);
    assert!(privacy::epsilon(&run.record().events(), Delta(1e-3)).is_err());
    let badge = run.badge().to_string();
    assert!(badge.starts_with("none: ") && badge.contains("could not be read"), "{badge}");
    let statement = run.statement().to_string();
    assert!(statement.starts_with("Nothing is guaranteed: "), "{statement}");
    assert!(!statement.contains("count the planned epsilon"), "{statement}");
    assert_eq!(ledger.events()?, [plan.event_after(20)]);
    let [told] = &observer.troubles[..] else { panic!("{:?}", observer.troubles) };
    assert!(told.contains("train/dark") && told.contains("missing"), "{told}");

    // Nothing left to begin with: no run, and one step charged to be on the safe side.
    let ledger = Ledger::in_memory();
    let error = fit("breaks", &plan, &model, &data, &ledger, &mut Silent).expect_err("no images");
    assert!(error.to_string().contains("train/dark"), "{error}");
    assert!(error.advice().contains("charged in the ledger: 1 of 20 steps"), "{error}");
    assert!(Run::from_error(&error).is_none());
    assert_eq!(ledger.events()?, [plan.event_after(1)]);
    Ok(())
}

#[test]
fn a_step_that_can_not_be_read_leaves_the_model_of_the_steps_before() -> Result<()> {
    let root = folder();
    let data = open(root.path(), 5)?;
    let model = models::mlp(&data, &[8]).seed(1).build()?;
    let plan = |steps| {
        let rule = Dropping::random(0.5);
        let settings = DpSsgd::new().noise_multiplier(1.0).batch_size(60).seed(3);
        settings.drop_gradients(rule).steps(steps).plan(&data)
    };
    // The same noise, because the name and the seed are the same.
    let whole = |steps| {
        let ledger = Ledger::in_memory();
        fit("again", &plan(steps)?, &model, &data, &ledger, &mut Silent)
    };
    let expected = [whole(3)?, whole(4)?];
    let part = root.path().join("train/dark");
    let mut observer = Breaks { part: &part, troubles: Vec::new() };
    let ledger = Ledger::in_memory();
    let error =
        fit("again", &plan(20)?, &model, &data, &ledger, &mut observer).expect_err("it ended");
    let run = Run::from_error(&error).expect("the error carries the run");
    let steps = run.record().steps as usize;
    assert_eq!(weights(&run), weights(&expected[steps - 3]));
    assert_ne!(weights(&run), weights(&expected[4 - steps]));
    let log = run.selection_log().expect("coordinates are dropped");
    assert_eq!(log.recorded.iter().sum::<u64>(), steps as u64);
    Ok(())
}

#[test]
fn a_run_that_ends_early_is_an_error_of_the_verb_and_is_stored() -> Result<()> {
    let root = folder();
    let data = open(root.path(), 7)?;
    let model = models::mlp(&data, &[8]).seed(1).build()?;
    fs::remove_dir_all(root.path().join("train/dark")).expect("removed");
    // Small batches: with most seeds the first ones have no dark image, and none has only these.
    let train = |seed| settings().batch_size(1).seed(seed).train(&model, &data);
    let errors = (0..20).map(|seed| train(seed).expect_err("dark images are needed"));
    let run = errors.into_iter().find_map(|error| Run::from_error(&error));
    let run = run.expect("one of them got beyond its first step");
    assert!((1..20).contains(&run.record().steps) && !run.is_finished() && !run.interrupted());
    let stored = home().join("runs").join(&run.record().id).join("result.json");
    assert!(stored.is_file(), "{} is missing", stored.display());
    Ok(())
}

#[test]
fn a_test_image_that_breaks_leaves_a_gap_and_the_run_goes_on() -> Result<()> {
    let root = folder();
    let data = open(root.path(), 6)?;
    let model = models::mlp(&data, &[8]).seed(1).build()?;
    let part = root.path().join("test/light");
    let mut observer = Breaks { part: &part, troubles: Vec::new() };
    let plan = settings().plan(&data)?;
    let run = fit("gap", &plan, &model, &data, &Ledger::in_memory(), &mut observer)?;
    assert_eq!((run.interrupted(), run.record().steps), (false, 20));
    // Taken at step 2, and not to be taken for that of the model after step 20.
    assert!(run.curve().last_accuracy().is_some());
    assert!(run.accuracy().is_nan());
    let [told] = &observer.troubles[..] else { panic!("{:?}", observer.troubles) };
    assert!(told.contains("test/light"), "{told}");
    Ok(())
}
