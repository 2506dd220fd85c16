//! One number per parameter.

use burn::module::ParamId;
use burn::optim::GradientsParams;
use burn::prelude::*;

use crate::device::DeviceArray;
use crate::nn::Network;

/// The gradient of one parameter tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Gradient {
    /// Where the parameter is: `"0.weight"`.
    pub path: String,
    /// Burn's name for it.
    pub id: ParamId,
    /// The parameter's shape.
    pub shape: Vec<usize>,
    /// Row-major numbers, as many as the shape holds: where they were made, on the host or on a
    /// GPU.
    pub values: DeviceArray,
}

/// Gradients, or anything else shaped like the parameters of a network, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gradients {
    /// One entry per parameter tensor.
    pub entries: Vec<Gradient>,
}

impl Gradients {
    /// Zeros for every trainable parameter.
    pub fn zeros_like(network: &Network) -> Self {
        let entries = network.parameters().into_iter().map(|parameter| Gradient {
            values: vec![0.0; parameter.len()].into(),
            path: parameter.path,
            id: parameter.id,
            shape: parameter.shape,
        });
        Self { entries: entries.collect() }
    }

    /// The entry of a parameter.
    pub fn get(&self, path: &str) -> Option<&Gradient> {
        self.entries.iter().find(|entry| entry.path == path)
    }

    /// How many numbers in all.
    pub fn len(&self) -> usize {
        self.entries.iter().map(|entry| entry.values.len()).sum()
    }

    /// Whether there are no numbers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Multiplies every number: 1 / (expected batch size) makes the mean of a private step.
    pub fn scale(&mut self, factor: f64) {
        for Gradient { values, .. } in &mut self.entries {
            match values.device() {
                Some(device) => *values = DeviceArray::from_tensor(values.tensor(&device) * factor),
                None => values.iter_mut().for_each(|v| *v = (f64::from(*v) * factor) as f32),
            }
        }
    }

    /// The L2 norm over all entries jointly.
    pub fn l2_norm(&self) -> f64 {
        let values = self.entries.iter().flat_map(|entry| &entry.values);
        values.map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt()
    }

    /// The form a Burn optimizer takes; [`step`](super::step) does the rest.
    pub fn to_params(&self, device: &Device) -> GradientsParams {
        let mut params = GradientsParams::new();
        for entry in &self.entries {
            let (flat, id) = (entry.values.tensor(device), entry.id);
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
