//! Batches, augmented versions and predictions made on a device: those of the host.

use epsilab::Result;
use epsilab::burn::module::Module;
use epsilab::burn::prelude::Device;
use epsilab::data::{self, Augment, Dataset, OnDevice};
use epsilab::device::reads;
use epsilab::methods::{Batches, DpSgd};
use epsilab::nn::{Model, Network, models};

/// Steps of each plan.
pub const STEPS: u64 = 8;

pub fn settings(batch_size: usize) -> DpSgd {
    DpSgd::new().noise_multiplier(1.0).batch_size(batch_size).steps(STEPS)
}

/// What may be asked of each image.
pub fn augments() -> [Option<Augment>; 3] {
    let versions = Augment::new().copies(3).flip().crop(2);
    [None, Some(versions), Some(Augment::new().copies(2))]
}

/// A model for the data, and its network on the device.
pub fn model(data: &Dataset, device: &Device) -> Result<(Model, Network)> {
    let model = models::linear(data).seed(1).build()?;
    let network = model.network().clone().to_device(device);
    Ok((model, network))
}

/// The batches of a plan, made on the host and on the device.
pub fn both_ways(settings: &DpSgd, data: &Dataset, device: &Device) -> Result<[Batches; 2]> {
    let plan = settings.plan(data)?;
    let batches = || Batches::new(&plan, data.train(), [7; 32], [8; 32]);
    let (_, network) = model(data, device)?;
    Ok([batches()?, batches()?.on_device_path(&network)?])
}

/// Compares all batches of the plan, and some beyond its end. How many examples each has.
pub fn same_batches(settings: &DpSgd, data: &Dataset, device: &Device) -> Result<Vec<usize>> {
    let [mut host, mut card] = both_ways(settings, data, device)?;
    let each = (0..STEPS + 3).map(|step| {
        let (expected, found) = (host.draw()?, card.draw()?);
        // Features, shapes, labels, numbers, copies and seeds.
        assert!(expected == found, "batch {step}: {:?}, {:?}", expected.labels(), found.labels());
        Ok(found.len())
    });
    each.collect()
}

/// Batches from memory are gathered and augmented on the device.
pub fn batches_from_memory(device: &Device) -> Result<()> {
    let images = data::glyphs_with(300, 10, 1)?;
    for augment in augments() {
        // One example on average: often there is nobody.
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

/// A device never gets a token that the network doesn't know.
pub fn strange_tokens(device: &Device) -> Result<()> {
    let text = data::sentences_with(60, 10, 1)?;
    let words = text.vocabulary().expect("texts have one").len();
    let plan = settings(5).plan(&text)?;
    let batches = |words| {
        let model = models::bilstm(&text, words, 2, 2).seed(1).build()?;
        let network = model.network().clone().to_device(device);
        Batches::new(&plan, text.train(), [7; 32], [8; 32])?.on_device_path(&network)
    };
    assert!(batches(words)?.draw().is_ok());
    let error = batches(3).err().expect("too few words");
    assert!(error.to_string().contains("with the token"), "{error}");
    Ok(())
}

/// Classes, accuracy and loss.
pub fn predictions(device: &Device) -> Result<()> {
    // More than one chunk.
    let x = (0..3 * 9001).map(|i| (i * 37 % 101) as f32 / 50.0 - 1.0).collect();
    let many = data::from_vecs(x, &[3], (0..9001).map(|i| i % 4).collect(), 4)?;
    same_predictions(&many, device)?;
    same_predictions(&data::glyphs_with(30, 700, 1)?, device)
}

/// Compares what a model makes of the data on the host and on the device.
pub fn same_predictions(data: &Dataset, device: &Device) -> Result<()> {
    let (model, network) = model(data, device)?;
    let away = model.with_network(network);
    let part = if data.test().is_empty() { data.train() } else { data.test() };
    let placed = OnDevice::new(part, device)?;
    assert_eq!(placed.is_whole(), part.is_in_memory());
    let (classes, accuracy) = (model.predict(data)?, model.accuracy_of(part)?);
    assert!(classes.iter().any(|&class| class != classes[0]), "a model that tells them apart");
    assert_eq!(away.predict_on(&placed)?, classes);
    assert_eq!(away.predict(data)?, classes);
    assert_eq!(away.accuracy_on(&placed)?, accuracy);
    assert_eq!(away.accuracy_of(part)?, accuracy);
    let (near, loss) = (away.loss_on(&placed)?, model.loss(part)?);
    assert!((near - loss).abs() < 1e-5 * loss, "{near} is not {loss}");
    Ok(())
}

/// Where all classes are alike, the first is taken; of nothing there is no accuracy.
pub fn ties_and_nothing(device: &Device) -> Result<()> {
    let data = data::glyphs_with(20, 50, 1)?;
    let linear = models::linear(&data).seed(1).build()?;
    let zeros = |_: &str, shape: &[usize], _| vec![0.0; shape.iter().product()];
    let network = Network::build(data.shape(), linear.network().specs(), zeros)?;
    let model = linear.with_network(network.clone());
    let away = linear.with_network(network.to_device(device));
    let placed = OnDevice::new(data.test(), device)?;
    assert_eq!(away.predict_on(&placed)?, vec![0; 50]);
    assert_eq!(away.accuracy_on(&placed)?, model.accuracy(&data)?);

    let nobody = OnDevice::new(&data.test().take(0), device)?;
    assert!(away.predict_on(&nobody)?.is_empty());
    assert!(away.accuracy_on(&nobody).is_err() && away.loss_on(&nobody).is_err());
    let others = data::from_vecs(vec![0.5; 60], &[3], [0, 1].repeat(10), 2)?;
    let error = away.accuracy_on(&OnDevice::new(others.train(), device)?).expect_err("a shape");
    assert!(error.to_string().contains("[3]"), "{error}");
    Ok(())
}

/// Batches cost no copy to the host, an evaluation costs one. Counted for the whole process: no
/// other test may run beside it (on the CPU there is nothing to count).
pub fn copies_to_the_host(device: &Device) -> Result<()> {
    let on_a_card = u64::from(*device != Device::flex());
    let data = data::glyphs_with(200, 900, 1)?;
    let settings = settings(20).augment(Augment::new().copies(2).flip().crop(1));
    let [_, mut card] = both_ways(&settings, &data, device)?;
    let before = reads();
    for _ in 0..STEPS {
        card.draw()?;
    }
    assert_eq!(reads() - before, 0, "drawing is no reason to wait");
    let (model, network) = model(&data, device)?;
    let away = model.with_network(network);
    let placed = OnDevice::new(data.test(), device)?;
    let before = reads();
    away.accuracy_on(&placed)?;
    away.accuracy_on(&placed)?;
    assert_eq!(reads() - before, 2 * on_a_card);
    Ok(())
}
