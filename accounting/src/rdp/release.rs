//! Rényi divergences of releases under a neighbouring relation.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use super::fixed_size::FixedSizeStep;
use super::sampled_gaussian::renyi_divergence;
use super::selection::{SelectionBound, split};
use super::truncated::{binomial_tail_upper, renyi_divergence_truncated};
use crate::event::{SingleRelease, flatten_events};
use crate::noise_grid::{Component, NoiseGrid};
use crate::{Error, Result};
use crate::{Event, NeighbouringRelation, Trials};

/// With more noise multipliers than this, steps are replaced by mixtures of few.
const MAX_EXACT_NOISE_MULTIPLIERS: usize = 256;

/// Releases with a known Rényi divergence, as nodes and mixtures of them.
pub(super) struct RenyiReleases {
    nodes: Vec<RenyiRelease>,
    /// The components of each list of releases.
    lists: Vec<Vec<Component>>,
    /// The private selections.
    selections: Vec<SelectionBound>,
    /// Number of times that each list contains each selection.
    selection_counts: Vec<Vec<(usize, u64)>>,
    /// The divergences of all nodes at the orders that were needed so far.
    divergence_cache: RefCell<HashMap<u64, Rc<[f64]>>>,
}

/// A release with a known Rényi divergence.
enum RenyiRelease {
    /// A step of the Poisson-subsampled Gaussian mechanism; no sampling at rate 1.
    Sampled { sampling_rate: f64, noise_multiplier: f64 },
    /// The same with a maximum batch size. `p_cap` is an upper bound on the probability that the
    /// other examples alone reach it.
    Truncated {
        neighbouring: NeighbouringRelation,
        p_cap: f64,
        sampling_rate: f64,
        noise_multiplier: f64,
    },
    /// A fixed number of examples, drawn without replacement.
    FixedSize(FixedSizeStep),
}

impl RenyiReleases {
    /// Flattens lists of events into releases. The last list contains the releases of all others.
    ///
    /// # Errors
    /// Kind `Setting` for a number outside its range. Kind `Accounting` for a release without a
    /// known divergence under this neighbouring relation.
    pub(super) fn from_lists(
        lists: &[&[Event]],
        neighbouring: NeighbouringRelation,
        orders: &Arc<[f64]>,
    ) -> Result<Self> {
        let parts: Vec<_> = lists.iter().map(|events| split(events)).collect();
        let lists: Vec<_> =
            parts.iter().map(|(events, _)| flatten_events("rdp", events)).collect::<Result<_>>()?;
        let mut known: Vec<(&Event, Trials)> = Vec::new();
        let mut number = |event, trials| {
            known.iter().position(|one| *one == (event, trials)).unwrap_or_else(|| {
                known.push((event, trials));
                known.len() - 1
            })
        };
        let selected = parts.iter().map(|(_, selections)| {
            selections
                .iter()
                .map(|&(event, trials, times)| (number(event, trials), times))
                .collect()
        });
        let selected: Vec<Vec<(usize, u64)>> = selected.collect();
        let selections = known.into_iter().map(|(event, trials)| {
            event.check()?;
            SelectionBound::new(event, *trials.check()?, neighbouring, orders)
        });
        let selections: Vec<SelectionBound> = selections.collect::<Result<_>>()?;
        let all = lists.last().map_or(&[][..], Vec::as_slice);
        let nodes = NoiseGrid::new(all, neighbouring, MAX_EXACT_NOISE_MULTIPLIERS);
        // The steps of a noise schedule have the same sampler, so its tail probability is reused.
        let mut last_tail = None;
        let release =
            |single: &SingleRelease| RenyiRelease::new(single, neighbouring, &mut last_tail);
        Ok(Self {
            lists: lists.iter().map(|list| nodes.components(list)).collect(),
            nodes: nodes.node_releases.iter().map(release).collect::<Result<_>>()?,
            divergence_cache: RefCell::default(),
            selections,
            selection_counts: selected,
        })
    }

    /// Returns whether a list has no releases.
    pub(super) fn is_empty(&self, list: usize) -> bool {
        self.lists[list].is_empty() && self.selection_counts[list].is_empty()
    }

    /// Returns whether a list has private selections, whose divergence is not linear in the order.
    pub(super) fn has_selections(&self, list: usize) -> bool {
        !self.selection_counts[list].is_empty()
    }

    /// Computes the Rényi divergence of order `order` of all releases of a list together, in nats;
    /// an upper bound where steps are replaced by mixtures.
    pub(super) fn divergence(&self, list: usize, order: f64) -> f64 {
        let known = self.divergence_cache.borrow().get(&order.to_bits()).cloned();
        let nodes = known.unwrap_or_else(|| {
            let nodes: Rc<[f64]> = self.nodes.iter().map(|node| node.divergence(order)).collect();
            self.divergence_cache.borrow_mut().insert(order.to_bits(), nodes.clone());
            nodes
        });
        let divergence = |component: &Component| {
            let (between, share) = component.mixture_count_and_mean_weight();
            let mut total = component.exact * nodes[component.node];
            if between > 0.0 {
                total += between
                    * mixture_divergence(
                        share,
                        nodes[component.node],
                        nodes[component.node + 1],
                        order,
                    );
            }
            total
        };
        let selected = self.selection_counts[list].iter();
        let selected =
            selected.map(|&(i, times)| times as f64 * self.selections[i].divergence(order));
        self.lists[list].iter().map(divergence).sum::<f64>() + selected.sum::<f64>()
    }
}

/// Computes the Rényi divergence of a mixture of two nodes: ln(share e^(m below) + (1 - share)
/// e^(m above)) divided by m, with m = order - 1.
///
/// It is concave in `share`, so many mixtures together have at most the divergence of as many with
/// their mean share.
fn mixture_divergence(share: f64, below: f64, above: f64, order: f64) -> f64 {
    let m = order - 1.0;
    // The node below has less noise and so the larger divergence.
    let rest = (1.0 - share) * (m * (above - below)).exp_m1();
    if below.is_finite() { below + rest.ln_1p() / m } else { below }
}

impl RenyiRelease {
    fn new(
        single: &SingleRelease,
        neighbouring: NeighbouringRelation,
        last_tail: &mut Option<((u64, f64, u64), f64)>,
    ) -> Result<Self> {
        Ok(match *single {
            SingleRelease::Poisson { sampling_rate, noise_multiplier }
                if neighbouring != NeighbouringRelation::ReplaceOne =>
            {
                RenyiRelease::Sampled { sampling_rate, noise_multiplier }
            }
            SingleRelease::Truncated { examples, sampling_rate, batch_cap, noise_multiplier }
                if neighbouring != NeighbouringRelation::ReplaceOne =>
            {
                let sampler = (examples, sampling_rate, batch_cap);
                let p_cap = match *last_tail {
                    Some((known, p_cap)) if known == sampler => p_cap,
                    _ => binomial_tail_upper(examples, sampling_rate, batch_cap),
                };
                *last_tail = Some((sampler, p_cap));
                RenyiRelease::Truncated { neighbouring, p_cap, sampling_rate, noise_multiplier }
            }
            SingleRelease::FixedSize { examples, batch_size, noise_multiplier }
                if neighbouring == NeighbouringRelation::ReplaceOne =>
            {
                // Replacing one example removes one contribution and adds another.
                let sigma = noise_multiplier / 2.0;
                RenyiRelease::FixedSize(FixedSizeStep::new(examples, batch_size, sigma))
            }
            other => match other.unsampled_noise_multiplier(neighbouring) {
                Some(noise_multiplier) => {
                    RenyiRelease::Sampled { sampling_rate: 1.0, noise_multiplier }
                }
                None => return Err(unsupported(&other, neighbouring)),
            },
        })
    }

    fn divergence(&self, order: f64) -> f64 {
        match *self {
            RenyiRelease::Sampled { sampling_rate, noise_multiplier } => {
                renyi_divergence(sampling_rate, noise_multiplier, order)
            }
            RenyiRelease::Truncated { neighbouring, p_cap, sampling_rate, noise_multiplier } => {
                renyi_divergence_truncated(
                    neighbouring,
                    p_cap,
                    sampling_rate,
                    noise_multiplier,
                    order,
                )
            }
            RenyiRelease::FixedSize(ref step) => step.renyi_divergence(order),
        }
    }
}

/// Returns the error of a release without a known divergence, with the reason and the accountant
/// to use instead.
fn unsupported(single: &SingleRelease, neighbouring: NeighbouringRelation) -> Error {
    let (why, fix) = match single {
        SingleRelease::Poisson { .. } => (
            "a closed-form Rényi divergence of Poisson sampling is known for add-or-remove-one and \
             zero-out, not for replace-one",
            "use the PLD accountant, which supports Poisson sampling under replace-one",
        ),
        SingleRelease::Truncated { .. } => (
            "no bound is known for an example that is replaced and also takes the place of another",
            "use the PLD accountant, or the add-or-remove or the zero-out relation",
        ),
        SingleRelease::FixedSize { .. } => (
            "sampling a fixed number of examples is accounted only under replace-one",
            "use the replace-one relation",
        ),
        SingleRelease::ShuffledEpoch { .. } | SingleRelease::Gaussian { .. } => (
            "an added or removed example moves other examples to other batches",
            "use the zero-out or the replace-one relation",
        ),
    };
    single.unsupported("rdp", format!("under \"{neighbouring}\" {why}")).fix(fix)
}
