//! What a private run says and assumes of the parameters that it started from.

use crate::data::PublicData;
use crate::train::RunRecord;

/// The assumptions about the parameters that training started from.
///
/// # Guarantee
/// None are needed for initial parameters and for those that were trained on data drawn by code:
/// they depend on nobody. Public data are assumed to be public.
///
/// # Errors
/// Why nothing is guaranteed: the parameters were trained on the very examples that this run
/// protects, as public ones.
pub(super) fn assumptions(record: &RunRecord) -> Result<Vec<String>, String> {
    let Some(public) = &record.public_start else {
        let unknown = "the parameters that training started from do not come from these data, or \
                       from private runs that are counted too";
        return Ok(Vec::from_iter(record.warm_start.then(|| unknown.to_owned())));
    };
    if let Some(same) = public.iter().find(|data| data.hash.as_ref() == Some(&record.data_hash)) {
        return Err(format!(
            "training started from parameters that were trained on these very examples, which \
             were taken for public data then ({})",
            same.name
        ));
    }
    let origin = record.charged.as_ref().map(|charged| charged.origin.as_str());
    let mut assumptions = Vec::new();
    for data in public {
        let start = format!("{}, on which the starting parameters were trained,", data.name);
        if !data.drawn_by_code {
            assumptions.push(format!("{start} is public, and its examples need no guarantee"));
        }
        if data.origin.is_some() && data.origin.as_deref() == origin {
            assumptions.push(format!(
                "{start} has no example of this run, though both are parts of the same data"
            ));
        }
    }
    Ok(assumptions)
}

/// The sentence on the public data that the starting parameters were trained on.
pub(crate) fn in_words(record: &RunRecord) -> Option<String> {
    let public = record.public_start.as_ref()?;
    let names: Vec<String> = public.iter().map(PublicData::to_string).collect();
    let cost = match public.iter().all(|data| data.drawn_by_code) {
        true => "They depend on nobody's data and cost nothing.",
        false => "Nothing is counted for that.",
    };
    let names = names.join(", then on ");
    Some(format!("Start: training started from parameters that were trained on {names}. {cost}"))
}
