//! The fast executor against the oracle, and both against reference values from PyTorch.

use std::path::PathBuf;

use epsilab::data::{self, Dataset};
use epsilab::engine::{Batch, ClipRule, ClippedSum, Gradients, Oracle, PerExample, Taps};
use epsilab::nn::{
    AvgPool2dSpec, Conv2dSpec, LayerSpec, LinearSpec, MaxPool2dSpec, Network, models,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

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

/// A small network of a random kind that takes examples of a random shape.
fn random_network(rng: &mut ChaCha8Rng) -> (Network, Vec<usize>) {
    let mut below = |n: u32| (rng.next_u32() % n) as usize;
    let images = below(4) > 0;
    let shape =
        if images { vec![1 + below(3), 6 + below(5), 5 + below(6)] } else { vec![1 + below(9)] };
    let (mut specs, mut now) = (Vec::new(), shape.clone());
    let mut push = |spec: LayerSpec, now: &mut Vec<usize>| {
        // Random sizes that do not fit are left out.
        if let Ok(next) = spec.output_shape(now) {
            *now = next;
            specs.push(spec);
        }
    };
    let activation = |relu: bool| if relu { LayerSpec::Relu } else { LayerSpec::Tanh };
    if images {
        for _ in 0..1 + below(2) {
            let conv = Conv2dSpec {
                channels_in: now[0],
                channels_out: 1 + below(5),
                kernel: [1 + below(4), 1 + below(6)],
                stride: [1 + below(2), 1 + below(3)],
                padding: [below(3), below(3)],
                bias: below(2) == 0,
                ..Conv2dSpec::new(1, 1, 1)
            };
            push(LayerSpec::Conv2d(conv), &mut now);
            push(activation(below(2) == 0), &mut now);
            let (kernel, stride) = ([1 + below(2), 1 + below(2)], [1 + below(2), 1]);
            match below(3) {
                0 => push(LayerSpec::MaxPool2d(MaxPool2dSpec { kernel, stride }), &mut now),
                1 => push(LayerSpec::AvgPool2d(AvgPool2dSpec { kernel, stride }), &mut now),
                _ => {}
            }
        }
        let last = if below(3) == 0 { LayerSpec::GlobalAvgPool } else { LayerSpec::Flatten };
        push(last, &mut now);
    }
    for _ in 0..below(3) {
        let (inputs, outputs) = (now[0], 1 + below(9));
        push(LayerSpec::Linear(LinearSpec { inputs, outputs, bias: below(2) == 0 }), &mut now);
        push(activation(below(2) == 0), &mut now);
    }
    let inputs = now[0];
    push(LayerSpec::Linear(LinearSpec { inputs, outputs: 3, bias: true }), &mut now);
    let network = Network::build(&shape, &specs, |_, shape, fan_in| {
        let scale = 3.0 / (fan_in as f32).sqrt();
        (0..shape.iter().product()).map(|_| scale * uniform(rng)).collect()
    });
    (network.unwrap(), shape)
}

#[test]
fn taps_agree_with_the_oracle_on_random_networks() {
    for seed in 0..60 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (network, shape) = random_network(&mut rng);
        let n = 1 + (rng.next_u32() % 9) as usize;
        let batch = random_batch(&mut rng, n, &shape, 3);
        let norms = Oracle.clipped_sum(&network, &batch, &ClipRule::unclipped()).unwrap().norms;
        let rule = ClipRule::flat(median(&norms));
        let slow = Oracle.clipped_sum(&network, &batch, &rule).unwrap();
        let fast = Taps::default().with_chunk(4).clipped_sum(&network, &batch, &rule).unwrap();
        println!("seed {seed}: {:?}", network.specs());
        assert_agree(&fast, &slow, 1e-5);
    }
}

#[test]
fn the_loss_is_summed_and_never_averaged() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let model = models::mlp(&mnist_like(), &[8]).seed(1).build().unwrap();
    let batch = random_batch(&mut rng, 8, &[1, 28, 28], 10);
    let rule = ClipRule::unclipped();
    for executor in [&Taps::default() as &dyn PerExample, &Oracle] {
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
    for executor in [&Taps::default().with_chunk(8) as &dyn PerExample, &Oracle] {
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
    for executor in [&Taps::default() as &dyn PerExample, &Oracle] {
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
    for executor in [&Taps::default() as &dyn PerExample, &Oracle] {
        assert!(executor.clipped_sum(model.network(), &batch(&[784], 0), &rule).is_err());
        assert!(executor.clipped_sum(model.network(), &batch(&[1, 28, 28], 10), &rule).is_err());
        let fine = batch(&[1, 28, 28], 9);
        assert!(executor.clipped_sum(model.network(), &fine, &rule).is_ok());
        assert!(executor.clipped_sum(model.network(), &fine, &ClipRule::flat(0.0)).is_err());
    }
    assert!(Batch::new(vec![0.0; 5], &[3], vec![0, 0]).is_err());
    assert!(Batch::of(mnist_like().train(), &[10]).is_err());
}

// Reference values from PyTorch.

/// A file of the shared folder, or `None` with a word on why.
fn shared(file: &str) -> Option<Value> {
    let root = std::env::var_os("EPSILAB_SHARED")
        .map(PathBuf::from)
        .unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared")));
    let path = root.join(file);
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(serde_json::from_str(&text).expect("the file is JSON")),
        Err(e) => {
            println!("skipped: {} can't be read ({e}); set EPSILAB_SHARED", path.display());
            None
        }
    }
}

fn flat(value: &Value) -> Vec<f32> {
    match value {
        Value::Array(all) => all.iter().flat_map(flat).collect(),
        number => vec![number.as_f64().expect("a number") as f32],
    }
}

/// PyTorch keeps linear weights as `[outputs, inputs]`, Burn as `[inputs, outputs]`.
fn burns_layout(values: Vec<f32>, shape: &[usize]) -> Vec<f32> {
    let &[inputs, outputs] = shape else { return values };
    (0..inputs * outputs).map(|k| values[k % outputs * inputs + k / outputs]).collect()
}

fn linear(inputs: usize, outputs: usize, bias: bool) -> LayerSpec {
    LayerSpec::Linear(LinearSpec { inputs, outputs, bias })
}

fn conv(
    channels: [usize; 2],
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    bias: bool,
) -> LayerSpec {
    let [channels_in, channels_out] = channels;
    let spec = Conv2dSpec::new(channels_in, channels_out, 1);
    LayerSpec::Conv2d(Conv2dSpec { kernel, stride, padding, bias, ..spec })
}

/// The layers of the cases this version has layers for; places in the list are PyTorch's.
fn specs_of(case: &str) -> Option<(Vec<usize>, Vec<LayerSpec>)> {
    use LayerSpec::{Flatten, Relu, Tanh};
    let pool = || LayerSpec::MaxPool2d(MaxPool2dSpec { kernel: [2, 2], stride: [1, 1] });
    Some(match case {
        "linear" => (vec![5], vec![linear(5, 3, true)]),
        "mlp_tanh" => {
            (vec![5], vec![linear(5, 6, true), Tanh, linear(6, 4, true), Tanh, linear(4, 3, true)])
        }
        "conv_stride_pad" => (
            vec![2, 6, 5],
            vec![conv([2, 3], [3, 2], [2, 1], [1, 0], true), Relu, Flatten, linear(36, 3, true)],
        ),
        "conv_valid_pool" => (
            vec![1, 9, 9],
            vec![
                conv([1, 3], [3, 3], [2, 2], [0, 0], false),
                Relu,
                pool(),
                conv([3, 4], [2, 2], [1, 1], [0, 0], false),
                Tanh,
                LayerSpec::AvgPool2d(AvgPool2dSpec { kernel: [2, 2], stride: [2, 2] }),
                Flatten,
                linear(4, 3, false),
            ],
        ),
        _ => return None,
    })
}

#[test]
fn taps_and_oracle_agree_with_pytorch() {
    let Some(goldens) = shared("goldens/per_example_grads.json") else { return };
    let mut seen = 0;
    for case in goldens["cases"].as_array().expect("a list of cases") {
        let name = case["name"].as_str().expect("a name");
        let Some((shape, specs)) = specs_of(name) else { continue };
        seen += 1;
        let network = Network::build(&shape, &specs, |path, shape, _| {
            burns_layout(flat(&case["params"][path]), shape)
        });
        let network = network.unwrap();
        assert_eq!(network.paths().len(), case["params"].as_object().unwrap().len());
        let labels: Vec<u32> = flat(&case["y"]).iter().map(|&y| y as u32).collect();
        let n = labels.len();
        let batch = Batch::new(flat(&case["x"]), &shape, labels).unwrap();
        let rule = ClipRule::flat(case["C"].as_f64().unwrap());
        for executor in [&Taps::default().with_chunk(3) as &dyn PerExample, &Oracle] {
            let got = executor.clipped_sum(&network, &batch, &rule).unwrap();
            assert!(distance(&got.losses, &flat(&case["loss"])) < 1e-4, "{name}: losses");
            assert!(distance(&got.norms, &flat(&case["norms"])) < 1e-4, "{name}: norms");
            for entry in &got.sum.entries {
                let want = burns_layout(flat(&case["clipped_sum"][&entry.path]), &entry.shape);
                let off = distance(&entry.values, &want);
                assert!(off < 1e-4, "{name}: clipped sum of {} is off by {off:.1e}", entry.path);
            }
            for i in 0..n {
                let one = Batch::new(batch.features(i).to_vec(), &shape, vec![batch.label(i)]);
                let rule = ClipRule::unclipped();
                let got = executor.clipped_sum(&network, &one.unwrap(), &rule).unwrap();
                for entry in &got.sum.entries {
                    let want = flat(&case["grads"][&entry.path][i]);
                    let off = distance(&entry.values, &burns_layout(want, &entry.shape));
                    assert!(
                        off < 1e-4,
                        "{name}: gradient {i} of {} is off by {off:.1e}",
                        entry.path
                    );
                    let norm = flat(&case["param_norms"][&entry.path])[i];
                    let own = entry.values.iter().map(|v| v * v).sum::<f32>().sqrt();
                    assert!((own - norm).abs() < 1e-4 * norm, "{name}: norm {i} of {}", entry.path);
                }
            }
        }
    }
    assert_eq!(seen, 4);
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
            let taps = Taps::default().with_chunk(chunk);
            let times = (0..6).map(|_| {
                let start = std::time::Instant::now();
                taps.clipped_sum(model.network(), &batch, &ClipRule::flat(0.1)).unwrap();
                start.elapsed().as_secs_f64() * 1e3
            });
            let mut times: Vec<f64> = times.collect();
            times.sort_by(f64::total_cmp);
            println!("{activation:?}, 2048 examples, chunks of {chunk}: {times:.0?} ms");
        }
    }
}
