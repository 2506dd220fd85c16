//! The budget of a data set: a limit on the total cost of its runs.

use crate::data::Dataset;
use crate::privacy::digits::{RoundedDown, RoundedNearest, RoundedUp};
use crate::privacy::ledger::{AffordableRun, LedgerState};
use crate::privacy::{Budget, BudgetStatus, Delta, Epsilon, NeighbouringRelation, PrivacyCost};
use crate::show::{MimeBundle, Table, format};
use crate::store::{RunStore, home};
use crate::{Result, privacy};
use std::fmt;
use std::sync::OnceLock;

/// Budget of a data set: its limit, what is spent of it and what still fits.
#[derive(Clone, Debug)]
pub struct BudgetView {
    data: String,
    delta: Delta,
    /// The cost of all runs together, or why it can't be computed.
    spent: privacy::Result<PrivacyCost>,
    limit: Option<BudgetStatus>,
    account: LedgerState,
    /// The largest further run under the limit, computed on first use; `None` without a limit or if
    /// no run fits.
    further: OnceLock<Option<AffordableRun>>,
}

/// Limits the total cost of all runs on `data` and on data sets derived from it, including those on
/// record. From then on, a run that would exceed the limit is refused before it begins, in every
/// notebook of the project. Setting the same budget again changes nothing; another budget replaces
/// it and leaves an entry in the ledger.
///
/// A budget below what is spent already is accepted, and the view says so.
///
/// # Guarantee
/// As [`Ledger`](crate::privacy::Ledger): neighbours differ by one added or removed example; by one
/// zeroed out or replaced where the guarantee of a run is for that, as the view says.
///
/// # Errors
/// `Setting` for numbers out of range; `Ledger` if the ledger can't be trusted or lacks a stored
/// run, or if runs without privacy are on record: no budget could be kept then.
pub fn budget(data: &Dataset, epsilon: Epsilon, delta: Delta) -> Result<BudgetView> {
    budget_in(&RunStore::open(home())?, data, epsilon, delta)
}

/// Returns the state of the budget of `data`: what is spent of it and how large a further run
/// still fits; without a budget, what is spent. Charges nothing and makes no file.
///
/// # Errors
/// `Ledger` if the ledger can't be trusted or lacks a stored run.
pub fn remaining(data: &Dataset) -> Result<BudgetView> {
    remaining_in(&RunStore::open(home())?, data)
}

fn budget_in(
    store: &RunStore,
    data: &Dataset,
    epsilon: Epsilon,
    delta: Delta,
) -> Result<BudgetView> {
    Budget { epsilon, delta }.check()?;
    store.ledger(data)?.set_budget(epsilon, delta)?;
    remaining_in(store, data)
}

fn remaining_in(store: &RunStore, data: &Dataset) -> Result<BudgetView> {
    let account = match store.existing_ledger(data)? {
        Some(ledger) => ledger.state()?,
        None => LedgerState::default(),
    };
    let delta = account.budget().map_or(Delta::DEFAULT, |budget| budget.delta);
    Ok(BudgetView {
        data: data.name().to_owned(),
        delta,
        spent: account.total(delta),
        limit: account.budget().map(|budget| account.budget_status_under(budget)).transpose()?,
        account,
        further: OnceLock::new(),
    })
}

impl BudgetView {
    /// Returns the limit, if one was set.
    pub fn limit(&self) -> Option<Epsilon> {
        self.limit.as_ref().map(|spending| spending.budget.epsilon)
    }

    /// Returns the delta of all epsilons here: that of the budget, otherwise 1e-5.
    pub fn delta(&self) -> Delta {
        self.delta
    }

    /// Returns the epsilon of all runs together; infinite if one of them has no guarantee.
    pub fn spent(&self) -> f64 {
        self.spent.as_ref().map_or(f64::INFINITY, |spent| spent.epsilon)
    }

    /// Returns the epsilon, by itself, of the largest further run that the limit allows: one with
    /// the sampling rate and the steps of the last run on record (one release on all examples, if
    /// there is none). 0 if no further run fits; `None` without a limit.
    ///
    /// It is more than the limit less what is spent: composition costs less than the sum.
    pub fn left(&self) -> Option<f64> {
        self.limit.as_ref()?;
        Some(self.largest_further_run().map_or(0.0, |further| further.epsilon))
    }

    fn largest_further_run(&self) -> Option<&AffordableRun> {
        let compute = || self.account.largest_affordable_run(self.account.budget()?).ok();
        self.further.get_or_init(compute).as_ref()
    }

    /// Returns the number of runs on record, which all count.
    pub fn runs(&self) -> usize {
        self.account.charges().len()
    }

    pub(crate) fn bundle(&self) -> MimeBundle {
        let limit =
            self.limit().map_or("none is set".into(), |epsilon| format!("epsilon {epsilon}"));
        let spent = match &self.spent {
            Ok(spent) if spent.epsilon > 0.0 => {
                format!("{} ({})", RoundedUp(spent.epsilon), spent.accountant)
            }
            Ok(_) => "nothing".to_owned(),
            Err(error) => match self.account.non_private_runs() {
                0 => error.to_string(),
                n => format!("∞: {} without privacy", format::pluralise(n, "run")),
            },
        };
        let left = match &self.limit {
            None => "-".to_owned(),
            Some(spending) if spending.is_overspent() => {
                "overspent: every further run is refused until the budget is raised".to_owned()
            }
            Some(_) => self.describe_further_run(),
        };
        let relation = match self.account.neighbouring() {
            NeighbouringRelation::AddOrRemoveOne => String::new(),
            other => format!(" (neighbours: {other})"),
        };
        Table::new([format!("budget of {}", self.data), "".into()])
            .row(["limit".to_owned(), format!("{limit}, at delta {}{relation}", self.delta)])
            .row(["spent".to_owned(), spent])
            .row(["still fits".to_owned(), left])
            .row([
                "runs counted".to_owned(),
                format!(
                    "{}, also those made only to choose settings",
                    format::format_count(self.runs())
                ),
            ])
            .bundle()
    }

    /// Describes the largest further run.
    fn describe_further_run(&self) -> String {
        let Some(further) = self.largest_further_run() else { return "no further run".to_owned() };
        let noise = RoundedUp(further.noise_multiplier.0);
        let like = match further.reference_sampling {
            Some((rate, steps)) => {
                let steps = format::pluralise(steps, "step");
                format!("a run like the last one (sampling rate {}, {steps})", RoundedNearest(rate))
            }
            None => "one release on all examples".to_owned(),
        };
        format!(
            "{like} with epsilon {} by itself, noise multiplier {noise}; all runs together stay \
             within the limit, because composition costs less than the sum",
            RoundedDown(further.epsilon)
        )
    }
}

impl fmt::Display for BudgetView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.bundle().text.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::data;
    use crate::lab::Preview;
    use crate::methods::{DpSgd, NonPrivate};

    #[test]
    fn a_budget_is_set_shown_kept_and_previewed() -> Result<()> {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(folder.path().to_path_buf()).unwrap();
        let data = data::glyphs_with(300, 10, 81)?;
        let unused =
            Preview::with_ledger(&DpSgd::new().noise_multiplier(1.0).plan(&data)?, &store, &data)?;
        assert!(unused.to_string().contains("ledger: no run on these data"), "{unused}");
        let looked = remaining_in(&store, &data)?;
        assert_eq!((looked.limit(), looked.spent(), looked.runs()), (None, 0.0, 0));
        assert!(looked.to_string().contains("none is set"), "{looked}");
        assert!(!folder.path().join("ledger").exists(), "looking makes no file");

        let delta = Delta(1e-4);
        let plan = |epsilon| {
            DpSgd::new().target(Epsilon(epsilon), delta).batch_size(30).steps(20).plan(&data)
        };
        store.ledger(&data)?.begin_run("one", &plan(2.0)?.event())?;
        let view = budget_in(&store, &data, Epsilon(3.0), delta)?;
        assert_eq!((view.limit(), view.delta(), view.runs()), (Some(Epsilon(3.0)), delta, 1));
        assert!((view.spent() - 2.0).abs() < 1e-3);
        for part in ["epsilon 3, at delta 1e-4", "spent", "rate 0.1, 20 steps", "1, also those"] {
            assert!(view.to_string().contains(part), "{view}");
        }
        // More fits than the difference of 1: composition costs less than the sum.
        let left = view.left().expect("there is a limit");
        assert!(left > 1.8 && left < 2.5, "{left}");
        let ledger = store.existing_ledger(&data)?.expect("it is there");
        let relation = NeighbouringRelation::AddOrRemoveOne;
        let typed = RoundedDown(left).to_string().parse::<f64>().expect("a number");
        assert!(
            ledger.budget_status_after(&plan(typed)?.event(), relation).is_ok(),
            "what is said fits"
        );
        let more = ledger.budget_status_after(&plan(left * 1.01)?.event(), relation);
        let more = more.expect_err("more does not");
        assert_eq!(more.kind(), privacy::ErrorKind::Ledger);

        let preview = |epsilon| Preview::with_ledger(&plan(epsilon)?, &store, &data);
        let fits = preview(0.3)?;
        assert!(fits.to_string().contains("spent by 2 runs"), "{fits}");
        let expected = format!("{}: 1 run on these data", folder.path().join("ledger").display());
        assert!(fits.to_string().contains(&expected), "{expected} is not in:\n{fits}");
        assert!(!fits.warnings().iter().any(|warning| warning.contains("budget")), "{fits}");
        let over = preview(2.9)?;
        assert!(over.warnings().iter().any(|w| w.contains("over budget")), "{over}");
        let open = NonPrivate::new().batch_size(30).steps(20).plan(&data)?;
        let open = Preview::with_ledger(&open, &store, &data)?;
        assert!(open.warnings().iter().any(|w| w.contains("no epsilon")), "{open}");
        assert_eq!(remaining_in(&store, &data)?.runs(), 1, "a preview charges nothing");

        let low = budget_in(&store, &data, Epsilon(1.0), delta)?;
        assert_eq!(low.left(), Some(0.0));
        assert!(low.to_string().contains("overspent"), "{low}");
        Ok(())
    }

    #[test]
    fn runs_without_privacy_leave_no_budget_to_keep() -> Result<()> {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(folder.path().to_path_buf()).unwrap();
        let data = data::glyphs_with(300, 10, 82)?;
        let plan = NonPrivate::new().batch_size(30).steps(20).plan(&data)?;
        store.ledger(&data)?.begin_run("baseline", &plan.event())?;
        let error = budget_in(&store, &data, Epsilon(3.0), Delta(1e-4)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Ledger);
        let view = remaining_in(&store, &data)?;
        assert_eq!((view.spent(), view.left(), view.limit()), (f64::INFINITY, None, None));
        assert!(view.to_string().contains("∞"), "{view}");
        Ok(())
    }
}
