//! Optimizers, learning-rate schedules and averages, through the public interface.

mod adam_bc;
mod goldens;
mod run;
mod state;
mod text;

use epsilab::burn::prelude::Device;
use epsilab::device::DeviceArray;
use epsilab::engine::{CoordinateWeights, Gradients};
use epsilab::nn::{LayerSpec, LinearSpec, Network};
use epsilab::optim::{OptimizerState, StepSettings};

/// Tensors of 3x2, 2, 2x2 and 2 parameters, with the values that `goldens.py` starts from.
pub fn network() -> Network {
    let linear = |inputs, outputs| LayerSpec::Linear(LinearSpec::new(inputs, outputs));
    let mut tensors = 0..;
    Network::build(&[3], &[linear(3, 2), LayerSpec::Tanh, linear(2, 2)], |_, shape, _| {
        let t = f64::from(tensors.next().expect("endless"));
        let count = shape.iter().product();
        (0..count).map(|i: usize| (1.3 * i as f64 + t).cos() as f32).collect()
    })
    .expect("layers that fit together")
}

/// The gradients of `goldens.py`.
pub fn gradients(step: u64) -> Gradients {
    let mut gradients = Gradients::zeros_like(&network());
    for (t, entry) in gradients.entries.iter_mut().enumerate() {
        for (i, value) in entry.values.iter_mut().enumerate() {
            let i = i as f64 + 1.0;
            *value = (i * (i * (t as f64 + 2.0) * (step as f64 + 0.5)).sin()) as f32;
        }
    }
    gradients
}

/// The same values on a device: Burn's CPU backend, which stands for a GPU.
pub fn on_device(gradients: &Gradients) -> Gradients {
    let mut moved = gradients.clone();
    for entry in &mut moved.entries {
        entry.values = DeviceArray::from_tensor(entry.values.to_tensor(&Device::flex()));
    }
    moved
}

/// The coordinates at which `keep` holds.
pub fn weights(keep: impl Fn(usize) -> bool) -> CoordinateWeights {
    let mut flags = Gradients::zeros_like(&network());
    let values = flags.entries.iter_mut().flat_map(|entry| &mut entry.values);
    values.enumerate().for_each(|(i, flag)| *flag = f32::from(keep(i)));
    CoordinateWeights::new(&network(), flags).expect("zeros and ones")
}

pub fn parameters(network: &Network) -> Vec<f32> {
    network.values().into_iter().flat_map(|(_, values)| values).collect()
}

pub fn bits(network: &Network) -> Vec<u32> {
    parameters(network).into_iter().map(f32::to_bits).collect()
}

/// Where a step is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Path {
    Host,
    Device,
    /// On the host, with every coordinate selected.
    Selected,
}

impl Path {
    pub const ALL: [Self; 3] = [Self::Host, Self::Device, Self::Selected];

    /// One step along the gradients of this step.
    pub fn step(
        self,
        optimizer: &mut OptimizerState,
        network: &Network,
        number: u64,
        step: StepSettings<'_>,
    ) -> Network {
        let gradients = gradients(number);
        let all = weights(|_| true);
        let result = match self {
            Self::Host => optimizer.step(network, &gradients, &step),
            Self::Device => {
                let moved = on_device(&gradients);
                let result = optimizer.step(network, &moved, &step);
                let unread = |array: &DeviceArray| format!("{array:?}").ends_with("on a device");
                assert!(moved.entries.iter().all(|e| unread(&e.values)), "copied to the host");
                result
            }
            Self::Selected => {
                let step = StepSettings { noise_mask: Some(&all), update_mask: Some(&all), ..step };
                optimizer.step(network, &gradients, &step)
            }
        };
        result.expect("a step that fits")
    }
}
