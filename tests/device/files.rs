//! The same of images that lie in files, which are read by a thread of its own.

use std::fs;
use std::path::Path;

use epsilab::Result;
use epsilab::burn::prelude::Device;
use epsilab::data::{Dataset, ImageOptions};
use epsilab::engine::Batch;

use super::data::{STEPS, augments, both_ways, same_batches, same_predictions, settings};

/// Batches from files are read ahead, and are the same.
pub fn batches_from_files(device: &Device) -> Result<()> {
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

/// A file that breaks spoils the batches it is in, and no other.
pub fn a_file_that_breaks(device: &Device) -> Result<()> {
    let root = folder();
    let data = open(root.path())?;
    let [mut host, mut gpu] = both_ways(&settings(20), &data, device)?;
    let expected = (0..STEPS).map(|_| host.draw()).collect::<Result<Vec<Batch>>>()?;
    // The darkest image: by its features, one sees which batches it was in.
    fs::write(root.path().join("train/dark/10.png"), image(99)).expect("another image");
    let broken = data.in_memory().expect_err("a file has changed");
    assert!(broken.to_string().contains("10.png"), "{broken}");

    let rest = open(root.path())?.in_memory()?;
    let darkest = rest.train().features_flat().iter().copied().fold(f32::INFINITY, f32::min);
    let holds = |batch: &Batch| (0..batch.len()).any(|i| batch.features(i)[0] < darkest);
    let spoiled: Vec<bool> = expected.iter().map(holds).collect();
    assert!(!spoiled[0], "the first is to be fine: {spoiled:?}");
    let first = spoiled.iter().position(|&spoiled| spoiled).expect("it is in some batch");
    assert!(spoiled[first..].contains(&false), "one behind it is to be fine: {spoiled:?}");
    for (expected, spoiled) in expected.iter().zip(spoiled) {
        match gpu.draw() {
            Ok(found) => assert!(!spoiled && found == *expected),
            Err(error) => {
                assert!(spoiled, "{error}");
                assert!(error.to_string().contains("10.png"), "{error}");
            }
        }
    }
    Ok(())
}

/// Test images are read whenever they are needed.
pub fn predictions_from_files(device: &Device) -> Result<()> {
    let root = folder();
    same_predictions(&open(root.path())?, device)
}

/// 30 dark and 30 light images for training, 5 and 5 for testing, 6x6 grey pixels each.
fn folder() -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a temporary folder");
    for (part, each) in [("train", 30), ("test", 5)] {
        for (class, value) in [("dark", 10), ("light", 180)] {
            let folder = root.path().join(part).join(class);
            fs::create_dir_all(&folder).expect("a folder");
            for i in 0..each {
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

/// A PNG image whose pixels differ, so that its versions do.
fn image(value: u8) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, 6, 6);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    let pixels: Vec<u8> = (0..36).map(|i| value + i).collect();
    encoder.write_header().expect("a header").write_image_data(&pixels).expect("pixels");
    out
}
