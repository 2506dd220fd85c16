//! Events as components of a composition: dominating pairs with counts.

use super::dominating_pair::{DominatingPair, Kind};
use crate::Result;
use crate::privacy::event::{Single, singles};
use crate::privacy::rdp::truncated::binomial_tail_upper;
use crate::privacy::{Event, Neighbouring};
use std::collections::BTreeMap;

/// With more noise multipliers than this, they are rounded to a common grid.
pub(super) const MAX_MULTIPLIERS: usize = 256;

/// Step of that grid in ln(noise multiplier): 0.1 %.
const LOG_STEP: f64 = 1e-3;

/// Smallest supported noise multiplier: the losses of smaller ones do not fit on a grid.
const MIN_NOISE: f64 = 0.02;

/// Limits outside of which grids would become too large.
const MAX_NOISE: f64 = 1e6;
const MIN_RATE: f64 = 1e-9;
const MAX_COUNT: f64 = 1e12;

/// One kind of release in a composition, with its counts.
#[derive(Clone, Debug)]
pub(super) struct Component {
    /// (probability, pair): data-independent mixture of pairs. `None` releases nothing.
    pub mixture: Vec<(f64, Option<DominatingPair>)>,
    /// Number of releases, for the upper bound.
    pub count: f64,
    /// Number of releases, for the lower bound.
    pub count_lower: f64,
}

impl Component {
    /// The pairs, without their probabilities.
    pub fn pairs(&self) -> impl Iterator<Item = &DominatingPair> {
        self.mixture.iter().filter_map(|(_, pair)| pair.as_ref())
    }
}

/// Number of examples that both neighbours contain.
#[derive(Clone, Copy, Debug, PartialEq)]
enum OtherExamples {
    /// One less than the data set: one of its examples is removed, zeroed out or replaced.
    AllButOne,
    /// The whole data set: an example is added to it.
    All,
}

/// The components of all events together, one list per case of neighbouring data sets. The epsilon
/// of the events is at most the largest epsilon of these lists.
///
/// Only a maximum batch size makes the number of other examples matter. Under add-or-remove-one it
/// is N or N - 1, and either can be the worse: with more other examples a batch reaches the cap
/// more often, with fewer the example is kept more often in a full batch. The pair of neighbours is
/// the same for all events, so the cases are not mixed.
pub(super) fn cases(events: &[Event], neighbouring: Neighbouring) -> Result<Vec<Vec<Component>>> {
    let singles = singles("pld", events)?;
    let truncated = singles.iter().any(|(single, _)| matches!(single, Single::Truncated { .. }));
    let all: &[OtherExamples] = match truncated && neighbouring == Neighbouring::AddOrRemoveOne {
        true => &[OtherExamples::AllButOne, OtherExamples::All],
        false => &[OtherExamples::AllButOne],
    };
    all.iter().map(|&others| components(&singles, neighbouring, others)).collect()
}

/// The components of all releases together.
///
/// Gaussian mechanisms without sampling are merged into one, because their composition is exactly
/// Gaussian. With more than 256 kinds of subsampled releases, noise multipliers are rounded to a
/// geometric grid of 0.1 %: down for the upper bound, up for the lower bound.
fn components(
    singles: &[(Single, u64)],
    neighbouring: Neighbouring,
    others: OtherExamples,
) -> Result<Vec<Component>> {
    let mut squared_mu = 0.0;
    let mut sampled = Vec::new();
    for &(single, count) in singles {
        match single.unsampled_noise_multiplier(neighbouring) {
            Some(sigma) => squared_mu += count as f64 / sigma / sigma,
            None => sampled.push((single, count as f64)),
        }
    }
    let mut components = Vec::new();
    for (single, count, count_lower) in round_multipliers(sampled) {
        let mixture = mixture(&single, neighbouring, others)?;
        components.push(Component { mixture, count, count_lower });
    }
    if squared_mu > 0.0 {
        let pair = DominatingPair { kind: Kind::OneSided, q: 1.0, sigma: 1.0 / squared_mu.sqrt() };
        components.push(Component {
            mixture: vec![(1.0, Some(pair))],
            count: 1.0,
            count_lower: 1.0,
        });
    }
    let noises = components.iter().flat_map(Component::pairs).map(|pair| pair.sigma);
    let sigma = noises.fold(f64::INFINITY, f64::min);
    if sigma < MIN_NOISE {
        return Err(crate::Error::new(
            crate::ErrorKind::Accounting,
            format!("pld does not support noise of {sigma:.2e} times the sensitivity"),
            format!("the privacy losses of noise below {MIN_NOISE} do not fit on one grid"),
        )
        .fix("use the RDP accountant, or a larger noise multiplier"));
    }
    let too_large = |component: &Component| {
        let pair = |pair: &DominatingPair| pair.sigma > MAX_NOISE || pair.q < MIN_RATE;
        component.count > MAX_COUNT || component.pairs().any(pair)
    };
    if components.iter().any(too_large) {
        return Err(crate::Error::new(
            crate::ErrorKind::Accounting,
            "pld does not support so many releases, so small a rate or so much noise",
            "noise multipliers above 1e6, sampling rates below 1e-9 and more than 1e12 releases \
             need too large a grid",
        )
        .fix("use the RDP accountant"));
    }
    Ok(components)
}

/// (release, count for the upper bound, count for the lower bound), with multipliers rounded to a
/// common grid if there are many.
fn round_multipliers(sampled: Vec<(Single, f64)>) -> Vec<(Single, f64, f64)> {
    if sampled.len() <= MAX_MULTIPLIERS {
        return sampled.into_iter().map(|(single, count)| (single, count, count)).collect();
    }
    let mut grid: BTreeMap<_, (Single, f64, f64)> = BTreeMap::new();
    for (single, count) in sampled {
        let below = (single.noise_multiplier().ln() / LOG_STEP).floor();
        let kind = single.with_noise_multiplier(1.0).key();
        for (index, above, from_below) in [(below, count, 0.0), (below + 1.0, 0.0, count)] {
            let on_grid = single.with_noise_multiplier((index * LOG_STEP).exp());
            let entry = grid.entry((kind, index as i64)).or_insert((on_grid, 0.0, 0.0));
            entry.1 += above;
            entry.2 += from_below;
        }
    }
    grid.into_values().collect()
}

/// The dominating pairs of one release.
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
    single: &Single,
    neighbouring: Neighbouring,
    others: OtherExamples,
) -> Result<Vec<(f64, Option<DominatingPair>)>> {
    let pair = |q: f64, sigma: f64| {
        let kind = match neighbouring {
            Neighbouring::ReplaceOne => Kind::TwoSided,
            _ => Kind::OneSided,
        };
        Some(DominatingPair { kind, q, sigma })
    };
    let revealed = |sigma: f64| Some(DominatingPair { kind: Kind::OneSided, q: 1.0, sigma });
    match *single {
        Single::Poisson { sampling_rate, noise_multiplier } => {
            Ok(vec![(1.0, pair(sampling_rate, noise_multiplier))])
        }
        Single::Truncated { examples, sampling_rate: q, batch_cap, noise_multiplier: sigma } => {
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
                Neighbouring::AddOrRemoveOne => mixture.push((p_cap, pair(kept, 0.5 * sigma))),
                Neighbouring::ZeroOutOne => mixture.push((p_cap * kept, revealed(sigma))),
                Neighbouring::ReplaceOne => mixture.push((p_cap * kept, revealed(0.5 * sigma))),
            }
            if neighbouring != Neighbouring::AddOrRemoveOne {
                mixture.push((p_cap * (1.0 - kept), None));
            }
            Ok(mixture)
        }
        Single::FixedSize { .. } => Err(single
            .unsupported("pld", "no dominating pair is known for sampling without replacement")
            .fix("use the RDP accountant under the replace-one relation")),
        Single::ShuffledEpoch { .. } => Err(single
            .unsupported("pld", "removing an example shifts every later batch of a shuffled epoch")
            .fix("use the zero-out or the replace-one relation")),
        Single::Gaussian { .. } => {
            Err(single.unsupported("pld", "this neighbouring relation is not supported"))
        }
    }
}

/// Upper bound on the probability that the example is in the batch, given that at least `cap` of
/// the n other examples are drawn.
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
mod tests {
    use super::*;

    /// The components of events without a maximum batch size: there is one case.
    fn only(events: &[Event]) -> Result<Vec<Component>> {
        let mut cases = cases(events, Neighbouring::AddOrRemoveOne)?;
        assert_eq!(cases.len(), 1);
        Ok(cases.remove(0))
    }

    fn step(noise_multiplier: f64) -> Event {
        Event::PoissonGaussian { sampling_rate: 0.1, noise_multiplier, steps: 1 }
    }

    #[test]
    fn gaussian_mechanisms_are_merged() {
        let events = [
            Event::Gaussian { noise_multiplier: 2.0, count: 3 },
            Event::Gaussian { noise_multiplier: 4.0, count: 4 },
        ];
        let components = only(&events).unwrap();
        assert_eq!(components.len(), 1);
        assert!((components[0].pairs().next().unwrap().sigma - 1.0).abs() < 1e-12);
    }

    #[test]
    fn few_multipliers_are_kept_and_many_are_rounded_both_ways() {
        let few: Vec<_> = (0..256).map(|i| step(1.0 + 1e-5 * f64::from(i))).collect();
        assert_eq!(only(&few).unwrap().len(), 256);
        let many: Vec<_> = (0..20_000).map(|i| step(1.0 + 1e-5 * f64::from(i))).collect();
        let components = only(&many).unwrap();
        assert!(components.len() < 200, "{}", components.len());
        let (above, below): (f64, f64) =
            components.iter().fold((0.0, 0.0), |s, p| (s.0 + p.count, s.1 + p.count_lower));
        assert_eq!((above, below), (20_000.0, 20_000.0));
        // For the upper bound the noise is never increased, for the lower bound never decreased.
        let precision = |count: fn(&Component) -> f64| -> f64 {
            components.iter().map(|p| count(p) / p.pairs().next().unwrap().sigma).sum()
        };
        let truth: f64 = (0..20_000).map(|i| 1.0 / (1.0 + 1e-5 * f64::from(i))).sum();
        let (most, least) = (precision(|p| p.count), precision(|p| p.count_lower));
        assert!(most > truth && most < truth * 1.001 && least < truth && least > truth * 0.999);
    }

    /// With N examples, one of which changes, the neighbours have N - 1 examples in common.
    #[test]
    fn the_probability_of_use_depends_on_the_number_of_other_examples() {
        let (q, cap) = (0.5, 3);
        // Binomial(4, 1/2): at least three of the four others are drawn.
        let used = 4.0 / 16.0 * q * 3.0 / 4.0 + 1.0 / 16.0 * q * 3.0 / 5.0;
        let event = Event::TruncatedPoissonGaussian {
            examples: 5,
            sampling_rate: q,
            batch_cap: cap,
            noise_multiplier: 1.0,
            steps: 1,
        };
        for relation in [Neighbouring::ZeroOutOne, Neighbouring::ReplaceOne] {
            let cases = cases(std::slice::from_ref(&event), relation).unwrap();
            let [components] = &cases[..] else { panic!("{cases:?}") };
            let revealed = components[0].mixture[1].0;
            assert!((revealed / used - 1.0).abs() < 1e-5, "{relation}: {revealed} {used}");
        }
    }

    #[test]
    fn releases_without_a_dominating_pair_are_rejected() {
        let fixed = Event::FixedSizeGaussian {
            examples: 100,
            batch_size: 10,
            noise_multiplier: 1.0,
            steps: 1,
        };
        let epoch = Event::ShuffledEpochs { noise_multiplier: 1.0, epochs: 1 };
        let all = Neighbouring::AddOrRemoveOne;
        assert!(cases(std::slice::from_ref(&fixed), all).is_err());
        assert!(cases(&[fixed], Neighbouring::ReplaceOne).is_err());
        assert!(cases(std::slice::from_ref(&epoch), all).is_err());
        assert!(cases(&[epoch], Neighbouring::ZeroOutOne).is_ok());
        assert!(cases(&[step(0.01)], all).is_err(), "too little noise for a grid");
        assert!(cases(&[step(1e300)], all).is_err(), "too much noise for a grid");
        let too_large = Event::Repeated { event: Box::new(step(1.0)), count: u64::MAX };
        assert!(cases(&[too_large], all).is_err(), "too many steps for a grid");
    }
}
