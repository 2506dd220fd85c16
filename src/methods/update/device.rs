//! Updates of selected coordinates as tensor operations, for parameters on a GPU.

use burn::prelude::*;

use super::{BETAS, EPSILON, Selected};
use crate::engine::{Gradients, Weights};
use crate::methods::Optimizer;
use crate::nn::Network;

/// The coordinates of a tensor that an update may write; `None` means all.
type Touched = Option<Tensor<1, Bool>>;

/// Optimizer state of one tensor; empty until a step needs it.
#[derive(Clone, Default)]
pub(super) struct State {
    /// SGD's momentum.
    momentum: Option<Tensor<1>>,
    /// Adam's first and second moments.
    means: Option<[Mean; 2]>,
}

/// An exponential moving average with its total weight, 1 - βᵗ after t updates of a coordinate,
/// which Adam's bias correction divides by. The weight is updated like the average: computing the
/// power in f32 would be too inaccurate, because 1 - 0.999 keeps four digits.
#[derive(Clone)]
struct Mean {
    sum: Tensor<1>,
    weight: Tensor<1>,
}

impl Selected {
    /// One step on the device of the parameters. Nothing is copied to the host.
    pub(super) fn step_on_device(
        &mut self,
        learning_rate: f64,
        network: &Network,
        gradient: &Gradients,
        touched: Option<&Weights>,
    ) -> Network {
        self.on_device.resize(gradient.entries.len(), State::default());
        let device = network.device();
        let optimizer = self.optimizer;
        let tensors = self.on_device.iter_mut().zip(network.tensors()).zip(&gradient.entries);
        let next = tensors.enumerate().map(|(index, ((state, values), gradient))| {
            let weights = touched.map(|all| all.entries()[index].values.tensor(&device));
            let touched = weights.map(|weights| weights.not_equal_elem(0.0));
            let gradient = gradient.values.tensor(&device);
            let change = state.change(optimizer, gradient, &touched) * learning_rate;
            let moved = values.clone() - change;
            written(values, moved, &touched)
        });
        network.with_tensors(next.collect())
    }
}

impl State {
    /// The step divided by the learning rate; undefined at coordinates that are not updated.
    fn change(
        &mut self,
        optimizer: Optimizer,
        gradient: Tensor<1>,
        touched: &Touched,
    ) -> Tensor<1> {
        match optimizer {
            Optimizer::Sgd { momentum: 0.0 } => gradient,
            Optimizer::Sgd { momentum } => {
                let old = self.momentum.take().unwrap_or_else(|| gradient.zeros_like());
                let new = old.clone() * momentum + gradient;
                self.momentum = Some(written(old, new.clone(), touched));
                new
            }
            Optimizer::Adam => {
                let zeros = gradient.zeros_like();
                let none = || Mean { sum: zeros.clone(), weight: zeros.clone() };
                let [first, second] = self.means.take().unwrap_or_else(|| [none(), none()]);
                let squared = gradient.clone() * gradient.clone();
                let (first, mean) = first.with(BETAS.0, gradient, touched);
                let (second, spread) = second.with(BETAS.1, squared, touched);
                self.means = Some([first, second]);
                mean / (spread.sqrt() + EPSILON)
            }
        }
    }
}

impl Mean {
    /// The average after one more value at the updated coordinates, and its corrected value.
    fn with(self, beta: f64, values: Tensor<1>, touched: &Touched) -> (Self, Tensor<1>) {
        let sum = self.sum.clone() * beta + values * (1.0 - beta);
        let weight = self.weight.clone() * beta + (1.0 - beta);
        let value = sum.clone() / weight.clone();
        let sum = written(self.sum, sum, touched);
        (Self { sum, weight: written(self.weight, weight, touched) }, value)
    }
}

/// The new values at the updated coordinates; the old values, bit for bit, everywhere else.
fn written(old: Tensor<1>, new: Tensor<1>, touched: &Touched) -> Tensor<1> {
    match touched {
        None => new,
        Some(touched) => old.mask_where(touched.clone(), new),
    }
}
