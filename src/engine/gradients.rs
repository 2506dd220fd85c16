//! Values in the shape of a network's parameters: gradients, sums of gradients, weights.

use burn::module::ParamId;
use burn::optim::GradientsParams;
use burn::prelude::*;

use crate::device::DeviceArray;
use crate::nn::{Network, Parameter};

/// The gradient of one parameter tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Gradient {
    /// Path of the parameter, such as `"0.weight"`.
    pub path: String,
    /// Burn's id of the parameter.
    pub id: ParamId,
    /// Shape of the parameter.
    pub shape: Vec<usize>,
    /// Row-major values, one per element of the shape. They live on the host or on the device that
    /// computed them.
    pub values: DeviceArray,
}

/// Gradients of all parameter tensors, one [`Gradient`] each, in the network's order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gradients {
    /// Gradients, one entry per parameter tensor.
    pub entries: Vec<Gradient>,
}

impl Gradients {
    /// Creates zeros for every trainable parameter of `network`.
    pub fn zeros_like(network: &Network) -> Self {
        Self::with_values(network.parameters(), |_, parameter| vec![0.0; parameter.len()].into())
    }

    /// Creates one entry per parameter, with the values that a function returns for it.
    pub(super) fn with_values(
        parameters: Vec<Parameter>,
        mut values: impl FnMut(usize, &Parameter) -> DeviceArray,
    ) -> Self {
        let each = parameters.into_iter().enumerate().map(|(entry, parameter)| {
            let values = values(entry, &parameter);
            let Parameter { path, id, shape } = parameter;
            Gradient { path, id, shape, values }
        });
        Self { entries: each.collect() }
    }

    /// Returns the entry of the parameter at `path`.
    pub fn get(&self, path: &str) -> Option<&Gradient> {
        self.entries.iter().find(|entry| entry.path == path)
    }

    /// Returns the total number of values.
    pub fn len(&self) -> usize {
        self.entries.iter().map(|entry| entry.values.len()).sum()
    }

    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Multiplies every value by `factor`. `1 / expected batch size` turns a noisy sum into a mean.
    pub fn scale(&mut self, factor: f64) {
        for Gradient { values, .. } in &mut self.entries {
            match values.device() {
                Some(device) => {
                    *values = DeviceArray::from_tensor(values.to_tensor(&device) * factor)
                }
                None => values.iter_mut().for_each(|v| *v = (f64::from(*v) * factor) as f32),
            }
        }
    }

    /// Computes the L2 norm over all entries jointly, in f64 on the host.
    pub fn l2_norm(&self) -> f64 {
        let values = self.entries.iter().flat_map(|entry| &entry.values);
        values.map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt()
    }

    /// Converts to the gradients that a Burn optimizer takes, on `device`.
    pub(crate) fn to_params(&self, device: &Device) -> GradientsParams {
        let mut params = GradientsParams::new();
        for entry in &self.entries {
            let (flat, id) = (entry.values.to_tensor(device), entry.id);
            match *entry.shape {
                [_] => params.register(id, flat),
                [a, b] => params.register(id, flat.reshape([a, b])),
                [a, b, c] => params.register(id, flat.reshape([a, b, c])),
                [a, b, c, d] => params.register(id, flat.reshape([a, b, c, d])),
                _ => unreachable!("no layer has a parameter of {} dimensions", entry.shape.len()),
            }
        }
        params
    }
}
