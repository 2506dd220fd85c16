//! Rényi divergence of private selection: the best of a random number of trials (Papernot and
//! Steinke, 2022).

use std::sync::Arc;

use super::release::RenyiReleases;
use crate::Result;
use crate::{Event, NeighbouringRelation, Trials};

/// A private selection with the divergences of one of its trials.
pub(super) struct SelectionBound {
    trial: RenyiReleases,
    trials: Trials,
    orders: Arc<[f64]>,
    /// The part of theorem 2 that does not depend on the order.
    constant: f64,
    /// For each order of the list, the smallest bound of it and all larger ones.
    suffix_min: Vec<f64>,
}

impl SelectionBound {
    /// Creates the bound of a selection from the event of one trial and the distribution of the
    /// number of trials.
    ///
    /// # Errors
    /// As [`RenyiReleases::from_lists`], for one trial.
    pub(super) fn new(
        trial: &Event,
        trials: Trials,
        neighbouring: NeighbouringRelation,
        orders: &Arc<[f64]>,
    ) -> Result<Self> {
        let trial =
            RenyiReleases::from_lists(&[std::slice::from_ref(trial)], neighbouring, orders)?;
        let (orders, least) = (orders.clone(), Vec::new());
        let mut selection = Self { trial, trials, orders, constant: 0.0, suffix_min: least };
        if let Trials::NegativeBinomial { mean, shape } = trials {
            // (1 + η) min over orders of (1 - 1/α) R(α) + ln(1/γ)/α.
            let gamma = Trials::solve_gamma(mean, shape);
            let at = |&order: &f64| {
                (1.0 - 1.0 / order) * selection.trial.divergence(0, order) - gamma.ln() / order
            };
            let smallest = selection.orders.iter().map(at).fold(f64::INFINITY, f64::min);
            selection.constant = (1.0 + shape) * smallest;
        }
        let bounds = selection.orders.iter().rev().map(|&order| selection.bound(order));
        let mut least: Vec<f64> = bounds
            .scan(f64::INFINITY, |least, bound| {
                *least = least.min(bound);
                Some(*least)
            })
            .collect();
        least.reverse();
        selection.suffix_min = least;
        Ok(selection)
    }

    /// Computes the Rényi divergence of order `order` of the best trial.
    ///
    /// # Guarantee
    /// Theorem 2 (truncated negative binomial distribution) and theorem 6 (Poisson distribution) of
    /// the paper, for independent trials that each release the event `trial`, of which only the
    /// best is shown. A divergence grows with its order, so the bound of a larger order holds too.
    pub(super) fn divergence(&self, order: f64) -> f64 {
        let next = self.orders.partition_point(|&other| other < order);
        match self.orders.get(next) {
            Some(&listed) if listed == order => self.suffix_min[next],
            Some(_) => self.bound(order).min(self.suffix_min[next]),
            None => self.bound(order),
        }
    }

    fn bound(&self, order: f64) -> f64 {
        let more = self.trials.mean().ln() / (order - 1.0);
        let one = self.trial.divergence(0, order);
        match self.trials {
            Trials::NegativeBinomial { .. } => one + more + self.constant,
            Trials::Poisson { mean } => {
                one + more + mean * self.delta((1.0 / (order - 1.0)).ln_1p())
            }
        }
    }

    /// Computes a delta of one trial at this epsilon, by the conversion of Canonne, Kamath and
    /// Steinke (2020): ln delta = (α - 1)(R(α) - epsilon + ln(1 - 1/α)) - ln α.
    fn delta(&self, epsilon: f64) -> f64 {
        let at = |&order: &f64| {
            let divergence = self.trial.divergence(0, order);
            let ln = (order - 1.0) * (divergence - epsilon + (-1.0 / order).ln_1p()) - order.ln();
            ln.exp().min(1.0)
        };
        self.orders.iter().map(at).fold(1.0, f64::min)
    }
}

/// Splits events into those without selections and selections with their counts.
pub(super) fn split(events: &[Event]) -> (Vec<Event>, Vec<(&Event, Trials, u64)>) {
    let (mut plain, mut selections) = (Vec::new(), Vec::new());
    events.iter().for_each(|event| add(event, 1, &mut plain, &mut selections));
    (plain, selections)
}

fn add<'a>(
    event: &'a Event,
    times: u64,
    plain: &mut Vec<Event>,
    selections: &mut Vec<(&'a Event, Trials, u64)>,
) {
    match event {
        Event::PrivateSelection { event, trials } => selections.push((event, *trials, times)),
        Event::Composed { events } if event.has_private_selection() => {
            events.iter().for_each(|event| add(event, times, plain, selections));
        }
        Event::Repeated { event: inner, count } if event.has_private_selection() => {
            add(inner, times.saturating_mul(*count), plain, selections);
        }
        event if times == 1 => plain.push(event.clone()),
        event => plain.push(event.repeated(times)),
    }
}
