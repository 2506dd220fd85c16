//! [`Average`]: averages of a run's parameters.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use burn::prelude::*;
use serde::{Deserialize, Serialize};

use super::StateValues;
use super::elementwise::{self, ElementwiseJob, Formula, Input, Target};
use super::number::{Lanes, Number};
use crate::device::DeviceArray;
use crate::device::host::HostValues;
use crate::nn::Network;
use crate::{Error, ErrorKind, Result};

/// Average of the parameters after each step θ_1, θ_2, … that is evaluated and returned.
///
/// From text: `ema`, `ema:0.999`, `uniform`, `last:100`.
///
/// ```
/// use epsilab::prelude::*;
/// let last: Average = "last:100".parse()?;
/// assert_eq!(last, Average::Last { steps: 100 });
/// let method = DpSgd::new().noise_multiplier(1.0).average(Average::ema());
/// let plan = method.plan_for(&data::Population::with_size(60_000))?;
/// assert_eq!(plan.settings().average, Some(Average::Ema { decay: 0.9999 }));
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// Post-processing of released parameters: the average costs no privacy, and epsilon is that of the
/// run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Average {
    /// Exponential moving average from the initial parameters on, with the warm-up of De et al.
    /// (2022): μ · average + (1 - μ) · θ, where μ = min(decay, (1 + t)/(10 + t)) for the t-th step,
    /// counted from 0.
    Ema {
        /// The largest factor on the average, in [0, 1); 0.9999 in the paper.
        decay: f64,
    },
    /// The mean of the parameters after all steps so far.
    Uniform,
    /// The mean of the parameters after the last `steps` steps, or all if there are fewer. Keeps
    /// that many copies of the parameters.
    Last {
        /// Number of steps, at least 1.
        steps: usize,
    },
}

impl Average {
    /// Creates an exponential moving average with decay 0.9999.
    pub const fn ema() -> Self {
        Self::Ema { decay: 0.9999 }
    }

    /// Checks the setting.
    ///
    /// # Errors
    /// `Setting` for a decay outside [0, 1) or a mean of no steps.
    pub fn check(self) -> Result<()> {
        match self {
            Self::Ema { decay } if !(0.0..1.0).contains(&decay) => {
                let why = "the decay of the moving average must be at least 0 and below 1";
                Err(Error::setting("decay", decay, why).fix("the usual value is 0.9999"))
            }
            Self::Last { steps: 0 } => {
                Err(Error::setting("steps", 0, "a mean needs at least one step")
                    .fix("use for example last:100"))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Average {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ema { decay } => write!(f, "ema:{decay}"),
            Self::Uniform => write!(f, "uniform"),
            Self::Last { steps } => write!(f, "last:{steps}"),
        }
    }
}

impl FromStr for Average {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown = || {
            Error::setting("average", text, "not an average of parameters")
                .fix("use ema, ema:0.999, uniform or last:100")
        };
        let average = match text.trim().split_once(':') {
            None if text.trim() == "ema" => Self::ema(),
            None if text.trim() == "uniform" => Self::Uniform,
            Some(("ema", decay)) => Self::Ema { decay: decay.parse().map_err(|_| unknown())? },
            Some(("last", steps)) => Self::Last { steps: steps.parse().map_err(|_| unknown())? },
            _ => return Err(unknown()),
        };
        average.check().map(|()| average)
    }
}

/// An average with what it has observed. Its values stay on the device of the parameters.
#[derive(Clone, Debug)]
pub struct AverageState {
    average: Average,
    /// Number of observed steps.
    steps: u64,
    /// A network whose parameters the average replaces.
    network: Network,
    /// The average; for [`Average::Last`] the parameters after the last steps, oldest first. One
    /// array per parameter tensor each.
    copies: VecDeque<Vec<DeviceArray>>,
}

impl AverageState {
    /// Creates the average before the first step, with the initial parameters.
    ///
    /// # Errors
    /// `Setting` for a decay outside [0, 1) or a mean of no steps.
    pub fn new(average: Average, initial: &Network) -> Result<Self> {
        average.check()?;
        let copies = VecDeque::from([copy(initial)]);
        Ok(Self { average, steps: 0, network: initial.clone(), copies })
    }

    /// Returns the number of observed steps.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Adds the parameters after a step to the average.
    ///
    /// # Errors
    /// `Model` if the network has other parameters than the initial one.
    pub fn observe(&mut self, network: &Network) -> Result<()> {
        let sizes = |network: &Network| -> Vec<usize> {
            network.tensors().iter().map(|tensor| tensor.dims()[0]).collect()
        };
        if sizes(network) != sizes(&self.network) {
            let what = "an average over two networks";
            return Err(Error::new(ErrorKind::Model, what, "their parameters differ")
                .fix("create a new AverageState"));
        }
        let t = self.steps as f64;
        self.steps += 1;
        match self.average {
            Average::Ema { decay } => {
                mix(&mut self.copies[0], network.tensors(), decay.min((1.0 + t) / (10.0 + t)));
            }
            Average::Uniform => mix(&mut self.copies[0], network.tensors(), t / (t + 1.0)),
            Average::Last { steps } => {
                // The first copy is that of the initial parameters.
                if self.copies.len() == steps || t == 0.0 {
                    self.copies.pop_front();
                }
                self.copies.push_back(copy(network));
            }
        }
        Ok(())
    }

    /// Returns the network with the averaged parameters; the initial ones before the first step.
    pub fn network(&self) -> Network {
        let device = self.network.device();
        let tensors = |arrays: &[DeviceArray]| -> Vec<Tensor<1>> {
            arrays.iter().map(|array| array.to_tensor(&device)).collect()
        };
        let mut mean = self.copies[0].clone();
        for (k, copy) in self.copies.iter().enumerate().skip(1) {
            mix(&mut mean, tensors(copy), k as f64 / (k + 1) as f64);
        }
        self.network.with_tensors(tensors(&mean))
    }

    /// Returns the number of observed steps, `"steps"`, and all arrays with their names: the
    /// parameter's path and the number of the copy, `"0.weight.0"`.
    pub fn named_arrays(&self) -> Vec<(String, StateValues)> {
        let paths = self.network.paths();
        let copies = self.copies.iter().enumerate().flat_map(|(k, copy)| {
            let named = move |(path, array): (&String, &DeviceArray)| {
                (format!("{path}.{k}"), StateValues::PerCoordinate(array.clone()))
            };
            paths.iter().zip(copy).map(named)
        });
        let steps = ("steps".to_owned(), StateValues::Uniform(self.steps as f64));
        std::iter::once(steps).chain(copies).collect()
    }

    /// Continues from a state that [`named_arrays`](Self::named_arrays) listed, for the same
    /// network.
    ///
    /// # Errors
    /// `CorruptData` if the values are those of another network or average.
    pub fn with_named_arrays(self, values: Vec<(String, StateValues)>) -> Result<Self> {
        let parameters = self.network.parameters();
        let largest = if let Average::Last { steps } = self.average { steps } else { 1 };
        let (listed, count) = (values.len().saturating_sub(1), parameters.len());
        let copies = listed / count;
        let names = (0..copies).flat_map(|k| {
            parameters.iter().map(move |parameter| (format!("{}.{k}", parameter.path), parameter))
        });
        let mut values = values.into_iter();
        let steps = values.next().and_then(|(name, steps)| match steps {
            StateValues::Uniform(steps) if name == "steps" => Some(steps as u64),
            _ => None,
        });
        let arrays =
            values.zip(names).map(|((name, values), (expected, parameter))| match values {
                StateValues::PerCoordinate(array)
                    if name == expected && array.len() == parameter.len() =>
                {
                    Some(array)
                }
                _ => None,
            });
        let arrays: Option<Vec<DeviceArray>> = arrays.collect();
        let fits = (1..=largest).contains(&copies) && copies * count == listed;
        let (Some(steps), Some(arrays), true) = (steps, arrays, fits) else {
            let what = format!("the state of an average ({})", self.average);
            let why = "the state has other arrays than this network and average";
            return Err(Error::new(ErrorKind::CorruptData, what, why)
                .fix("use the values that AverageState::named_arrays gave, in their order"));
        };
        let copies = arrays.chunks(count).map(<[_]>::to_vec).collect();
        Ok(Self { steps, copies, ..self })
    }
}

/// Returns the parameters, shared where they are.
fn copy(network: &Network) -> Vec<DeviceArray> {
    network.tensors().into_iter().map(DeviceArray::from_tensor).collect()
}

/// Formula of an average: average <- keep * average + (1 - keep) * theta.
#[derive(Clone, Copy)]
struct Mix {
    keep: f64,
}

impl Formula<1, 1> for Mix {
    #[inline(always)]
    fn apply<N: Number>(&self, [average]: [N; 1], [parameter]: [N; 1]) -> [N; 1] {
        [average * self.keep + parameter * (1.0 - self.keep)]
    }
}

/// Mixes parameters into an average, where the parameters are.
fn mix(average: &mut [DeviceArray], parameters: Vec<Tensor<1>>, keep: f64) {
    let formula = Mix { keep };
    if parameters.iter().any(|tensor| tensor.device() != Device::flex()) {
        return mix_on_device(formula, average, parameters);
    }
    let parameters: Vec<HostValues> = parameters.into_iter().map(HostValues::from_tensor).collect();
    let work = average.iter_mut().zip(&parameters).map(|(average, parameters)| ElementwiseJob {
        formula,
        len: average.len(),
        targets: [Target::InPlace(average)],
        inputs: [Input::PerCoordinate(parameters.slice())],
        update_mask: None,
    });
    elementwise::apply_on_host(work.collect());
}

fn mix_on_device(formula: Mix, average: &mut [DeviceArray], parameters: Vec<Tensor<1>>) {
    for (average, parameter) in average.iter_mut().zip(parameters) {
        let (len, device) = (average.len(), parameter.device());
        let old = [Lanes::PerCoordinate(average.to_tensor(&device))];
        let [new] =
            elementwise::apply_on_device(&formula, old, [Lanes::PerCoordinate(parameter)], None);
        *average = DeviceArray::from_tensor(new.tensor(len, &device));
    }
}

#[cfg(test)]
mod tests;
