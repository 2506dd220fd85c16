//! Tests of all executors on known models: agreement with the reference, sums, bounds and errors.
//! Random networks are in `per_example`, reference values from PyTorch in `tests/reference`.
//! `cargo bench-engine` measures times.

use epsilab::data::{self, Dataset};
use epsilab::engine::{
    self, AutoExecutor, Batch, ClipRule, ClippedSum, Executor, FusedExecutor, GaussianNoise,
    Gradients, ReferenceExecutor, TapExecutor,
};
use epsilab::nn::models;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::support::process;

/// Relative L2 difference: ‖a - b‖ / ‖b‖.
fn distance(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    let square = |x: f64| x * x;
    let difference: f64 = a.iter().zip(b).map(|(&x, &y)| square(f64::from(x) - f64::from(y))).sum();
    let norm: f64 = b.iter().map(|&y| square(f64::from(y))).sum();
    (difference / norm.max(1e-30)).sqrt()
}

#[track_caller]
fn assert_close(a: &Gradients, b: &Gradients, bound: f64) {
    assert_eq!(a.entries.len(), b.entries.len());
    for (a, b) in a.entries.iter().zip(&b.entries) {
        assert_eq!((&a.path, &a.shape, a.id), (&b.path, &b.shape, b.id));
        let distance = distance(&a.values, &b.values);
        assert!(distance < bound, "{} is off by {distance:.1e}", a.path);
    }
}

#[track_caller]
fn assert_agree(fast: &ClippedSum, slow: &ClippedSum, bound: f64) {
    assert_close(&fast.sum, &slow.sum, bound);
    assert!(distance(&fast.norms, &slow.norms) < bound, "{:?} {:?}", fast.norms, slow.norms);
    assert!(distance(&fast.losses, &slow.losses) < bound);
    assert_eq!(fast.excluded_count(), slow.excluded_count());
}

fn uniform(rng: &mut ChaCha8Rng) -> f32 {
    (rng.next_u32() >> 8) as f32 / (1u32 << 24) as f32 - 0.5
}

fn random_batch(rng: &mut ChaCha8Rng, n: usize, shape: &[usize], classes: u32) -> Batch {
    let size: usize = shape.iter().product();
    let features = (0..n * size).map(|_| 4.0 * uniform(rng)).collect();
    let labels = (0..n).map(|_| rng.next_u32() % classes).collect();
    Batch::new(features, shape, labels).unwrap()
}

fn mnist_like() -> Dataset {
    data::from_vecs(vec![0.0; 10 * 784], &[1, 28, 28], (0..10).collect(), 10).unwrap()
}

fn median(values: &[f32]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f32::total_cmp);
    f64::from(sorted[sorted.len() / 2])
}

#[test]
fn tap_agrees_with_the_reference_on_papernot_cnn() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let model = models::papernot_cnn(&mnist_like()).seed(1).build().unwrap();
    let batch = random_batch(&mut rng, 40, &[1, 28, 28], 10);
    let clip_all = ClipRule::flat(1e-3);
    let fast = TapExecutor::default()
        .with_chunk_size(16)
        .clipped_sum(model.network(), &batch, &clip_all)
        .unwrap();
    assert_agree(
        &fast,
        &ReferenceExecutor.clipped_sum(model.network(), &batch, &clip_all).unwrap(),
        1e-5,
    );
    // At the median norm, about half of the examples are clipped.
    let clip_half = ClipRule::flat(median(&fast.norms));
    let fast = TapExecutor::default()
        .with_chunk_size(16)
        .clipped_sum(model.network(), &batch, &clip_half)
        .unwrap();
    assert_agree(
        &fast,
        &ReferenceExecutor.clipped_sum(model.network(), &batch, &clip_half).unwrap(),
        1e-5,
    );
}

#[test]
fn norms_do_not_depend_on_the_batch_size() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let model = models::mlp(&mnist_like(), &[8]).seed(1).build().unwrap();
    let batch = random_batch(&mut rng, 8, &[1, 28, 28], 10);
    let rule = ClipRule::unclipped();
    for executor in
        [&TapExecutor::default() as &dyn Executor, &FusedExecutor::default(), &ReferenceExecutor]
    {
        let together = executor.clipped_sum(model.network(), &batch, &rule).unwrap();
        for i in 0..8 {
            let one = Batch::new(batch.features(i).to_vec(), &[1, 28, 28], vec![batch.label(i)]);
            let single = executor.clipped_sum(model.network(), &one.unwrap(), &rule).unwrap();
            let ratio = together.norms[i] / single.norms[0];
            assert!(
                (ratio - 1.0).abs() < 1e-5,
                "in a batch of 8 the norm changes by a factor of {ratio}"
            );
            // With the mean over the batch as the loss, the ratio would be 1/8.
            assert!((ratio - 1.0 / 8.0).abs() > 0.5);
        }
    }
}

#[test]
fn clipped_contributions_stay_within_the_sensitivity() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let model = models::papernot_cnn(&mnist_like()).seed(2).build().unwrap();
    for executor in
        [&TapExecutor::default() as &dyn Executor, &FusedExecutor::default(), &ReferenceExecutor]
    {
        for scale in [1e-3, 1.0, 1e3] {
            let features = (0..784).map(|_| scale * uniform(&mut rng)).collect();
            let one = Batch::new(features, &[1, 28, 28], vec![7]).unwrap();
            let sum = |rule| executor.clipped_sum(model.network(), &one, &rule).unwrap().sum;
            let clipped = sum(ClipRule::flat(0.1)).l2_norm();
            assert!(clipped <= 0.1 * (1.0 + 1e-5), "{clipped}");
            let unclipped = sum(ClipRule::unclipped()).l2_norm();
            assert!(unclipped > 0.1, "the unclipped gradient exceeds the bound");
        }
    }
}

#[test]
fn the_plain_sum_is_the_sum_of_unclipped_gradients() {
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let model = models::papernot_cnn(&mnist_like()).seed(2).build().unwrap();
    let batch = random_batch(&mut rng, 9, &[1, 28, 28], 10);
    let reference =
        ReferenceExecutor.clipped_sum(model.network(), &batch, &ClipRule::unclipped()).unwrap();
    for executor in [
        &TapExecutor::default() as &dyn Executor,
        &FusedExecutor::default(),
        &AutoExecutor::default(),
    ] {
        let plain = executor.unclipped_sum(model.network(), &batch, None).unwrap();
        for (a, b) in plain.sum.entries.iter().zip(&reference.sum.entries) {
            assert!(distance(&a.values, &b.values) < 1e-5, "{}", a.path);
        }
    }
}

/// Hash of the bits of sums over several segments: of a network with large strides, and of one
/// with 3x3 convolutions of many channels.
fn fingerprint() -> u64 {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let data = mnist_like();
    let cnn = models::papernot_cnn(&data).seed(1).build().unwrap();
    let vgg = models::simple_vgg(&data, &[48], 2).seed(1).build().unwrap();
    let rule = ClipRule::flat(0.7);
    let mut hash = 0u64;
    for (model, n) in [(cnn, 333), (vgg, 70)] {
        let batch = random_batch(&mut rng, n, &[1, 28, 28], 10);
        let sum = FusedExecutor::default().clipped_sum(model.network(), &batch, &rule).unwrap().sum;
        let values = sum.entries.iter().flat_map(|entry| &entry.values);
        let bits = values.map(|v| u64::from(v.to_bits()));
        hash = bits.fold(hash, |hash, bits| (hash ^ bits).wrapping_mul(0x100_0000_01b3));
    }
    hash
}

/// Runs one of these tests in a new process and returns the word that it prints after `result:`.
fn run_in_new_process(test: &str, threads: &str) -> String {
    let mut command = process::command(test, "measure");
    let out = process::run(command.env("RAYON_NUM_THREADS", threads));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let found = text.split("result:").nth(1).and_then(|rest| rest.split_whitespace().next());
    found.unwrap_or_else(|| panic!("no result in {text}")).to_owned()
}

/// rayon's thread pool is created once per process, so each number of threads needs its own
/// process.
#[test]
fn fused_sums_are_bitwise_equal_for_any_number_of_threads() {
    if process::role().is_some() {
        return println!("result: {}", fingerprint());
    }
    let test = this_test!();
    let with = |threads| run_in_new_process(test, threads);
    let one = with("1");
    assert_eq!(one, with("2"));
    assert_eq!(one, with("5"));
}

/// Resident memory in KiB.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn memory_does_not_grow_over_two_thousand_steps() {
    // One leaked gradient per step would be 5.5 MB from step 200 on.
    memory_does_not_grow(this_test!(), 2_000, 3_000);
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "takes 10 s; .ci/full runs it"]
fn memory_does_not_grow_over_ten_thousand_steps() {
    // One leaked gradient per step would be 25 MB.
    memory_does_not_grow(this_test!(), 10_000, 6_000);
}

/// Takes steps in a process of their own, whose memory may grow by less than `limit` KiB after the
/// first tenth of the steps.
#[cfg(target_os = "linux")]
fn memory_does_not_grow(test: &str, steps: usize, limit: usize) {
    if process::role().is_none() {
        let grown: usize = run_in_new_process(test, "2").parse().unwrap();
        assert!(grown < limit, "grew by {grown} KiB from step {} to {steps}", steps / 10);
        return;
    }
    let data =
        data::from_vecs(vec![0.5; 12 * 9], &[1, 3, 3], vec![0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2], 3);
    let data = data.unwrap();
    let model = models::mlp(&data, &[64]).seed(1).build().unwrap();
    let batch = Batch::from_examples(data.train(), &(0..12).collect::<Vec<_>>()).unwrap();
    let executor = AutoExecutor::default();
    let mut noise = GaussianNoise::new([1; 32]);
    let mut optimizer = epsilab::burn::optim::SgdConfig::new().init();
    let mut network = model.network().clone();
    let mut early = 0;
    for step in 0..steps {
        let mut sum = executor.clipped_sum(&network, &batch, &ClipRule::flat(1.0)).unwrap().sum;
        noise.add_to(&mut sum, 0.1).unwrap();
        network = engine::optimizer_step(&mut optimizer, 0.01, &network, &sum);
        if step == steps / 10 {
            early = resident();
        }
    }
    println!("result: {}", resident().saturating_sub(early));
}

/// `batch` with one more example at `position`.
fn with_extra_example(batch: &Batch, shape: &[usize], position: usize, outlier: &[f32]) -> Batch {
    let (mut features, mut labels) = (Vec::new(), Vec::new());
    for i in 0..=batch.len() {
        if i == position {
            features.extend_from_slice(outlier);
            labels.push(0);
        }
        if i < batch.len() {
            features.extend_from_slice(batch.features(i));
            labels.push(batch.label(i));
        }
    }
    Batch::new(features, shape, labels).unwrap()
}

#[test]
fn an_example_that_is_not_finite_leaves_the_sum_bit_for_bit_unchanged() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let shape = [1, 28, 28];
    let network = models::papernot_cnn(&mnist_like())
        .activation(epsilab::nn::Activation::Relu)
        .seed(3)
        .build()
        .unwrap();
    let batch = random_batch(&mut rng, 21, &shape, 10);
    let rule = ClipRule::flat(0.5);
    // Not finite, or finite with activations or norms that overflow.
    let mut nan = batch.features(0).to_vec();
    nan[100] = f32::NAN;
    let mut infinite = batch.features(0).to_vec();
    infinite[5] = f32::NEG_INFINITY;
    let huge: Vec<f32> = batch.features(0).iter().map(|v| v * 1e38).collect();
    let large: Vec<f32> = batch.features(0).iter().map(|v| v * 1e25).collect();
    for executor in [
        &TapExecutor::default().with_chunk_size(8) as &dyn Executor,
        &FusedExecutor::default(),
        &ReferenceExecutor,
    ] {
        let without = executor.clipped_sum(network.network(), &batch, &rule).unwrap();
        assert_eq!(without.excluded_count(), 0);
        for outlier in [&nan, &infinite, &huge, &large] {
            let batch = with_extra_example(&batch, &shape, 10, outlier);
            let with = executor.clipped_sum(network.network(), &batch, &rule).unwrap();
            if with.excluded_count() == 0 {
                // The reference computes norms in f64, which overflow later than those in f32.
                assert!(with.norms[10].is_finite());
                continue;
            }
            assert_eq!(with.excluded_count(), 1);
            assert!(with.norms[10].is_nan() && with.losses[10].is_nan());
            for (a, b) in with.sum.entries.iter().zip(&without.sum.entries) {
                let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&a.values), bits(&b.values), "{}", a.path);
            }
            assert_eq!(with.norms[..10], without.norms[..10]);
            assert_eq!(with.norms[11..], without.norms[10..]);
            assert!(with.mean_loss().is_some_and(f64::is_finite));
        }
    }
    let poisoned = with_extra_example(&batch, &shape, 10, &nan);
    let fast = TapExecutor::default().clipped_sum(network.network(), &poisoned, &rule).unwrap();
    assert_eq!(fast.excluded_count(), 1, "the example is excluded");
    let overflowing = with_extra_example(&batch, &shape, 10, &huge);
    let fast = TapExecutor::default().clipped_sum(network.network(), &overflowing, &rule).unwrap();
    assert_eq!(fast.excluded_count(), 1, "finite features can overflow in the network");
}

#[test]
fn an_empty_batch_gives_zeros() {
    let model = models::papernot_cnn(&mnist_like()).seed(1).build().unwrap();
    let empty = Batch::new(Vec::new(), &[1, 28, 28], Vec::new()).unwrap();
    for executor in
        [&TapExecutor::default() as &dyn Executor, &FusedExecutor::default(), &ReferenceExecutor]
    {
        let got = executor.clipped_sum(model.network(), &empty, &ClipRule::flat(1.0)).unwrap();
        assert_eq!(got.sum, Gradients::zeros_like(model.network()));
        assert_eq!(got.sum.len(), 26_010);
        assert_eq!((got.norms.len(), got.losses.len(), got.excluded_count()), (0, 0, 0));
    }
}

#[test]
fn the_chunk_size_changes_sums_by_rounding_only() {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let model = models::papernot_cnn(&mnist_like()).seed(1).build().unwrap();
    let batch = random_batch(&mut rng, 100, &[1, 28, 28], 10);
    let rule = ClipRule::flat(0.7);
    let sums = |chunk: usize| {
        TapExecutor::default()
            .with_chunk_size(chunk)
            .clipped_sum(model.network(), &batch, &rule)
            .unwrap()
    };
    let whole = sums(100);
    for chunk in [1, 7, 32, 64] {
        assert_agree(&sums(chunk), &whole, 1e-6);
    }
    let fused = |chunk: usize| {
        FusedExecutor::default()
            .with_chunk_size(chunk)
            .clipped_sum(model.network(), &batch, &rule)
            .unwrap()
    };
    for chunk in [1, 7, 32, 100] {
        assert_agree(&fused(chunk), &whole, 1e-6);
        assert_eq!(fused(chunk).sum, fused(chunk).sum);
    }
    // Chunks finish in any order but are summed in theirs.
    for _ in 0..3 {
        assert_eq!(sums(7).sum, sums(7).sum);
    }
}

#[test]
fn mismatched_batches_and_rules_are_refused() {
    let model = models::linear(&mnist_like()).seed(1).build().unwrap();
    let batch = |shape: &[usize], label| {
        Batch::new(vec![0.0; shape.iter().product()], shape, vec![label]).unwrap()
    };
    let rule = ClipRule::flat(1.0);
    for executor in
        [&TapExecutor::default() as &dyn Executor, &FusedExecutor::default(), &ReferenceExecutor]
    {
        assert!(executor.clipped_sum(model.network(), &batch(&[784], 0), &rule).is_err());
        assert!(executor.clipped_sum(model.network(), &batch(&[1, 28, 28], 10), &rule).is_err());
        let valid = batch(&[1, 28, 28], 9);
        assert!(executor.clipped_sum(model.network(), &valid, &rule).is_ok());
        assert!(executor.clipped_sum(model.network(), &valid, &ClipRule::flat(0.0)).is_err());
    }
    assert!(Batch::new(vec![0.0; 5], &[3], vec![0, 0]).is_err());
    assert!(Batch::from_examples(mnist_like().train(), &[10]).is_err());
}
