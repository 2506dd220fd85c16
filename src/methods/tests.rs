//! Use of the data by a step: the batches of a plan, with dropout and augmentation.

#[allow(dead_code)]
pub(crate) mod soft_clip;

use super::*;
use crate::data::{self, Augment, Dataset};
use crate::engine::{AutoExecutor, ClipRule, Executor, ReferenceExecutor, TapExecutor};
use crate::layers;
use crate::nn::{DropoutSpec, Flatten, LinearSpec, Model, Tanh, models};
use crate::{ErrorKind, Result};

const SAMPLING: [u8; 32] = [7; 32];
const MASKS: [u8; 32] = [8; 32];
const CLIP: f64 = 0.25;

/// Creates 12 images 1x4x5 with features between -2 and 2, in 3 classes.
fn images() -> Dataset {
    let x = (0..240).map(|i| (i * 37 % 41) as f32 / 10.0 - 2.0).collect();
    data::from_vecs(x, &[1, 4, 5], (0..12).map(|i| i % 3).collect(), 3).unwrap()
}

/// Returns settings with all examples in every batch, so that batches can be compared.
fn settings() -> DpSgd {
    DpSgd::new().noise_multiplier(1.0).clip(CLIP).batch_size(12).steps(3)
}

fn batches(settings: &DpSgd, data: &Dataset, masks: [u8; 32]) -> DataLoader {
    DataLoader::new(&settings.plan(data).unwrap(), data.train(), SAMPLING, masks).unwrap()
}

fn with_dropout(data: &Dataset) -> Model {
    let layers = layers![
        Flatten,
        LinearSpec::new(20, 32),
        Tanh,
        DropoutSpec { rate: 0.5 },
        LinearSpec::new(32, 3)
    ];
    models::sequential(data, layers).seed(1).build().unwrap()
}

fn mask(batch: &Batch, row: usize) -> Vec<f32> {
    let mut mask = vec![0.0; 64];
    batch.dropout_mask(row, 0, 0.5, &mut mask);
    mask
}

fn features(batch: &Batch) -> Vec<f32> {
    (0..batch.len()).flat_map(|i| batch.features(i).to_vec()).collect()
}

fn clipped(executor: &dyn Executor, model: &Model, batch: &Batch) -> Vec<f64> {
    let sum = executor.clipped_sum(model.network(), batch, &ClipRule::flat(CLIP)).unwrap().sum;
    sum.entries.iter().flat_map(|e| e.values.iter().map(|&v| f64::from(v))).collect()
}

/// Computes the largest distance by which the sum moves when one example leaves.
fn moved(executor: &dyn Executor, model: &Model, batch: impl Fn(&[u32]) -> Batch) -> f64 {
    let all_ids: Vec<u32> = (0..12).collect();
    let all = clipped(executor, model, &batch(&all_ids));
    let without = |guest: u32| {
        let rest: Vec<u32> = all_ids.iter().copied().filter(|&id| id != guest).collect();
        clipped(executor, model, &batch(&rest))
    };
    let distance = |guest| {
        let square = |(a, b): (&f64, f64)| (a - b).powi(2);
        all.iter().zip(without(guest)).map(square).sum::<f64>().sqrt()
    };
    all_ids.iter().map(|&guest| distance(guest)).fold(0.0, f64::max)
}

fn executors() -> [Box<dyn Executor>; 3] {
    [
        Box::new(AutoExecutor::default()),
        Box::new(TapExecutor::default()),
        Box::new(ReferenceExecutor),
    ]
}

#[test]
fn masks_are_new_in_every_step_and_go_by_the_secret_seed() {
    let data = images();
    let steps = |masks| -> Vec<_> {
        let mut batches = batches(&settings(), &data, masks);
        (0..3).map(|_| mask(&batches.draw().unwrap(), 4)).collect()
    };
    let first = steps(MASKS);
    assert!(first[0] != first[1] && first[1] != first[2] && first[0] != first[2]);
    assert_eq!(first, steps(MASKS));
    assert!(steps([9; 32]).iter().all(|mask| !first.contains(mask)));
    // What a batch has that was never given a seed: known to everybody.
    let public = Batch::from_examples(data.train(), &(0..12).collect::<Vec<_>>()).unwrap();
    assert!(!first.contains(&mask(&public, 4)));
}

#[test]
fn versions_are_new_in_every_step_and_go_by_the_secret_seed() {
    let data = images();
    let settings = settings().augment(Augment::new().copies(2).flip().crop(2));
    let steps = |masks| -> Vec<_> {
        let mut batches = batches(&settings, &data, masks);
        let drawn = || batches.draw().unwrap().in_memory().unwrap();
        std::iter::repeat_with(drawn).take(2).map(|b| (b.copies(), features(&b))).collect()
    };
    let first = steps(MASKS);
    assert_eq!((first[0].0, first[0].1.len()), (2, 12 * 2 * 20));
    assert_ne!(first[0], first[1]);
    assert_eq!(first, steps(MASKS));
    assert!(steps([9; 32]).iter().all(|step| !first.contains(step)));
}

#[test]
fn batches_keep_the_numbers_of_their_examples() -> Result<()> {
    let data = images();
    for settings in [settings(), settings().augment(Augment::new())] {
        let whole = batches(&settings, &data, MASKS).draw()?.in_memory()?;
        let mut some = batches(&settings.batch_size(4), &data, MASKS);
        let some = some.draw()?.in_memory()?;
        assert!((1..12).contains(&some.len()));
        for i in 0..some.len() {
            let id = (0..12).find(|&id| whole.features(id) == some.features(i)).unwrap();
            assert_eq!(mask(&some, i), mask(&whole, id));
        }
    }
    Ok(())
}

#[test]
fn with_dropout_one_example_moves_the_sum_by_at_most_the_sensitivity() {
    let data = images();
    let model = with_dropout(&data);
    let right = |ids: &[u32]| Batch::from_examples(data.train(), ids).unwrap().seed(5);
    // Masks by position: every example behind a removed one would get another mask.
    let by_place = |ids: &[u32]| {
        let batch = right(ids);
        Batch::new(features(&batch), &[1, 4, 5], batch.labels().to_vec()).unwrap().seed(5)
    };
    for executor in executors() {
        assert!(moved(&*executor, &model, right) <= CLIP * (1.0 + 1e-4));
        assert!(moved(&*executor, &model, by_place) > 1.2 * CLIP, "must be told from the right");
    }
}

#[test]
fn with_copies_one_example_moves_the_sum_by_at_most_the_sensitivity() {
    let data = images();
    let model = with_dropout(&data);
    let augment = Augment::new().copies(4).flip().crop(1);
    let right = |ids: &[u32]| {
        let (x, labels) = augment.batch(data.train(), ids, 3, 0).unwrap();
        Batch::with_copies(x, &[1, 4, 5], labels, 4).unwrap().with_indices(ids).unwrap().seed(5)
    };
    // Every copy clipped for itself, as if it were a person.
    let each_clipped = |ids: &[u32]| {
        let batch = right(ids);
        let labels = batch.labels().iter().flat_map(|&label| [label; 4]).collect();
        let ids: Vec<u32> = ids.iter().flat_map(|&id| (0..4).map(move |c| 4 * id + c)).collect();
        Batch::new(features(&batch), &[1, 4, 5], labels).unwrap().with_indices(&ids).unwrap()
    };
    for executor in executors() {
        assert!(moved(&*executor, &model, right) <= CLIP * (1.0 + 1e-4));
        assert!(moved(&*executor, &model, each_clipped) > 2.0 * CLIP, "must be told apart");
    }
}

#[test]
fn augmentation_is_checked_against_the_shape_before_anything_else_is_done() {
    let augment = Augment::default();
    let text = data::sentences_with(40, 0, 1).unwrap();
    let small = images();
    for (data, part) in [(&text, "of examples of shape 24"), (&small, "crop = 4")] {
        let private = settings().augment(augment).plan(data).unwrap_err();
        let plain = NonPrivate::new().batch_size(12).augment(augment).plan(data).unwrap_err();
        for error in [private, plain] {
            assert_eq!(error.kind(), ErrorKind::Setting);
            assert!(error.to_string().contains(part), "{error}");
            assert!(!error.advice().is_empty());
        }
    }
    assert!(settings().augment(Augment::new().copies(2)).plan(&text).is_ok(), "dropout differs");
}

#[test]
fn augmentation_costs_no_epsilon_and_is_part_of_the_settings() -> Result<()> {
    let data = images();
    let plain = settings().plan(&data)?;
    let augmented = settings().augment(Augment::new().copies(4).flip()).plan(&data)?;
    assert_eq!(augmented.event(), plain.event());
    assert_ne!(augmented, plain, "another run");
    let text = |plan: &Plan| serde_json::to_string(plan).unwrap();
    let read = |text: &str| serde_json::from_str::<Plan>(text).unwrap();
    assert_eq!(read(&text(&augmented)), augmented);
    assert_eq!(read(&text(&plain)), plain);
    // Runs stored before there was augmentation have the same text, hence the same name.
    assert!(!text(&plain).contains("augment"), "{}", text(&plain));
    assert_eq!(augmented.settings().augment.map(|a| a.multiplicity()), Some(4));
    Ok(())
}

#[test]
fn methods_are_equal_if_type_and_settings_are() {
    let boxed = |clip| Box::new(DpSgd::new().clip(clip)) as Box<dyn Method>;
    assert!(*boxed(0.5) == *boxed(0.5).clone());
    assert!(*boxed(0.5) != *boxed(0.6));
    let other: Box<dyn Method> = Box::new(crate::methods::DpSsgd::new().clip(0.5));
    assert!(*boxed(0.5) != *other && *other != *boxed(0.5));
}
