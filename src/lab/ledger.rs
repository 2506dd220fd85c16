//! All that this project has spent on each data set.

use crate::Result;
use crate::privacy::digits::RoundedDown;
use crate::privacy::ledger::export::{self, DataSet};
use crate::privacy::{Ledger, Spending, Spent};
use crate::show::{Bundle, Table, format};
use crate::store::{Store, home};
use std::fmt;
use std::path::Path;

/// The ledgers of this project, added up.
#[derive(Clone, Debug)]
pub struct LedgerView {
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
struct Row {
    data_hash: String,
    /// Names of ledgers that were taken over into this one.
    former: Vec<String>,
    /// What was run, as the ledger's notes say.
    runs: Vec<String>,
    without_privacy: usize,
    /// Of the runs with privacy, together; or why nobody can tell.
    private: Result<Spent>,
    /// Against the limit, if there is one.
    spending: Option<Result<Spending>>,
    /// What others may see.
    export: DataSet,
}

/// Reads the ledgers of this project: everything its notebooks have spent on each data set.
///
/// # Errors
/// `Ledger` if a ledger file is damaged: it is never reset; also if a stored run is in none of
/// them, for then a ledger is gone and what it counted would be missing here. A total that no accountant can
/// compute is said in its row.
pub fn ledger() -> Result<LedgerView> {
    ledger_in(&Store::at(home()))
}

fn ledger_in(store: &Store) -> Result<LedgerView> {
    let rows = store.all_ledgers()?;
    Ok(LedgerView { rows: rows.iter().map(Row::of).collect::<Result<_>>()? })
}

impl Row {
    fn of(ledger: &Ledger) -> Result<Self> {
        let account = ledger.account()?;
        let export = DataSet::of(&account);
        Ok(Self {
            data_hash: ledger.data_hash().to_owned(),
            former: account.runs().iter().filter_map(|charge| charge.former.clone()).collect(),
            runs: account.runs().iter().map(|charge| charge.note.clone()).collect(),
            without_privacy: account.without_privacy(),
            private: account.private_total(export.delta()),
            spending: account.budget().map(|budget| account.under(budget)),
            export,
        })
    }

    /// `2 x DP-SGD on MNIST, 1 x ...`, in the order of first use.
    fn told(&self) -> String {
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for run in &self.runs {
            match counts.iter_mut().find(|(name, _)| name == run) {
                Some((_, count)) => *count += 1,
                None => counts.push((run, 1)),
            }
        }
        let name = |name: &str| if name.is_empty() { "a run".to_owned() } else { name.to_owned() };
        let each = counts.iter().map(|(run, count)| format!("{count} x {}", name(run)));
        if self.runs.is_empty() { "none yet".into() } else { each.collect::<Vec<_>>().join(", ") }
    }

    fn cells(&self) -> [String; 6] {
        let delta = self.export.delta();
        let epsilon = match &self.private {
            Ok(spent) if spent.epsilon > 0.0 => {
                format!("{} at delta {delta} ({})", format::eps(spent.epsilon), spent.accountant)
            }
            Ok(_) => "0".to_owned(),
            Err(error) => format!("unknown: {error}"),
        };
        let (budget, left) = match &self.spending {
            None => ("none".to_owned(), "-".to_owned()),
            Some(Ok(spending)) if spending.is_overspent() => {
                (spending.budget.to_string(), "overspent".to_owned())
            }
            Some(Ok(spending)) => {
                (spending.budget.to_string(), RoundedDown(spending.left()).to_string())
            }
            Some(Err(error)) => (error.to_string(), "unknown".to_owned()),
        };
        let open = match self.without_privacy {
            0 => "none".to_owned(),
            n => format!("{} (if their results are published: ∞)", format::count(n)),
        };
        [self.told(), format::count(self.runs.len()), epsilon, budget, left, open]
    }
}

impl LedgerView {
    /// Number of data sets that something was spent on.
    pub fn data_sets(&self) -> usize {
        self.rows.len()
    }

    /// Epsilon of all private runs together on the data set with this
    /// [`origin`](crate::data::Dataset::origin), by the [`Headline`](crate::privacy::Headline)
    /// accountant, at the delta of its budget (without one at 1e-5); 0 if there were none,
    /// infinite if no accountant can add them up.
    pub fn epsilon(&self, origin: &str) -> f64 {
        let spent = |row: &Row| row.private.as_ref().map_or(f64::INFINITY, |spent| spent.epsilon);
        self.row(origin).map_or(0.0, spent)
    }

    /// How many runs used this data set without privacy: their results promise nothing, and nor
    /// does the total once they are published.
    pub fn without_privacy(&self, origin: &str) -> usize {
        self.row(origin).map_or(0, |row| row.without_privacy)
    }

    /// Everything on record as JSON, for others to check again:
    /// `{"format":1, "exported_at":.., "data_sets":[{"name":.., "runs":[..], "events":[..],
    /// "epsilon":.., "delta":.., "accountant":.., "neighbouring":.., "budget":..}]}`.
    ///
    /// Without the content hash of the data, and whatever is made of it: whoever holds all other
    /// examples could test one by it. `epsilon` is of all events together, `null` if one of them
    /// has no guarantee (`why` says so then).
    pub fn to_json(&self) -> Result<String> {
        export::text(&self.rows.iter().map(|row| &row.export).collect::<Vec<_>>())
    }

    /// Writes [`to_json`](Self::to_json) to a file.
    ///
    /// # Errors
    /// `Io` if it can't be written.
    pub fn export(&self, path: impl AsRef<Path>) -> Result<()> {
        export::write(path.as_ref(), &self.to_json()?)
    }

    fn row(&self, origin: &str) -> Option<&Row> {
        let former = |row: &&Row| row.former.iter().any(|name| name == origin);
        let named = self.rows.iter().find(|row| row.data_hash == origin);
        named.or_else(|| self.rows.iter().find(former))
    }

    /// What the totals count, in words.
    fn footer(&self) -> String {
        let runs: usize = self.rows.iter().map(|row| row.runs.len()).sum();
        let counted = match runs {
            1 => "the 1 run on record is".to_owned(),
            n => format!("all {} runs on record are", format::count(n)),
        };
        format!(
            "Tuning runs counted: {counted} in these totals, also those made only to choose \
             settings. Choosing the best of n runs costs the total, not one run's epsilon."
        )
    }

    // Without the hashes: who holds all other examples could test one by them.
    pub(crate) fn bundle(&self) -> Bundle {
        if self.rows.is_empty() {
            return Bundle::text("nothing has been spent in this project");
        }
        let head = [
            "on one data set",
            "runs",
            "epsilon of the private runs",
            "budget",
            "left",
            "without privacy",
        ];
        let table = self.rows.iter().fold(Table::new(head), |table, row| table.row(row.cells()));
        let footer = self.footer();
        let prose = Bundle::prose(&footer).html.unwrap_or_default();
        let html = format!("{}\n{prose}", table.html());
        Bundle::text(format!("{}\n{footer}", table.text())).with_html(html)
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

    /// A project with one ledger.
    fn project() -> (tempfile::TempDir, Store, Ledger) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().to_path_buf());
        let ledger = Ledger::open(&folder.path().join("ledger/abc123.jsonl")).unwrap();
        (folder, store, ledger)
    }

    fn begin(ledger: &Ledger, run: &str, note: &str, event: &Event) {
        ledger.record(&Entry::planned(run, "abc123", event).note(note)).unwrap();
    }

    #[test]
    fn the_view_counts_every_run_and_says_what_is_left() {
        let (folder, store, ledger) = project();
        let training = |count| Event::Gaussian { noise_multiplier: 5.0, count };
        begin(&ledger, "1", "DP-SGD on toys", &training(1));
        begin(&ledger, "2", "DP-SGD on toys", &training(2));
        let spending = ledger.set_budget(Epsilon(4.0), Delta(1e-6)).unwrap();
        let view = ledger_in(&store).unwrap();
        let said = view.to_string();
        for part in ["2 x DP-SGD on toys", "at delta 1e-6", "epsilon 4", "all 2 runs on record are"]
        {
            assert!(said.contains(part), "{said}");
        }
        assert!(said.contains(&RoundedDown(spending.left()).to_string()), "{said}");
        assert_eq!(view.epsilon("abc123"), spending.spent.epsilon);
        assert!(!said.contains("abc123") && !view.bundle().html.unwrap().contains("abc123"));

        let path = folder.path().join("out/ledger.json");
        view.export(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("abc123"), "{text}");
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let data = &json["data_sets"][0];
        assert_eq!((&data["name"], data["runs"].as_array().unwrap().len()), (&"toys".into(), 2));
        let exported = data["epsilon"].as_f64().unwrap();
        assert!((exported / spending.spent.epsilon - 1.0).abs() < 1e-12, "{exported}");
    }

    #[test]
    fn a_total_that_nobody_can_compute_is_said_in_its_row() {
        let (_folder, store, ledger) = project();
        begin(&ledger, "1", "baseline on toys", &Event::Unaccountable { why: "raw".into() });
        // Noise so small that its epsilon is beyond all floating-point numbers.
        let tiny = Event::Gaussian { noise_multiplier: 1e-300, count: 1 };
        begin(&ledger, "2", "a slip", &tiny);
        let view = ledger_in(&store).unwrap();
        assert_eq!((view.without_privacy("abc123"), view.epsilon("abc123")), (1, f64::INFINITY));
        let said = view.to_string();
        assert!(said.contains("unknown: ") && said.contains("1 (if their results"), "{said}");
        assert_eq!((view.epsilon("another"), view.data_sets()), (0.0, 1));
    }

    #[test]
    fn a_ledger_that_is_gone_or_damaged_is_an_error_of_the_whole_view() {
        let (folder, store, ledger) = project();
        begin(&ledger, "1", "", &Event::Gaussian { noise_multiplier: 5.0, count: 1 });
        std::fs::remove_file(folder.path().join("ledger/abc123.jsonl")).unwrap();
        assert_eq!(ledger_in(&store).unwrap_err().kind(), ErrorKind::Ledger);
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(ledger_in(&Store::at(empty.path().into())).unwrap().data_sets(), 0);
    }
}
