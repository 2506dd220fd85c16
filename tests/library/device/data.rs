//! Batches, augmentation and predictions on a device equal those of the host.

use epsilab::Result;
use epsilab::burn::module::Module;
use epsilab::burn::prelude::Device;
use epsilab::data::{self, Augment, Dataset, DeviceExamples};
use epsilab::device::host_sync_count;
use epsilab::engine::{Batch, ClipRule, Executor, TapExecutor};
use epsilab::methods::{DataLoader, DpSgd};
use epsilab::nn::{Model, Network, models};

/// The number of steps of each plan.
pub const STEPS: u64 = 8;

pub fn settings(batch_size: usize) -> DpSgd {
    DpSgd::new().noise_multiplier(1.0).batch_size(batch_size).steps(STEPS)
}

/// No augmentation, a full one, and copies only.
pub fn augments() -> [Option<Augment>; 3] {
    let full = Augment::new().copies(3).flip().crop(2);
    [None, Some(full), Some(Augment::new().copies(2))]
}

/// A model for the data, and its network on the device.
pub fn model(data: &Dataset, device: &Device) -> Result<(Model, Network)> {
    let model = models::linear(data).seed(1).build()?;
    let network = model.network().clone().to_device(device);
    Ok((model, network))
}

/// The batches of a plan, from the host and from the device.
pub fn host_and_device(
    settings: &DpSgd,
    data: &Dataset,
    device: &Device,
) -> Result<[DataLoader; 2]> {
    let plan = settings.plan(data)?;
    let batches = || DataLoader::new(&plan, data.train(), [7; 32], [8; 32]);
    let (_, network) = model(data, device)?;
    Ok([batches()?, batches()?.on_device_path(&network)?])
}

/// Asserts that all batches of the plan and some beyond its end are equal; returns their sizes.
pub fn same_batches(settings: &DpSgd, data: &Dataset, device: &Device) -> Result<Vec<usize>> {
    let (_, network) = model(data, device)?;
    let executor = TapExecutor::default().with_device_path().with_chunk_size(7);
    let [mut host, mut device] = host_and_device(settings, data, device)?;
    let sizes = (0..STEPS + 3).map(|step| {
        // The features of each are made where its batches make them.
        let (expected, drawn) = (host.draw()?.in_memory()?, device.draw()?);
        let actual = drawn.in_memory()?;
        // Compares features, shapes, labels, indices, copies and seeds.
        assert!(expected == actual, "batch {step}: {:?}, {:?}", expected.labels(), actual.labels());
        // An executor takes them in chunks.
        let sum = |batch: &Batch| executor.clipped_sum(&network, batch, &ClipRule::flat(0.1));
        let (expected, actual) = (sum(&actual)?, sum(&drawn)?);
        for (expected, actual) in expected.sum.entries.iter().zip(&actual.sum.entries) {
            let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5;
            assert!(expected.values.iter().zip(&actual.values).all(close), "batch {step}");
        }
        Ok(drawn.len())
    });
    sizes.collect()
}

/// Batches of data in memory are gathered and augmented on the device.
pub fn batches_from_memory_equal_those_of_the_host(device: &Device) -> Result<()> {
    let images = data::glyphs_with(300, 10, 1)?;
    for augment in augments() {
        // With one example on average, some batches are empty.
        for size in [1, 40] {
            let settings =
                augment.into_iter().fold(settings(size), |s, augment| s.augment(augment));
            let sizes = same_batches(&settings, &images, device)?;
            assert_eq!(sizes.contains(&0), size == 1, "{sizes:?}");
        }
    }
    let rows = data::from_vecs((0..60).map(|x| x as f32).collect(), &[3], [0, 1].repeat(10), 2)?;
    same_batches(&settings(5), &rows, device)?;
    same_batches(&settings(5).augment(Augment::new().copies(2)), &rows, device)?;
    Ok(())
}

/// Token indices beyond the vocabulary of the network are refused before they reach the device.
pub fn unknown_tokens_are_refused(device: &Device) -> Result<()> {
    let text = data::sentences_with(60, 10, 1)?;
    let size = text.vocabulary().expect("a vocabulary").len();
    let plan = settings(5).plan(&text)?;
    let batches = |vocabulary_size| {
        let model = models::bilstm(&text, vocabulary_size, 2, 2).seed(1).build()?;
        let network = model.network().clone().to_device(device);
        DataLoader::new(&plan, text.train(), [7; 32], [8; 32])?.on_device_path(&network)
    };
    assert!(batches(size)?.draw().is_ok());
    let error = batches(3).err().expect("a vocabulary that is too small");
    assert!(error.to_string().contains("with the token"), "{error}");
    Ok(())
}

/// Predicted classes, accuracy and loss.
pub fn predictions_equal_those_of_the_host(device: &Device) -> Result<()> {
    // More examples than one chunk.
    let x = (0..3 * 9001).map(|i| (i * 37 % 101) as f32 / 50.0 - 1.0).collect();
    let many = data::from_vecs(x, &[3], (0..9001).map(|i| i % 4).collect(), 4)?;
    same_predictions(&many, device)?;
    same_predictions(&data::glyphs_with(30, 700, 1)?, device)
}

/// Asserts that predictions, accuracy and loss on the host and on the device agree.
pub fn same_predictions(data: &Dataset, device: &Device) -> Result<()> {
    let (model, network) = model(data, device)?;
    let on_device = model.with_network(network);
    let part = if data.test().is_empty() { data.train() } else { data.test() };
    let examples = DeviceExamples::new(part, device)?;
    assert_eq!(examples.is_uploaded(), part.is_in_memory());
    let (classes, accuracy) = (model.predict(data)?, model.accuracy_of(part)?);
    assert!(classes.iter().any(|&class| class != classes[0]), "a model with more than one class");
    assert_eq!(on_device.predict_on(&examples)?, classes);
    assert_eq!(on_device.predict(data)?, classes);
    assert_eq!(on_device.accuracy_on(&examples)?, accuracy);
    assert_eq!(on_device.accuracy_of(part)?, accuracy);
    let (actual, expected) = (on_device.loss_on(&examples)?, model.loss(part)?);
    assert!((actual - expected).abs() < 1e-5 * expected, "{actual} is not {expected}");
    Ok(())
}

/// Equal logits predict the first class; empty data have no accuracy and no loss.
pub fn ties_and_empty_data(device: &Device) -> Result<()> {
    let data = data::glyphs_with(20, 50, 1)?;
    let linear = models::linear(&data).seed(1).build()?;
    let zeros = |_: &str, shape: &[usize], _| vec![0.0; shape.iter().product()];
    let network = Network::build(data.shape(), linear.network().specs(), zeros)?;
    let model = linear.with_network(network.clone());
    let on_device = linear.with_network(network.to_device(device));
    let examples = DeviceExamples::new(data.test(), device)?;
    assert_eq!(on_device.predict_on(&examples)?, vec![0; 50]);
    assert_eq!(on_device.accuracy_on(&examples)?, model.accuracy(&data)?);

    let empty = DeviceExamples::new(&data.test().take(0), device)?;
    assert!(on_device.predict_on(&empty)?.is_empty());
    assert!(on_device.accuracy_on(&empty).is_err() && on_device.loss_on(&empty).is_err());
    let others = data::from_vecs(vec![0.5; 60], &[3], [0, 1].repeat(10), 2)?;
    let error = on_device
        .accuracy_on(&DeviceExamples::new(others.train(), device)?)
        .expect_err("another shape");
    assert!(error.to_string().contains("[3]"), "{error}");
    Ok(())
}

/// Drawing batches and making their features makes no host sync, an evaluation makes one.
///
/// The counter is global, so no other test may run at the same time. On the CPU nothing is counted.
pub fn host_syncs_of_batches_and_evaluation(device: &Device) -> Result<()> {
    let on_a_gpu = u64::from(*device != Device::flex());
    let data = data::glyphs_with(200, 900, 1)?;
    let settings = settings(20).augment(Augment::new().copies(2).flip().crop(1));
    let [_, mut batches] = host_and_device(&settings, &data, device)?;
    let before = host_sync_count();
    let kept = (0..STEPS).map(|_| batches.draw()?.in_memory()).collect::<Result<Vec<_>>>()?;
    assert_eq!(host_sync_count() - before, 0, "drawing batches waits for the device");
    drop(kept);
    let (model, network) = model(&data, device)?;
    let on_device = model.with_network(network);
    let examples = DeviceExamples::new(data.test(), device)?;
    let before = host_sync_count();
    on_device.accuracy_on(&examples)?;
    on_device.accuracy_on(&examples)?;
    assert_eq!(host_sync_count() - before, 2 * on_a_gpu);
    Ok(())
}
