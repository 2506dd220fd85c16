//! All that this project has spent on each data set.

use crate::lab::{home, store::Store};
use crate::privacy::{Delta, EntryKind, Event, Ledger, Rdp};
use crate::show::{Bundle, Table, format};
use crate::{Error, Result};
use std::fmt;

/// The delta at which the ledger adds up epsilon.
const DELTA: Delta = Delta(1e-5);

/// The ledgers of this project, added up.
#[derive(Clone, Debug)]
pub struct LedgerView {
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
struct Row {
    data_hash: String,
    /// What was run, as the ledger's notes say.
    runs: Vec<String>,
    without_privacy: usize,
    /// Of the runs with privacy, together.
    epsilon: f64,
}

/// Reads the ledgers of this project: everything its notebooks have spent on each data set.
///
/// # Errors
/// `Ledger` if a ledger file is damaged: it is never reset.
pub fn ledger() -> Result<LedgerView> {
    let folder = Store::at(home()).ledgers();
    let reading = |e: std::io::Error| Error::io(format!("reading {}", folder.display()), &e);
    let files = match std::fs::read_dir(&folder) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Ok(LedgerView { rows: Vec::new() });
        }
        files => files.map_err(reading)?,
    };
    let mut paths = files
        .map(|entry| entry.map(|e| e.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(reading)?;
    paths.retain(|path| path.extension().is_some_and(|e| e == "jsonl"));
    paths.sort();
    let rows = paths.iter().map(|path| Row::of(&Ledger::open(path)?));
    Ok(LedgerView { rows: rows.collect::<Result<_>>()? })
}

impl Row {
    fn of(ledger: &Ledger) -> Result<Self> {
        let (private, open): (Vec<_>, Vec<_>) = ledger
            .events()?
            .into_iter()
            .partition(|event| !matches!(event, Event::Unaccountable { .. }));
        let planned = ledger.entries()?.into_iter().filter(|e| e.entry == EntryKind::Planned);
        Ok(Self {
            data_hash: ledger.data_hash().to_owned(),
            runs: planned.map(|entry| entry.note).collect(),
            without_privacy: open.len(),
            epsilon: Rdp::default().epsilon(&private, DELTA)?.epsilon,
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
        let each = counts.iter().map(|(name, count)| format!("{count} x {name}"));
        each.collect::<Vec<_>>().join(", ")
    }
}

impl LedgerView {
    /// Number of data sets that something was spent on.
    pub fn data_sets(&self) -> usize {
        self.rows.len()
    }

    /// Epsilon of all private runs together on the data set with this
    /// [`origin`](crate::data::Dataset::origin), at delta 1e-5; 0 if there were none.
    pub fn epsilon(&self, origin: &str) -> f64 {
        self.row(origin).map_or(0.0, |row| row.epsilon)
    }

    /// How many runs used this data set without privacy: their results promise nothing, and nor
    /// does the total once they are published.
    pub fn without_privacy(&self, origin: &str) -> usize {
        self.row(origin).map_or(0, |row| row.without_privacy)
    }

    fn row(&self, origin: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.data_hash == origin)
    }

    // Without the hashes: who holds all other examples could test one by them.
    pub(crate) fn bundle(&self) -> Bundle {
        if self.rows.is_empty() {
            return Bundle::text("nothing has been spent in this project");
        }
        let mut table =
            Table::new(["runs on one data set", "epsilon at delta 1e-5", "without privacy"]);
        for row in &self.rows {
            let open = match row.without_privacy {
                0 => "none".to_owned(),
                n => format!("{n} (if their results are published: ∞)"),
            };
            table = table.row([row.told(), format::eps(row.epsilon), open]);
        }
        table.bundle()
    }
}

impl fmt::Display for LedgerView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.bundle().text.trim_end())
    }
}
