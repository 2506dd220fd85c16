//! Plans that are made without data: what training on data checks.

use super::*;
use epsilab::data::{Augment, Population};
use epsilab::methods::Plan;

/// Why a plan is not trained on the data; nothing is charged then.
fn refused(plan: &Plan, data: &Dataset) -> Result<String> {
    let model = models::linear(data).seed(1).build()?;
    let ledger = Ledger::in_memory();
    let error = fit("x", plan, &model, data, &ledger, &mut NoopObserver).expect_err("other data");
    assert_eq!(error.kind(), ErrorKind::Setting, "{error}");
    assert!(ledger.entries()?.is_empty(), "{error}");
    Ok(error.to_string())
}

#[test]
fn a_plan_for_a_population_trains_on_data_of_its_size_and_on_no_other() -> Result<()> {
    let data = glyphs(140);
    let population = Population::with_size(data.train().len());
    assert!(population.data().is_none());
    let method = settings().steps(2).seed(7);
    let plan = method.plan_for(&population)?;
    assert_eq!(plan, method.plan(&data)?);
    let shown = plan.to_string();
    assert!(shown.contains("2,000") && shown.contains("epsilon at delta 1e-4"), "{shown}");
    let model = models::linear(&data).seed(1).build()?;
    let run = plan.train_with(&model, &data, &mut NoopObserver)?;
    assert!(method.train(&model, &data)?.is_restored(), "it is the same run");
    assert!(run.epsilon() <= 8.0);
    let other = method.plan_for(&Population::with_size(2_001))?;
    assert!(refused(&other, &data)?.contains("sampling rate and epsilon would be wrong"));
    let error = method.plan_for(&Population::with_size(200)).unwrap_err();
    assert!(error.to_string().contains("batch_size = 250"), "{error}");
    Ok(())
}

#[test]
fn properties_of_the_data_are_checked_before_a_charge() -> Result<()> {
    let images = glyphs(141);
    let plan = settings().steps(2).plan_for(&Population::with_size(2_000))?;
    let prepared = images.prepared_from_private_examples("divided by their largest value");
    assert!(refused(&plan, &prepared)?.contains("prepared in another way"));

    let rows = data::from_vecs(vec![0.5; 6_000], &[3], (0..2_000).map(|i| i % 2).collect(), 2)?;
    let method = settings().steps(2).augment(Augment::default());
    let plan = method.plan_for(&Population::with_size(2_000))?;
    assert!(refused(&plan, &rows)?.contains("only images"), "no image can be seen yet");
    let none = settings().augment(Augment::default().copies(0));
    assert!(none.plan_for(&Population::with_size(2_000)).is_err());
    Ok(())
}

#[test]
fn a_mask_that_was_released_needs_the_data() -> Result<()> {
    let data = glyphs(142);
    let model = models::linear(&data).seed(1).build()?;
    let mask = DpSnip::keep(0.5).noise_multiplier(20.0).mask(&model, &data)?;
    let method = settings().steps(2).pre_prune(&mask);
    let error = method.plan_for(&Population::with_size(2_000)).unwrap_err();
    assert!(error.to_string().contains("in a plan without data"), "{error}");
    assert!(method.plan(&data).is_ok());
    // Masks without a release are no concern of the data.
    let random = RandomMask::prune(0.5).mask(&model)?;
    let plan = settings().steps(2).pre_prune(random).plan_for(&Population::with_size(2_000));
    assert!(plan.is_ok(), "{plan:?}");
    Ok(())
}
