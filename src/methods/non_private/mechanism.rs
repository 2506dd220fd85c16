//! The step without privacy: the gradient, neither clipped nor noised.

use crate::Result;
use crate::engine::{AutoExecutor, Batch, Executor, Weights, typical_max_batch_size};
use crate::methods::{Mechanism, Release};
use crate::nn::{Network, Precision};

/// The summed gradient divided by the expected batch size, as in the private methods.
///
/// # Guarantee
/// None: no clipping, no noise.
pub struct MeanGradient {
    expected_batch_size: f64,
    executor: AutoExecutor,
}

impl MeanGradient {
    /// The mechanism for this expected batch size.
    pub fn new(expected_batch_size: usize) -> Self {
        let executor =
            AutoExecutor::default().fixed_chunks(typical_max_batch_size(expected_batch_size));
        Self { expected_batch_size: expected_batch_size as f64, executor }
    }

    /// The same with this precision of products on a GPU.
    pub fn precision(self, precision: Precision) -> Self {
        Self { executor: self.executor.precision(precision), ..self }
    }
}

impl Mechanism for MeanGradient {
    fn release(
        &mut self,
        network: &Network,
        batch: &Batch,
        selected: Option<&Weights>,
    ) -> Result<Release> {
        let all = self.executor.plain_sum(network, batch)?;
        let mut gradient = all.sum;
        if let Some(selected) = selected {
            selected.select(&mut gradient);
        }
        gradient.scale(1.0 / self.expected_batch_size);
        Ok(Release { gradient, losses: all.losses })
    }
}
