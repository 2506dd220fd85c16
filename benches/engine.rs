//! How long the parts of a private step take: layers forward, clipped sums, noise.
//!
//! `cargo bench-engine`, or one of them: `cargo bench-engine noise`. Threads are set by
//! RAYON_NUM_THREADS. Whole steps are measured by `cargo lab bench`.

use criterion::{Criterion, criterion_group, criterion_main};
use epsilab::engine::{GaussianNoise, Gradients};
use epsilab::nn::{LayerSpec, LinearSpec, Network};
use std::hint::black_box;
use std::time::Duration;

/// As many as WideResNet-16-4 has parameters.
const VALUES: usize = 2_700_000;

fn zeros(values: usize) -> Gradients {
    let spec = LinearSpec { inputs: values / 100, outputs: 100, bias: false };
    let network = Network::build(&[values / 100], &[LayerSpec::Linear(spec)], |_, shape, _| {
        vec![0.0; shape.iter().product()]
    });
    Gradients::zeros_like(&network.expect("one linear layer"))
}

fn noise(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("noise");
    group.sample_size(20).warm_up_time(Duration::from_millis(500));
    group.measurement_time(Duration::from_secs(3));
    for threads in [1, 2] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.expect("threads");
        let mut gradients = zeros(VALUES);
        let mut noise = GaussianNoise::new([7; 32]);
        group.bench_function(format!("2.7M_values_{threads}_threads"), |bencher| {
            bencher.iter(|| pool.install(|| noise.add_to(black_box(&mut gradients), 1.0)));
        });
    }
    group.finish();
}

criterion_group!(benches, noise);
criterion_main!(benches);
