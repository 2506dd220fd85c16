//! Optimizer steps from a released gradient, on all coordinates or on selected ones.

use std::collections::HashMap;

use burn::optim::ModuleOptimizer;
use burn::prelude::*;
use rayon::prelude::*;

use crate::engine::{self, Gradients, Weights};
use crate::mask::StateOfDropped;
use crate::methods::{Optimizer, Plan};
use crate::nn::Network;

mod device;

/// Adam's betas and epsilon, as in [`Optimizer::init`].
const BETAS: (f64, f64) = (0.9, 0.999);
const EPSILON: f64 = 1e-8;

/// The optimizer of a run with its state.
pub(crate) enum Update {
    /// Burn's optimizer, for runs that update all coordinates in every step.
    Dense(ModuleOptimizer),
    /// An optimizer of selected coordinates.
    Selected(Selected),
}

impl Update {
    /// The optimizer of a plan, with initial state.
    pub(crate) fn of(plan: &Plan) -> Self {
        match plan.sparsity() {
            None => Self::Dense(plan.optimizer().init()),
            Some(sparsity) => Self::Selected(Selected::new(plan.optimizer(), sparsity.state)),
        }
    }

    /// The network after one step. `trained` are the coordinates that the run's mask keeps,
    /// `selected` those of them that this step updates; `None` means all.
    pub(crate) fn step(
        &mut self,
        learning_rate: f64,
        network: &Network,
        gradient: &Gradients,
        trained: Option<&Weights>,
        selected: Option<&Weights>,
    ) -> Network {
        match self {
            Self::Dense(optimizer) => engine::step(optimizer, learning_rate, network, gradient),
            Self::Selected(update) => {
                update.step(learning_rate, network, gradient, trained, selected)
            }
        }
    }
}

/// SGD and Adam that update selected coordinates only. Burn's optimizers update whole tensors, and
/// momentum of earlier steps would move coordinates that a step must not change.
///
/// # Guarantee
/// Post-processing of the released gradient, which is exactly zero at coordinates that were not
/// selected: no state depends on a gradient without noise. Coordinates that the mask does not keep
/// are never written, bit for bit; nor, in the lazy mode, are those that a step drops. The same
/// holds on a GPU.
pub(crate) struct Selected {
    optimizer: Optimizer,
    state: StateOfDropped,
    tensors: Vec<State>,
    /// State of the tensors on a GPU; empty until a step finds parameters there.
    on_device: Vec<device::State>,
}

/// Optimizer state of one tensor on the host; empty until a step needs it.
#[derive(Clone, Default)]
struct State {
    /// Momentum, or Adam's first moment.
    first: Vec<f32>,
    /// Adam's second moment.
    second: Vec<f32>,
    /// Number of updates of each coordinate, for Adam's bias correction.
    updates: Vec<u32>,
}

impl Selected {
    pub(crate) fn new(optimizer: Optimizer, state: StateOfDropped) -> Self {
        Self { optimizer, state, tensors: Vec::new(), on_device: Vec::new() }
    }

    fn step(
        &mut self,
        learning_rate: f64,
        network: &Network,
        gradient: &Gradients,
        trained: Option<&Weights>,
        selected: Option<&Weights>,
    ) -> Network {
        let touched = match self.state {
            StateOfDropped::Lazy => selected,
            StateOfDropped::Zeros => trained,
        };
        // The state stays on the device of the first step: the gradient of an empty batch may be
        // zeros on the host.
        let away = network.device() != Device::flex()
            || gradient.entries.iter().any(|entry| entry.values.device().is_some());
        if away || !self.on_device.is_empty() {
            return self.step_on_device(learning_rate, network, gradient, touched);
        }
        self.tensors.resize(gradient.entries.len(), State::default());
        let optimizer = self.optimizer;
        let values = network.values();
        let tensors = self.tensors.par_iter_mut().zip(values).zip(&gradient.entries).enumerate();
        let next: HashMap<String, Vec<f32>> = tensors
            .map(|(index, ((state, (parameter, mut values)), gradient))| {
                let touched = touched.map(|weights| &weights.entries()[index].values[..]);
                let touches = |i: usize| touched.is_none_or(|weights| weights[i] != 0.0);
                state.apply(optimizer, learning_rate, &mut values, &gradient.values, touches);
                (parameter.path, values)
            })
            .collect();
        network.with_values(|path| next.get(path).cloned())
    }
}

impl State {
    fn apply(
        &mut self,
        optimizer: Optimizer,
        learning_rate: f64,
        values: &mut [f32],
        gradient: &[f32],
        touches: impl Fn(usize) -> bool,
    ) {
        let coordinates = (0..values.len()).filter(|&i| touches(i));
        match optimizer {
            Optimizer::Sgd { momentum: 0.0 } => {
                for i in coordinates {
                    values[i] -= learning_rate as f32 * gradient[i];
                }
            }
            Optimizer::Sgd { momentum } => {
                self.first.resize(values.len(), 0.0);
                for i in coordinates {
                    self.first[i] = momentum as f32 * self.first[i] + gradient[i];
                    values[i] -= learning_rate as f32 * self.first[i];
                }
            }
            Optimizer::Adam => {
                self.first.resize(values.len(), 0.0);
                self.second.resize(values.len(), 0.0);
                self.updates.resize(values.len(), 0);
                for i in coordinates {
                    self.updates[i] += 1;
                    let g = f64::from(gradient[i]);
                    let first = BETAS.0 * f64::from(self.first[i]) + (1.0 - BETAS.0) * g;
                    let second = BETAS.1 * f64::from(self.second[i]) + (1.0 - BETAS.1) * g * g;
                    (self.first[i], self.second[i]) = (first as f32, second as f32);
                    let correct = |beta: f64| 1.0 - beta.powi(self.updates[i] as i32);
                    let mean = first / correct(BETAS.0);
                    let spread = (second / correct(BETAS.1)).sqrt();
                    values[i] -= (learning_rate * mean / (spread + EPSILON)) as f32;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
