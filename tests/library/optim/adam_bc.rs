//! DP-AdamBC against its definition in f64.

use epsilab::optim::{AdamParams, Optimizer, StepSettings};

use super::{Path, gradients, network, parameters, weights};

const MOMENTS: AdamParams = AdamParams { beta1: 0.9, beta2: 0.99, epsilon: 0.05 };
const RATE: f64 = 0.01;
/// Standard deviations of the noise, per tensor.
const STD: [f64; 4] = [0.5, 1.0, 2.0, 0.1];

/// Noise that becomes smaller, as with a noise schedule.
fn std(number: u64) -> [f64; 4] {
    STD.map(|std| std * 0.97f64.powi(number as i32))
}

/// The parameter at `index` after `steps` steps, from sums over all earlier gradients. `noise` says
/// whether a coordinate has noise.
fn defined(index: usize, steps: u64, noise: impl Fn(usize) -> bool) -> f64 {
    let sizes = [6, 2, 4, 2];
    let tensor = (0..4).find(|&t| index < sizes[..=t].iter().sum()).unwrap();
    let gradient = |number: u64| {
        let all: Vec<f32> =
            gradients(number).entries.iter().flat_map(|e| e.values.to_vec()).collect();
        f64::from(all[index])
    };
    let average = |beta: f64, step: u64, value: &dyn Fn(u64) -> f64| {
        let weight = |past: u64| (1.0 - beta) * beta.powi((step - past) as i32);
        let sum: f64 = (0..=step).map(|past| weight(past) * value(past)).sum();
        sum / (1.0 - beta.powi(step as i32 + 1))
    };
    let phi = |number: u64| if noise(index) { std(number)[tensor].powi(2) } else { 0.0 };
    let mut parameter = f64::from(parameters(&network())[index]);
    for step in 0..steps {
        let mean = average(MOMENTS.beta1, step, &gradient);
        let second = average(MOMENTS.beta2, step, &|past| gradient(past).powi(2));
        let noise = average(MOMENTS.beta2, step, &phi);
        let spread = (second - noise).max(MOMENTS.epsilon.powi(2)).sqrt();
        parameter -= RATE * mean / spread;
    }
    parameter
}

/// The largest difference between 30 steps and the definition.
fn difference(
    path: Path,
    optimizer: Optimizer,
    scale: f64,
    selected: impl Fn(usize) -> bool,
    noise: impl Fn(usize) -> bool,
) -> f64 {
    let flags = weights(&selected);
    let (mut optimizer, mut network) = (optimizer.init(), network());
    for number in 0..30 {
        let std = std(number).map(|std| std * scale);
        let step = StepSettings { noise_std: Some(&std), ..StepSettings::new(RATE) };
        let step = match path {
            // This path selects all coordinates.
            Path::Selected => step,
            _ => StepSettings { noise_mask: Some(&flags), ..step },
        };
        network = path.step(&mut optimizer, &network, number, step);
    }
    let ours = parameters(&network);
    let far = (0..ours.len()).map(|i| (f64::from(ours[i]) - defined(i, 30, &noise)).abs());
    far.fold(0.0, f64::max)
}

#[test]
fn dp_adam_bc_takes_the_variance_of_the_noise_out_of_the_second_moment() {
    let ours = Optimizer::DpAdamBc(MOMENTS);
    let all = |_| true;
    let even = |i| i % 2 == 0;
    for path in Path::ALL {
        let far = difference(path, ours, 1.0, all, all);
        assert!(far < 1e-5, "{path:?}: {far}");
        // Coordinates without noise keep their whole second moment.
        if path != Path::Selected {
            let far = difference(path, ours, 1.0, even, even);
            assert!(far < 1e-5, "{path:?}: {far}");
            assert!(difference(path, ours, 1.0, all, even) > 1e-3, "noise where there is none");
        }
        // Wrong: no noise, 10 % less noise, Adam.
        assert!(difference(path, ours, 0.0, all, all) > 1e-3);
        assert!(difference(path, ours, 0.9, all, all) > 1e-4);
        assert!(difference(path, Optimizer::Adam(MOMENTS), 1.0, all, all) > 1e-3);
    }
}

#[test]
fn where_noise_exceeds_the_second_moment_a_step_has_the_length_that_epsilon_allows() {
    // With noise far above the gradients, the root is epsilon: a step of rate * mean / epsilon.
    let mut optimizer = Optimizer::DpAdamBc(MOMENTS).init();
    let step = StepSettings { noise_std: Some(&[1e3; 4]), ..StepSettings::new(RATE) };
    let before = parameters(&network());
    let after = parameters(&optimizer.step(&network(), &gradients(0), &step).unwrap());
    let gradient: Vec<f32> = gradients(0).entries.iter().flat_map(|e| e.values.to_vec()).collect();
    for ((before, after), gradient) in before.iter().zip(after).zip(gradient) {
        let expected = f64::from(*before) - RATE * f64::from(gradient) / MOMENTS.epsilon;
        assert!((f64::from(after) - expected).abs() < 1e-5 * expected.abs().max(1.0));
    }
}
