//! The budget of a data set: the most that everything about it may cost together.

use crate::Result;
use crate::data::Dataset;
use crate::privacy::digits::{Rounded, RoundedDown};
use crate::privacy::ledger::{Account, export::DELTA};
use crate::privacy::{Budget, Delta, Epsilon, Spending, Spent};
use crate::show::{Bundle, Table, format};
use crate::store::{Store, home};
use std::fmt;

/// The limit of a data set, what is spent of it and what is left.
#[derive(Clone, Debug)]
pub struct BudgetView {
    data: String,
    runs: usize,
    without_privacy: usize,
    delta: Delta,
    /// Of all runs together, or why nobody can tell.
    spent: Result<Spent>,
    limit: Option<Spending>,
}

/// Limits what all runs on `data` (and on everything cut from it) may cost together, those on
/// record included. From here on a run that would go over it is refused before it begins, in
/// every notebook of the project. Running the cell again changes nothing; another budget takes
/// the place of this one and leaves a trace in the ledger.
///
/// A budget below what is spent already is taken, and the view says so.
///
/// # Guarantee
/// As [`Ledger`](crate::privacy::Ledger): neighbours differ by one added or removed example.
///
/// # Errors
/// `Setting` for numbers out of range; `Ledger` if the ledger can't be trusted or lacks a stored
/// run, or if runs without privacy are on record: no budget could be kept then.
pub fn budget(data: &Dataset, epsilon: Epsilon, delta: Delta) -> Result<BudgetView> {
    budget_in(&Store::at(home()), data, epsilon, delta)
}

/// What is left of the budget of `data`; without a budget, what is spent. Changes nothing.
///
/// # Errors
/// `Ledger` if the ledger can't be trusted or lacks a stored run.
pub fn remaining(data: &Dataset) -> Result<BudgetView> {
    remaining_in(&Store::at(home()), data)
}

fn budget_in(store: &Store, data: &Dataset, epsilon: Epsilon, delta: Delta) -> Result<BudgetView> {
    Budget { epsilon, delta }.check()?;
    store.ledger(data)?.set_budget(epsilon, delta)?;
    remaining_in(store, data)
}

fn remaining_in(store: &Store, data: &Dataset) -> Result<BudgetView> {
    let account = match store.known_ledger(data)? {
        Some(ledger) => ledger.account()?,
        None => Account::default(),
    };
    let delta = account.budget().map_or(DELTA, |budget| budget.delta);
    Ok(BudgetView {
        data: data.name().to_owned(),
        runs: account.runs().len(),
        without_privacy: account.without_privacy(),
        delta,
        spent: account.total(None, delta),
        limit: account.budget().map(|budget| account.under(budget)).transpose()?,
    })
}

impl BudgetView {
    /// The limit, if one was set.
    pub fn limit(&self) -> Option<Epsilon> {
        self.limit.as_ref().map(|spending| spending.budget.epsilon)
    }

    /// The delta that everything here is measured at: the budget's, else 1e-5.
    pub fn delta(&self) -> Delta {
        self.delta
    }

    /// Epsilon of all runs together; infinite if one of them promises nothing.
    pub fn spent(&self) -> f64 {
        self.spent.as_ref().map_or(f64::INFINITY, |spent| spent.epsilon)
    }

    /// Limit less what is spent, at least 0; `None` without a limit.
    pub fn left(&self) -> Option<f64> {
        self.limit.as_ref().map(Spending::left)
    }

    /// How many runs are counted: every one on record.
    pub fn runs(&self) -> usize {
        self.runs
    }

    pub(crate) fn bundle(&self) -> Bundle {
        let limit =
            self.limit().map_or("none is set".into(), |epsilon| format!("epsilon {epsilon}"));
        let spent = match &self.spent {
            Ok(spent) if spent.epsilon > 0.0 => {
                format!("{} ({})", Rounded(spent.epsilon), spent.accountant)
            }
            Ok(_) => "nothing".to_owned(),
            Err(_) if self.without_privacy > 0 => {
                format!("∞: {} without privacy", format::counted(self.without_privacy, "run"))
            }
            Err(error) => error.to_string(),
        };
        let left = match &self.limit {
            None => "-".to_owned(),
            Some(spending) if spending.is_overspent() => {
                "overspent: every further run is refused until the budget is raised".to_owned()
            }
            Some(spending) => format!("{}", RoundedDown(spending.left())),
        };
        Table::new([format!("budget of {}", self.data), "".into()])
            .row(["limit".to_owned(), format!("{limit}, at delta {}", self.delta)])
            .row(["spent".to_owned(), spent])
            .row(["left".to_owned(), left])
            .row([
                "runs counted".to_owned(),
                format!("{}, also those made only to choose settings", format::count(self.runs)),
            ])
            .bundle()
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
        let store = Store::at(folder.path().to_path_buf());
        let data = data::glyphs_with(300, 10, 81)?;
        let looked = remaining_in(&store, &data)?;
        assert_eq!((looked.limit(), looked.spent(), looked.runs()), (None, 0.0, 0));
        assert!(looked.to_string().contains("none is set"), "{looked}");
        assert!(!folder.path().join("ledger").exists(), "looking makes no file");

        let delta = Delta(1e-4);
        let plan = |epsilon| {
            DpSgd::new().target(Epsilon(epsilon), delta).batch_size(30).steps(20).plan(&data)
        };
        store.ledger(&data)?.begin("one", &plan(2.0)?.event())?;
        let view = budget_in(&store, &data, Epsilon(3.0), delta)?;
        assert_eq!((view.limit(), view.delta(), view.runs()), (Some(Epsilon(3.0)), delta, 1));
        assert!((view.spent() - 2.0).abs() < 1e-3 && (view.left().unwrap() - 1.0).abs() < 1e-3);
        for part in ["epsilon 3, at delta 1e-4", "spent", "left", "1, also those"] {
            assert!(view.to_string().contains(part), "{view}");
        }

        let ledger = store.known_ledger(&data)?;
        let preview = |epsilon| Preview::of(&plan(epsilon)?, ledger.as_ref());
        let fits = preview(0.3)?;
        assert!(fits.to_string().contains("spent by 2 runs"), "{fits}");
        assert!(!fits.warnings().iter().any(|warning| warning.contains("budget")), "{fits}");
        let over = preview(2.9)?;
        assert!(over.warnings().iter().any(|w| w.contains("over budget")), "{over}");
        let open = NonPrivate::new().batch_size(30).steps(20).plan(&data)?;
        let open = Preview::of(&open, ledger.as_ref())?;
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
        let store = Store::at(folder.path().to_path_buf());
        let data = data::glyphs_with(300, 10, 82)?;
        let plan = NonPrivate::new().batch_size(30).steps(20).plan(&data)?;
        store.ledger(&data)?.begin("baseline", &plan.event())?;
        let error = budget_in(&store, &data, Epsilon(3.0), Delta(1e-4)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Ledger);
        let view = remaining_in(&store, &data)?;
        assert_eq!((view.spent(), view.left(), view.limit()), (f64::INFINITY, None, None));
        assert!(view.to_string().contains("∞"), "{view}");
        Ok(())
    }
}
