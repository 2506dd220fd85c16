//! What the steps of a run change: the network, and everything that the next step depends on.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::steps::Begin;
use crate::device::DeviceArray;
use crate::mask::{Coordinates, CoordinatesOf, Mask, Selected};
use crate::methods::{Batches, Mechanism, Plan};
use crate::nn::Network;
use crate::optim::{AverageState, OptimizerState, Rates, StateValues};
use crate::{Error, ErrorKind, Result};

/// What the steps of a run change.
pub(super) struct State {
    pub(super) batches: Batches,
    pub(super) mechanism: Box<dyn Mechanism>,
    pub(super) optimizer: OptimizerState,
    pub(super) rates: Rates,
    pub(super) coordinates: Coordinates,
    pub(super) network: Network,
    pub(super) average: Option<AverageState>,
}

/// The numbers of a [`State`], beside its arrays.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Saved {
    steps: u64,
    mechanism: Vec<f64>,
    rates: Rates,
    selected: Selected,
    optimizer: Vec<Named>,
    average: Option<Vec<Named>>,
}

/// An array of an optimizer or average by name. Without a value, its values are an array of the
/// checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Named {
    name: String,
    value: Option<f64>,
}

/// Arrays by name. Those on a device are copied to the host when they are written.
pub(super) type Arrays = Vec<(String, DeviceArray)>;

impl State {
    /// The state before the first step. A mask by DP-SNIP is released here, unless it is given.
    ///
    /// # Errors
    /// As making batches, mechanism, rates, coordinates and average of the plan.
    pub(super) fn begin(plan: &Plan, begin: &Begin<'_>) -> Result<Self> {
        let Begin { model, data, mask, seeds, run } = begin;
        let batches = Batches::new(plan, data.train(), seeds.sampling, seeds.masks)?;
        let batches = batches.on(model.network())?;
        let mechanism = plan.mechanism(seeds.noise)?;
        let optimizer =
            OptimizerState::new(plan.settings().optimizer).with_weight_decay(plan.weight_decay());
        let rates = plan.rates()?;
        let of = CoordinatesOf {
            freezing: plan.freezing(),
            sparsity: plan.sparsity(),
            steps: plan.steps(),
            study_seed: plan.seed(),
            run,
        };
        let seeds = seeds.of_coordinates();
        let coordinates = Coordinates::begin(of, model, data, mask.clone(), &seeds)?;
        let network = coordinates.start(model)?;
        let average = plan.settings().average.map(|average| AverageState::new(average, &network));
        let average = average.transpose()?;
        Ok(Self { batches, mechanism, optimizer, rates, coordinates, network, average })
    }

    /// The state after `steps` steps, to be resumed by [`resume`](Self::resume).
    pub(super) fn saved(&self, steps: u64) -> (Saved, Arrays) {
        let mut arrays = parameters(&self.network);
        let mut named = |kind: &str, values: Vec<(String, StateValues)>| -> Vec<Named> {
            let each = values.into_iter().map(|(name, values)| match values {
                StateValues::Same(value) => Named { name, value: Some(value) },
                StateValues::Each(array) => {
                    arrays.push((format!("{kind}/{name}"), array));
                    Named { name, value: None }
                }
            });
            each.collect()
        };
        let saved = Saved {
            steps,
            mechanism: self.mechanism.state(),
            rates: self.rates.clone(),
            selected: self.coordinates.selected(),
            optimizer: named("optimizer", self.optimizer.values()),
            average: self.average.as_ref().map(|average| named("average", average.values())),
        };
        (saved, arrays)
    }

    /// Goes on where the state of the same run was when it was [`saved`](Self::saved).
    ///
    /// # Errors
    /// `CorruptData` if the values are those of another run.
    pub(super) fn resume(
        self,
        saved: Saved,
        arrays: &mut HashMap<String, Vec<f32>>,
    ) -> Result<Self> {
        let Self {
            mut batches, mut mechanism, optimizer, mut coordinates, network, average, ..
        } = self;
        batches.skip(saved.steps);
        mechanism.resume(saved.steps, &saved.mechanism)?;
        coordinates.resume(saved.selected);
        let network = with_parameters(&network, arrays)?;
        let mut values = |kind: &str, named: Vec<Named>| -> Result<Vec<(String, StateValues)>> {
            let each = named.into_iter().map(|Named { name, value }| match value {
                Some(value) => Ok((name, StateValues::Same(value))),
                None => {
                    let key = format!("{kind}/{name}");
                    let array = arrays.remove(&key).ok_or_else(|| missing(&key))?;
                    Ok((name, StateValues::Each(array.into())))
                }
            });
            each.collect()
        };
        let optimizer = optimizer.with_values(values("optimizer", saved.optimizer)?)?;
        let average = match (average, saved.average) {
            (Some(average), Some(named)) => Some(average.with_values(values("average", named)?)?),
            (None, None) => None,
            _ => return Err(missing("average")),
        };
        let rates = saved.rates;
        Ok(Self { batches, mechanism, optimizer, rates, coordinates, network, average })
    }

    /// The mask that the steps are restricted to.
    pub(super) fn mask(&self) -> Option<&Mask> {
        self.coordinates.mask()
    }
}

/// The parameters of a network by the name that they have in a checkpoint.
pub(super) fn parameters(network: &Network) -> Arrays {
    let arrays = network.tensors().into_iter().map(DeviceArray::from_tensor);
    let names = network.paths().into_iter().map(|path| format!("parameter/{path}"));
    names.zip(arrays).collect()
}

/// The network with the parameters of a checkpoint.
///
/// # Errors
/// `CorruptData` if one is missing, or of another size.
pub(super) fn with_parameters(
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
    Error::new(ErrorKind::CorruptData, what, "it is missing, or that of another run")
}
