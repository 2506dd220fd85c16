//! Training on images that stay in their files, and what happens when one of them breaks.

use super::*;
use epsilab::data::ImageOptions;
use epsilab::nn::Activation;
use epsilab::privacy::Badge;
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

impl<'a> Breaks<'a> {
    fn new(part: &'a Path) -> Self {
        Self { part, troubles: Vec::new() }
    }
}

impl Observer for Breaks<'_> {
    fn on_step(&mut self, progress: &Progress<'_>) {
        if progress.step == 3 {
            fs::remove_dir_all(self.part).expect("removed");
        }
    }
    fn on_warning(&mut self, error: &Error) {
        self.troubles.push(error.to_string());
    }
}

/// The same examples in memory, without finite features where `is_out` says so by the label. The
/// features of both are scaled.
fn without(data: &Dataset, is_out: fn(u32) -> bool) -> Result<[Dataset; 2]> {
    let loaded = data.in_memory()?;
    let (train, size) = (loaded.train(), data.shape().iter().product::<usize>());
    let mut features = train.features_flat().to_vec();
    for (features, label) in features.chunks_mut(size).zip(train.labels()) {
        if is_out(*label) {
            features.fill(f32::MAX);
        }
    }
    let held = data::from_vecs(features, data.shape(), train.labels().to_vec(), 2)?;
    Ok([data.normalized(0.0, 0.5)?, held.normalized(0.0, 0.5)?])
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
fn a_broken_training_image_contributes_nothing_and_a_private_run_does_not_reveal_it() -> Result<()>
{
    let root = folder();
    let data = open(root.path(), 5)?;
    let model = models::mlp(&data, &[8]).seed(1).build()?;
    let (plan, ledger) = (settings().plan(&data)?, Ledger::in_memory());
    let part = root.path().join("train/dark");
    let mut observer = Breaks::new(&part);
    let run = fit("breaks", &plan, &model, &data, &ledger, &mut observer)?;
    assert!(run.is_finished() && run.record().steps == 20);
    assert_eq!(observer.troubles, [""; 0]);
    assert_eq!(run.record().planned_epsilon, Some(run.epsilon()));
    assert_eq!(run.badge(), Badge::Proved);
    assert_eq!(ledger.events()?, [plan.event()]);
    // A run that begins without them says as little.
    let mut observer = Breaks::new(root.path());
    let plan = settings().steps(2).plan(&data)?;
    let run = fit("broken", &plan, &model, &data, &Ledger::in_memory(), &mut observer)?;
    assert!(run.is_finished() && observer.troubles.is_empty());
    // The owner of the data asks.
    let error = data.check_files().expect_err("files are gone");
    for part in ["60 of 120 images can't be used", "train/dark", "and 55 others"] {
        assert!(error.to_string().contains(part), "{part} is not in: {error}");
    }
    Ok(())
}

/// The releases are the same bit for bit, so nobody can tell a broken file from an example that is
/// masked out for another reason: at the beginning, or in the middle of a run.
#[test]
fn the_releases_with_broken_files_are_those_with_these_examples_masked_out() -> Result<()> {
    let root = folder();
    let data = open(root.path(), 4)?;
    let model = models::mlp(&data, &[8]).activation(Activation::Relu).seed(1).build()?;
    let is_dark = |label| label == 0;
    let ([files, masked], [_, whole]) = (without(&data, is_dark)?, without(&data, |_| false)?);
    let rule = Dropping::random(0.5);
    let dropping = DpSsgd::new().noise_multiplier(1.0).drop_gradients(rule);
    let dropping = dropping.batch_size(60).steps(6).seed(3).plan(&files)?;
    let quantile = QuantileDpSgd::new().noise_multiplier(1.0).batch_size(60).steps(6).seed(3);
    let augment = epsilab::data::Augment::new().copies(2).flip().crop(1);
    let augmented = settings().augment(augment).batch_size(60).steps(6).seed(3).plan(&files)?;
    let plans = [dropping, quantile.plan(&files)?, augmented];
    fs::remove_dir_all(root.path().join("train/dark")).expect("removed");
    for plan in plans {
        // The same noise, because the name and the seed are the same.
        let trained = |data: &Dataset| {
            fit("again", &plan, &model, data, &Ledger::in_memory(), &mut NoopObserver)
        };
        let (broken, masked) = (trained(&files)?, trained(&masked)?);
        assert_eq!(weights(&broken), weights(&masked), "{}", plan.method());
        assert_ne!(weights(&broken), weights(&trained(&whole)?), "{}", plan.method());
        let released = |run: &Run| {
            let record = run.record().clone();
            let points = record.curve.points.into_iter();
            let points: Vec<_> = points.map(|point| (point.step, point.epsilon)).collect();
            (record.released, record.steps, record.ending, record.epsilon, points)
        };
        assert_eq!(released(&broken), released(&masked), "{}", plan.method());
        assert_eq!(broken.badge(), masked.badge());
    }
    Ok(())
}

#[test]
fn a_run_without_privacy_goes_on_and_reports_the_file_at_its_end() -> Result<()> {
    let root = folder();
    let data = open(root.path(), 7)?;
    let model = models::mlp(&data, &[8]).seed(1).build()?;
    let plan = NonPrivate::new().batch_size(60).steps(8).plan(&data)?;
    let part = root.path().join("train/dark");
    let mut observer = Breaks::new(&part);
    let run = fit("raw", &plan, &model, &data, &Ledger::in_memory(), &mut observer)?;
    assert!(run.is_finished());
    let [trouble] = &observer.troubles[..] else { panic!("{:?}", observer.troubles) };
    assert!(trouble.contains("train/dark") && trouble.contains("missing"), "{trouble}");
    Ok(())
}

#[test]
fn a_run_records_how_long_it_waited_for_files() -> Result<()> {
    let root = folder();
    let data = open(root.path(), 8)?;
    let model = models::mlp(&data, &[8]).seed(1).build()?;
    let train = |data: &Dataset| {
        let plan = settings().steps(4).plan(data)?;
        fit("waits", &plan, &model, data, &Ledger::in_memory(), &mut NoopObserver)
    };
    let run = train(&data)?;
    let record = run.record();
    let (waited, share) =
        (record.waiting_seconds.expect("files"), record.waiting_fraction().unwrap());
    assert!(waited > 0.0 && waited < record.seconds, "{waited} of {}", record.seconds);
    assert!((share - waited / record.seconds).abs() < 1e-12);
    assert!(record.to_string().contains("% of it waiting for files"), "{record}");
    let held = train(&data.in_memory()?)?;
    assert_eq!((held.record().waiting_seconds, held.record().waiting_fraction()), (None, None));
    assert!(!held.record().to_string().contains("waiting"), "{}", held.record());
    Ok(())
}

#[test]
fn a_test_image_that_breaks_leaves_a_gap_and_the_run_goes_on() -> Result<()> {
    let root = folder();
    let data = open(root.path(), 6)?;
    let model = models::mlp(&data, &[8]).seed(1).build()?;
    let part = root.path().join("test/light");
    let mut observer = Breaks::new(&part);
    let plan = settings().plan(&data)?;
    let run = fit("gap", &plan, &model, &data, &Ledger::in_memory(), &mut observer)?;
    assert_eq!((run.is_interrupted(), run.record().steps), (false, 20));
    // Taken at step 2, and not to be taken for that of the model after step 20.
    assert!(run.curve().last_accuracy().is_some());
    assert!(run.accuracy().is_nan());
    let [trouble] = &observer.troubles[..] else { panic!("{:?}", observer.troubles) };
    assert!(trouble.contains("test/light"), "{trouble}");
    Ok(())
}
