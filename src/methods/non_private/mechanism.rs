//! What one step without privacy uses: the gradient as it is.

use crate::Result;
use crate::engine::{AutoExecutor, Batch, Executor, Weights, typical_max_batch_size};
use crate::methods::{Mechanism, Release};
use crate::nn::{Network, Precision};

/// The plain gradient, divided by the expected batch size like the private ones.
///
/// # Guarantee
/// None: no clipping, no noise.
pub struct MeanGradient {
    expected_batch_size: f64,
    executor: AutoExecutor,
}

impl MeanGradient {
    /// For batches of this expected size.
    pub fn new(expected_batch_size: usize) -> Self {
        let executor =
            AutoExecutor::default().fixed_chunks(typical_max_batch_size(expected_batch_size));
        Self { expected_batch_size: expected_batch_size as f64, executor }
    }

    /// With products in such numbers on a card.
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
