//! Batches drawn by the sampler of a plan.

mod prefetch;

use burn::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;

use crate::Result;
use crate::data::{Augment, Examples, OnDevice, sampler::PoissonSampler};
use crate::engine::Batch;
use crate::methods::Plan;
use crate::nn::Network;
use prefetch::Prefetcher;

/// Draws the batches of a plan with the sampler that its accountant assumes.
pub struct Batches {
    examples: Examples,
    augment: Option<Augment>,
    draws: Draws,
    assembly: Assembly,
}

/// Where the features of a batch are gathered.
enum Assembly {
    /// On the host, when the batch is drawn.
    Host,
    /// On the device, from features that are stored there.
    Device(OnDevice),
    /// On the host by a thread, while the device works on earlier batches; then uploaded.
    Prefetched(OnDevice, Prefetcher<Draw, (Draw, Result<Vec<f32>>)>),
}

impl Batches {
    /// Batches of `plan` over `examples`, assembled on the host. `sampling` seeds the sampler,
    /// `masks` the dropout masks and the augmentation; both must be secret.
    ///
    /// # Guarantee
    /// Each example is in a batch with the plan's sampling rate, independently of all other
    /// examples and steps (Poisson sampling), as [`Plan::event`] states. Dropout masks and
    /// augmented copies are drawn anew in every step, as functions of an example's own index and of
    /// a secret seed;
    /// [`Batch::seed`] and [`Augment`] say why the sensitivity remains that of the clip rule.
    pub fn new(
        plan: &Plan,
        examples: &Examples,
        sampling: [u8; 32],
        masks: [u8; 32],
    ) -> Result<Self> {
        let sampler = PoissonSampler::new(examples.len(), plan.sampling_rate(), sampling)?;
        let mut masks = ChaCha20Rng::from_seed(masks);
        masks.set_stream(STREAM);
        let augment_seed = masks.next_u64();
        let draws = Draws { sampler, masks, augment_seed, drawn: 0, steps: plan.steps() };
        let (examples, augment) = (examples.clone(), plan.augment());
        Ok(Self { examples, augment, draws, assembly: Assembly::Host })
    }

    /// The same batches, assembled on the network's device; on the CPU, nothing changes.
    ///
    /// Features in memory are uploaded once if they fit, and gathered and augmented on the device.
    /// All others (image files, or data that exceeds the memory budget) are read by a thread, up to
    /// two batches in advance, and augmented on the device. No batch copies data from the device to
    /// the host.
    ///
    /// # Guarantee
    /// That of [`new`](Self::new): equal seeds draw equal batches, masks and copies on every
    /// device. A read error is returned with the batch it belongs to, and that batch is not drawn
    /// again.
    ///
    /// # Errors
    /// If the examples hold token ids outside the network's vocabulary (the device does not check
    /// them), or if the plan's augmentation does not apply to them; as [`OnDevice::new`].
    pub fn on(self, network: &Network) -> Result<Self> {
        if network.device() == Device::flex() { Ok(self) } else { self.on_device_path(network) }
    }

    /// As [`on`](Self::on), but uses the code path of a GPU on the CPU too, for tests.
    ///
    /// # Errors
    /// As [`on`](Self::on).
    pub fn on_device_path(self, network: &Network) -> Result<Self> {
        let examples = self.examples.clone();
        if examples.is_in_memory() {
            // Data in files are images, which hold no token ids.
            network.check_tokens(examples.features_flat())?;
        }
        self.augment.map_or(Ok(()), |augment| augment.check(examples.shape()))?;
        let placed = OnDevice::new(&examples, &network.device())?;
        let assembly = if placed.is_whole() {
            Assembly::Device(placed)
        } else {
            let read = move |draw: Draw| {
                let mut features = Vec::new();
                let read = examples.gather(&draw.ids, &mut features).map(|()| features);
                (draw, read)
            };
            Assembly::Prefetched(placed, Prefetcher::start(read)?)
        };
        Ok(Self { assembly, ..self })
    }

    /// The next batch; it may be empty.
    ///
    /// # Errors
    /// If the file of an example can no longer be read.
    pub fn draw(&mut self) -> Result<Batch> {
        let (draw, features) = match &mut self.assembly {
            Assembly::Host => {
                let draw = self.draws.next();
                return self.on_host(&draw);
            }
            Assembly::Device(placed) => {
                let draw = self.draws.next();
                let features =
                    if draw.ids.is_empty() { None } else { Some(placed.rows(&draw.ids)?) };
                (draw, features)
            }
            Assembly::Prefetched(placed, prefetcher) => {
                while prefetcher.in_flight() == 0
                    || prefetcher.in_flight() <= PREFETCHED && self.draws.are_left()
                {
                    prefetcher.submit(self.draws.next());
                }
                let (draw, features) = prefetcher.receive()?;
                let features = features?;
                let features = (!draw.ids.is_empty()).then(|| placed.bring(features));
                (draw, features)
            }
        };
        self.on_device(&draw, features)
    }

    fn on_host(&self, draw: &Draw) -> Result<Batch> {
        let (examples, ids) = (&self.examples, &draw.ids);
        let batch = match &self.augment {
            None => Batch::of(examples, ids)?,
            Some(augment) => {
                let (features, labels) =
                    augment.batch(examples, ids, draw.augment_seed, draw.step)?;
                let (shape, copies) = (examples.shape(), augment.multiplicity());
                Batch::with_copies(features, shape, labels, copies)?.numbered(ids)?
            }
        };
        Ok(batch.seed(draw.seed))
    }

    /// The batch of these features on a device, `[examples, features]`; `None` for an empty draw.
    fn on_device(&self, draw: &Draw, features: Option<Tensor<2>>) -> Result<Batch> {
        let (shape, ids) = (self.examples.shape(), &draw.ids);
        let copies = self.augment.map_or(1, |augment| augment.multiplicity());
        let Some(features) = features else {
            return Ok(Batch::with_copies(Vec::new(), shape, Vec::new(), copies)?.seed(draw.seed));
        };
        let features = match self.augment {
            None => features,
            Some(augment) => {
                augment.copies_of(features, shape, ids, [draw.augment_seed, draw.step])?
            }
        };
        let labels = ids.iter().map(|&id| self.examples.labels()[id as usize]).collect();
        Ok(Batch::on_device(features, shape, labels, copies)?.numbered(ids)?.seed(draw.seed))
    }
}

/// The random draws of a plan's batches. They are made on the host: the number of examples decides
/// the tensor shapes of a step, so drawing on the device would need a synchronization per step. It
/// also makes a seed draw the same batches on every device.
struct Draws {
    sampler: PoissonSampler,
    /// Generates the dropout seed of each step.
    masks: ChaCha20Rng,
    /// Seed of the augmentation; the step number is its second argument.
    augment_seed: u64,
    drawn: u64,
    /// Number of steps of the plan.
    steps: u64,
}

/// The random draws of one batch.
struct Draw {
    ids: Vec<u32>,
    /// Seed of the dropout masks.
    seed: u64,
    /// Seed of the augmentation.
    augment_seed: u64,
    step: u64,
}

impl Draws {
    fn next(&mut self) -> Draw {
        let (ids, seed) = (self.sampler.next_batch(), self.masks.next_u64());
        self.drawn += 1;
        Draw { ids, seed, augment_seed: self.augment_seed, step: self.drawn - 1 }
    }

    /// Whether the plan has further batches: none is read beyond its last step.
    fn are_left(&self) -> bool {
        self.drawn < self.steps
    }
}

/// Number of batches prefetched while one is in use: one complete and one being read, so that the
/// time of slow and fast files averages out.
const PREFETCHED: usize = 2;

/// ChaCha stream of the masks. A seed that is used for another purpose by mistake still gives a
/// different key stream.
const STREAM: u64 = u64::from_le_bytes(*b"masks\0\0\0");
