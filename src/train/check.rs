//! Whether plan, model, data and ledger belong together.

use crate::data::Dataset;
use crate::methods::Plan;
use crate::nn::Model;
use crate::privacy::digits::{count, counted};
use crate::privacy::{Event, Ledger};
use crate::{Error, ErrorKind, Result};

/// Refuses to train with parts that were made for different data: the sampling rate, the divisor
/// and the ledger would be another data set's. What would only be noticed in the middle of a run,
/// when the whole plan is charged, is looked for here.
pub(super) fn belong_together(
    plan: &Plan,
    model: &Model,
    data: &Dataset,
    ledger: &Ledger,
) -> Result<()> {
    model.validate()?;
    if plan.examples() != data.train().len() {
        return Err(Error::new(
            ErrorKind::Setting,
            format!("a plan for {}", counted(plan.examples(), "training example")),
            format!(
                "{} has {}: sampling rate and epsilon would be wrong",
                data.name(),
                count(data.train().len())
            ),
        )
        .fix("make the plan from the same data"));
    }
    if ledger.path().is_some() && ledger.data_hash() != data.origin() {
        return Err(Error::new(
            ErrorKind::Setting,
            format!("the ledger of the data set {}", ledger.data_hash()),
            format!(
                "{} is {}: its cost would be charged to other people",
                data.name(),
                data.origin()
            ),
        )
        .fix(
            "open the ledger named after data.origin(); one of an earlier name is taken over by \
             Ledger::take_over",
        ));
    }
    if ledger.path().is_some() {
        mask_is_charged(plan, data, ledger)?;
    }
    plan.check_releases_before(data)?;
    let fits = model.input_shape() == data.shape() && model.classes() == data.classes();
    if fits {
        plan.augment().map_or(Ok(()), |augment| augment.check(data.shape()))?;
        return tokens(model, data);
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
        "they must agree to train",
    )
    .fix("build the model from the same data, e.g. models::papernot_cnn(&data)"))
}

/// A given mask that was released about these data must be on record: a mask from another project's
/// ledger, or from a file whose ledger was lost, would not be counted here.
fn mask_is_charged(plan: &Plan, data: &Dataset, ledger: &Ledger) -> Result<()> {
    let Some(sparsity) = plan.sparsity() else { return Ok(()) };
    let released = sparsity.released_before(data);
    let known = if released.is_empty() { Vec::new() } else { ledger.runs()? };
    // The event too: who edits a mask's file must not make it cheaper. A mask that was made within
    // a run is charged as a part of it.
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
                "the mask was released as {run} ({event}), which the ledger of {} lacks",
                data.name()
            ),
            "what the mask has cost would not be counted",
        )
        .fix("train in the project where the mask was made, or make the mask anew")),
    }
}

/// A model that reads token ids must know all that the data can have: by their vocabulary, which
/// says it whatever the texts are, and by the ids themselves.
fn tokens(model: &Model, data: &Dataset) -> Result<()> {
    let Some(known) = model.network().vocabulary() else { return Ok(()) };
    if let Some(vocabulary) = data.vocabulary()
        && vocabulary.len() > known
    {
        let what = format!("the model {} knows {}", model.name(), counted(known, "token"));
        let why = format!("the vocabulary of {} has {}", data.name(), count(vocabulary.len()));
        return Err(Error::new(ErrorKind::Setting, what, why)
            .fix("give the model data.vocabulary().unwrap().len() tokens"));
    }
    let mut parts = [data.train(), data.test()].into_iter().filter(|part| part.is_in_memory());
    parts.try_for_each(|part| model.network().check_tokens(part.features_flat()))
}
