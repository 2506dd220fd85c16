//! Batches as the plan samples them.

use crate::Result;
use crate::data::{Examples, sampler::PoissonSampler};
use crate::engine::Batch;
use crate::methods::Plan;

/// Draws the batches of a plan, and only those the plan's accountant knows about.
pub struct Batches {
    sampler: PoissonSampler,
    examples: Examples,
}

impl Batches {
    /// The sampler of `plan` over `examples`, with its own random stream.
    ///
    /// # Guarantee
    /// Every example is in a batch with the plan's sampling rate, independently of the others and
    /// of other steps (Poisson sampling): what [`Plan::event`] says.
    pub fn new(plan: &Plan, examples: &Examples, seed: [u8; 32]) -> Result<Self> {
        let sampler = PoissonSampler::new(examples.len(), plan.sampling_rate(), seed)?;
        Ok(Self { sampler, examples: examples.clone() })
    }

    /// The next batch; it may be empty.
    ///
    /// # Errors
    /// If an example lies in a file that can no longer be read.
    pub fn draw(&mut self) -> Result<Batch> {
        Batch::of(&self.examples, &self.sampler.next_batch())
    }
}
