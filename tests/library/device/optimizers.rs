//! Optimizers and averages on a device.

use epsilab::burn::module::Module;
use epsilab::burn::prelude::Device;
use epsilab::device::DeviceArray;
use epsilab::engine::{CoordinateWeights, Gradients};
use epsilab::nn::{LayerSpec, LinearSpec, Network};
use epsilab::optim::{Average, AverageState, Optimizer, StepSettings};

const OPTIMIZERS: [Optimizer; 6] = [
    Optimizer::Sgd { momentum: 0.0 },
    Optimizer::Sgd { momentum: 0.9 },
    Optimizer::Nesterov { momentum: 0.9 },
    Optimizer::adam(),
    Optimizer::adamw(),
    Optimizer::dp_adam_bc(),
];

fn network() -> Network {
    let linear = |inputs, outputs| LayerSpec::Linear(LinearSpec::new(inputs, outputs));
    let value = |i: usize| ((i * 37 % 1009) as f32 - 504.0) / 504.0;
    Network::build(&[41], &[linear(41, 15), LayerSpec::Tanh, linear(15, 2)], |_, shape, _| {
        (0..shape.iter().product()).map(value).collect()
    })
    .unwrap()
}

/// Values that differ from step to step, on the host.
fn values(number: usize, value: impl Fn(f32) -> f32) -> Gradients {
    let mut values = Gradients::zeros_like(&network());
    for (t, entry) in values.entries.iter_mut().enumerate() {
        for (i, v) in entry.values.iter_mut().enumerate() {
            *v = value((i + 1) as f32 * (t + 2) as f32 * (number as f32 + 0.5));
        }
    }
    values
}

fn to_device(mut gradients: Gradients, device: &Device) -> Gradients {
    for entry in &mut gradients.entries {
        entry.values = DeviceArray::from_tensor(entry.values.to_tensor(device));
    }
    gradients
}

fn parameters(network: &Network) -> Vec<f32> {
    network.values().into_iter().flat_map(|(_, values)| values).collect()
}

fn max_difference(a: &Network, b: &Network) -> f32 {
    let pairs = parameters(a).into_iter().zip(parameters(b));
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

pub fn optimizers_and_averages_equal_those_of_the_host(device: &Device) {
    let noise_std = [0.05; 4];
    for optimizer in OPTIMIZERS {
        for drop in [false, true] {
            let mut states = [(); 2].map(|()| optimizer.init().with_weight_decay(0.01));
            let mut networks = [network(), network().to_device(device)];
            let averages = [Average::ema(), Average::Uniform, Average::Last { steps: 3 }];
            let start = |network: &Network| {
                averages.map(|average| AverageState::new(average, network).unwrap())
            };
            let mut means = [start(&networks[0]), start(&networks[1])];
            for number in 0..10 {
                let kept = values(number, |x| f32::from(x.cos() > 0.0));
                let selected = drop.then(|| CoordinateWeights::new(&network(), kept).unwrap());
                let mut gradient = values(number, f32::sin);
                for (k, entry) in gradient.entries.iter_mut().enumerate() {
                    let Some(selected) = &selected else { continue };
                    let flags = &selected.entries()[k].values;
                    entry.values.iter_mut().zip(flags).for_each(|(value, flag)| *value *= flag);
                }
                let on_device = to_device(gradient.clone(), device);
                let step = StepSettings {
                    noise_std: Some(&noise_std),
                    noise_mask: selected.as_ref(),
                    update_mask: selected.as_ref(),
                    ..StepSettings::new(0.02)
                };
                for (k, gradient) in [&gradient, &on_device].into_iter().enumerate() {
                    networks[k] = states[k].step(&networks[k], gradient, &step).unwrap();
                    means[k].iter_mut().for_each(|mean| mean.observe(&networks[k]).unwrap());
                }
                let unread = |array: &DeviceArray| format!("{array:?}").ends_with("on a device");
                assert!(on_device.entries.iter().all(|entry| unread(&entry.values)));
            }
            // What is left of a second moment without its noise has fewer digits.
            let tolerance = if optimizer == Optimizer::dp_adam_bc() { 1e-4 } else { 1e-5 };
            let far = max_difference(&networks[0], &networks[1]);
            assert!(far < tolerance, "{optimizer}, dropping {drop}: {far}");
            assert!(max_difference(&networks[0], &network()) > 0.05);
            for (here, there) in means[0].iter().zip(&means[1]) {
                let (here, there) = (here.network(), there.network());
                assert!(max_difference(&here, &there) < tolerance, "{optimizer}");
                assert!(max_difference(&here, &networks[0]) > 1e-3, "an average is not the last");
            }
        }
    }
}
