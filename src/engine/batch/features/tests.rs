//! Sums over gathered chunks.

use std::path::Path;

use super::*;
use crate::data::batch_source::StepAugmentation;
use crate::data::{self, Augment, Examples, ImageOptions};
use crate::engine::{
    ClipRule, ClippedSum, Executor, FusedExecutor, GaussianNoise, Gradients, ReferenceExecutor,
    TapExecutor,
};
use crate::layers;
use crate::nn::{DropoutSpec, Flatten, LinearSpec, Model, Relu, Tanh, models};

const COPIES: usize = 2;
const N: usize = 45;

/// Images 1x4x5 whose norms differ, in 3 classes.
fn images() -> data::Dataset {
    let x = (0..N * 20).map(|i| ((i * 37 % 41) as f32 / 10.0 - 2.0) * (1 + i / 20 % 5) as f32);
    data::from_vecs(x.collect(), &[1, 4, 5], (0..N as u32).map(|i| i % 3).collect(), 3).unwrap()
}

fn model(data: &data::Dataset) -> Model {
    let size = data.shape().iter().product();
    let dropout = DropoutSpec { rate: 0.5 };
    let layers = layers![Flatten, LinearSpec::new(size, 16), Tanh, dropout, LinearSpec::new(16, 3)];
    models::sequential(data, layers).seed(1).build().unwrap()
}

/// Augmented copies of these examples.
fn source(examples: &Examples, ids: impl IntoIterator<Item = u32>) -> Arc<BatchSource> {
    let augment = Augment::new().copies(COPIES).flip().crop(1);
    let augmented = Some(StepAugmentation { augment, seed: [3, 4] });
    Arc::new(BatchSource::new(examples, ids.into_iter().collect(), augmented).unwrap())
}

fn batch(examples: &Examples, ids: impl IntoIterator<Item = u32>) -> Batch {
    Batch::from_source(source(examples, ids), None, None).seed(5)
}

/// Executors on the host, and one on the path of devices, in chunks of this many examples.
fn executors(chunk: usize) -> [(&'static str, bool, Box<dyn Executor>); 4] {
    let tap = || TapExecutor::default().with_chunk_size(chunk);
    [
        ("fused", true, Box::new(FusedExecutor::default().with_chunk_size(chunk))),
        ("tap", true, Box::new(tap())),
        ("device", false, Box::new(tap().with_device_path())),
        ("reference", true, Box::new(ReferenceExecutor)),
    ]
}

/// About the median norm, so that some examples are clipped and some are not.
const CLIP: f64 = 3.8;

fn both_sums(executor: &dyn Executor, model: &Model, batch: &Batch) -> Result<[ClippedSum; 2]> {
    let clipped = executor.clipped_sum(model.network(), batch, &ClipRule::flat(CLIP))?;
    Ok([clipped, executor.unclipped_sum(model.network(), batch, None)?])
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

fn flat(sum: &Gradients) -> Vec<f32> {
    sum.entries.iter().flat_map(|entry| entry.values.to_vec()).collect()
}

/// Relative L2 distance.
fn distance(a: &Gradients, b: &Gradients) -> f64 {
    let (a, b) = (flat(a), flat(b));
    let square = |x: f32| f64::from(x).powi(2);
    let off: f64 = a.iter().zip(&b).map(|(a, b)| square(a - b)).sum();
    (off / b.iter().map(|&b| square(b)).sum::<f64>()).sqrt()
}

#[test]
fn any_chunking_gives_the_same_sum() {
    let data = images();
    let (model, all) = (model(&data), batch(data.train(), 0..N as u32));
    let held = all.in_memory().unwrap();
    for chunk in [1, 3, 8, 64] {
        for (name, on_host, executor) in executors(chunk) {
            let expected = both_sums(&*executor, &model, &held).unwrap();
            // How many examples are gathered at a time does not change a bit.
            for gathered in [1, 7, 20, 1000] {
                let batch = all.clone().with_chunk_len(gathered);
                let sums = both_sums(&*executor, &model, &batch).unwrap();
                for (sum, expected) in sums.iter().zip(&expected) {
                    assert_eq!(flat(&sum.sum), flat(&expected.sum), "{name} {chunk} {gathered}");
                    assert_eq!(bits(&sum.norms), bits(&expected.norms), "{name}");
                    assert_eq!(bits(&sum.losses), bits(&expected.losses), "{name}");
                }
            }
            // How many are summed at a time changes rounding only.
            let reference = both_sums(&ReferenceExecutor, &model, &held).unwrap();
            for (sum, reference) in expected.iter().zip(&reference) {
                assert!(distance(&sum.sum, &reference.sum) < 1e-5, "{name} {chunk} {on_host}");
            }
            let clipped =
                |sum: &ClippedSum| sum.norms.iter().filter(|&&n| f64::from(n) > CLIP).count();
            assert_eq!(clipped(&expected[0]), clipped(&reference[0]), "{name}");
            assert!((9..N - 9).contains(&clipped(&expected[0])), "{:?}", expected[0].norms);
            // One example less is another sum.
            let fewer = batch(data.train(), 0..N as u32 - 1).with_chunk_len(7);
            let fewer = both_sums(&*executor, &model, &fewer).unwrap();
            assert!(distance(&fewer[0].sum, &expected[0].sum) > 1e-3, "{name}");
        }
    }
}

#[test]
fn two_small_chunks_are_gathered_at_a_time_and_each_example_once() {
    let data = images();
    let (model, workers) = (model(&data), crate::nn::worker_pool::worker_count());
    for (name, _, executor) in executors(1) {
        let reader = Arc::new(Prefetcher::start().unwrap());
        let source = source(data.train(), 0..N as u32);
        let batch = Batch::from_source(source, Some(reader.clone()), None).with_chunk_len(4);
        executor.clipped_sum(model.network(), &batch, &ClipRule::flat(CLIP)).unwrap();
        let seen = reader.seen();
        assert_eq!(seen.examples, N, "{name}");
        assert!(seen.largest <= workers.max(4) && seen.largest < N, "{name}: {seen:?}");
        assert!(seen.alive <= 2, "{name}: {seen:?}");
    }
    // The test finds a batch that is gathered whole.
    let reader = Arc::new(Prefetcher::start().unwrap());
    let batch = Batch::from_source(source(data.train(), 0..N as u32), Some(reader.clone()), None);
    ReferenceExecutor.unclipped_sum(model.network(), &batch, None).unwrap();
    assert_eq!(reader.seen().largest, N);
}

#[test]
fn examples_in_memory_are_read_in_place() {
    let data = images();
    let batch = Batch::from_examples(data.train(), &[7, 2]).unwrap();
    assert_eq!(batch.features(0).as_ptr(), data.train().features(7).as_ptr());
    assert_eq!(batch.chunk_len(), usize::MAX);
    assert!(Batch::from_examples(data.train(), &[N as u32]).is_err());
}

#[test]
fn a_chunk_is_smaller_than_a_batch_of_large_images() {
    let x = vec![0.0; 2 * 3 * 1024 * 1024];
    let data = data::from_vecs(x, &[3, 1024, 1024], vec![0, 1], 2).unwrap();
    // 12 MiB each, in two copies.
    assert_eq!(batch(data.train(), [0, 1]).chunk_len(), 1);
    // 80 bytes each, in two copies.
    assert_eq!(batch(images().train(), [0]).chunk_len(), CHUNK_BYTES / 160);
}

#[test]
fn examples_that_are_not_finite_are_left_out_of_every_chunk() {
    let data = images();
    let mut x = data.train().features_flat().to_vec();
    // Too large to be scaled: a whole image, and a pixel that the crop of a copy may lose.
    x[20 * 11..20 * 12].fill(f32::MAX);
    x[20 * 30] = f32::MAX;
    let broken = data::from_vecs(x, &[1, 4, 5], data.train().labels().to_vec(), 3).unwrap();
    let broken = broken.normalized(0.0, 0.5).unwrap();
    let model = model(&data);
    let with = batch(broken.train(), 0..N as u32).with_chunk_len(7);
    let kept = with.finite_examples().unwrap();
    assert_eq!(kept, with.in_memory().unwrap().finite_examples().unwrap());
    assert!(!kept.contains(&11) && kept.len() >= N - 2);
    let without = batch(broken.train(), kept.iter().map(|&i| i as u32)).with_chunk_len(7);
    for (name, on_host, executor) in executors(3) {
        let [with, _] = both_sums(&*executor, &model, &with).unwrap();
        let [without, _] = both_sums(&*executor, &model, &without).unwrap();
        assert_eq!(with.excluded_count(), N - kept.len(), "{name}");
        if on_host {
            assert_eq!(flat(&with.sum), flat(&without.sum), "{name}");
        } else {
            assert!(distance(&with.sum, &without.sum) < 1e-6, "{name}");
        }
    }
}

/// A folder of 24 grey images 4x4.
fn folder() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (class, value) in [("a", 10), ("b", 100), ("c", 180)] {
        let folder = root.path().join("train").join(class);
        std::fs::create_dir_all(&folder).unwrap();
        (0..8).for_each(|i| write(&folder.join(format!("{i}.png")), value + i));
    }
    root
}

fn write(path: &Path, value: u8) {
    let mut encoder = png::Encoder::new(std::fs::File::create(path).unwrap(), 4, 4);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    let pixels: Vec<u8> = (0..16).map(|i| value + i).collect();
    encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
}

/// The images of the folder, and models in which NaN features reach the gradients, or do not: a
/// ReLU of NaN is 0.
fn folder_and_models() -> (tempfile::TempDir, data::Dataset, [Model; 2]) {
    let root = folder();
    let data = data::image_folder(root.path(), &ImageOptions::size(4).grey()).unwrap();
    let models = [layers![Tanh], layers![Relu]].map(|activation| {
        let dropout = DropoutSpec { rate: 0.5 };
        let rest = layers![Flatten, LinearSpec::new(16, 8), Tanh, dropout, LinearSpec::new(8, 3)];
        let layers = [activation, rest].concat();
        models::sequential(&data, layers).seed(1).build().unwrap()
    });
    (root, data, models)
}

#[test]
fn a_file_that_breaks_contributes_nothing_and_moves_no_bit_of_the_others() {
    let (root, data, models) = folder_and_models();
    let (first, last) = (root.path().join("train/a/0.png"), root.path().join("train/c/7.png"));
    let batch_of = |ids: std::ops::Range<u32>, copies: usize| {
        let augment = Augment::new().copies(copies).flip().crop(1);
        let augmented = (copies > 1).then_some(StepAugmentation { augment, seed: [3, 4] });
        let source = BatchSource::new(data.train(), ids.collect(), augmented).unwrap();
        Batch::from_source(Arc::new(source), None, None).seed(5).with_chunk_len(2)
    };
    for (model, copies) in models.iter().zip([1, 2]).chain(models.iter().zip([2, 1])) {
        for (name, on_host, executor) in executors(1) {
            let whole = batch_of(0..24, copies);
            let sums = |batch: &Batch| both_sums(&*executor, model, batch).unwrap();
            let all = sums(&whole);
            assert!(whole.excluded_examples().is_empty() && whole.read_error().is_none());
            let without = sums(&batch_of(1..23, copies));
            // One is gone, and one has another content.
            std::fs::remove_file(&first).unwrap();
            write(&last, 99);
            let broken = batch_of(0..24, copies);
            let found = sums(&broken);
            assert_eq!(broken.excluded_examples(), [0, 23].into());
            assert!(broken.read_error().is_some() && broken != whole, "{name}");
            for (sum, without) in found.iter().zip(&without) {
                assert_eq!(sum.excluded_count(), 2, "{name}");
                assert!(sum.losses[0].is_nan() && sum.losses[23].is_nan(), "{name}");
                if on_host {
                    assert_eq!(flat(&sum.sum), flat(&without.sum), "{name}")
                } else {
                    assert!(distance(&sum.sum, &without.sum) < 1e-6, "{name}")
                }
                assert_eq!(bits(&sum.losses[1..23]), bits(&without.losses), "{name}");
            }
            assert!(distance(&found[0].sum, &all[0].sum) > 1e-3, "{name}: they counted before");
            // In memory they are examples without finite features.
            let held = sums(&broken.in_memory().unwrap());
            assert_eq!(flat(&held[0].sum), flat(&found[0].sum), "{name}");
            // Nothing is kept of it: the next sum over sound files is right.
            write(&first, 10);
            write(&last, 187);
            assert_eq!(flat(&sums(&batch_of(0..24, copies))[0].sum), flat(&all[0].sum), "{name}");
        }
    }
}

#[test]
fn files_that_are_scaled_beyond_finite_numbers_contribute_nothing() {
    let (_root, data, [_, relu]) = folder_and_models();
    let data = data.normalized(0.0, 1e-40).unwrap();
    let batch = Batch::from_examples(data.train(), &[0, 8, 16]).unwrap();
    for (name, _, executor) in executors(2) {
        let [sum, _] = both_sums(&*executor, &relu, &batch).unwrap();
        assert!(flat(&sum.sum).iter().all(|&value| value == 0.0), "{name}");
        assert_eq!(sum.excluded_count(), 3, "{name}");
    }
    assert!(batch.read_error().is_none(), "they were read");
}

#[test]
fn an_empty_batch_reads_nothing() {
    let data = images();
    let model = model(&data);
    for (name, _, executor) in executors(2) {
        let reader = Arc::new(Prefetcher::start().unwrap());
        let batch = Batch::from_source(source(data.train(), []), Some(reader.clone()), None);
        for sum in both_sums(&*executor, &model, &batch).unwrap() {
            assert!(sum.losses.is_empty() && flat(&sum.sum).iter().all(|&v| v == 0.0), "{name}");
            let mut noisy = sum.sum;
            GaussianNoise::new([1; 32]).add_to(&mut noisy, 1.0).unwrap();
            assert!(flat(&noisy).iter().all(|&v| v != 0.0));
        }
        assert_eq!(reader.seen().chunks, 0);
        assert!(batch.in_memory().unwrap().is_empty());
    }
}
