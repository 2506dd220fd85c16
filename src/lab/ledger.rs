//! All that this project has spent on each data set.

use crate::lab::{home, store::Store};
use crate::privacy::{Delta, Ledger, Rdp};
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
    runs: usize,
    epsilon: std::result::Result<f64, String>,
}

/// Reads the ledgers of this project: everything its notebooks have spent on each data set.
///
/// # Errors
/// `Ledger` if a ledger file is damaged: it is never reset.
pub fn ledger() -> Result<LedgerView> {
    let folder = Store::at(home()).ledgers();
    let mut rows = Vec::new();
    let Ok(files) = std::fs::read_dir(&folder) else {
        return Ok(LedgerView { rows });
    };
    let mut paths = files
        .map(|entry| entry.map(|e| e.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| Error::io(format!("reading {}", folder.display()), &e))?;
    paths.retain(|path| path.extension().is_some_and(|e| e == "jsonl"));
    paths.sort();
    for path in paths {
        let events = Ledger::open(&path)?.events()?;
        let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned());
        rows.push(Row {
            data_hash: stem.unwrap_or_default(),
            runs: events.len(),
            epsilon: Rdp::default()
                .epsilon(&events, DELTA)
                .map(|spent| spent.epsilon)
                .map_err(|e| e.to_string()),
        });
    }
    Ok(LedgerView { rows })
}

impl LedgerView {
    /// Number of data sets that something was spent on.
    pub fn data_sets(&self) -> usize {
        self.rows.len()
    }

    /// Epsilon spent on the data set with this content hash, at delta 1e-5; 0 if nothing was.
    pub fn epsilon(&self, data_hash: &str) -> f64 {
        self.rows
            .iter()
            .find(|row| row.data_hash == data_hash)
            .map_or(0.0, |row| row.epsilon.clone().unwrap_or(f64::INFINITY))
    }

    pub(crate) fn bundle(&self) -> Bundle {
        let mut table = Table::new(["data set (hash)", "runs", "epsilon at delta 1e-5"]);
        for row in &self.rows {
            let epsilon = match &row.epsilon {
                Ok(epsilon) => format::eps(*epsilon),
                Err(why) => why.clone(),
            };
            let short = row.data_hash.get(..12).unwrap_or(&row.data_hash);
            table = table.row([short, &row.runs.to_string(), &epsilon]);
        }
        table.bundle()
    }
}

impl fmt::Display for LedgerView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows.is_empty() {
            return f.write_str("nothing has been spent in this project");
        }
        f.write_str(self.bundle().text.trim_end())
    }
}
