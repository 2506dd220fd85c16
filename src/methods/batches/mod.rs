//! Batches as the plan samples them.

mod ahead;

use burn::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;

use crate::Result;
use crate::data::{Augment, Examples, OnDevice, sampler::PoissonSampler};
use crate::engine::Batch;
use crate::methods::Plan;
use crate::nn::Network;
use ahead::Ahead;

/// Draws the batches of a plan, and only those the plan's accountant knows about.
pub struct Batches {
    examples: Examples,
    augment: Option<Augment>,
    draws: Draws,
    way: Way,
}

/// Where a batch's features are put together.
enum Way {
    /// On the host, when the batch is drawn.
    Host,
    /// On the device, from features that are there.
    Device(OnDevice),
    /// On the host, while the device works on the batches before; then they are taken there.
    Ahead(OnDevice, Ahead<Draw, (Draw, Result<Vec<f32>>)>),
}

impl Batches {
    /// The sampler of `plan` over `examples`, with two secret random streams of its own: who is
    /// in a batch; dropout masks and augmented versions. Batches are made on the host.
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
        let draws = Draws { sampler, masks, versions, drawn: 0, steps: plan.steps() };
        Ok(Self { examples: examples.clone(), augment: plan.augment(), draws, way: Way::Host })
    }

    /// The same batches, made on the device where this network is; on the CPU, nothing changes.
    ///
    /// Features in memory are taken there once, if they fit, and gathered and augmented there.
    /// Others (image files, or more than the device has room for) are read by a thread of its own,
    /// up to two batches ahead; they are augmented on the device too. A batch costs no copy from
    /// the device to the host.
    ///
    /// # Guarantee
    /// That of [`new`](Self::new): the same seeds draw the same batches, masks and versions on every
    /// device. An error of reading comes with the batch it belongs to, never earlier, and that
    /// batch is not drawn again.
    ///
    /// # Errors
    /// If the examples hold tokens that the network doesn't know (nobody looks at them on the
    /// device: such batches are for this network's vocabulary), or the plan's augmentation does
    /// not suit them; as [`OnDevice::new`].
    pub fn on(self, network: &Network) -> Result<Self> {
        if network.device() == Device::flex() { Ok(self) } else { self.with_device_path(network) }
    }

    /// As [`on`](Self::on), but makes batches the way of a card on the CPU too.
    ///
    /// # Errors
    /// As [`on`](Self::on).
    pub fn with_device_path(self, network: &Network) -> Result<Self> {
        let examples = self.examples.clone();
        if examples.is_in_memory() {
            // Data in files are images; no network takes these for tokens.
            network.check_tokens(examples.features_flat())?;
        }
        self.augment.map_or(Ok(()), |augment| augment.check(examples.shape()))?;
        let placed = OnDevice::new(&examples, &network.device())?;
        let way = if placed.is_whole() {
            Way::Device(placed)
        } else {
            let read = move |draw: Draw| {
                let mut features = Vec::new();
                let read = examples.gather(&draw.ids, &mut features).map(|()| features);
                (draw, read)
            };
            Way::Ahead(placed, Ahead::start(read)?)
        };
        Ok(Self { way, ..self })
    }

    /// The next batch; it may be empty.
    ///
    /// # Errors
    /// If an example lies in a file that can no longer be read.
    pub fn draw(&mut self) -> Result<Batch> {
        let (draw, features) = match &mut self.way {
            Way::Host => {
                let draw = self.draws.next();
                return self.on_host(&draw);
            }
            Way::Device(placed) => {
                let draw = self.draws.next();
                let features =
                    if draw.ids.is_empty() { None } else { Some(placed.rows(&draw.ids)?) };
                (draw, features)
            }
            Way::Ahead(placed, ahead) => {
                while ahead.under_way() == 0
                    || ahead.under_way() <= WAITING && self.draws.are_left()
                {
                    ahead.give(self.draws.next());
                }
                let (draw, features) = ahead.take()?;
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
                let (features, labels) = augment.batch(examples, ids, draw.versions, draw.step)?;
                let (shape, copies) = (examples.shape(), augment.multiplicity());
                Batch::with_copies(features, shape, labels, copies)?.numbered(ids)?
            }
        };
        Ok(batch.seed(draw.seed))
    }

    /// The batch of features `[examples, features]` on a device; none where nobody was drawn.
    fn on_device(&self, draw: &Draw, features: Option<Tensor<2>>) -> Result<Batch> {
        let (shape, ids) = (self.examples.shape(), &draw.ids);
        let copies = self.augment.map_or(1, |augment| augment.multiplicity());
        let Some(features) = features else {
            return Ok(Batch::with_copies(Vec::new(), shape, Vec::new(), copies)?.seed(draw.seed));
        };
        let features = match self.augment {
            None => features,
            Some(augment) => augment.versions(features, shape, ids, [draw.versions, draw.step])?,
        };
        let labels = ids.iter().map(|&id| self.examples.labels()[id as usize]).collect();
        Ok(Batch::on_device(features, shape, labels, copies)?.numbered(ids)?.seed(draw.seed))
    }
}

/// All that is drawn of a plan's batches. Always on the host: how many examples a batch has decides
/// the shapes of all tensors of its step, so a card that draws would have to be asked each time. And
/// so a seed draws the same batches everywhere.
struct Draws {
    sampler: PoissonSampler,
    /// Where each step's seed of the dropout masks comes from.
    masks: ChaCha20Rng,
    /// The seed of the augmented versions, which differ from step to step by its number.
    versions: u64,
    drawn: u64,
    /// How many the plan has.
    steps: u64,
}

/// What is drawn for one batch.
struct Draw {
    ids: Vec<u32>,
    /// Of the dropout masks.
    seed: u64,
    /// Of the augmented versions.
    versions: u64,
    step: u64,
}

impl Draws {
    fn next(&mut self) -> Draw {
        let (ids, seed) = (self.sampler.next_batch(), self.masks.next_u64());
        self.drawn += 1;
        Draw { ids, seed, versions: self.versions, step: self.drawn - 1 }
    }

    /// Whether the plan has more: nothing is read for steps that are not to be taken.
    fn are_left(&self) -> bool {
        self.drawn < self.steps
    }
}

/// How many batches wait on the host while one is worked on: one ready and one being read, so that
/// a slow file is made up for by a fast one.
const WAITING: usize = 2;

/// The stream of the key that belongs to masks, so that another's seed given by mistake still
/// shares no key stream.
const STREAM: u64 = u64::from_le_bytes(*b"masks\0\0\0");
