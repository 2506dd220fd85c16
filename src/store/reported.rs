//! Stored runs without model and data, for reports.

use super::overview::no_record;
use super::record::{MASK, MODEL};
use super::{Store, claim, evidence, record};
use crate::Result;
use crate::mask::Mask;
use crate::nn::{Model, models};
use crate::privacy::ledger::Account;
use crate::train::RunRecord;

/// What a report needs of a stored run.
pub(crate) struct Reported {
    pub(crate) record: RunRecord,
    pub(crate) mask: Option<Mask>,
    /// The trained model, unless it is a user-defined module, whose code is not stored.
    pub(crate) model: Option<Model>,
    /// What can't be checked, or differs from the record.
    pub(crate) warnings: Vec<String>,
}

impl Store {
    /// A stored run without its data, for a report. What only the data of the present call could
    /// say is left out: start and data count as private.
    ///
    /// # Errors
    /// As [`record_named`](Self::record_named); `Ledger` if a ledger of the project is damaged or
    /// lost; `CorruptData` if the record's releases are not those that were charged.
    pub(crate) fn reported(&self, name: &str) -> Result<Reported> {
        let mut record = self.record_named(name)?;
        let folder = self.folder(&record.id);
        let Some((_, files)) = record::read(&folder)? else { return Err(no_record(&record.id)) };
        record.public_data = false;
        record.public_start = None;
        let warnings = Vec::from_iter(claim::settle(&mut record));
        let mask = files.path(MASK)?.map(Mask::load).transpose()?;
        let model =
            if record.own_module { None } else { Some(models::load(files.needed(MODEL)?)?) };
        if let Some(account) = self.account_of(&record)? {
            evidence::released_as_charged(&folder, &record, &account)?;
        }
        Ok(Reported { record, mask, model, warnings })
    }

    /// The account that charges a run; `None` if it is in no ledger of the project.
    ///
    /// # Errors
    /// As [`all_ledgers`](Self::all_ledgers).
    pub(crate) fn account_of(&self, record: &RunRecord) -> Result<Option<Account>> {
        for ledger in self.all_ledgers()? {
            let account = ledger.account()?;
            if account.charge(&record.charged.run).is_some() {
                return Ok(Some(account));
            }
        }
        Ok(None)
    }
}
