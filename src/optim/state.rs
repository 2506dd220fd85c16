//! [`OptimizerState`]: the steps of an optimizer, with their state.

mod device;

use burn::prelude::*;

use super::elementwise::{self, ElementwiseJob, Input, Target};
use super::rules::{Adam, Descent, INPUTS, Momentum, Rule, Slot};
use super::step_settings::check_not_negative;
use super::{AdamParams, Optimizer, StateValues, StepSettings};
use crate::device::host::HostValues;
use crate::engine::{Gradient, Gradients};
use crate::nn::Network;
use crate::{Error, ErrorKind, Result};

/// An optimizer with its state. Each parameter tensor has the arrays of the rule, zero at the
/// start.
///
/// One formula per rule serves host and device, all and selected coordinates. On the host it is
/// computed in f64 and stored in f32; on a device it is computed in f32, and nothing is copied to
/// the host.
///
/// # Guarantee
/// Post-processing of the released gradient, whatever the rule, rate and weight decay are: state
/// and parameters are functions of released gradients, of the parameters before, and of public
/// settings. Assumptions: the gradient is exactly zero at coordinates that have no noise, and
/// [`StepSettings`] holds nothing that was computed from the data without noise. Coordinates that
/// a step may not touch keep parameters and state bit for bit, whatever the gradient says there.
#[derive(Clone, Debug)]
pub struct OptimizerState {
    optimizer: Optimizer,
    weight_decay: f64,
    tensors: Vec<TensorState>,
}

/// The state of one parameter tensor: the arrays of the rule with their names.
#[derive(Clone, Debug)]
struct TensorState {
    path: String,
    arrays: Vec<(String, StateValues)>,
}

impl OptimizerState {
    /// Creates the initial state of this rule, with its [default weight
    /// decay](Optimizer::default_weight_decay).
    pub fn new(optimizer: Optimizer) -> Self {
        Self { optimizer, weight_decay: optimizer.default_weight_decay(), tensors: Vec::new() }
    }

    /// Sets the decoupled weight decay λ (Loshchilov and Hutter, 2019): each step also subtracts
    /// learning rate · λ · θ, after the noise, so that it enters neither norm nor clipping. It
    /// acts on tensors of two or more dimensions, that is, not on biases and normalisation layers,
    /// and only on coordinates that the step may touch.
    pub fn with_weight_decay(self, weight_decay: f64) -> Self {
        Self { weight_decay, ..self }
    }

    /// Takes one step along `gradient`, the gradient of the mean loss, and returns the network
    /// after it.
    ///
    /// # Errors
    /// `Setting` if a number of rule, weight decay or step is out of range; `Model` if the gradient
    /// or the state belongs to other parameters.
    pub fn step(
        &mut self,
        network: &Network,
        gradient: &Gradients,
        step: &StepSettings<'_>,
    ) -> Result<Network> {
        self.optimizer.check()?;
        check_not_negative("weight_decay", self.weight_decay)?;
        step.check(network, gradient)?;
        let (rate, momentum, optimizer) = (step.learning_rate, step.momentum, self.optimizer);
        let decays = |entry: &Gradient| entry.shape.len() > 1;
        let decay = self.weight_decay;
        let descent =
            |entry: &Gradient| Descent { rate, decay: if decays(entry) { decay } else { 0.0 } };
        let unbiased = matches!(optimizer, Optimizer::DpAdamBc(_));
        // The other rules ignore the noise.
        let without_noise = StepSettings { noise_std: None, noise_mask: None, ..*step };
        let step = if unbiased { step } else { &without_noise };
        match optimizer {
            Optimizer::Sgd { momentum: 0.0 } if momentum.is_none() => {
                self.step_by(descent, network, gradient, step)
            }
            Optimizer::Sgd { momentum: default } | Optimizer::Nesterov { momentum: default } => {
                let momentum = momentum.unwrap_or(default);
                let nesterov = matches!(optimizer, Optimizer::Nesterov { .. });
                let rule = |entry: &_| Momentum { descent: descent(entry), momentum, nesterov };
                self.step_by(rule, network, gradient, step)
            }
            Optimizer::Adam(moments) | Optimizer::AdamW(moments) | Optimizer::DpAdamBc(moments) => {
                let moments = AdamParams { beta1: momentum.unwrap_or(moments.beta1), ..moments };
                let rule = |entry: &_| Adam {
                    descent: descent(entry),
                    moments,
                    subtracts_noise_variance: unbiased,
                };
                self.step_by(rule, network, gradient, step)
            }
        }
    }

    /// Returns all arrays of the state with their names, in the order of the network's parameters:
    /// `"0.weight.velocity"`, `"0.weight.second_moment"`. Empty before the first step.
    pub fn named_arrays(&self) -> Vec<(String, StateValues)> {
        let named = self.tensors.iter().flat_map(|TensorState { path, arrays }| {
            arrays.iter().map(move |(name, values)| (format!("{path}.{name}"), values.clone()))
        });
        named.collect()
    }

    /// Continues from a state that [`named_arrays`](Self::named_arrays) listed: the next step is,
    /// bit for bit, the one that the listed state would take on the same device. The step fails if
    /// the values are those of another rule or network.
    ///
    /// # Errors
    /// `CorruptData` if a name has no dot.
    pub fn with_named_arrays(self, values: Vec<(String, StateValues)>) -> Result<Self> {
        let mut tensors: Vec<TensorState> = Vec::new();
        for (name, values) in values {
            let Some((path, name)) = name.rsplit_once('.') else {
                let what = format!("an array {name:?} in the state of an optimizer");
                let why = "a name consists of a parameter's path, a dot and the name of the array";
                return Err(Error::new(ErrorKind::CorruptData, what, why)
                    .fix("use the names that OptimizerState::named_arrays gives"));
            };
            if tensors.last().is_none_or(|tensor| tensor.path != path) {
                tensors.push(TensorState { path: path.to_owned(), arrays: Vec::new() });
            }
            let tensor = tensors.last_mut().expect("just made");
            tensor.arrays.push((name.to_owned(), values));
        }
        Ok(Self { tensors, ..self })
    }

    fn step_by<R: Rule<S>, const S: usize>(
        &mut self,
        rule: impl Fn(&Gradient) -> R,
        network: &Network,
        gradient: &Gradients,
        step: &StepSettings<'_>,
    ) -> Result<Network> {
        let parameters = network.tensors();
        self.ensure_state::<R, S>(&parameters, gradient)?;
        // The state stays on the device of the first step: the gradient of an empty batch may be
        // zeros on the host.
        let on_device = network.device() != Device::flex()
            || gradient.entries.iter().any(|entry| entry.values.device().is_some())
            || self.tensors.iter().any(|state| state.arrays.iter().any(|(_, v)| v.is_on_device()));
        let parameters = if on_device {
            self.step_on_device(rule, parameters, gradient, step)
        } else {
            self.step_on_host(rule, parameters, gradient, step)
        };
        Ok(network.with_tensors(parameters))
    }

    /// Makes the state of the first step, and checks that state and gradient fit the parameters.
    fn ensure_state<R: Rule<S>, const S: usize>(
        &mut self,
        parameters: &[Tensor<1>],
        gradient: &Gradients,
    ) -> Result<()> {
        let sizes = parameters.iter().map(|tensor| tensor.dims()[0]);
        if !sizes.eq(gradient.entries.iter().map(|entry| entry.values.len())) {
            return Err(other_parameters("a gradient"));
        }
        if self.tensors.is_empty() {
            let start = |slot: &Slot| (slot.name.to_owned(), StateValues::Uniform(0.0));
            let initial = |entry: &Gradient| TensorState {
                path: entry.path.clone(),
                arrays: R::STATE.iter().map(start).collect(),
            };
            self.tensors = gradient.entries.iter().map(initial).collect();
        }
        let fits = |(state, entry): (&TensorState, &Gradient)| {
            state.path == entry.path
                && state.arrays.iter().map(|(name, _)| name).eq(R::STATE.iter().map(|s| s.name))
                && state.arrays.iter().all(|(_, values)| values.fits(entry.values.len()))
        };
        let same_count = self.tensors.len() == gradient.entries.len();
        if same_count && self.tensors.iter().zip(&gradient.entries).all(fits) {
            Ok(())
        } else {
            Err(other_parameters("the state of an optimizer"))
        }
    }

    fn step_on_host<R: Rule<S>, const S: usize>(
        &mut self,
        rule: impl Fn(&Gradient) -> R,
        parameters: Vec<Tensor<1>>,
        gradient: &Gradients,
        step: &StepSettings<'_>,
    ) -> Vec<Tensor<1>> {
        let old: Vec<HostValues> = parameters.into_iter().map(HostValues::from_tensor).collect();
        let mut new: Vec<Vec<f32>> =
            old.iter().map(|values| Vec::with_capacity(values.slice().len())).collect();
        let tensors = self.tensors.iter_mut().zip(&old).zip(&mut new).zip(&gradient.entries);
        let work = tensors.enumerate().map(|(index, (((state, old), new), entry))| {
            let (formula, len) = (rule(entry), old.slice().len());
            for ((_, values), slot) in state.arrays.iter_mut().zip(R::STATE) {
                if step.update_mask.is_some() || !slot.shared {
                    values.expand(len);
                }
            }
            // What all coordinates share follows the formula once.
            let shared = arrays(0.0, state.arrays.iter().map(|(_, values)| values.uniform_value()));
            let shared: [f64; S] = formula.apply(shared, [0.0; INPUTS]);
            let state = state.arrays.iter_mut().zip(&shared[1..]);
            let state = state.map(|((_, values), next)| values.target(*next));
            let variance = match step.noise_mask {
                None => Input::Uniform(step.variance(index)),
                Some(selected) => {
                    Input::Masked(step.variance(index), &selected.entries()[index].values)
                }
            };
            ElementwiseJob {
                formula,
                targets: arrays(
                    Target::OutOfPlace {
                        old: old.slice(),
                        new: &mut new.spare_capacity_mut()[..len],
                    },
                    state,
                ),
                inputs: [Input::PerCoordinate(&entry.values), variance],
                update_mask: step.update_mask.map(|mask| &mask.entries()[index].values[..]),
                len,
            }
        });
        elementwise::apply_on_host(work.collect());
        let tensor = |(mut values, len): (Vec<f32>, usize)| {
            // SAFETY: the capacity is at least `len`, and the formula has written as many values.
            unsafe { values.set_len(len) };
            Tensor::from_data(TensorData::new(values, [len]), &Device::flex())
        };
        let sizes = old.iter().map(|values| values.slice().len());
        new.into_iter().zip(sizes).map(tensor).collect()
    }
}

/// Returns the parameter and the arrays of the state.
fn arrays<T, const S: usize>(parameter: T, state: impl Iterator<Item = T>) -> [T; S] {
    let mut all = std::iter::once(parameter).chain(state);
    std::array::from_fn(|_| all.next().expect("the state was checked to have the rule's arrays"))
}

fn other_parameters(what: &str) -> Error {
    let (what, why) = (format!("{what} of other parameters"), "the state does not fit the network");
    Error::new(ErrorKind::Model, what, why)
        .fix("use one optimizer state per network, with gradients of that network")
}
