//! Privacy budgets: a limit on the epsilon of everything released about one data set.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::LedgerState;
use crate::digits::{RoundedDown, RoundedUp, counted_plainly};
use crate::event::nearly_equal;
use crate::{
    Accountant, Delta, Epsilon, Event, NeighbouringRelation, PrivacyCost, TightestAccountant,
};
use crate::{Error, ErrorKind, Result};

/// Relative tolerance. A noise multiplier calibrated for exactly the budget must fit in spite of
/// rounding.
const SLACK: f64 = 1e-9;

/// A limit on the total epsilon of all runs on one data set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// The maximum epsilon.
    pub epsilon: Epsilon,
    /// The delta at which epsilon is computed.
    pub delta: Delta,
}

/// The part of a budget that is spent, by the [`TightestAccountant`] accountant: for neighbours
/// that differ by one added or removed example; by one zeroed out if a run was on disjoint
/// batches; by one replaced if the guarantee of a run is stated for that.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetStatus {
    /// The budget.
    pub budget: Budget,
    /// The epsilon of all runs together at the budget's delta.
    pub cost: PrivacyCost,
    /// The number of runs.
    pub runs: usize,
    /// The neighbouring relation of `spent`.
    pub neighbouring: NeighbouringRelation,
}

impl Budget {
    /// Returns the budget if both numbers are in range.
    ///
    /// # Errors
    /// Kind `Setting` for an epsilon or delta out of range.
    pub fn check(self) -> Result<Self> {
        self.epsilon.check()?;
        self.delta.check()?;
        Ok(self)
    }

    /// Returns whether two budgets are equal up to rounding: the last bit of a float may change
    /// when it is read back from a file.
    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        nearly_equal(self.epsilon.0, other.epsilon.0) && nearly_equal(self.delta.0, other.delta.0)
    }
}

impl BudgetStatus {
    /// Returns the budget minus the spent epsilon, at least 0. Whether a plan fits is decided by
    /// composing all events, not by subtraction, because epsilons are not additive.
    pub fn remaining(&self) -> f64 {
        (self.budget.epsilon.0 - self.cost.epsilon).max(0.0)
    }

    /// Returns whether more is spent than the budget allows. Every further plan is then rejected.
    pub fn is_overspent(&self) -> bool {
        self.cost.epsilon > self.budget.epsilon.0 * (1.0 + SLACK)
    }

    /// Returns a summary, for example `2.1 is spent by 3 runs, 0.9 below the limit`.
    pub fn usage(&self) -> String {
        let relation = match self.neighbouring {
            NeighbouringRelation::AddOrRemoveOne => String::new(),
            other => format!(" (neighbours: {other})"),
        };
        let spent = RoundedUp(self.cost.epsilon);
        let runs = counted_plainly(self.runs as u64, "run");
        let spent = format!("{spent} is spent by {runs}{relation}");
        if self.is_overspent() {
            format!("{spent}, which is more: every plan is refused until the budget is raised")
        } else {
            format!("{spent}, {} below the limit", RoundedDown(self.remaining()))
        }
    }
}

impl LedgerState {
    /// Returns everything charged, and the accountant for all of it: for the relation that covers
    /// the events, or for one example replaced where the guarantee of a run is stated for that.
    pub(crate) fn events_and_accountant(&self) -> (Vec<Event>, TightestAccountant) {
        self.with_plan(None, None)
    }

    /// Returns the events with those of a plan, and the accountant for the neighbouring relation
    /// of its guarantee.
    fn with_plan(
        &self,
        plan: Option<&Event>,
        stated: Option<NeighbouringRelation>,
    ) -> (Vec<Event>, TightestAccountant) {
        let events: Vec<_> = self.events().into_iter().chain(plan.cloned()).collect();
        let of_runs = self.charges().iter().find_map(|charge| charge.neighbouring);
        let tightest = TightestAccountant::stated_for(stated.or(of_runs), &events);
        (events, tightest)
    }

    /// Returns the neighbouring relation of [`total`](Self::total).
    pub fn neighbouring(&self) -> NeighbouringRelation {
        self.events_and_accountant().1.neighbouring()
    }

    /// Computes the epsilon of everything charged.
    ///
    /// # Errors
    /// Kind `Setting` for a delta out of range. Kind `Accounting` if no accountant supports the
    /// charged events, and if a run without a guarantee is charged.
    ///
    /// # Guarantee
    /// Upper bound of [`TightestAccountant`] under [`neighbouring`](Self::neighbouring) for all
    /// charged events together.
    pub fn total(&self, delta: Delta) -> Result<PrivacyCost> {
        let (events, tightest) = self.events_and_accountant();
        tightest.epsilon(&events, delta)
    }

    /// Computes the epsilon of all runs that have a guarantee.
    ///
    /// # Errors
    /// Kind `Setting` for a delta out of range. Kind `Accounting` if no accountant supports the
    /// charged events.
    ///
    /// # Guarantee
    /// As [`total`](Self::total) for these runs alone. It covers nothing that the other runs
    /// revealed.
    pub fn private_total(&self, delta: Delta) -> Result<PrivacyCost> {
        let mut private = self.clone();
        private.retain(|charge| charge.event.has_guarantee());
        private.total(delta)
    }

    /// Returns the number of runs without a guarantee.
    pub fn non_private_runs(&self) -> usize {
        self.charges().iter().filter(|run| !run.event.has_guarantee()).count()
    }

    /// Returns the spending of all charged runs under `budget`, which may be overspent.
    ///
    /// # Errors
    /// Kind `Ledger` if no accountant supports everything that is charged.
    pub fn budget_status_under(&self, budget: Budget) -> Result<BudgetStatus> {
        let spent = self.total(budget.delta).map_err(|e| self.budget_error(budget, &e))?;
        let neighbouring = self.neighbouring();
        Ok(BudgetStatus { budget, cost: spent, runs: self.charges().len(), neighbouring })
    }

    /// Returns the spending after `plan`, whose guarantee is stated for a relation, or an error
    /// that says why the plan is rejected; `None` without a budget.
    pub(crate) fn budget_status_after(
        &self,
        plan: &Event,
        stated: Option<NeighbouringRelation>,
    ) -> Result<Option<BudgetStatus>> {
        let Some(budget) = self.budget() else { return Ok(None) };
        let (events, tightest) = self.with_plan(Some(plan), stated);
        let spent = match tightest.epsilon(&events, budget.delta) {
            Ok(spent) => spent,
            Err(_) => {
                // No accountant supports the composition: find out whether the plan or the earlier
                // runs are the reason.
                self.budget_status_under(budget)?;
                let what = format!("this plan exceeds the budget {budget}");
                let plan_alone = std::slice::from_ref(plan);
                let alone =
                    TightestAccountant::for_events(plan_alone).epsilon(plan_alone, budget.delta);
                let why = match alone {
                    Err(_) if !plan.has_guarantee() => format!("no epsilon holds for {plan}"),
                    Err(error) => error.summary(),
                    Ok(_) => "no accountant supports it together with the earlier runs".to_string(),
                };
                return Err(Error::new(ErrorKind::Ledger, what, why).fix(
                    "use a method with a guarantee, or data without a budget, for example public \
                     data",
                ));
            }
        };
        let neighbouring = tightest.neighbouring();
        let after =
            BudgetStatus { budget, cost: spent, runs: self.charges().len() + 1, neighbouring };
        if !after.is_overspent() {
            return Ok(Some(after));
        }
        let before = self.budget_status_under(budget)?;
        let epsilon = RoundedUp(after.cost.epsilon);
        Err(Error::new(
            ErrorKind::Ledger,
            format!("this plan would bring the epsilon of its data set to {epsilon}"),
            format!("the budget is {budget}; {}", before.usage()),
        )
        .fix(if before.remaining() > 0.0 {
            OVER_BUDGET_ADVICE
        } else {
            BUDGET_EXHAUSTED_ADVICE
        }))
    }

    fn budget_error(&self, budget: Budget, error: &Error) -> Error {
        let why = match self.non_private_runs() {
            0 => error.summary(),
            1 => "1 run without privacy is on record, and no budget covers what it may reveal"
                .to_string(),
            n => format!(
                "{n} runs without privacy are on record, and no budget covers what they may reveal"
            ),
        };
        Error::new(ErrorKind::Ledger, format!("the budget {budget} can't be met"), why).fix(
            "set budgets on data that were never used without privacy; without a budget, private \
             runs remain possible and the ledger adds up their costs",
        )
    }
}

const OVER_BUDGET_ADVICE: &str = "use more noise, fewer steps or smaller batches; or raise the \
                                  budget deliberately (Ledger::set_budget, lab::budget in a \
                                  notebook): the ledger records it";

const BUDGET_EXHAUSTED_ADVICE: &str = "nothing is left, so every private run is refused: raise the \
                            budget deliberately (Ledger::set_budget, lab::budget in a notebook), \
                            which the ledger records, or use other data";

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epsilon {} at delta {}", self.epsilon, self.delta)
    }
}

impl fmt::Display for BudgetStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "budget {}: {}", self.budget, self.usage())
    }
}
