//! State that the steps of a run change: the network, and everything that the next step depends
//! on.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::training_loop::TrainingLoop;
use crate::device::DeviceArray;
use crate::mask::{CoordinateConfig, Mask, SelectionState, TrainedCoordinates};
use crate::methods::{DataLoader, Mechanism, Plan};
use crate::nn::Network;
use crate::optim::{AverageState, LearningRateScheduler, OptimizerState, StateValues};
use crate::{Error, ErrorKind, Result};

/// State that the steps of a run change.
pub(super) struct TrainState {
    pub(super) batches: DataLoader,
    pub(super) mechanism: Box<dyn Mechanism>,
    pub(super) optimizer: OptimizerState,
    pub(super) rates: LearningRateScheduler,
    pub(super) coordinates: TrainedCoordinates,
    pub(super) network: Network,
    pub(super) average: Option<AverageState>,
}

/// The numbers of a [`TrainState`], beside its arrays.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StateSnapshot {
    steps: u64,
    mechanism: Vec<f64>,
    rates: LearningRateScheduler,
    selected: SelectionState,
    optimizer: Vec<StateEntry>,
    average: Option<Vec<StateEntry>>,
}

/// An array of an optimizer or average by name. Without a value, its values are an array of the
/// checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct StateEntry {
    name: String,
    value: Option<f64>,
}

/// Arrays by name. Those on a device are copied to the host when they are written.
pub(super) type Arrays = Vec<(String, DeviceArray)>;

impl TrainState {
    /// Creates the state before the first step. A mask by DP-SNIP is released here, unless it is
    /// given.
    ///
    /// # Errors
    /// As making batches, mechanism, rates, coordinates and average of the plan.
    pub(super) fn initialize(plan: &Plan, training: &TrainingLoop<'_>) -> Result<Self> {
        let TrainingLoop { model, data, mask, seeds, attempt_id } = training;
        let batches = DataLoader::new(plan, data.train(), seeds.sampling, seeds.dropout)?;
        let batches = batches.on(model.network())?;
        let mechanism = plan.mechanism(seeds.noise)?;
        let optimizer =
            OptimizerState::new(plan.settings().optimizer).with_weight_decay(plan.weight_decay());
        let rates = plan.learning_rate_scheduler()?;
        let config = CoordinateConfig {
            freezing: plan.freezing(),
            sparsity: plan.sparsity(),
            steps: plan.steps(),
            study_seed: plan.seed(),
            run: attempt_id,
        };
        let seeds = seeds.mask_seeds();
        let coordinates = TrainedCoordinates::new(config, model, data, mask.clone(), &seeds)?;
        let network = coordinates.initial_network(model)?;
        let average = plan.settings().average.map(|average| AverageState::new(average, &network));
        let average = average.transpose()?;
        Ok(Self { batches, mechanism, optimizer, rates, coordinates, network, average })
    }

    /// Returns the state after `steps` steps, to be resumed by [`restore`](Self::restore).
    pub(super) fn snapshot(&self, steps: u64) -> (StateSnapshot, Arrays) {
        let mut arrays = parameter_arrays(&self.network);
        let mut named = |kind: &str, values: Vec<(String, StateValues)>| -> Vec<StateEntry> {
            let each = values.into_iter().map(|(name, values)| match values {
                StateValues::Uniform(value) => StateEntry { name, value: Some(value) },
                StateValues::PerCoordinate(array) => {
                    arrays.push((format!("{kind}/{name}"), array));
                    StateEntry { name, value: None }
                }
            });
            each.collect()
        };
        let saved = StateSnapshot {
            steps,
            mechanism: self.mechanism.state(),
            rates: self.rates.clone(),
            selected: self.coordinates.state(),
            optimizer: named("optimizer", self.optimizer.named_arrays()),
            average: self.average.as_ref().map(|average| named("average", average.named_arrays())),
        };
        (saved, arrays)
    }

    /// Resumes from the state of the same run when it was [`snapshot`](Self::snapshot).
    ///
    /// # Errors
    /// `CorruptData` if the values are those of another run.
    pub(super) fn restore(
        self,
        saved: StateSnapshot,
        arrays: &mut HashMap<String, Vec<f32>>,
    ) -> Result<Self> {
        let Self {
            mut batches, mut mechanism, optimizer, mut coordinates, network, average, ..
        } = self;
        batches.skip(saved.steps);
        mechanism.resume(saved.steps, &saved.mechanism)?;
        coordinates.restore(saved.selected);
        let network = restore_parameters(&network, arrays)?;
        let mut values =
            |kind: &str, named: Vec<StateEntry>| -> Result<Vec<(String, StateValues)>> {
                let each = named.into_iter().map(|StateEntry { name, value }| match value {
                    Some(value) => Ok((name, StateValues::Uniform(value))),
                    None => {
                        let key = format!("{kind}/{name}");
                        let array = arrays.remove(&key).ok_or_else(|| missing(&key))?;
                        Ok((name, StateValues::PerCoordinate(array.into())))
                    }
                });
                each.collect()
            };
        let optimizer = optimizer.with_named_arrays(values("optimizer", saved.optimizer)?)?;
        let average = match (average, saved.average) {
            (Some(average), Some(named)) => {
                Some(average.with_named_arrays(values("average", named)?)?)
            }
            (None, None) => None,
            _ => return Err(missing("average")),
        };
        let rates = saved.rates;
        Ok(Self { batches, mechanism, optimizer, rates, coordinates, network, average })
    }

    /// Returns the mask that the steps are restricted to.
    pub(super) fn mask(&self) -> Option<&Mask> {
        self.coordinates.mask()
    }
}

/// Returns the parameters of a network by the name that they have in a checkpoint.
pub(super) fn parameter_arrays(network: &Network) -> Arrays {
    let arrays = network.tensors().into_iter().map(DeviceArray::from_tensor);
    let names = network.paths().into_iter().map(|path| format!("parameter/{path}"));
    names.zip(arrays).collect()
}

/// Returns the network with the parameters of a checkpoint.
///
/// # Errors
/// `CorruptData` if one is missing, or of another size.
pub(super) fn restore_parameters(
    network: &Network,
    arrays: &mut HashMap<String, Vec<f32>>,
) -> Result<Network> {
    let mut values = HashMap::new();
    for parameter in network.parameters() {
        let key = format!("parameter/{}", parameter.path);
        let fits = |values: &Vec<f32>| values.len() == parameter.len();
        let value = arrays.remove(&key).filter(fits).ok_or_else(|| missing(&key))?;
        values.insert(parameter.path, value);
    }
    Ok(network.with_values(|path| values.get(path).cloned()))
}

fn missing(name: &str) -> Error {
    let what = format!("{name} of a checkpoint");
    Error::new(ErrorKind::CorruptData, what, "the array is missing, or belongs to another run")
}
