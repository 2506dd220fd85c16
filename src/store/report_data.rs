//! Stored runs without model and data, for reports.

use super::run_files::{MASK, MODEL};
use super::run_summary::no_record;
use super::{RunStore, claimed_epsilon, ledger_check, run_files};
use crate::Result;
use crate::mask::Mask;
use crate::nn::{Model, models};
use crate::privacy::ledger::LedgerState;
use crate::train::RunRecord;

/// Data of a stored run that a report needs.
pub(crate) struct StoredReportData {
    pub(crate) record: RunRecord,
    pub(crate) mask: Option<Mask>,
    /// The trained model, unless it is a user-defined module, whose code is not stored.
    pub(crate) model: Option<Model>,
    /// Warnings about what can't be checked, or differs from the record.
    pub(crate) warnings: Vec<String>,
}

impl RunStore {
    /// Returns a stored run without its data, for a report. What only the data of the present call
    /// could say is left out: start and data count as private.
    ///
    /// # Errors
    /// As [`find_record`](Self::find_record); `Ledger` if a ledger of the project is damaged or
    /// lost; `CorruptData` if the record's releases are not those that were charged.
    pub(crate) fn load_for_report(&self, name: &str) -> Result<StoredReportData> {
        let mut record = self.find_record(name)?;
        let folder = self.run_dir(&record.id);
        let Some((_, files)) = run_files::read(&folder)? else { return Err(no_record(&record.id)) };
        record.public_data = false;
        record.public_start = None;
        let warnings = Vec::from_iter(claimed_epsilon::reconcile_epsilon(&mut record));
        let mask = files.verified_path(MASK)?.map(Mask::load).transpose()?;
        let model =
            if record.own_module { None } else { Some(models::load(files.required_path(MODEL)?)?) };
        if let Some(account) = self.find_account(&record)? {
            ledger_check::check_releases_match_charge(&folder, &record, &account)?;
        }
        Ok(StoredReportData { record, mask, model, warnings })
    }

    /// Returns the ledger state that charges a run; `None` if it is in no ledger of the project.
    ///
    /// # Errors
    /// As [`all_ledgers`](Self::all_ledgers).
    pub(crate) fn find_account(&self, record: &RunRecord) -> Result<Option<LedgerState>> {
        for ledger in self.all_ledgers()? {
            let account = ledger.state()?;
            if account.charge_of(&record.charged.run).is_some() {
                return Ok(Some(account));
            }
        }
        Ok(None)
    }
}
