//! From a released gradient to the next parameters, on all coordinates or on selected ones.

use std::collections::HashMap;

use burn::optim::ModuleOptimizer;
use burn::prelude::*;
use rayon::prelude::*;

use crate::engine::{self, Gradients, Weights};
use crate::mask::StateOfDropped;
use crate::methods::{Optimizer, Plan};
use crate::nn::Network;

mod device;

/// Adam's averages and guard, those of [`Optimizer::init`].
const BETAS: (f64, f64) = (0.9, 0.999);
const EPSILON: f64 = 1e-8;

/// The update rule of a run with its state.
pub(crate) enum Update {
    /// Every coordinate in every step: Burn's optimizer.
    Dense(ModuleOptimizer),
    /// Some coordinates in some steps.
    Selected(Selected),
}

impl Update {
    /// For a plan, with fresh state.
    pub(crate) fn of(plan: &Plan) -> Self {
        match plan.sparsity() {
            None => Self::Dense(plan.optimizer().init()),
            Some(sparsity) => Self::Selected(Selected::new(plan.optimizer(), sparsity.state)),
        }
    }

    /// The network after one step. `trained` are the coordinates that the run's mask keeps,
    /// `selected` those of them that this step is about (all, where nothing is said).
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

/// SGD and Adam that leave coordinates alone: Burn's optimizers know whole tensors only, and a
/// momentum of earlier steps would move coordinates that this step must not touch.
///
/// # Guarantee
/// Post-processing of the released gradient, which is exactly zero where nothing was selected: no
/// state ever sees a gradient without noise. Coordinates that the mask does not keep are never
/// written, bit for bit; in the lazy mode neither are those that a step drops. The same on a card.
pub(crate) struct Selected {
    optimizer: Optimizer,
    state: StateOfDropped,
    tensors: Vec<State>,
    /// The same where the parameters live on a card; empty until a step finds them there.
    card: Vec<device::State>,
}

/// What is remembered of one tensor on the host; empty until a step needs it.
#[derive(Clone, Default)]
struct State {
    /// Momentum, or Adam's mean of gradients.
    first: Vec<f32>,
    /// Adam's mean of squared gradients.
    second: Vec<f32>,
    /// How many updates a coordinate had: Adam's correction of the start goes by them.
    updates: Vec<u32>,
}

impl Selected {
    pub(crate) fn new(optimizer: Optimizer, state: StateOfDropped) -> Self {
        Self { optimizer, state, tensors: Vec::new(), card: Vec::new() }
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
        // What is remembered lies where the first step was: an empty batch may come as zeros on the
        // host in between.
        let away = network.device() != Device::flex()
            || gradient.entries.iter().any(|entry| entry.values.device().is_some());
        if away || !self.card.is_empty() {
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
