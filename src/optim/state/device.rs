//! Steps on the device of the parameters.

use burn::prelude::*;

use super::{OptimizerState, arrays};
use crate::engine::{CoordinateWeights, Gradient, Gradients};
use crate::optim::number::Lanes;
use crate::optim::rules::Rule;
use crate::optim::{StepSettings, elementwise};

impl OptimizerState {
    /// Returns the parameters after one step on their device. Nothing is copied to the host.
    pub(super) fn step_on_device<R: Rule<S>, const S: usize>(
        &mut self,
        rule: impl Fn(&Gradient) -> R,
        parameters: Vec<Tensor<1>>,
        gradient: &Gradients,
        step: &StepSettings<'_>,
    ) -> Vec<Tensor<1>> {
        let tensors = self.tensors.iter_mut().zip(parameters).zip(&gradient.entries).enumerate();
        let stepped = tensors.map(|(index, ((state, parameter), entry))| {
            let (len, device) = (parameter.dims()[0], parameter.device());
            let nonzero = |weights: &CoordinateWeights| {
                weights.entries()[index].values.to_tensor(&device).not_equal_elem(0.0)
            };
            let variance = match step.noise_mask {
                None => Lanes::Uniform(step.variance(index)),
                Some(selected) => {
                    Lanes::PerCoordinate(nonzero(selected).float() * step.variance(index))
                }
            };
            let lanes = state.arrays.iter_mut().map(|(_, values)| values.take_lanes(&device));
            let old = arrays(Lanes::PerCoordinate(parameter), lanes);
            let inputs = [Lanes::PerCoordinate(entry.values.to_tensor(&device)), variance];
            let update_mask = step.update_mask.map(nonzero);
            let new = elementwise::apply_on_device(&rule(entry), old, inputs, update_mask.as_ref());
            for ((_, values), new) in state.arrays.iter_mut().zip(&new[1..]) {
                *values = new.clone().into();
            }
            new[0].tensor(len, &device)
        });
        stepped.collect()
    }
}
