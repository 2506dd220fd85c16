//! The fast executor: one backward pass per chunk of examples.

mod chunk;
mod plan;
mod recorder;

use super::{Batch, ClipRule, ClippedSum, Gradients, PerExample};
use crate::nn::{LayerSpec, Network, workers};
use crate::{Error, ErrorKind, Result};
use plan::Plan;

/// Per-example gradients by taps: one forward and one backward pass per chunk of examples, in
/// which Burn computes gradients by activations only. Norms of linear layers come from the sizes
/// of input and output gradient ("ghost"); convolutions form one example's gradient at a time.
/// Memory: the activations of one chunk and two gradients per core, never batch x parameters.
///
/// The result does not depend on the number of threads: chunks are summed in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taps {
    chunk: usize,
}

impl Default for Taps {
    fn default() -> Self {
        // More examples leave the processor's caches, fewer leave its vector units idle.
        Self { chunk: 32 }
    }
}

impl Taps {
    /// Works on this many examples at a time (at least one). It changes speed and memory, and
    /// the sums by f32 rounding only.
    pub fn with_chunk(self, examples: usize) -> Self {
        Self { chunk: examples.max(1) }
    }
}

/// What one pass over the examples gave; norms and losses in the order of `rows`.
struct Pass {
    sum: Vec<f32>,
    norms: Vec<f32>,
    losses: Vec<f32>,
}

impl Taps {
    fn pass(
        &self,
        network: &Network,
        plan: &Plan,
        batch: &Batch,
        rows: &[usize],
        rule: &ClipRule,
    ) -> Result<Pass> {
        let mut pass = Pass { sum: vec![0.0; plan.len()], norms: Vec::new(), losses: Vec::new() };
        let chunks: Vec<&[usize]> = rows.chunks(self.chunk).collect();
        workers::in_order(
            chunks.len(),
            |i| {
                let (features, labels) = batch.rows(chunks[i]);
                chunk::run(network, plan, features, &labels, rule)
            },
            |_, chunk| {
                for (sum, share) in pass.sum.iter_mut().zip(&chunk.sum) {
                    *sum += share;
                }
                pass.norms.extend(chunk.norms);
                pass.losses.extend(chunk.losses);
            },
        )?;
        Ok(pass)
    }
}

impl PerExample for Taps {
    fn clipped_sum(&self, network: &Network, batch: &Batch, rule: &ClipRule) -> Result<ClippedSum> {
        batch.check(network)?;
        rule.check()?;
        supported(network)?;
        let plan = Plan::of(network);
        let mut rows = batch.finite();
        // An example with finite features can still have a gradient that overflows. It is then
        // taken out and all is done again, so that the others fall into the very chunks, and
        // into the very rounding, of a batch without it.
        let pass = loop {
            let pass = self.pass(network, &plan, batch, &rows, rule)?;
            let finite = |i: usize| pass.norms[i].is_finite() && pass.losses[i].is_finite();
            if (0..rows.len()).all(finite) {
                break pass;
            }
            let mut i = 0..rows.len();
            rows.retain(|_| i.next().is_some_and(finite));
        };
        let mut norms = vec![f32::NAN; batch.len()];
        let mut losses = vec![f32::NAN; batch.len()];
        for (i, &row) in rows.iter().enumerate() {
            (norms[row], losses[row]) = (pass.norms[i], pass.losses[i]);
        }
        let mut sum = Gradients::zeros_like(network);
        plan.scatter(&pass.sum, &mut sum);
        Ok(ClippedSum { sum, norms, losses, non_finite: batch.len() - rows.len() })
    }
}

/// Refuses layers whose gradients this executor would leave out.
fn supported(network: &Network) -> Result<()> {
    let plain = |(spec, shape): (&LayerSpec, Vec<usize>)| match spec {
        LayerSpec::Linear(_) => shape.len() == 1,
        LayerSpec::Conv2d(spec) => spec.groups == 1 && spec.standardised.is_none(),
        _ => spec.parameters().is_empty(),
    };
    // A module of the user's own has no specifications.
    let listed = !network.specs().is_empty();
    if listed && network.specs().iter().zip(network.input_shapes()).all(plain) {
        return Ok(());
    }
    let why = "it forms gradients of plain linear layers and convolutions only";
    Err(Error::new(ErrorKind::Model, "Taps was given a layer it does not know", why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::LinearSpec;

    #[test]
    fn a_huge_input_with_a_tiny_gradient_is_clipped_all_the_same() {
        // One feature of 1e19 and logits of 53 and 0: the gradient by the second logit is about
        // 1e-23, its square is 0 in f32, but their product, the example's share, is not.
        let layer = LinearSpec { inputs: 1, outputs: 2, bias: true };
        let network = Network::build(&[1], &[LayerSpec::Linear(layer)], |path, _, _| {
            if path.ends_with("weight") { vec![5.3e-18, 0.0] } else { vec![0.0, 0.0] }
        })
        .unwrap();
        let batch = Batch::new(vec![1e19], &[1], vec![0]).unwrap();
        let share = |clip| {
            let rule = ClipRule::flat(clip);
            Taps::default().clipped_sum(&network, &batch, &rule).unwrap().sum.l2_norm()
        };
        assert!(share(1.0) > 1e-5, "the example has something to clip");
        assert!(share(1e-6) <= 1e-6 * (1.0 + 1e-4), "{:e}", share(1e-6));
    }
}
