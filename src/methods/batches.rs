//! Batches as the plan samples them.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;

use crate::Result;
use crate::data::{Augment, Examples, sampler::PoissonSampler};
use crate::engine::Batch;
use crate::methods::Plan;

/// Draws the batches of a plan, and only those the plan's accountant knows about.
pub struct Batches {
    sampler: PoissonSampler,
    examples: Examples,
    augment: Option<Augment>,
    /// Where each step's seed of the dropout masks comes from.
    masks: ChaCha20Rng,
    /// The seed of the augmented versions, which differ from step to step by its number.
    versions: u64,
    drawn: u64,
}

impl Batches {
    /// The sampler of `plan` over `examples`, with two secret random streams of its own: who is
    /// in a batch; dropout masks and augmented versions.
    ///
    /// # Guarantee
    /// Every example is in a batch with the plan's sampling rate, independently of the others and
    /// of other steps (Poisson sampling): what [`Plan::event`] says. Masks and versions are new
    /// in every step, go by an example's own number, and are known to nobody: see
    /// [`Batch::seed`] and [`Augment`] for why the sensitivity stays that of the clip rule.
    pub fn new(
        plan: &Plan,
        examples: &Examples,
        sampling: [u8; 32],
        masks: [u8; 32],
    ) -> Result<Self> {
        let sampler = PoissonSampler::new(examples.len(), plan.sampling_rate(), sampling)?;
        let mut masks = ChaCha20Rng::from_seed(masks);
        masks.set_stream(STREAM);
        let versions = masks.next_u64();
        let (examples, augment) = (examples.clone(), plan.augment());
        Ok(Self { sampler, examples, augment, masks, versions, drawn: 0 })
    }

    /// The next batch; it may be empty.
    ///
    /// # Errors
    /// If an example lies in a file that can no longer be read.
    pub fn draw(&mut self) -> Result<Batch> {
        let ids = self.sampler.next_batch();
        let (seed, step) = (self.masks.next_u64(), self.drawn);
        self.drawn += 1;
        let batch = match &self.augment {
            None => Batch::of(&self.examples, &ids)?,
            Some(augment) => {
                let (features, labels) =
                    augment.batch(&self.examples, &ids, self.versions, step)?;
                let (shape, copies) = (self.examples.shape(), augment.multiplicity());
                Batch::with_copies(features, shape, labels, copies)?.numbered(&ids)?
            }
        };
        Ok(batch.seed(seed))
    }
}

/// The stream of the key that belongs to masks, so that another's seed given by mistake still
/// shares no key stream.
const STREAM: u64 = u64::from_le_bytes(*b"masks\0\0\0");
