//! Weights of coordinates: which ones count, and how much, in an example's norm.

use burn::prelude::*;
use rayon::prelude::*;

use super::{Gradient, Gradients};
use crate::device::DeviceArray;
use crate::nn::Network;
use crate::{Error, ErrorKind, Result};

/// DeviceArray that are worth handing to another thread.
const MANY: usize = 1 << 16;

/// One number per coordinate of the parameters, not negative. The norm of an example's gradient
/// is √Σ wⱼ gⱼ²; coordinates of weight 0 are left out of the sum too. Zeros and ones make a mask,
/// squared parameters make the norm that of the connection sensitivities θ ⊙ g.
///
/// # Guarantee
/// Bounding the weighted norm by C bounds the change of √w ⊙ sum, in L2, by C when one example
/// comes or goes. For a mask that is the sum itself, on the coordinates that are kept. The weights
/// must not depend on the batch, or their choice has to be accounted for as well.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    values: Gradients,
    zero: Vec<bool>,
    /// The first weight between 0 and 1, if there is one.
    between: Option<f32>,
}

impl Weights {
    /// Weights for the parameters of `network`, in their order.
    ///
    /// # Errors
    /// If paths or shapes are not those of the network's parameters, or a weight is negative or
    /// not finite.
    pub fn new(network: &Network, values: Gradients) -> Result<Self> {
        suits(&values, network)?;
        let proper = |w: &f32| (0.0..=f32::MAX).contains(w);
        // Neither 0 nor at least 1, which nearly all weights are.
        let odd = |w: &f32| !((*w == 0.0) | (*w >= 1.0) & (*w <= f32::MAX));
        let mut between = None;
        for entry in &values.entries {
            // Counted without a way out in between: several at a time.
            if entry.values.iter().map(|w| u32::from(odd(w))).sum::<u32>() == 0 {
                continue;
            }
            if let Some(weight) = entry.values.iter().find(|w| !proper(w)) {
                let why = format!("weights are at least zero and finite (in {})", entry.path);
                return Err(Error::setting("weight", weight, why));
            }
            between = between.or_else(|| entry.values.iter().copied().find(odd));
        }
        let zero = values.entries.iter().map(|e| e.values.iter().all(|&w| w == 0.0)).collect();
        Ok(Self { values, zero, between })
    }

    /// Zeros and ones that were chosen on a device, in the order of the network's parameters:
    /// nobody looks at them on the host. `zero` says which tensors are known to be all zeros.
    pub(crate) fn chosen_on_device(
        network: &Network,
        values: Gradients,
        zero: Vec<bool>,
    ) -> Result<Self> {
        suits(&values, network)?;
        Ok(Self { values, zero, between: None })
    }

    /// The same weights, kept on this device as well: what happens there needs no copy of them.
    pub(crate) fn on(mut self, device: &Device) -> Self {
        for Gradient { values, .. } in &mut self.values.entries {
            *values = std::mem::take(values).to_device(device);
        }
        self
    }

    /// The weights, one entry per parameter tensor.
    pub fn entries(&self) -> &[Gradient] {
        &self.values.entries
    }

    /// Whether every weight of this entry is zero: executors skip the whole tensor.
    pub fn is_zero(&self, entry: usize) -> bool {
        self.zero[entry]
    }

    /// The first weight between 0 and 1, known without a look: under it a sum may change by more
    /// than its norm tells.
    pub(super) fn between(&self) -> Option<f32> {
        self.between
    }

    /// Refuses a network with other parameters than those the weights were made for.
    pub(super) fn check(&self, network: &Network) -> Result<()> {
        suits(&self.values, network)
    }

    /// Puts exact zeros where the weights are zero, whatever was there.
    pub(crate) fn select(&self, sum: &mut Gradients) {
        let select = |(values, weights): (&mut [f32], &[f32])| {
            for (value, &weight) in values.iter_mut().zip(weights) {
                *value = if weight == 0.0 { 0.0 } else { *value };
            }
        };
        for (entry, weights) in sum.entries.iter_mut().zip(self.entries()) {
            if let Some(device) = entry.values.device() {
                let left_out = weights.values.tensor(&device).equal_elem(0.0);
                let values = entry.values.tensor(&device).mask_fill(left_out, 0.0);
                entry.values = DeviceArray::from_tensor(values);
                continue;
            }
            let (values, weights) = (&mut entry.values[..], &weights.values[..]);
            match values.len() > MANY {
                true => values.par_chunks_mut(MANY).zip(weights.par_chunks(MANY)).for_each(select),
                false => select((values, weights)),
            }
        }
    }
}

fn suits(values: &Gradients, network: &Network) -> Result<()> {
    let wrong = |what: String, why: String| {
        Err(Error::new(ErrorKind::Model, what, why)
            .fix("start from Gradients::zeros_like(network) and fill in the values"))
    };
    let parameters = network.parameters();
    if values.entries.len() != parameters.len() {
        let what = format!("weights for {} parameter tensors", values.entries.len());
        return wrong(what, format!("the network has {}", parameters.len()));
    }
    for (entry, parameter) in values.entries.iter().zip(&parameters) {
        let fits = entry.path == parameter.path && entry.shape == parameter.shape;
        if !fits || entry.values.len() != parameter.len() {
            let count = entry.values.len();
            let what = format!("{count} weights for {} of shape {:?}", entry.path, entry.shape);
            let why = format!("here the network has {}, {:?}", parameter.path, parameter.shape);
            return wrong(what, why);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::{LayerSpec, LinearSpec};

    fn network() -> Network {
        let specs = [LayerSpec::Linear(LinearSpec::new(7, 3))];
        Network::build(&[7], &specs, |_, shape, _| vec![0.5; shape.iter().product()]).unwrap()
    }

    /// Every other coordinate; with `step_by(1)` all of them.
    fn every(step: usize, weight: f32) -> Gradients {
        let mut values = Gradients::zeros_like(&network());
        for entry in &mut values.entries {
            entry.values.iter_mut().step_by(step).for_each(|w| *w = weight);
        }
        values
    }

    #[test]
    fn selecting_on_a_device_is_selecting_on_the_host_and_looks_at_nothing() {
        let device = Device::flex();
        let on_host = Weights::new(&network(), every(2, 1.0)).unwrap();
        let mut sum = every(1, -2.5);
        sum.entries[0].values[1] = f32::NAN;
        sum.entries[1].values[1] = f32::INFINITY;
        let mut away = sum.clone();
        for entry in &mut away.entries {
            entry.values = DeviceArray::from_tensor(entry.values.tensor(&device));
        }
        on_host.select(&mut sum);
        let values = |sum: &Gradients| -> Vec<DeviceArray> {
            sum.entries.iter().map(|entry| entry.values.clone()).collect()
        };
        assert_eq!(values(&sum), values(&every(2, -2.5)));
        for weights in [on_host.clone(), on_host.on(&device)] {
            let mut selected = away.clone();
            weights.select(&mut selected);
            let unseen = |entry: &Gradient| format!("{:?}", entry.values).ends_with("on a device");
            assert!(selected.entries.iter().all(unseen));
            let bits = |g: &Gradients| -> Vec<u32> {
                g.entries.iter().flat_map(|e| e.values.iter().map(|v| v.to_bits())).collect()
            };
            assert_eq!(bits(&selected), bits(&sum));
        }
    }

    #[test]
    fn weights_know_whether_one_of_them_lies_between_0_and_1() {
        let between = |weight| Weights::new(&network(), every(2, weight)).unwrap().between();
        assert_eq!([0.0, 0.25, 1.0, 4.0].map(between), [None, Some(0.25), None, None]);
        assert_eq!(between(f32::from_bits(1)), Some(f32::from_bits(1)));
        for wrong in [-1.0, f32::NAN, f32::INFINITY] {
            let error = Weights::new(&network(), every(2, wrong)).unwrap_err();
            assert!(error.to_string().contains("at least zero and finite"), "{error}");
        }
    }
}
