//! Benchmarks of the accountants, on one thread. Every result is checked before it is timed.
//!
//! Run all with `cargo bench-accounting`, or some with `cargo bench-accounting pld/epsilon`.
//! `benches/peers/accounting.py` compares the medians with those of other libraries.

use criterion::{Criterion, SamplingMode, criterion_group, criterion_main};
use epsilab::privacy::{
    Accountant, ClipSchedule, Delta, Epsilon, Event, Gdp, NoiseMultiplier, NoiseSchedule, Pld, Rdp,
    SamplingRate, Stages, TightestAccountant, noise_multiplier_for, noise_multiplier_for_stages,
};
use std::hint::black_box;
use std::time::Duration;

/// 60 epochs of MNIST in batches of 256.
const RATE: f64 = 256.0 / 60_000.0;
const STEPS: u64 = 14_062;
const DELTA: Delta = Delta(1e-5);
const TARGET: Epsilon = Epsilon(3.0);

fn training(noise_multiplier: f64, steps: u64) -> Event {
    Event::PoissonGaussian { sampling_rate: RATE, noise_multiplier, steps }
}

/// 100 epochs, each with 0.99 of the noise variance of the previous one.
fn linear_schedule() -> Vec<Event> {
    let step = |epoch: i32| Event::PoissonGaussian {
        sampling_rate: 64.0 / 60_000.0,
        noise_multiplier: 0.99f64.powi(epoch).sqrt(),
        steps: 938,
    };
    (0..100).map(step).collect()
}

/// A different noise multiplier in every step.
fn ever_changing() -> Vec<Event> {
    (0..20_000).map(|step| training(1.5 - f64::from(step) * 2.5e-5, 1)).collect()
}

/// Noise that falls to one half, in as many stages as steps.
fn stages(initial: f64, steps: u64) -> Stages {
    let (noise, clip) = (NoiseSchedule::decay(0.5), ClipSchedule::constant());
    let (initial, rate) = (NoiseMultiplier(initial), SamplingRate(0.01));
    Stages::from_schedules(&noise, &clip, initial, rate, steps).expect("stages")
}

fn stages_event(initial: f64, steps: u64) -> Vec<Event> {
    vec![stages(initial, steps).event(SamplingRate(0.01), steps)]
}

fn assert_near(value: f64, expected: f64, within: f64) {
    assert!(
        (value - expected).abs() <= within,
        "{value} differs from {expected} by more than {within}"
    );
}

/// Checks the epsilon of `events` and times its computation.
fn epsilon(
    criterion: &mut Criterion,
    name: &str,
    accountant: &dyn Accountant,
    events: impl Fn() -> Vec<Event>,
    check: impl Fn(f64),
) {
    let (group, function) = name.split_once('/').expect("accountant/task");
    let mut group = criterion.benchmark_group(group);
    // Some benchmarks take seconds: the smallest sample size, with one call per sample.
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(2));
    group.bench_function(function, |bencher| {
        let events = events();
        check(accountant.epsilon(&events, DELTA).expect("an epsilon").epsilon);
        bencher.iter(|| accountant.epsilon(black_box(&events), DELTA));
    });
    group.finish();
}

fn one_run(criterion: &mut Criterion) {
    let run = || vec![training(1.1, STEPS)];
    epsilon(criterion, "pld/epsilon", &Pld::default(), run, |e| assert_near(e, 2.3816, 1e-3));
    epsilon(criterion, "rdp/epsilon", &Rdp::default(), run, |e| assert_near(e, 2.5966, 1e-3));
    // With so little privacy loss the best order is one of the largest.
    let tiny = Event::PoissonGaussian { sampling_rate: 1e-6, noise_multiplier: 100.0, steps: 1000 };
    let tiny = move || vec![tiny.clone()];
    epsilon(criterion, "rdp/epsilon_of_little_loss", &Rdp::default(), tiny, |e| {
        assert_near(e, 0.0, 1e-9)
    });
    let unsampled = || vec![Event::Gaussian { noise_multiplier: 1.0, count: 1 }];
    epsilon(criterion, "gdp/epsilon", &Gdp::default(), unsampled, |e| {
        assert_near(e, 4.377_178, 1e-6)
    });
}

fn changing_noise(criterion: &mut Criterion) {
    let (pld, rdp) = (Pld::default(), Rdp::default());
    epsilon(criterion, "pld/100_epochs", &pld, linear_schedule, |e| assert_near(e, 3.4543, 5e-3));
    epsilon(criterion, "rdp/100_epochs", &rdp, linear_schedule, |e| assert_near(e, 4.1201, 1e-3));
    // Between the epsilons for the largest and the smallest noise multiplier throughout.
    let between = |e: f64| assert!((1.7..3.9).contains(&e), "{e}");
    epsilon(criterion, "pld/20000_multipliers", &pld, ever_changing, between);
    epsilon(criterion, "rdp/20000_multipliers", &rdp, ever_changing, between);
}

fn schedules(criterion: &mut Criterion) {
    let tightest = TightestAccountant::default();
    let (thousand, ten_thousand) = (|| stages_event(1.2, 1000), || stages_event(1.6, 10_000));
    epsilon(criterion, "headline/1000_stages", &tightest, thousand, |e| {
        assert_near(e, 4.2236, 4e-3)
    });
    epsilon(criterion, "headline/10000_stages", &tightest, ten_thousand, |e| {
        assert_near(e, 5.72, 6e-3)
    });
    let mut group = criterion.benchmark_group("headline");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    for steps in [1000, 10_000] {
        let (relative, rate) = (stages(1.0, steps), SamplingRate(0.01));
        group.bench_function(format!("sigma_of_{steps}_stages"), |bencher| {
            let find =
                || noise_multiplier_for_stages(&[], &relative, TARGET, DELTA, rate, &tightest);
            let found = find().expect("a noise multiplier");
            assert!(found.epsilon <= TARGET.0 && found.epsilon > 0.999 * TARGET.0, "{found}");
            bencher.iter(|| find().is_ok());
        });
    }
    let constant = Stages::constant(NoiseMultiplier(1.1), STEPS).expect("stages");
    for (name, stages, rate) in
        [("along_a_run", constant, RATE), ("along_1000_stages", stages(1.2, 1000), 0.01)]
    {
        let at: Vec<u64> = (1..=60).map(|i| i * stages.steps() / 60).collect();
        group.bench_function(format!("60_epsilons_{name}"), |bencher| {
            let find =
                || tightest.epsilons_after(&[], black_box(&stages), SamplingRate(rate), &at, DELTA);
            let found = find().expect("a curve");
            assert!(found.windows(2).all(|pair| pair[0].epsilon <= pair[1].epsilon));
            bencher.iter(find);
        });
    }
    group.finish();
}

fn calibration(criterion: &mut Criterion) {
    let accountants: [&dyn Accountant; 2] = [&TightestAccountant::default(), &Rdp::default()];
    for accountant in accountants {
        let find = || noise_multiplier_for(TARGET, DELTA, SamplingRate(RATE), STEPS, accountant);
        let mut group = criterion.benchmark_group(accountant.name());
        group.sample_size(10).sampling_mode(SamplingMode::Flat);
        group.bench_function("sigma", |bencher| {
            let found = find().expect("a noise multiplier");
            let less = training(found.noise_multiplier.0 * (1.0 - 1e-3), STEPS);
            let beyond = accountant.epsilon(&[less], DELTA).expect("an epsilon").epsilon;
            assert!(found.epsilon <= TARGET.0 && beyond > TARGET.0, "{found}, then {beyond}");
            bencher.iter(|| find().is_ok());
        });
        group.finish();
    }
}

fn curve(criterion: &mut Criterion) {
    let deltas: Vec<Delta> =
        (0..33).map(|i| Delta(10f64.powf(-2.0 - f64::from(i) / 4.0))).collect();
    let mut group = criterion.benchmark_group("pld");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.bench_function("curve_of_33", |bencher| {
        let events = [training(1.1, STEPS)];
        let find = || Pld::default().epsilons_at(black_box(&events), &deltas);
        let found = find().expect("a curve");
        assert!(found.windows(2).all(|pair| pair[0].epsilon < pair[1].epsilon));
        assert_near(found[12].epsilon, 2.3816, 2e-3);
        bencher.iter(find);
    });
    group.finish();
}

criterion_group!(benches, one_run, changing_noise, schedules, calibration, curve);
criterion_main!(benches);
