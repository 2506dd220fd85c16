//! Batches and predictions of images in files.

use std::fs;
use std::path::Path;

use epsilab::Result;
use epsilab::burn::prelude::Device;
use epsilab::data::{Dataset, ImageOptions};
use epsilab::engine::{Batch, ClipRule, Executor, TapExecutor};

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

/// A broken file is left out of the batches that contain it, and changes no other example.
pub fn a_broken_file_is_left_out_of_its_batches(device: &Device) -> Result<()> {
    let root = folder();
    let data = open(root.path())?;
    let (_, network) = super::data::model(&data, device)?;
    let [mut host, mut device] = host_and_device(&settings(20), &data, device)?;
    let expected = (0..STEPS).map(|_| host.draw()?.in_memory()).collect::<Result<Vec<Batch>>>()?;
    // The darkest image: its features tell which batches contain it.
    fs::write(root.path().join("train/dark/10.png"), image(99)).expect("another image");
    let broken = data.in_memory().expect_err("a changed file");
    assert!(broken.to_string().contains("10.png"), "{broken}");
    assert_eq!(data.check_files().expect_err("a changed file"), broken);

    let rest = open(root.path())?.in_memory()?;
    let darkest = rest.train().features_flat().iter().copied().fold(f32::INFINITY, f32::min);
    let is_broken = |batch: &Batch, i: usize| batch.features(i)[0] < darkest;
    let executor = TapExecutor::default().with_device_path().with_chunk_size(7);
    let (mut with, mut later_without) = (0, 0);
    for expected in &expected {
        let drawn = device.draw()?;
        let (actual, n) = (drawn.in_memory()?, expected.len());
        let kept: Vec<usize> = (0..n).filter(|&i| !is_broken(expected, i)).collect();
        assert!(kept.iter().all(|&i| actual.features(i) == expected.features(i)));
        let sum = |batch: &Batch| executor.clipped_sum(&network, batch, &ClipRule::flat(0.1));
        let of_others = |batch: &Batch| {
            let features = kept.iter().flat_map(|&i| batch.features(i).to_vec()).collect();
            let labels = kept.iter().map(|&i| batch.label(i)).collect();
            Batch::new(features, batch.shape(), labels)
        };
        let (left_out, others) = (sum(&drawn)?, sum(&of_others(expected)?)?);
        assert_eq!(left_out.excluded_count(), n - kept.len());
        for (a, b) in left_out.sum.entries.iter().zip(&others.sum.entries) {
            let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5;
            assert!(a.values.iter().zip(&b.values).all(close));
        }
        with += n - kept.len();
        later_without += usize::from(with > 0 && n == kept.len());
    }
    assert!(with > 0 && later_without > 0, "{with} batches with it, {later_without} without");
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
