//! Checks that plan, model, data and ledger belong together.

use crate::data::Dataset;
use crate::methods::Plan;
use crate::nn::Model;
use crate::privacy::digits::{format_count, pluralise};
use crate::privacy::{Event, Ledger};
use crate::train::start;
use crate::{Error, ErrorKind, Result};

/// Checks that plan, model, data and ledger were made for the same data: otherwise sampling rate,
/// divisor and ledger would be those of another data set. It also makes the checks that would
/// otherwise fail during the run, when the whole plan is charged already.
///
/// # Errors
/// `Setting` if they do not belong together, or for a plan of private selection; `Ledger` if the
/// release of a given mask is not in the ledger; errors of the plan's bound and masks, and of
/// [`Model::validate`].
pub(crate) fn validate_inputs(
    plan: &Plan,
    model: &Model,
    data: &Dataset,
    ledger: &Ledger,
) -> Result<()> {
    if plan.selection().is_some() {
        let why = "a private selection is not one run, but many trials of which only the best is \
                   shown";
        return Err(Error::new(
            ErrorKind::Setting,
            "cannot train a plan of private selection as one run",
            why,
        )
        .fix("train it by plan.train(&model, &data), which runs the trials"));
    }
    model.validate()?;
    if let Some(bound) = plan.bound(0)? {
        bound.groups(model.network())?;
    }
    if !plan.freezing().is_empty() {
        plan.freezing().frozen_flags(model.network())?;
    }
    if plan.examples() != data.train().len() {
        return Err(Error::new(
            ErrorKind::Setting,
            format!("a plan for {}", pluralise(plan.examples(), "training example")),
            format!(
                "{} has {}: sampling rate and epsilon would be wrong",
                data.name(),
                format_count(data.train().len())
            ),
        )
        .fix("make the plan from the same data"));
    }
    if !ledger.is_for_any_data() && ledger.data_hash() != data.origin() {
        return Err(Error::new(
            ErrorKind::Setting,
            format!("the ledger of the data set {}", ledger.data_hash()),
            format!(
                "{} is {}: the cost would be charged to other data",
                data.name(),
                data.origin()
            ),
        )
        .fix("open the ledger named by data.origin()"));
    }
    if !ledger.is_for_any_data() {
        check_mask_charged(plan, data, ledger)?;
    }
    plan.check_prior_releases(data)?;
    start::check_provenance(plan, model, data)?;
    let fits = model.input_shape() == data.shape() && model.classes() == data.classes();
    if fits {
        plan.settings().augment.map_or(Ok(()), |augment| augment.check(data.shape()))?;
        return check_vocabulary(model, data);
    }
    Err(Error::new(
        ErrorKind::Setting,
        format!(
            "the model {} takes examples of shape {:?} and {} classes; {} has shape {:?} and {} \
             classes",
            model.name(),
            model.input_shape(),
            model.classes(),
            data.name(),
            data.shape(),
            data.classes()
        ),
        "model and data must agree",
    )
    .fix("build the model from the same data, e.g. models::papernot_cnn(&data)"))
}

/// Refuses a given mask whose release about these data is not in the ledger: the mask may be from
/// another project, or its ledger may be lost, and its cost would not be counted.
fn check_mask_charged(plan: &Plan, data: &Dataset, ledger: &Ledger) -> Result<()> {
    let Some(sparsity) = plan.sparsity() else { return Ok(()) };
    let released = sparsity.prior_releases(&data.into())?;
    let known = if released.is_empty() { Vec::new() } else { ledger.runs()? };
    // Comparing the event finds a mask file that was edited to look cheaper. A mask that was made
    // within a run is charged as a part of it.
    let charges = |charged: &Event, event: &Event| match charged {
        Event::Composed { events } => events.iter().any(|part| part.reduced_to(event).is_ok()),
        one => one.reduced_to(event).is_ok(),
    };
    let is_known = |(run, event): &(String, Event)| {
        known.iter().any(|(name, charged)| name == run && charges(charged, event))
    };
    match released.iter().find(|release| !is_known(release)) {
        None => Ok(()),
        Some((run, event)) => Err(Error::new(
            ErrorKind::Ledger,
            format!(
                "the mask was released as {run} ({event}), but the ledger of {} has no such entry",
                data.name()
            ),
            "the cost of the mask would not be counted",
        )
        .fix("train in the project where the mask was made, or make a new mask")),
    }
}

/// Checks that a model that reads token ids has an entry for every id: of the vocabulary, which
/// bounds the ids of any text, and of the examples in memory.
fn check_vocabulary(model: &Model, data: &Dataset) -> Result<()> {
    let Some(known) = model.network().vocabulary() else { return Ok(()) };
    if let Some(vocabulary) = data.vocabulary()
        && vocabulary.len() > known
    {
        let what = format!("the model {} knows {}", model.name(), pluralise(known, "token"));
        let why =
            format!("the vocabulary of {} has {}", data.name(), format_count(vocabulary.len()));
        return Err(Error::new(ErrorKind::Setting, what, why)
            .fix("give the model data.vocabulary().unwrap().len() tokens"));
    }
    let mut parts = [data.train(), data.test()].into_iter().filter(|part| part.is_in_memory());
    parts.try_for_each(|part| model.network().check_tokens(part.features_flat()))
}
