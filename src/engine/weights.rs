//! Weights of coordinates: which ones count, and how much, in an example's norm.

use rayon::prelude::*;

use super::{Gradient, Gradients};
use crate::nn::Network;
use crate::{Error, ErrorKind, Result};

/// Numbers that are worth handing to another thread.
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
}

impl Weights {
    /// Weights for the parameters of `network`, in their order.
    ///
    /// # Errors
    /// If paths or shapes are not those of the network's parameters, or a weight is negative or
    /// not finite.
    pub fn new(network: &Network, values: Gradients) -> Result<Self> {
        suits(&values, network)?;
        for entry in &values.entries {
            let proper = |w: &f32| (0.0..=f32::MAX).contains(w);
            // Counted without a way out in between: several at a time.
            if entry.values.iter().map(|w| u32::from(!proper(w))).sum::<u32>() == 0 {
                continue;
            }
            if let Some(weight) = entry.values.iter().find(|w| !proper(w)) {
                let why = format!("weights are at least zero and finite (in {})", entry.path);
                return Err(Error::setting("weight", weight, why));
            }
        }
        let zero = values.entries.iter().map(|e| e.values.iter().all(|&w| w == 0.0)).collect();
        Ok(Self { values, zero })
    }

    /// Zeros and ones that were chosen on a device, in the order of the network's parameters:
    /// nobody looks at them on the host. `zero` says which tensors are known to be all zeros.
    pub(crate) fn chosen_on_device(
        network: &Network,
        values: Gradients,
        zero: Vec<bool>,
    ) -> Result<Self> {
        suits(&values, network)?;
        Ok(Self { values, zero })
    }

    /// The weights, one entry per parameter tensor.
    pub fn entries(&self) -> &[Gradient] {
        &self.values.entries
    }

    /// Whether every weight of this entry is zero: executors skip the whole tensor.
    pub fn is_zero(&self, entry: usize) -> bool {
        self.zero[entry]
    }

    /// Refuses a network with other parameters than those the weights were made for.
    pub(super) fn check(&self, network: &Network) -> Result<()> {
        suits(&self.values, network)
    }

    /// Puts exact zeros where the weights are zero.
    pub(crate) fn select(&self, sum: &mut Gradients) {
        let select = |(values, weights): (&mut [f32], &[f32])| {
            for (value, &weight) in values.iter_mut().zip(weights) {
                *value = if weight == 0.0 { 0.0 } else { *value };
            }
        };
        for (entry, weights) in sum.entries.iter_mut().zip(self.entries()) {
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
