//! Batches and predictions of images in files.

use std::fs;
use std::path::Path;

use epsilab::Result;
use epsilab::burn::prelude::Device;
use epsilab::data::{Dataset, ImageOptions};
use epsilab::engine::Batch;

use super::data::{STEPS, augments, host_and_device, same_batches, same_predictions, settings};

/// Batches from files equal those of the host.
pub fn batches_from_files_equal_those_of_the_host(device: &Device) -> Result<()> {
    let root = folder();
    let data = open(root.path())?;
    for augment in augments() {
        for size in [1, 10] {
            let settings =
                augment.into_iter().fold(settings(size), |s, augment| s.augment(augment));
            same_batches(&settings, &data, device)?;
        }
    }
    Ok(())
}

/// A broken file fails the batches that contain it, and no other.
pub fn a_broken_file_affects_only_its_batches(device: &Device) -> Result<()> {
    let root = folder();
    let data = open(root.path())?;
    let [mut host, mut device] = host_and_device(&settings(20), &data, device)?;
    let expected = (0..STEPS).map(|_| host.draw()?.in_memory()).collect::<Result<Vec<Batch>>>()?;
    // The darkest image: its features tell which batches contain it.
    fs::write(root.path().join("train/dark/10.png"), image(99)).expect("another image");
    let broken = data.in_memory().expect_err("a changed file");
    assert!(broken.to_string().contains("10.png"), "{broken}");

    let rest = open(root.path())?.in_memory()?;
    let darkest = rest.train().features_flat().iter().copied().fold(f32::INFINITY, f32::min);
    let contains_broken = |batch: &Batch| (0..batch.len()).any(|i| batch.features(i)[0] < darkest);
    let fails: Vec<bool> = expected.iter().map(contains_broken).collect();
    assert!(!fails[0], "the first batch must not contain it: {fails:?}");
    let first = fails.iter().position(|&fails| fails).expect("a batch with the broken file");
    assert!(fails[first..].contains(&false), "a later batch must not contain it: {fails:?}");
    for (expected, fails) in expected.iter().zip(fails) {
        match device.draw()?.in_memory() {
            Ok(actual) => assert!(!fails && actual == *expected),
            Err(error) => {
                assert!(fails, "{error}");
                assert!(error.to_string().contains("10.png"), "{error}");
            }
        }
    }
    Ok(())
}

/// Test images are read from their files for each evaluation.
pub fn predictions_from_files_equal_those_of_the_host(device: &Device) -> Result<()> {
    let root = folder();
    same_predictions(&open(root.path())?, device)
}

/// A folder of 6x6 grey images: 30 dark and 30 light ones for training, 5 and 5 for testing.
fn folder() -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a temporary folder");
    for (part, count) in [("train", 30), ("test", 5)] {
        for (class, value) in [("dark", 10), ("light", 180)] {
            let folder = root.path().join(part).join(class);
            fs::create_dir_all(&folder).expect("a folder");
            for i in 0..count {
                let name = format!("{}.png", value + i);
                fs::write(folder.join(name), image(value + i)).expect("an image");
            }
        }
    }
    root
}

fn open(root: &Path) -> Result<Dataset> {
    epsilab::data::image_folder(root, &ImageOptions::size(6).grey())
}

/// A PNG image with different pixels, so that its augmentations differ.
fn image(value: u8) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, 6, 6);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    let pixels: Vec<u8> = (0..36).map(|i| value + i).collect();
    encoder.write_header().expect("a header").write_image_data(&pixels).expect("pixels");
    out
}
