//! Benchmarks of the parts of a private step: forward passes, clipped sums, noise and updates.
//!
//! Run all with `cargo bench-engine`, or some with `cargo bench-engine noise`. RAYON_NUM_THREADS
//! sets the number of threads of layers and sums. `cargo lab bench` measures whole steps.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use epsilab::Result;
use epsilab::burn::optim::{AdamConfig, SgdConfig, momentum::MomentumConfig};
use epsilab::burn::prelude::Device;
use epsilab::data::{self, Dataset};
use epsilab::engine::{self, Batch, ClipRule, Executor, GaussianNoise, Gradients, TapExecutor};
use epsilab::nn::{
    Activation, BatchTensor, Conv2dSpec, LayerSpec, LinearSpec, MaxPool2dSpec, Model, Network,
    NoTape, models,
};
use epsilab::optim::{Optimizer, StepSettings};

const EXAMPLES: usize = 32;
const CLASSES: usize = 10;
/// Number of parameters of WideResNet-16-4.
const VALUES: usize = 2_700_000;

/// Values around zero without a pattern.
fn values(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 + 3) % 1009) as f32 / 500.0 - 1.0).collect()
}

fn linear(inputs: usize, outputs: usize) -> LayerSpec {
    LayerSpec::Linear(LinearSpec { inputs, outputs, bias: true })
}

fn conv(channels_in: usize, channels_out: usize, kernel: usize, stride: usize) -> LayerSpec {
    let spec = Conv2dSpec::new(channels_in, channels_out, kernel);
    LayerSpec::Conv2d(Conv2dSpec { stride: [stride; 2], ..spec })
}

fn max_pool(kernel: usize, stride: usize) -> LayerSpec {
    LayerSpec::MaxPool2d(MaxPool2dSpec { kernel: [kernel; 2], stride: [stride; 2] })
}

/// A network of these layers, with parameters small enough for finite sums.
fn network(shape: &[usize], layers: &[LayerSpec]) -> Network {
    let fill = |_: &str, shape: &[usize], fan_in: usize| {
        let scale = 1.0 / (fan_in as f32).sqrt();
        values(shape.iter().product()).into_iter().map(|v| scale * v).collect()
    };
    Network::build(shape, layers, fill).expect("layers that fit together")
}

/// Benchmarks by name, input shape and layers. The layers at the end, which make any layer a
/// classifier, cost next to nothing.
fn layers() -> Vec<(&'static str, Vec<usize>, Vec<LayerSpec>)> {
    let end = |channels| [LayerSpec::GlobalAvgPool, linear(channels, CLASSES)];
    let image = |name, shape: [usize; 3], layer, channels| {
        (name, shape.to_vec(), [&[layer][..], &end(channels)].concat())
    };
    vec![
        image("conv_8x8_stride_2_1_to_16", [1, 28, 28], conv(1, 16, 8, 2), 16),
        image("conv_3x3_32_to_32_at_32x32", [32, 32, 32], conv(32, 32, 3, 1), 32),
        image("conv_3x3_64_to_64_at_16x16", [64, 16, 16], conv(64, 64, 3, 1), 64),
        image("conv_3x3_128_to_128_at_8x8", [128, 8, 8], conv(128, 128, 3, 1), 128),
        image("max_pool_2x2_stride_1", [16, 14, 14], max_pool(2, 1), 16),
        image("max_pool_2x2_stride_2", [32, 32, 32], max_pool(2, 2), 32),
        image("tanh_32x32x32", [32, 32, 32], LayerSpec::Tanh, 32),
        ("linear_2048_to_128", vec![2048], vec![linear(2048, 128), linear(128, CLASSES)]),
    ]
}

fn forward(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("forward_of_32");
    group.sample_size(20).warm_up_time(Duration::from_millis(300));
    group.measurement_time(Duration::from_secs(1));
    for (name, shape, layers) in layers() {
        let network = network(&shape, &layers);
        let features = values(EXAMPLES * shape.iter().product::<usize>());
        let x = BatchTensor::new(features, EXAMPLES, &shape, &Device::flex());
        assert_eq!(network.forward(x.clone(), &mut NoTape).dims(), [EXAMPLES, CLASSES]);
        group.bench_function(name, |bencher| {
            bencher.iter(|| network.forward(black_box(&x).clone(), &mut NoTape));
        });
    }
    group.finish();
}

/// Forward pass, backward pass with respect to activations, norms, and weighted sum.
fn clipped_sum(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("clipped_sum_of_32");
    group.sample_size(20).warm_up_time(Duration::from_millis(300));
    group.measurement_time(Duration::from_secs(1));
    // One chunk per thread.
    let executor =
        TapExecutor::default().with_chunk_size(EXAMPLES.div_ceil(rayon::current_num_threads()));
    for (name, shape, layers) in layers() {
        let network = network(&shape, &layers);
        let features = values(EXAMPLES * shape.iter().product::<usize>());
        let labels = (0..EXAMPLES).map(|i| (i % CLASSES) as u32).collect();
        let batch = Batch::new(features, &shape, labels).expect("a batch");
        let rule = ClipRule::flat(1.0);
        let sum = || executor.clipped_sum(&network, black_box(&batch), &rule).expect("a sum");
        let checked = sum();
        assert!(checked.excluded_count() == 0 && checked.sum.l2_norm() <= EXAMPLES as f64);
        group.bench_function(name, |bencher| bencher.iter(sum));
    }
    group.finish();
}

/// A model and a batch for it.
type Case = (Model, Batch);

/// Images of this shape in ten classes.
fn images(count: usize, shape: &[usize]) -> Dataset {
    let labels = (0..count).map(|i| (i % CLASSES) as u32).collect();
    let features = values(count * shape.iter().product::<usize>());
    data::from_vecs(features, shape, labels, CLASSES).expect("images")
}

/// The model that `build` makes for the data, and all of the data as a batch.
fn case(data: &Dataset, build: impl Fn(&Dataset) -> Result<Model>) -> Case {
    let all: Vec<u32> = (0..data.train().len() as u32).collect();
    (build(data).expect("a model"), Batch::from_examples(data.train(), &all).expect("a batch"))
}

/// Times the sum of clipped gradients of a whole model.
fn sum_of_model(criterion: &mut Criterion, name: &str, executor: TapExecutor, case: &Case) {
    let mut group = criterion.benchmark_group("clipped_sum_of_models");
    group.sample_size(10).warm_up_time(Duration::from_millis(300));
    let (model, batch) = case;
    let rule = ClipRule::flat(0.1);
    let sum = || executor.clipped_sum(model.network(), black_box(batch), &rule).expect("a sum");
    let checked = sum();
    assert!(checked.excluded_count() == 0 && checked.sum.l2_norm() <= 0.11 * batch.len() as f64);
    group.bench_function(name, |bencher| bencher.iter(sum));
    group.finish();
}

fn sums_of_models(criterion: &mut Criterion) {
    let digits = images(2048, &[1, 28, 28]);
    for activation in [Activation::Tanh, Activation::Relu] {
        let cnn =
            |data: &Dataset| models::papernot_cnn(data).activation(activation).seed(1).build();
        let case = case(&digits, cnn);
        for chunk in [32, 64, 128, 256] {
            let name = format!("2048_papernot_cnn_{activation:?}_in_chunks_of_{chunk}");
            sum_of_model(criterion, &name, TapExecutor::default().with_chunk_size(chunk), &case);
        }
    }
    let photos = images(EXAMPLES, &[3, 32, 32]);
    let vgg = case(&photos, |data| models::simple_vgg(data, &[32, 64, 128], 2).seed(1).build());
    sum_of_model(criterion, "32_simple_vgg", TapExecutor::default(), &vgg);
    let resnet = case(&photos, |data| models::wide_resnet(data, 16, 4).seed(1).build());
    sum_of_model(criterion, "32_wide_resnet_16_4", TapExecutor::default(), &resnet);
    let tokens = (0..64 * 128).map(|i| ((i * 7919 + 3) % 10_000) as f32).collect();
    let labels = (0..64).map(|i| i % 2).collect();
    let texts = data::from_vecs(tokens, &[128], labels, 2).expect("texts");
    let lstm = case(&texts, |data| models::bilstm(data, 10_000, 64, 64).seed(1).build());
    sum_of_model(criterion, "64_bilstm_of_128_tokens", TapExecutor::default(), &lstm);
}

fn noise(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("noise");
    group.sample_size(20).warm_up_time(Duration::from_millis(500));
    group.measurement_time(Duration::from_secs(3));
    let network = network(&[VALUES / 100], &[linear(VALUES / 100, 100)]);
    for (name, threads) in [("2.7M_values", 1), ("2.7M_values", 2), ("2.7M_values_secure", 1)] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        let mut gradients = Gradients::zeros_like(&network);
        let noise = GaussianNoise::new([7; 32]);
        let mut noise = if name.ends_with("secure") { noise.secure() } else { noise };
        pool.install(|| noise.add_to(&mut gradients, 1.0)).expect("noise");
        let variance = gradients.l2_norm().powi(2) / gradients.len() as f64;
        assert!((variance - 1.0).abs() < 0.01, "{variance}");
        group.bench_function(format!("{name}_{threads}_threads"), |bencher| {
            bencher.iter(|| pool.install(|| noise.add_to(black_box(&mut gradients), 1.0)));
        });
    }
    group.finish();
}

/// One update of all parameters, by our optimizers and by Burn's.
fn update(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("update_of_2.7M");
    group.sample_size(20).warm_up_time(Duration::from_millis(500));
    group.measurement_time(Duration::from_secs(2));
    let start = network(&[VALUES / 100], &[linear(VALUES / 100, 100)]);
    let mut gradient = Gradients::zeros_like(&start);
    gradient.entries[0].values = values(gradient.entries[0].values.len()).into();
    let momentum = MomentumConfig::new().with_dampening(0.0);
    let cases = [
        ("momentum", Optimizer::default(), SgdConfig::new().with_momentum(Some(momentum)).init()),
        ("adam", Optimizer::adam(), AdamConfig::new().with_epsilon(1e-8).init()),
    ];
    for (name, optimizer, mut burns) in cases {
        let (mut ours, mut network) = (optimizer.init(), start.clone());
        let step = StepSettings::new(1e-6);
        group.bench_function(name, |bencher| {
            bencher.iter(|| network = ours.step(&network, &gradient, &step).expect("a step"));
        });
        let mut network = start.clone();
        group.bench_function(format!("{name}_of_burn"), |bencher| {
            bencher
                .iter(|| network = engine::optimizer_step(&mut burns, 1e-6, &network, &gradient));
        });
    }
    group.finish();
}

criterion_group!(benches, forward, clipped_sum, sums_of_models, noise, update);
criterion_main!(benches);
