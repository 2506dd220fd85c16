//! Command `ledger`: privacy spent on each data set of the project.

use std::process::ExitCode;

use epsilab::{Result, lab};

use crate::stdout;

/// Show what this project has spent on each data set, and verify its ledgers.
#[derive(clap::Args, Clone, Debug)]
pub struct LedgerArgs {
    /// Print all entries and totals as JSON, without hashes of the data
    #[arg(long)]
    json: bool,
}

/// Runs `ledger`.
///
/// # Errors
/// Kind `Ledger` if a ledger is damaged or missing; errors of reading and printing.
pub fn ledger(args: &LedgerArgs) -> Result<ExitCode> {
    let ledger = lab::ledger()?;
    let verified = match ledger.data_sets() {
        1 => "1 ledger was read and its chain verified".to_owned(),
        n => format!("{n} ledgers were read and their chains verified"),
    };
    stdout::print_line(&if args.json {
        ledger.to_json()?
    } else if ledger.data_sets() == 0 {
        ledger.to_string()
    } else {
        format!("{ledger}\n\n{}\n{verified}", ledger.charges().text())
    })?;
    Ok(ExitCode::SUCCESS)
}
