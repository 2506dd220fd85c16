//! The canaries of one run, and the scores that an attacker gives them.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

use crate::Result;
use crate::data::{self, Dataset};
use crate::engine::{AutoExecutor, Batch, ClipRule, Executor, Gradients};
use crate::methods::Plan;
use crate::nn::Network;
use crate::train::Seeds;

/// Feature of a canary, as a multiple of the clip norm: most of its gradient is clipped away.
const AMPLITUDE: f64 = 10.0;

/// The canaries, and which of them are in the training part.
pub(super) struct CanarySet {
    pub(super) canaries: Batch,
    pub(super) included: Vec<bool>,
    /// Number of the other examples, which come first.
    pub(super) others: u32,
}

impl CanarySet {
    /// Draws the canaries; returns the data set with those that are in.
    pub(super) fn new(
        plan: &Plan,
        data: &Dataset,
        canaries: usize,
        seeds: &Seeds,
    ) -> Result<(Self, Dataset)> {
        let mut rng = ChaCha20Rng::from_seed(seeds.dropout);
        let size: usize = data.shape().iter().product();
        let bound = plan.privacy().map_or(1.0, |privacy| privacy.clip.noise_std(1.0));
        let amplitude = (AMPLITUDE * bound.max(1.0)) as f32;
        let (mut all, mut labels) = (vec![0.0; canaries * size], Vec::with_capacity(canaries));
        for (i, row) in all.chunks_exact_mut(size).enumerate() {
            row[i * (size / canaries)] = amplitude;
            labels.push(rng.random_range(0..data.classes() as u32));
        }
        let is_in: Vec<bool> = (0..canaries).map(|_| rng.random()).collect();
        let train = data.train();
        let ids: Vec<u32> = (0..train.len() as u32).collect();
        let (mut features, mut classes) = (Vec::new(), train.labels().to_vec());
        train.gather(&ids, &mut features)?;
        for (i, row) in all.chunks_exact(size).enumerate().filter(|(i, _)| is_in[*i]) {
            features.extend_from_slice(row);
            classes.push(labels[i]);
        }
        let others = train.len() as u32;
        let together = data::from_vecs(features, data.shape(), classes, data.classes())?;
        Ok((
            Self { canaries: Batch::new(all, data.shape(), labels)?, included: is_in, others },
            together,
        ))
    }
}

/// Attacker that scores the canaries of a step.
pub(super) struct Attacker<'a> {
    pub(super) executor: AutoExecutor,
    pub(super) canaries: &'a Batch,
}

impl Attacker<'_> {
    /// Adds ⟨rest, gᵢ⟩/‖gᵢ‖ for every canary: the derivative of its loss along `rest`, by a central
    /// difference.
    pub(super) fn add_scores(
        &self,
        network: &Network,
        rest: &Gradients,
        scores: &mut [f64],
    ) -> Result<()> {
        const LENGTH: f64 = 1e-2;
        let step = LENGTH / rest.l2_norm().max(f64::MIN_POSITIVE);
        let moved = |distance: f64| {
            let values = network.values();
            let network = network.with_values(|path| {
                let (_, values) = values.iter().find(|(parameter, _)| parameter.path == path)?;
                let along = rest.get(path)?;
                let moved = values.iter().zip(&along.values);
                Some(
                    moved.map(|(&v, &a)| (f64::from(v) + distance * f64::from(a)) as f32).collect(),
                )
            });
            self.executor.unclipped_sum(&network, self.canaries, None)
        };
        let norms = self.executor.clipped_sum(network, self.canaries, &ClipRule::flat(1.0))?.norms;
        let (ahead, behind) = (moved(step)?.losses, moved(-step)?.losses);
        for (i, score) in scores.iter_mut().enumerate() {
            let derivative = f64::from(ahead[i] - behind[i]) / (2.0 * step);
            let cosine = derivative / f64::from(norms[i]);
            *score += if cosine.is_finite() { cosine } else { 0.0 };
        }
        Ok(())
    }
}
