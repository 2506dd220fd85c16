//! Per-coordinate weights of the gradient norm: masks, and norms of connection sensitivities.

use std::sync::{Arc, Weak};

use burn::prelude::*;
use rayon::prelude::*;

use super::{Gradient, Gradients};
use crate::device::DeviceArray;
use crate::nn::Network;
use crate::{Error, ErrorKind, Result};

/// Number of values that one thread processes at a time.
const PARALLEL_CHUNK: usize = 1 << 16;

/// Non-negative weights, one per parameter coordinate. The norm of a per-example gradient is
/// √(Σⱼ wⱼ gⱼ²), and coordinates of weight 0 are zero in the sum as well.
///
/// Zeros and ones form a mask. Squared parameters make the norm that of the connection
/// sensitivities θ ⊙ g (SNIP: Lee, Ajanthan and Torr, 2019).
///
/// # Guarantee
/// If the weighted norm is clipped at C, adding or removing one example changes √w ⊙ sum by at most
/// C in L2 norm. For a mask this is the sum itself on the selected coordinates. Assumption: the
/// weights do not depend on the batch, or their choice is accounted for separately.
#[derive(Clone, Debug, PartialEq)]
pub struct CoordinateWeights {
    /// Values of the weights, never changed in place while they are shared, so that the pointer
    /// identifies them.
    values: Arc<Gradients>,
    zero_tensors: Vec<bool>,
    /// First weight strictly between 0 and 1, if there is one.
    first_fractional: Option<f32>,
}

impl CoordinateWeights {
    /// Creates weights for the parameters of `network`, in their order.
    ///
    /// # Errors
    /// If paths or shapes differ from those of the network's parameters, or a weight is negative or
    /// not finite.
    pub fn new(network: &Network, values: Gradients) -> Result<Self> {
        check_parameters(&values, network)?;
        let valid = |w: &f32| (0.0..=f32::MAX).contains(w);
        // Nearly all weights are 0 or at least 1; only the others need a closer look.
        let fractional_or_invalid = |w: &f32| !((*w == 0.0) | (*w >= 1.0) & (*w <= f32::MAX));
        let mut fractional = None;
        for entry in &values.entries {
            // No early exit: the compiler vectorises the count.
            if entry.values.iter().map(|w| u32::from(fractional_or_invalid(w))).sum::<u32>() == 0 {
                continue;
            }
            if let Some(weight) = entry.values.iter().find(|w| !valid(w)) {
                let why = format!("weights must be at least zero and finite (in {})", entry.path);
                return Err(
                    Error::setting("weight", weight, why).fix("use zeros and ones for a mask")
                );
            }
            fractional =
                fractional.or_else(|| entry.values.iter().copied().find(fractional_or_invalid));
        }
        let zero = values.entries.iter().map(|e| e.values.iter().all(|&w| w == 0.0)).collect();
        Ok(Self { values: Arc::new(values), zero_tensors: zero, first_fractional: fractional })
    }

    /// Creates weights from a mask of zeros and ones that was computed on a device, in the order
    /// of the network's parameters. It is not read back to the host. `zero` says which tensors are
    /// known to be all zeros.
    pub(crate) fn from_device_mask(
        network: &Network,
        values: Gradients,
        zero: Vec<bool>,
    ) -> Result<Self> {
        check_parameters(&values, network)?;
        Ok(Self { values: Arc::new(values), zero_tensors: zero, first_fractional: None })
    }

    /// Copies the weights to `device` as well, so that later operations there need no copy.
    pub(crate) fn with_copy_on(mut self, device: &Device) -> Self {
        for Gradient { values, .. } in &mut Arc::make_mut(&mut self.values).entries {
            *values = std::mem::take(values).on(device);
        }
        self
    }

    /// Returns the same weights, but 0 for all coordinates of the tensors whose flag in `left_out`
    /// is set.
    pub(crate) fn with_zeroed_tensors(&self, left_out: &[bool]) -> Self {
        let mut weights = self.clone();
        let values = Arc::make_mut(&mut weights.values);
        let entries = values.entries.iter_mut().zip(&mut weights.zero_tensors);
        for ((entry, zero), _) in entries.zip(left_out).filter(|(_, left_out)| **left_out) {
            entry.values = vec![0.0; entry.values.len()].into();
            *zero = true;
        }
        weights
    }

    /// Returns the weights, one entry per parameter tensor.
    pub fn entries(&self) -> &[Gradient] {
        &self.values.entries
    }

    /// Returns the values, for as long as they are in use. Pointers to other values are never
    /// equal.
    pub(super) fn shared_values(&self) -> Weak<Gradients> {
        Arc::downgrade(&self.values)
    }

    /// Returns whether all weights of this entry are zero. Executors skip such tensors.
    pub fn is_zero_tensor(&self, entry: usize) -> bool {
        self.zero_tensors[entry]
    }

    /// Returns whether each tensor has a weight other than zero.
    pub(crate) fn nonzero_tensors(&self) -> Vec<bool> {
        self.zero_tensors.iter().map(|zero| !zero).collect()
    }

    /// Returns the first weight strictly between 0 and 1, known without reading weights on a
    /// device. With such a weight, the sum may change by more than the bound on the weighted norm.
    pub(super) fn first_fractional_weight(&self) -> Option<f32> {
        self.first_fractional
    }

    /// Checks that the network has the parameters that the weights were made for.
    pub(crate) fn check(&self, network: &Network) -> Result<()> {
        check_parameters(&self.values, network)
    }

    /// Sets coordinates of weight 0 to exactly zero, by selection.
    pub(crate) fn apply_mask(&self, sum: &mut Gradients) {
        let select = |(values, weights): (&mut [f32], &[f32])| {
            for (value, &weight) in values.iter_mut().zip(weights) {
                *value = if weight == 0.0 { 0.0 } else { *value };
            }
        };
        for (entry, weights) in sum.entries.iter_mut().zip(self.entries()) {
            if let Some(device) = entry.values.device() {
                let masked_out = weights.values.to_tensor(&device).equal_elem(0.0);
                let values = entry.values.to_tensor(&device).mask_fill(masked_out, 0.0);
                entry.values = DeviceArray::from_tensor(values);
                continue;
            }
            let (values, weights) = (&mut entry.values[..], &weights.values[..]);
            if values.len() > PARALLEL_CHUNK {
                values
                    .par_chunks_mut(PARALLEL_CHUNK)
                    .zip(weights.par_chunks(PARALLEL_CHUNK))
                    .for_each(select)
            } else {
                select((values, weights))
            }
        }
    }
}

fn check_parameters(values: &Gradients, network: &Network) -> Result<()> {
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
            let why = format!("the network has {}, {:?} there", parameter.path, parameter.shape);
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

    /// Creates weights of `weight` at every `step`-th coordinate, zero elsewhere.
    fn weights_at_every(step: usize, weight: f32) -> Gradients {
        let mut values = Gradients::zeros_like(&network());
        for entry in &mut values.entries {
            entry.values.iter_mut().step_by(step).for_each(|w| *w = weight);
        }
        values
    }

    #[test]
    fn select_on_a_device_equals_select_on_the_host_and_reads_nothing_back() {
        let device = Device::flex();
        let on_host = CoordinateWeights::new(&network(), weights_at_every(2, 1.0)).unwrap();
        let mut sum = weights_at_every(1, -2.5);
        sum.entries[0].values[1] = f32::NAN;
        sum.entries[1].values[1] = f32::INFINITY;
        let mut on_device_sum = sum.clone();
        for entry in &mut on_device_sum.entries {
            entry.values = DeviceArray::from_tensor(entry.values.to_tensor(&device));
        }
        on_host.apply_mask(&mut sum);
        let values = |sum: &Gradients| -> Vec<DeviceArray> {
            sum.entries.iter().map(|entry| entry.values.clone()).collect()
        };
        assert_eq!(values(&sum), values(&weights_at_every(2, -2.5)));
        for weights in [on_host.clone(), on_host.with_copy_on(&device)] {
            let mut selected = on_device_sum.clone();
            weights.apply_mask(&mut selected);
            let on_device =
                |entry: &Gradient| format!("{:?}", entry.values).ends_with("on a device");
            assert!(selected.entries.iter().all(on_device));
            let bits = |g: &Gradients| -> Vec<u32> {
                g.entries.iter().flat_map(|e| e.values.iter().map(|v| v.to_bits())).collect()
            };
            assert_eq!(bits(&selected), bits(&sum));
        }
    }

    #[test]
    fn the_first_weight_between_0_and_1_is_recorded() {
        let fractional = |weight| {
            CoordinateWeights::new(&network(), weights_at_every(2, weight))
                .unwrap()
                .first_fractional_weight()
        };
        assert_eq!([0.0, 0.25, 1.0, 4.0].map(fractional), [None, Some(0.25), None, None]);
        assert_eq!(fractional(f32::from_bits(1)), Some(f32::from_bits(1)));
        for wrong in [-1.0, f32::NAN, f32::INFINITY] {
            let error = CoordinateWeights::new(&network(), weights_at_every(2, wrong)).unwrap_err();
            assert!(error.to_string().contains("at least zero and finite"), "{error}");
        }
    }
}
