//! Parameters that a run starts from: the assumptions of a private run about them, the check that
//! refuses it, and the provenance of the parameters that a run ends with.

use crate::data::{Dataset, PublicData};
use crate::mask::{Mask, PrivacyStatus};
use crate::methods::Plan;
use crate::nn::{Model, Provenance};
use crate::train::RunRecord;
use crate::{Error, ErrorKind, Result};

/// Refuses a private run whose starting parameters were trained on the same data without privacy. A
/// plan without a guarantee is not refused: it claims nothing.
///
/// # Errors
/// `Setting`, with the name of the data.
pub(crate) fn check_provenance(plan: &Plan, model: &Model, data: &Dataset) -> Result<()> {
    let claims = plan.privacy().is_some() && plan.not_covered_reason().is_none();
    if !claims || !model.provenance().was_trained_non_privately_on(data) {
        return Ok(());
    }
    let what = format!("a private run on {} from parameters trained on the same data", data.name());
    let why = "the initial model was trained without privacy on these data or on a part of them: \
               noise added now cannot hide them";
    Err(Error::new(ErrorKind::Setting, what, why).fix(
        "start from initial parameters, or from a model that was trained on other, public data",
    ))
}

/// Returns the provenance of the parameters that a run on `data` ends with.
///
/// # Guarantee
/// They are public only if everything that decided them is: the start, the data, and the mask. A
/// private run is counted in the ledger of its data and makes nothing public.
pub(crate) fn provenance_after(
    start: &Provenance,
    plan: &Plan,
    mask: Option<&Mask>,
    data: &Dataset,
) -> Provenance {
    let is_free = |status: &PrivacyStatus| *status == PrivacyStatus::DataFree;
    let other = mask.is_some_and(|mask| !mask.origin().privacy.iter().all(is_free));
    if plan.privacy().is_some() || other {
        start.after_unattributed_training()
    } else {
        start.after_non_private_training(data)
    }
}

/// Returns the assumptions about the parameters that training started from.
///
/// # Guarantee
/// None are needed for initial parameters and for those that were trained on synthetic data: they
/// depend on no person's data. Data that were declared public are assumed to be.
pub(super) fn assumptions(record: &RunRecord) -> Vec<String> {
    let Some(public) = &record.public_start else {
        let unknown = "the parameters that training started from do not come from these data, or \
                       from private runs that are counted too";
        return Vec::from_iter(record.warm_start.then(|| unknown.to_owned()));
    };
    let declared = public.iter().filter(|data| !data.drawn_by_code);
    let assumed = |data: &PublicData| {
        format!(
            "{}, on which the starting parameters were trained, is public, and its examples need \
             no guarantee",
            data.name
        )
    };
    declared.map(assumed).collect()
}

/// Returns the sentence on the public data that the starting parameters were trained on.
pub(crate) fn describe(record: &RunRecord) -> Option<String> {
    let public = record.public_start.as_ref()?;
    let names: Vec<String> = public.iter().map(PublicData::to_string).collect();
    let cost = if public.iter().all(|data| data.drawn_by_code) {
        "They depend on no private data and cost nothing."
    } else {
        "No epsilon is counted for that."
    };
    let names = names.join(", then on ");
    Some(format!("Start: training started from parameters that were trained on {names}. {cost}"))
}
