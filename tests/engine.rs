//! What every executor owes its users: agreement on a known model, sums, bounds, refusals. Random
//! networks and reference values from PyTorch are in `per_example`.

use epsilab::data::{self, Dataset};
use epsilab::engine::{Batch, ClipRule, ClippedSum, Fused, Gradients, Oracle, PerExample, Taps};
use epsilab::nn::{Network, models};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// L2 norm of the difference over the L2 norm.
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
    assert_eq!(fast.non_finite, slow.non_finite);
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
fn taps_agree_with_the_oracle_on_papernot_cnn() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let model = models::papernot_cnn(&mnist_like()).seed(1).build().unwrap();
    let batch = random_batch(&mut rng, 40, &[1, 28, 28], 10);
    let all = ClipRule::flat(1e-3);
    let fast = Taps::default().with_chunk(16).clipped_sum(model.network(), &batch, &all).unwrap();
    assert_agree(&fast, &Oracle.clipped_sum(model.network(), &batch, &all).unwrap(), 1e-5);
    // At the median norm, half of the examples are clipped and half are not.
    let half = ClipRule::flat(median(&fast.norms));
    let fast = Taps::default().with_chunk(16).clipped_sum(model.network(), &batch, &half).unwrap();
    assert_agree(&fast, &Oracle.clipped_sum(model.network(), &batch, &half).unwrap(), 1e-5);
}

#[test]
fn the_loss_is_summed_and_never_averaged() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let model = models::mlp(&mnist_like(), &[8]).seed(1).build().unwrap();
    let batch = random_batch(&mut rng, 8, &[1, 28, 28], 10);
    let rule = ClipRule::unclipped();
    for executor in [&Taps::default() as &dyn PerExample, &Fused::default(), &Oracle] {
        let together = executor.clipped_sum(model.network(), &batch, &rule).unwrap();
        for i in 0..8 {
            let one = Batch::new(batch.features(i).to_vec(), &[1, 28, 28], vec![batch.label(i)]);
            let alone = executor.clipped_sum(model.network(), &one.unwrap(), &rule).unwrap();
            let ratio = together.norms[i] / alone.norms[0];
            assert!((ratio - 1.0).abs() < 1e-5, "in a batch of 8 the norm is {ratio} of its own");
            // A mean over the batch would make it an eighth.
            assert!((ratio - 1.0 / 8.0).abs() > 0.5);
        }
    }
}

#[test]
fn every_clipped_share_stays_within_the_sensitivity() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let model = models::papernot_cnn(&mnist_like()).seed(2).build().unwrap();
    for scale in [1e-3, 1.0, 1e3] {
        let features = (0..784).map(|_| scale * uniform(&mut rng)).collect();
        let one = Batch::new(features, &[1, 28, 28], vec![7]).unwrap();
        let rule = ClipRule::flat(0.1);
        let share = Taps::default().clipped_sum(model.network(), &one, &rule).unwrap().sum;
        assert!(share.l2_norm() <= 0.1 * (1.0 + 1e-5), "{}", share.l2_norm());
        let unclipped =
            Taps::default().clipped_sum(model.network(), &one, &ClipRule::unclipped()).unwrap();
        assert!(unclipped.sum.l2_norm() > 0.1, "without clipping it would be longer");
    }
}

/// `batch` with one more example, of these features, at `place`.
fn with_guest(batch: &Batch, shape: &[usize], place: usize, guest: &[f32]) -> Batch {
    let (mut features, mut labels) = (Vec::new(), Vec::new());
    for i in 0..=batch.len() {
        if i == place {
            features.extend_from_slice(guest);
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
    // Not finite itself; or finite, with activations or norms that overflow.
    let mut nan = batch.features(0).to_vec();
    nan[100] = f32::NAN;
    let mut infinite = batch.features(0).to_vec();
    infinite[5] = f32::NEG_INFINITY;
    let huge: Vec<f32> = batch.features(0).iter().map(|v| v * 1e38).collect();
    let large: Vec<f32> = batch.features(0).iter().map(|v| v * 1e25).collect();
    for executor in [&Taps::default().with_chunk(8) as &dyn PerExample, &Fused::default(), &Oracle]
    {
        let without = executor.clipped_sum(network.network(), &batch, &rule).unwrap();
        assert_eq!(without.non_finite, 0);
        for guest in [&nan, &infinite, &huge, &large] {
            let batch = with_guest(&batch, &shape, 10, guest);
            let with = executor.clipped_sum(network.network(), &batch, &rule).unwrap();
            if with.non_finite == 0 {
                // The oracle's f64 norms reach further than f32 ones.
                assert!(with.norms[10].is_finite());
                continue;
            }
            assert_eq!(with.non_finite, 1);
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
    let poisoned = with_guest(&batch, &shape, 10, &nan);
    let fast = Taps::default().clipped_sum(network.network(), &poisoned, &rule).unwrap();
    assert_eq!(fast.non_finite, 1, "the test is about something");
    let overflowing = with_guest(&batch, &shape, 10, &huge);
    let fast = Taps::default().clipped_sum(network.network(), &overflowing, &rule).unwrap();
    assert_eq!(fast.non_finite, 1, "finite features may overflow on the way");
}

#[test]
fn an_empty_batch_gives_zeros() {
    let model = models::papernot_cnn(&mnist_like()).seed(1).build().unwrap();
    let empty = Batch::new(Vec::new(), &[1, 28, 28], Vec::new()).unwrap();
    for executor in [&Taps::default() as &dyn PerExample, &Fused::default(), &Oracle] {
        let got = executor.clipped_sum(model.network(), &empty, &ClipRule::flat(1.0)).unwrap();
        assert_eq!(got.sum, Gradients::zeros_like(model.network()));
        assert_eq!(got.sum.len(), 26_010);
        assert_eq!((got.norms.len(), got.losses.len(), got.non_finite), (0, 0, 0));
    }
}

#[test]
fn neither_chunks_nor_threads_change_the_sums() {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let model = models::papernot_cnn(&mnist_like()).seed(1).build().unwrap();
    let batch = random_batch(&mut rng, 100, &[1, 28, 28], 10);
    let rule = ClipRule::flat(0.7);
    let sums = |chunk: usize| {
        Taps::default().with_chunk(chunk).clipped_sum(model.network(), &batch, &rule).unwrap()
    };
    let whole = sums(100);
    for chunk in [1, 7, 32, 64] {
        assert_agree(&sums(chunk), &whole, 1e-6);
    }
    // Chunks finish in any order and are summed in theirs.
    for _ in 0..3 {
        assert_eq!(sums(7).sum, sums(7).sum);
    }
}

#[test]
fn what_does_not_suit_the_network_is_refused() {
    let model = models::linear(&mnist_like()).seed(1).build().unwrap();
    let batch = |shape: &[usize], label| {
        Batch::new(vec![0.0; shape.iter().product()], shape, vec![label]).unwrap()
    };
    let rule = ClipRule::flat(1.0);
    for executor in [&Taps::default() as &dyn PerExample, &Fused::default(), &Oracle] {
        assert!(executor.clipped_sum(model.network(), &batch(&[784], 0), &rule).is_err());
        assert!(executor.clipped_sum(model.network(), &batch(&[1, 28, 28], 10), &rule).is_err());
        let fine = batch(&[1, 28, 28], 9);
        assert!(executor.clipped_sum(model.network(), &fine, &rule).is_ok());
        assert!(executor.clipped_sum(model.network(), &fine, &ClipRule::flat(0.0)).is_err());
    }
    assert!(Batch::new(vec![0.0; 5], &[3], vec![0, 0]).is_err());
    assert!(Batch::of(mnist_like().train(), &[10]).is_err());
}

/// Milliseconds of some clipped sums, sorted.
fn times(taps: Taps, network: &Network, batch: &Batch) -> Vec<f64> {
    let times = (0..6).map(|_| {
        let start = std::time::Instant::now();
        taps.clipped_sum(network, batch, &ClipRule::flat(0.1)).unwrap();
        start.elapsed().as_secs_f64() * 1e3
    });
    let mut times: Vec<f64> = times.collect();
    times.sort_by(f64::total_cmp);
    times
}

/// Not a test of correctness: prints how long a clipped sum takes here.
#[test]
#[ignore = "measures time; run alone on an idle machine"]
fn how_long_a_clipped_sum_takes() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let batch = random_batch(&mut rng, 2048, &[1, 28, 28], 10);
    for activation in [epsilab::nn::Activation::Tanh, epsilab::nn::Activation::Relu] {
        let model = models::papernot_cnn(&mnist_like()).activation(activation).seed(1).build();
        let model = model.unwrap();
        for chunk in [32, 64, 128, 256] {
            let times = times(Taps::default().with_chunk(chunk), model.network(), &batch);
            println!("{activation:?}, 2048 examples, chunks of {chunk}: {times:.0?} ms");
        }
    }
}

/// The same for larger networks.
#[test]
#[ignore = "measures time; run alone on an idle machine"]
fn how_long_larger_networks_take() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let images = data::from_vecs(vec![0.0; 10 * 3072], &[3, 32, 32], (0..10).collect(), 10);
    let images = images.unwrap();
    let batch = random_batch(&mut rng, 32, &[3, 32, 32], 10);
    for model in [
        models::simple_vgg(&images, &[32, 64, 128], 2).seed(1).build(),
        models::wide_resnet(&images, 16, 4).seed(1).build(),
    ] {
        let model = model.unwrap();
        let times = times(Taps::default(), model.network(), &batch);
        println!("{}, 32 images: {times:.0?} ms", model.name());
    }
    let tokens = |n: usize, rng: &mut ChaCha8Rng| -> Vec<f32> {
        (0..n * 128).map(|_| (rng.next_u32() % 10_000) as f32).collect()
    };
    let labels = |n: u32| (0..n).map(|i| i % 2).collect();
    let texts = data::from_vecs(tokens(4, &mut rng), &[128], labels(4), 2).unwrap();
    let model = models::bilstm(&texts, 10_000, 64, 64).seed(1).build().unwrap();
    let batch = Batch::new(tokens(64, &mut rng), &[128], labels(64)).unwrap();
    let times = times(Taps::default(), model.network(), &batch);
    println!("bilstm, 64 texts of 128 tokens: {times:.0?} ms");
}
