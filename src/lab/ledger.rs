//! The view of all ledgers of a project.

use super::report::export::{self, ExportedDataSet};
use crate::privacy::digits::RoundedDown;
use crate::privacy::ledger::{ChargeRecord, LedgerState};
use crate::privacy::{
    BudgetStatus, Ledger, NeighbouringRelation, PrivacyCost, STOPPING_ASSUMPTION,
};
use crate::show::{MimeBundle, Table, format};
use crate::store::{RunStore, home};
use crate::{Result, file, privacy};
use std::fmt;
use std::path::Path;

/// The ledgers of this project, with the total cost per data set.
#[derive(Clone, Debug)]
pub struct LedgerView {
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
struct Row {
    data_hash: String,
    account: LedgerState,
    /// The cost of all private runs together, or why it can't be computed.
    private: privacy::Result<PrivacyCost>,
    /// Status of the budget, if there is one.
    spending: Option<privacy::Result<BudgetStatus>>,
    /// Row of the data set in the export.
    export: ExportedDataSet,
}

/// Reads the ledgers of this project: everything that its notebooks have spent on each data set.
///
/// # Errors
/// `Ledger` if a ledger file is damaged (it is never reset), or if a stored run is in none of them:
/// a ledger is lost then, and its charges would be missing here. A total that no accountant can
/// compute is not an error; its row says why.
pub fn ledger() -> Result<LedgerView> {
    ledger_in(&RunStore::open(home())?)
}

/// Verifies the ledgers of the project, and that they charge every stored run.
///
/// # Errors
/// `CorruptData` if the project has another format; `Ledger` for the first ledger that can't be
/// trusted, or lacks a stored run.
#[doc(hidden)]
pub fn verify_ledgers() -> Result<()> {
    RunStore::open(home())?.all_ledgers().map(drop)
}

fn ledger_in(store: &RunStore) -> Result<LedgerView> {
    let rows = store.all_ledgers()?;
    Ok(LedgerView { rows: rows.iter().map(Row::from_ledger).collect::<Result<_>>()? })
}

impl Row {
    fn from_ledger(ledger: &Ledger) -> Result<Self> {
        let account = ledger.state()?;
        let export = ExportedDataSet::from_account(&account);
        Ok(Self {
            data_hash: ledger.data_hash().to_owned(),
            private: account.private_total(export.delta),
            spending: account.budget().map(|budget| account.budget_status_under(budget)),
            export,
            account,
        })
    }

    /// Formats the runs as `2 x DP-SGD on MNIST, 1 x ...`, in the order of first use.
    fn describe_runs(&self) -> String {
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for charge in self.account.charges() {
            match counts.iter_mut().find(|(name, _)| *name == charge.note) {
                Some((_, count)) => *count += 1,
                None => counts.push((&charge.note, 1)),
            }
        }
        let name = |name: &str| if name.is_empty() { "a run".to_owned() } else { name.to_owned() };
        let each = counts.iter().map(|(run, count)| format!("{count} x {}", name(run)));
        if counts.is_empty() { "none yet".into() } else { each.collect::<Vec<_>>().join(", ") }
    }

    fn cells(&self) -> [String; 6] {
        let delta = self.export.delta;
        let epsilon = match &self.private {
            Ok(spent) if spent.epsilon > 0.0 => {
                let relation = match self.export.neighbouring {
                    NeighbouringRelation::AddOrRemoveOne => String::new(),
                    other => format!("; neighbours: {other}"),
                };
                let epsilon = format::eps(spent.epsilon);
                format!("{epsilon} at delta {delta} ({}{relation})", spent.accountant)
            }
            Ok(_) => "0".to_owned(),
            Err(error) => format!("unknown: {error}"),
        };
        let (budget, left) = match &self.spending {
            None => ("none".to_owned(), "-".to_owned()),
            Some(Ok(spending)) => {
                let left = RoundedDown(spending.remaining()).to_string();
                let overspent = spending.is_overspent().then(|| "overspent".to_owned());
                (spending.budget.to_string(), overspent.unwrap_or(left))
            }
            Some(Err(error)) => (error.to_string(), "unknown".to_owned()),
        };
        let open = match self.account.non_private_runs() {
            0 => "none".to_owned(),
            n => format!("{} (if their results are published: ∞)", format::format_count(n)),
        };
        [
            self.describe_runs(),
            format::format_count(self.account.charges().len()),
            epsilon,
            budget,
            left,
            open,
        ]
    }
}

impl LedgerView {
    /// Returns the number of data sets that have a ledger.
    pub fn data_sets(&self) -> usize {
        self.rows.len()
    }

    /// Returns the epsilon of all private runs together on the data set with this
    /// [`origin`](crate::data::Dataset::origin), by the
    /// [`TightestAccountant`](crate::privacy::TightestAccountant) accountant, at the delta of its
    /// budget (without one at 1e-5); 0 if there were none, infinite if no accountant can add them
    /// up.
    pub fn epsilon(&self, origin: &str) -> f64 {
        let spent = |row: &Row| row.private.as_ref().map_or(f64::INFINITY, |spent| spent.epsilon);
        self.row(origin).map_or(0.0, spent)
    }

    /// Returns the number of runs without privacy on this data set. Neither their results nor,
    /// once they are published, the total have a guarantee.
    pub fn without_privacy(&self, origin: &str) -> usize {
        self.row(origin).map_or(0, |row| row.account.non_private_runs())
    }

    /// Returns a table with one row for each charged run: its data set (the number of its row in
    /// the totals, from 1), time of the charge, run, charged event, state, note of its end.
    pub fn charges(&self) -> Table {
        let head = ["data set", "charged at", "run", "event", "state", "note"];
        let cells = |(i, charge): (usize, &ChargeRecord)| {
            [
                (i + 1).to_string(),
                charge.started_at.clone(),
                charge.note.clone(),
                charge.event.to_string(),
                charge.state().to_owned(),
                charge.closing_note.clone(),
            ]
        };
        let rows = self.rows.iter().enumerate();
        let charges = rows.flat_map(|(i, row)| row.account.charges().iter().map(move |c| (i, c)));
        Table::new(head).rows(charges.map(cells))
    }

    /// Returns all entries as JSON, for others to check: `{"format":1, "exported_at":..,
    /// "data_sets":[{"name":.., "runs":[..], "events":[..], "epsilon":.., "delta":..,
    /// "accountant":.., "neighbouring":.., "budget":..}]}`.
    ///
    /// Hashes of the data are left out: someone who has all other examples could use them to test
    /// for one. `epsilon` is of all events together, and `null` if one of them has no guarantee
    /// (`why` says so then). A run with `stopped_early` is charged for the steps it took;
    /// `closing_note` has the condition under which that holds.
    ///
    /// # Errors
    ///
    /// None at present.
    pub fn to_json(&self) -> Result<String> {
        Ok(export::to_json(&self.rows.iter().map(|row| &row.export).collect::<Vec<_>>()))
    }

    /// Writes [`to_json`](Self::to_json) to a file.
    ///
    /// # Errors
    /// `Io` if it can't be written.
    pub fn export(&self, path: impl AsRef<Path>) -> Result<()> {
        file::write(path, format!("{}\n", self.to_json()?))
    }

    fn row(&self, origin: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.data_hash == origin)
    }

    /// Returns the text below the totals: what they count and on which condition.
    fn footer(&self) -> String {
        let runs: usize = self.rows.iter().map(|row| row.account.charges().len()).sum();
        let counted = match runs {
            1 => "the 1 run on record is".to_owned(),
            n => format!("all {} runs on record are", format::format_count(n)),
        };
        let charges = self.rows.iter().flat_map(|row| row.account.charges());
        let stopped = charges.filter(|charge| charge.stopped_early).count();
        let runs = format::pluralise(stopped, "run");
        let [were, are, they] =
            if stopped == 1 { ["was", "is", "it"] } else { ["were", "are", "they"] };
        let stopped = if stopped == 0 {
            String::new()
        } else {
            format!(
                " {runs} {were} stopped early and {are} charged for the steps {they} took: this \
                 holds if {STOPPING_ASSUMPTION}."
            )
        };
        format!(
            "Tuning runs counted: {counted} in these totals, also those made only to choose \
             settings. Choosing the best of n runs costs the total, not one run's \
             epsilon.{stopped}"
        )
    }

    // Without hashes: someone who has all other examples could use them to test for one.
    pub(crate) fn bundle(&self) -> MimeBundle {
        if self.rows.is_empty() {
            return MimeBundle::text("nothing has been spent in this project");
        }
        let head = [
            "releases on a data set",
            "runs",
            "epsilon of the private runs",
            "budget",
            "remaining",
            "without privacy",
        ];
        let table = Table::new(head).rows(self.rows.iter().map(Row::cells));
        let footer = self.footer();
        let prose = MimeBundle::prose(&footer).html.unwrap_or_default();
        let html = format!("{}\n{prose}", table.html());
        MimeBundle::text(format!("{}\n{footer}", table.text())).with_html(html)
    }
}

impl fmt::Display for LedgerView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.bundle().text.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::privacy::{Delta, Entry, Epsilon, Event};
    use crate::store::open_ledger;

    /// Returns a project with one ledger.
    fn project() -> (tempfile::TempDir, RunStore, Ledger) {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(folder.path().to_path_buf()).unwrap();
        let ledger = open_ledger(&folder.path().join("ledger/abc123.jsonl")).unwrap();
        (folder, store, ledger)
    }

    fn begin(ledger: &Ledger, run: &str, note: &str, event: &Event) {
        ledger.record(&Entry::planned(run, "abc123", event).with_note(note)).unwrap();
    }

    #[test]
    fn the_view_counts_every_run_and_has_the_remaining_budget() {
        let (folder, store, ledger) = project();
        let training = |count| Event::Gaussian { noise_multiplier: 5.0, count };
        begin(&ledger, "1", "DP-SGD on toys", &training(1));
        begin(&ledger, "2", "DP-SGD on toys", &training(2));
        let spending = ledger.set_budget(Epsilon(4.0), Delta(1e-6)).unwrap();
        let view = ledger_in(&store).unwrap();
        let shown = view.to_string();
        for part in ["2 x DP-SGD on toys", "at delta 1e-6", "epsilon 4", "all 2 runs on record are"]
        {
            assert!(shown.contains(part), "{shown}");
        }
        assert!(shown.contains(&RoundedDown(spending.remaining()).to_string()), "{shown}");
        assert_eq!(view.epsilon("abc123"), spending.cost.epsilon);
        assert!(!shown.contains("abc123") && !view.bundle().html.unwrap().contains("abc123"));

        let path = folder.path().join("out/ledger.json");
        view.export(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("abc123"), "{text}");
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let data = &json["data_sets"][0];
        assert_eq!((&data["name"], data["runs"].as_array().unwrap().len()), (&"toys".into(), 2));
        let exported = data["epsilon"].as_f64().unwrap();
        assert!((exported / spending.cost.epsilon - 1.0).abs() < 1e-12, "{exported}");
    }

    #[test]
    fn the_charge_of_a_stopped_run_is_shown_with_its_condition() {
        let (_folder, store, ledger) = project();
        let training = |count| Event::Gaussian { noise_multiplier: 5.0, count };
        begin(&ledger, "1", "DP-SGD on toys", &training(9));
        let stopped = Entry::spent("1", "abc123", &training(2));
        ledger.record(&stopped.with_note("2 of 9 steps, if nothing decided it")).unwrap();
        begin(&ledger, "2", "DP-SGD on toys", &training(2));
        ledger.close_run("2", &training(2)).unwrap();
        let view = ledger_in(&store).unwrap();
        let text = view.to_string();
        let stop = "1 run was stopped early and is charged for the steps it took";
        for part in [stop, crate::privacy::STOPPING_ASSUMPTION] {
            assert!(text.contains(part), "{part} is not in:\n{text}");
        }
        let json: serde_json::Value = serde_json::from_str(&view.to_json().unwrap()).unwrap();
        let runs = &json["data_sets"][0]["runs"];
        assert_eq!(runs[0]["closing_note"], "2 of 9 steps, if nothing decided it");
        assert!(runs[1].get("closing_note").is_none(), "{runs}");
    }

    #[test]
    fn a_total_that_no_accountant_computes_is_unknown_in_its_row() {
        let (_folder, store, ledger) = project();
        begin(&ledger, "1", "baseline on toys", &Event::Unaccountable { why: "raw".into() });
        // Noise so small that its epsilon is beyond all floating-point numbers.
        let tiny = Event::Gaussian { noise_multiplier: 1e-300, count: 1 };
        begin(&ledger, "2", "a slip", &tiny);
        let view = ledger_in(&store).unwrap();
        assert_eq!((view.without_privacy("abc123"), view.epsilon("abc123")), (1, f64::INFINITY));
        let text = view.to_string();
        assert!(text.contains("unknown: ") && text.contains("1 (if their results"), "{text}");
        assert_eq!((view.epsilon("another"), view.data_sets()), (0.0, 1));
    }

    #[test]
    fn a_ledger_that_is_gone_or_damaged_is_an_error_of_the_whole_view() {
        let (folder, store, ledger) = project();
        begin(&ledger, "1", "", &Event::Gaussian { noise_multiplier: 5.0, count: 1 });
        std::fs::remove_file(folder.path().join("ledger/abc123.jsonl")).unwrap();
        assert_eq!(ledger_in(&store).unwrap_err().kind(), ErrorKind::Ledger);
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(
            ledger_in(&RunStore::open(empty.path().into()).unwrap()).unwrap().data_sets(),
            0
        );
    }
}
