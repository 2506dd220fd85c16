//! A budget: the epsilon that everything about one data set may cost together.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{account::Account, in_one_line};
use crate::privacy::digits::{Rounded, RoundedDown};
use crate::privacy::{Accountant, Delta, Epsilon, Event, Headline, Spent};
use crate::{Error, ErrorKind, Result};

/// A noise multiplier that was found for a target equal to the budget must fit into it, whatever
/// became of the last digits on the way.
const SLACK: f64 = 1e-9;

/// The most that all runs on one data set may cost together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// The limit.
    pub epsilon: Epsilon,
    /// The delta that it is measured at.
    pub delta: Delta,
}

/// What is spent of a budget, by the [`Headline`] accountant, for neighbours that differ by one
/// added or removed example.
#[derive(Clone, Debug, PartialEq)]
pub struct Spending {
    /// The budget.
    pub budget: Budget,
    /// The epsilon of all runs together at the budget's delta.
    pub spent: Spent,
    /// How many runs that is.
    pub runs: usize,
}

impl Budget {
    /// The budget itself if both numbers are in range.
    ///
    /// # Errors
    /// Kind `Setting` for an epsilon or delta out of range.
    pub fn check(self) -> Result<Self> {
        self.epsilon.check()?;
        self.delta.check()?;
        Ok(self)
    }

    /// Equal up to the last digits: reading a float back from a file may move its last bit.
    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        let same = |a: f64, b: f64| (a - b).abs() <= 1e-12 * a.abs();
        same(self.epsilon.0, other.epsilon.0) && same(self.delta.0, other.delta.0)
    }
}

impl Spending {
    /// The limit less what is spent, at least 0. A further run may cost more than this: what fits
    /// is decided by composing all events, and together they cost less than the sum of their
    /// epsilons.
    pub fn left(&self) -> f64 {
        (self.budget.epsilon.0 - self.spent.epsilon).max(0.0)
    }

    /// More is spent than the budget allows: every further plan is refused.
    pub fn is_overspent(&self) -> bool {
        self.spent.epsilon > self.budget.epsilon.0 * (1.0 + SLACK)
    }

    /// `2.1 is spent by 3 runs, 0.9 below the limit`.
    pub(crate) fn used(&self) -> String {
        let s = if self.runs == 1 { "" } else { "s" };
        let spent = format!("{} is spent by {} run{s}", Rounded(self.spent.epsilon), self.runs);
        if self.is_overspent() {
            format!("{spent}, which is more: every plan is refused until the budget is raised")
        } else {
            format!("{spent}, {} below the limit", RoundedDown(self.left()))
        }
    }
}

impl Account {
    /// The epsilon of everything charged and `plan` together.
    pub(crate) fn total(&self, plan: Option<&Event>, delta: Delta) -> Result<Spent> {
        let events: Vec<_> = self.events().into_iter().chain(plan.cloned()).collect();
        Headline::new().epsilon(&events, delta)
    }

    /// The epsilon of all runs that promise something.
    pub(crate) fn private_total(&self, delta: Delta) -> Result<Spent> {
        let mut events = self.events();
        events.retain(|event| !promises_nothing(event));
        Headline::new().epsilon(&events, delta)
    }

    /// How many runs promise nothing.
    pub(crate) fn without_privacy(&self) -> usize {
        self.runs().iter().filter(|run| promises_nothing(&run.event)).count()
    }

    /// What is spent of `budget`, or why it can't be kept.
    pub(crate) fn under(&self, budget: Budget) -> Result<Spending> {
        let spent = self.total(None, budget.delta).map_err(|e| self.beyond(budget, &e))?;
        Ok(Spending { budget, spent, runs: self.runs().len() })
    }

    /// What would be spent of the budget after `plan`, or why the plan is refused; `None` without
    /// a budget.
    pub(crate) fn after(&self, plan: &Event) -> Result<Option<Spending>> {
        let Some(budget) = self.budget() else { return Ok(None) };
        let spent = match self.total(Some(plan), budget.delta) {
            Ok(spent) => spent,
            Err(_) => {
                // Nobody can add it up: is that the plan's fault or the sum's?
                self.under(budget)?;
                let what = format!("this plan does not fit the budget {budget}");
                let alone = Headline::new().epsilon(std::slice::from_ref(plan), budget.delta);
                let why = match alone {
                    Err(_) if promises_nothing(plan) => format!("no epsilon covers {plan}"),
                    Err(error) => in_one_line(&error),
                    Ok(_) => "no accountant can add it to the runs before it".to_string(),
                };
                return Err(Error::new(ErrorKind::Ledger, what, why).fix(
                    "use a method with a guarantee, or data without a budget, for example public \
                     data",
                ));
            }
        };
        let after = Spending { budget, spent, runs: self.runs().len() + 1 };
        if !after.is_overspent() {
            return Ok(Some(after));
        }
        let before = self.under(budget)?;
        let epsilon = Rounded(after.spent.epsilon);
        Err(Error::new(
            ErrorKind::Ledger,
            format!("this plan would bring the epsilon of its data set to {epsilon}"),
            format!("the budget is {budget}; {}", before.used()),
        )
        .fix(ADVICE))
    }

    fn beyond(&self, budget: Budget, error: &Error) -> Error {
        let why = match self.without_privacy() {
            0 => in_one_line(error),
            1 => "1 run without privacy is on record, and no budget covers what it may reveal"
                .to_string(),
            n => format!(
                "{n} runs without privacy are on record, and no budget covers what they may reveal"
            ),
        };
        Error::new(ErrorKind::Ledger, format!("the budget {budget} can't be kept"), why).fix(
            "set budgets on data that was never used without privacy; without a budget private \
             runs go on, and the ledger adds them up",
        )
    }
}

const ADVICE: &str = "more noise, fewer steps or smaller batches; or raise the budget deliberately \
                      (Ledger::set_budget, lab::budget in a notebook): the ledger keeps a trace of it";

/// Whether an event releases anything without a guarantee.
pub(crate) fn promises_nothing(event: &Event) -> bool {
    match event {
        Event::Unaccountable { .. } => true,
        Event::Repeated { event, count } => *count > 0 && promises_nothing(event),
        Event::Composed { events } => events.iter().any(promises_nothing),
        _ => false,
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epsilon {} at delta {}", self.epsilon, self.delta)
    }
}

impl fmt::Display for Spending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "budget {}: {}", self.budget, self.used())
    }
}
