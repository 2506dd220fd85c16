//! Events as components of a composition: dominating pairs with counts.

use super::dominating_pair::{DominatingPair, Kind};
use crate::Result;
use crate::accountant::unsupported;
use crate::event::{SingleRelease, flatten_events};
use crate::noise_grid::{Component, NoiseGrid};
use crate::rdp::truncated::binomial_tail_upper;
use crate::{Event, NeighbouringRelation};
use std::sync::Arc;

/// With more noise multipliers than this, steps are replaced by mixtures of few.
const MAX_EXACT_NOISE_MULTIPLIERS: usize = 128;

/// Smallest supported noise multiplier: the losses of smaller ones do not fit on a grid.
const MIN_NOISE: f64 = 0.02;

/// Limits outside of which grids would become too large.
const MAX_NOISE: f64 = 1e6;
const MIN_RATE: f64 = 1e-9;
const MAX_COUNT: f64 = 1e12;

/// The dominating pairs of one release: a mixture that is chosen independently of the data, as
/// (probability, pair). `None` releases nothing.
pub(super) type Mixture = Vec<(f64, Option<DominatingPair>)>;

/// Releases of a composition in terms of nodes, for one case of neighbouring data sets.
#[derive(Clone)]
pub(super) struct NeighbourCase {
    pub nodes: Arc<[Mixture]>,
    pub components: Vec<Component>,
    /// Whether steps may be replaced by mixtures of nodes, or rounded to them
    /// ([`NoiseGrid::is_approximated`]). A finer grid then tightens nothing.
    pub is_approximated: bool,
}

impl NeighbourCase {
    /// Returns the number of releases.
    pub fn releases(&self) -> f64 {
        self.components.iter().map(Component::releases).sum()
    }

    /// Returns, for every node, whether a component needs it.
    pub fn used_nodes(&self) -> Vec<bool> {
        let mut used = vec![false; self.nodes.len()];
        for component in &self.components {
            used[component.node] = true;
            if !component.mixtures.is_empty() {
                used[component.node + 1] = true;
            }
        }
        used
    }

    /// Returns (node, number of releases) for a lower bound: mixtures count as their node with
    /// more noise.
    pub fn lower_counts(&self) -> Vec<(usize, f64)> {
        let mut counts = vec![0.0; self.nodes.len()];
        for component in &self.components {
            counts[component.node] += component.exact;
            if !component.mixtures.is_empty() {
                counts[component.node + 1] += component.mixture_count_and_mean_weight().0;
            }
        }
        counts.into_iter().enumerate().filter(|(_, count)| *count > 0.0).collect()
    }

    /// Returns whether both directions are equal.
    pub fn is_symmetric(&self) -> bool {
        self.pairs().all(DominatingPair::is_symmetric)
    }

    /// Returns the pairs of the nodes that are needed.
    pub fn pairs(&self) -> impl Iterator<Item = &DominatingPair> {
        let used = self.used_nodes();
        let nodes = self.nodes.iter().zip(used).filter(|(_, used)| *used);
        nodes.flat_map(|(mixture, _)| pairs(mixture))
    }
}

/// Returns the pairs of a mixture, without their probabilities.
pub(super) fn pairs(mixture: &Mixture) -> impl Iterator<Item = &DominatingPair> {
    mixture.iter().filter_map(|(_, pair)| pair.as_ref())
}

/// Number of examples that both neighbours contain.
#[derive(Clone, Copy, Debug, PartialEq)]
enum OtherExamples {
    /// One less than the data set: one of its examples is removed, zeroed out or replaced.
    AllButOne,
    /// The whole data set: an example is added to it.
    All,
}

/// Returns the cases of neighbouring data sets for all events together. The epsilon of the events
/// is at most the largest epsilon of the cases.
pub(super) fn cases(
    events: &[Event],
    neighbouring: NeighbouringRelation,
) -> Result<Vec<NeighbourCase>> {
    let lists = cases_of_lists(&[events], neighbouring)?;
    Ok(lists.into_iter().flatten().collect())
}

/// Returns, for every case of neighbouring data sets, the compositions of growing lists of events:
/// the last list contains the releases of all others. They share their nodes.
///
/// Only a maximum batch size makes the number of other examples matter. Under add-or-remove-one it
/// is N or N - 1, and either can be the worse: with more other examples a batch reaches the cap
/// more often, with fewer the example is kept more often in a full batch. The pair of neighbours is
/// the same for all events, so the cases are not mixed.
pub(super) fn cases_of_lists(
    lists: &[&[Event]],
    neighbouring: NeighbouringRelation,
) -> Result<Vec<Vec<NeighbourCase>>> {
    let lists: Vec<FlattenedReleases> = lists
        .iter()
        .map(|events| FlattenedReleases::new(events, neighbouring))
        .collect::<Result<_>>()?;
    let Some(all) = lists.last() else { return Ok(Vec::new()) };
    let nodes = NoiseGrid::new(&all.sampled, neighbouring, MAX_EXACT_NOISE_MULTIPLIERS);
    let truncated = |single: &SingleRelease| matches!(single, SingleRelease::Truncated { .. });
    let truncated = all.sampled.iter().any(|(single, _)| truncated(single));
    let others: &[OtherExamples] =
        if truncated && neighbouring == NeighbouringRelation::AddOrRemoveOne {
            &[OtherExamples::AllButOne, OtherExamples::All]
        } else {
            &[OtherExamples::AllButOne]
        };
    let case = |&others: &OtherExamples| {
        let mixture = |node: &SingleRelease| mixture(node, neighbouring, others);
        let mut mixtures: Vec<Mixture> =
            nodes.node_releases.iter().map(mixture).collect::<Result<_>>()?;
        mixtures.extend(all.unsampled_mixture());
        let mixtures: Arc<[Mixture]> = mixtures.into();
        let of_list = |list: &FlattenedReleases| {
            let mut components = nodes.components(&list.sampled);
            // A list with fewer unsampled releases is bounded by all of them.
            if list.squared_mu > 0.0 {
                components.push(Component {
                    node: mixtures.len() - 1,
                    exact: 1.0,
                    ..Component::default()
                });
            }
            NeighbourCase {
                nodes: mixtures.clone(),
                components,
                is_approximated: nodes.is_approximated,
            }
        };
        let cases: Vec<NeighbourCase> = lists.iter().map(of_list).collect();
        cases.last().map_or(Ok(()), check_size)?;
        Ok(cases)
    };
    others.iter().map(case).collect()
}

/// The releases of a list of events. Gaussian mechanisms without sampling are merged into one,
/// because their composition is exactly Gaussian.
struct FlattenedReleases {
    sampled: Vec<(SingleRelease, u64)>,
    /// Sum of 1 / sigma² over the releases without sampling.
    squared_mu: f64,
}

impl FlattenedReleases {
    fn new(events: &[Event], neighbouring: NeighbouringRelation) -> Result<Self> {
        let mut releases = Self { sampled: Vec::new(), squared_mu: 0.0 };
        for (single, count) in flatten_events("pld", events)? {
            match single.unsampled_noise_multiplier(neighbouring) {
                Some(sigma) => releases.squared_mu += count as f64 / sigma / sigma,
                None => releases.sampled.push((single, count)),
            }
        }
        Ok(releases)
    }

    fn unsampled_mixture(&self) -> Option<Mixture> {
        let sigma = 1.0 / self.squared_mu.sqrt();
        let pair = DominatingPair { kind: Kind::OneSided, q: 1.0, sigma };
        (self.squared_mu > 0.0).then(|| vec![(1.0, Some(pair))])
    }
}

/// Checks that the losses fit on a grid.
fn check_size(case: &NeighbourCase) -> Result<()> {
    let sigma = case.pairs().map(|pair| pair.sigma).fold(f64::INFINITY, f64::min);
    if sigma < MIN_NOISE {
        let what = format!("noise of {sigma:.2e} times the sensitivity");
        let why = format!("the privacy losses of noise below {MIN_NOISE} do not fit on one grid");
        return Err(unsupported("pld", what, why)
            .fix("use the RDP accountant, or a larger noise multiplier"));
    }
    let pair_is_too_large = |pair: &DominatingPair| pair.sigma > MAX_NOISE || pair.q < MIN_RATE;
    let count_is_too_large = |component: &Component| component.releases() > MAX_COUNT;
    if case.pairs().any(pair_is_too_large) || case.components.iter().any(count_is_too_large) {
        let what = "too many releases, too small a sampling rate or too much noise";
        let why = "noise multipliers above 1e6, sampling rates below 1e-9 and more than 1e12 \
                   releases require too large a grid";
        return Err(unsupported("pld", what, why).fix("use the RDP accountant"));
    }
    Ok(())
}

/// Returns the dominating pairs of one release.
///
/// Poisson sampling: Zhu, Dong, Wang 2022, Theorem 11, for add-or-remove-one and zero-out.
/// Replace-one compares a draw with the opposite draw.
///
/// Maximum batch size: the number of *other* examples drawn does not depend on the example and may
/// be revealed. Below the cap the step is an ordinary Poisson-sampled one. At the cap the example,
/// if it is kept, takes the place of another, so adding it moves the sum by two contributions.
/// Under zero-out and replace-one the example keeps its place, but the batches without it differ
/// from those with it by more than its own contribution and may not hide it. The bound therefore
/// also reveals whether it is kept.
fn mixture(
    single: &SingleRelease,
    neighbouring: NeighbouringRelation,
    others: OtherExamples,
) -> Result<Mixture> {
    let pair = |q: f64, sigma: f64| {
        let kind = match neighbouring {
            NeighbouringRelation::ReplaceOne => Kind::TwoSided,
            _ => Kind::OneSided,
        };
        Some(DominatingPair { kind, q, sigma })
    };
    let revealed = |sigma: f64| Some(DominatingPair { kind: Kind::OneSided, q: 1.0, sigma });
    match *single {
        SingleRelease::Poisson { sampling_rate, noise_multiplier } => {
            Ok(vec![(1.0, pair(sampling_rate, noise_multiplier))])
        }
        SingleRelease::Truncated {
            examples,
            sampling_rate: q,
            batch_cap,
            noise_multiplier: sigma,
        } => {
            let others = match others {
                OtherExamples::AllButOne => examples.saturating_sub(1),
                OtherExamples::All => examples,
            };
            let p_cap = binomial_tail_upper(others, q, batch_cap);
            let mut mixture = vec![(1.0 - p_cap, pair(q, sigma))];
            // The probability underflowed.
            if p_cap == 0.0 {
                return Ok(mixture);
            }
            let kept = p_kept_at_cap(others, q, batch_cap, p_cap);
            match neighbouring {
                NeighbouringRelation::AddOrRemoveOne => {
                    mixture.push((p_cap, pair(kept, 0.5 * sigma)))
                }
                NeighbouringRelation::ZeroOutOne => mixture.push((p_cap * kept, revealed(sigma))),
                NeighbouringRelation::ReplaceOne => {
                    mixture.push((p_cap * kept, revealed(0.5 * sigma)))
                }
            }
            if neighbouring != NeighbouringRelation::AddOrRemoveOne {
                mixture.push((p_cap * (1.0 - kept), None));
            }
            Ok(mixture)
        }
        SingleRelease::FixedSize { .. } => Err(single
            .unsupported("pld", "no dominating pair is known for sampling without replacement")
            .fix("use the RDP accountant under the replace-one relation")),
        SingleRelease::ShuffledEpoch { .. } => Err(single
            .unsupported("pld", "removing an example shifts every later batch of a shuffled epoch")
            .fix("use the zero-out or the replace-one relation")),
        SingleRelease::Gaussian { .. } => {
            Err(single.unsupported("pld", "this neighbouring relation is not supported"))
        }
    }
}

/// Computes an upper bound on the probability that the example is in the batch, given that at
/// least `cap` of the n other examples are drawn.
///
/// It is the mean of q cap / (m + 1) over their number m, which is cap P\[Bin(n + 1, q) > cap\] /
/// ((n + 1) P\[Bin(n, q) >= cap\]). Which of the others are kept does not depend on m, so only the
/// mean matters.
fn p_kept_at_cap(others: u64, q: f64, cap: u64, p_cap: f64) -> f64 {
    let all = others.saturating_add(1);
    let more = binomial_tail_upper(all, q, cap.saturating_add(1));
    (cap as f64 * more / (all as f64 * p_cap) * (1.0 + 1e-6)).min(q)
}

#[cfg(test)]
mod tests;
