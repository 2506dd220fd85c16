//! Masks that are releases on the training examples: within a run, before it, from another run.

use super::sparse::settings;
use super::{glyphs, home, ledger_file};
use epsilab::lab::open_ledger;
use epsilab::layers;
use epsilab::mask::PrivacyStatus;
use epsilab::nn::LayerNormSpec;
use epsilab::prelude::*;
use epsilab::privacy::Ledger;
use epsilab::train::{NoopObserver, fit};

#[test]
fn dp_snip_is_charged_with_the_run_and_part_of_its_statement() -> Result<()> {
    let data = glyphs(74);
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let method = settings().steps(4).pre_prune(DpSnip::keep(0.5));
    let plan = method.plan(&data)?;
    let ledger = open_ledger(&ledger_file("dp_snip", &data))?;
    let run = fit("snip", &plan, &model, &data, &ledger, &mut NoopObserver)?;
    assert_eq!(ledger.events()?, vec![plan.event()]);
    assert!(matches!(plan.event(), Event::Composed { .. }));
    assert!(run.epsilon() <= 8.0 && run.epsilon() > 7.8, "{run}");
    let statement = run.statement().to_string();
    assert!(statement.contains("Choosing the mask was a separate release"), "{statement}");
    assert_eq!(run.badge().to_string(), "proved");
    let (kept, all) = (run.mask().unwrap().kept_count(), run.mask().unwrap().len());
    assert_eq!(kept, all - all / 2);
    Ok(())
}

#[test]
fn invalid_input_of_dp_snip_is_refused_before_a_charge() -> Result<()> {
    home();
    let numbers = |shape: &[usize]| data::from_vecs(vec![0.5; 60], shape, vec![0, 1, 2, 0, 1], 3);
    let (data, other) = (numbers(&[12])?, numbers(&[3, 4])?);
    let plan = settings().batch_size(2).steps(2).pre_prune(DpSnip::keep(0.5)).plan(&data)?;
    // It trains, but has no weight: what only a look at the recipe finds.
    let norm = LayerNormSpec::new(3);
    let features = data::from_vecs(vec![0.5; 15], &[3], vec![0, 1, 2, 0, 1], 3)?;
    for (what, model, data) in [
        ("shape", models::linear(&other).seed(1).build()?, &data),
        ("no weights to prune", models::sequential(&features, layers![norm]).build()?, &features),
    ] {
        let ledger = Ledger::in_memory();
        let error = fit("x", &plan, &model, data, &ledger, &mut NoopObserver).expect_err(what);
        assert!(error.to_string().contains(what), "{error}");
        assert!(ledger.entries()?.is_empty(), "{error}");
    }
    Ok(())
}

#[test]
fn within_a_run_the_seed_of_the_run_counts_and_not_that_of_the_recipe() -> Result<()> {
    let data = glyphs(86);
    let model = models::mlp(&data, &[8]).seed(1).build()?;
    let mask = |recipe_seed: u64, seed: Option<u64>| -> Result<Mask> {
        let recipe = DpSnip::keep(0.5).noise_multiplier(50.0).seed(recipe_seed);
        let settings = settings().steps(1).pre_prune(recipe);
        let settings = seed.iter().fold(settings, |settings, &seed| settings.seed(seed));
        let (plan, ledger) = (settings.plan(&data)?, Ledger::in_memory());
        let run = fit("the same", &plan, &model, &data, &ledger, &mut NoopObserver)?;
        let badge = run.badge().to_string();
        assert_eq!(badge.contains("study mode"), seed.is_some(), "{badge}");
        Ok(run.mask().expect("a mask"))
    };
    let secret = mask(1, None)?;
    let covered = &secret.origin().privacy;
    assert!(matches!(covered[..], [PrivacyStatus::Released { assumed: None, .. }]), "{covered:?}");
    // Masks of equal noise have Jaccard index 1, of independent noise about 1/3.
    assert!(secret.jaccard(&mask(1, None)?)? < 0.5, "the noise must not come from the recipe");
    let study = mask(1, Some(3))?;
    // Wherever it is used later: who knows the seed knows its noise.
    let covered = &study.origin().privacy;
    assert!(
        matches!(covered[..], [PrivacyStatus::Released { assumed: Some(_), .. }]),
        "{covered:?}"
    );
    assert_eq!(study.jaccard(&mask(2, Some(3))?)?, 1.0);
    assert!(study.jaccard(&mask(1, Some(4))?)? < 0.5);
    Ok(())
}

#[test]
fn a_mask_made_before_counts_towards_the_target_and_must_be_on_record() -> Result<()> {
    let data = glyphs(75);
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let mask = DpSnip::keep(0.5).noise_multiplier(20.0).mask(&model, &data)?;
    let plan = settings().steps(4).pre_prune(&mask).plan(&data)?;
    assert!(matches!(plan.event(), Event::PoissonGaussian { .. }), "charged once, not again");
    assert_eq!(plan.releases_after(4).len(), 2);
    let run = settings().steps(4).pre_prune(&mask).train(&model, &data)?;
    assert!(run.epsilon() <= 8.0 && run.epsilon() > 7.8, "{run}");
    assert_eq!(run.record().events(), plan.releases_after(4));
    let ledger = open_ledger(&home().join("ledger").join(format!("{}.jsonl", data.origin())))?;
    assert_eq!(ledger.events()?, plan.releases_after(4), "mask and run, each charged once");
    // In a ledger that does not know the mask it would not be counted.
    let other_ledger = open_ledger(&ledger_file("stranger", &data))?;
    let error = fit("x", &plan, &model, &data, &other_ledger, &mut NoopObserver).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ledger, "{error}");
    assert!(other_ledger.events()?.is_empty());
    Ok(())
}

#[test]
fn the_mask_of_a_run_serves_another_run_and_is_counted_there() -> Result<()> {
    let data = glyphs(79);
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let first = settings().steps(2).pre_prune(DpSnip::keep(0.5)).train(&model, &data)?;
    let mask = first.mask().expect("a mask");
    let second = settings().steps(3).pre_prune(&mask).train(&model, &data)?;
    assert_eq!(second.record().events().len(), 2);
    assert!(second.epsilon() <= 8.0 && second.epsilon() > 7.8, "{second}");
    Ok(())
}

#[test]
fn a_plan_is_followed_on_the_data_whose_releases_it_counts() -> Result<()> {
    let (data, others) = (glyphs(80), glyphs(81));
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let mask = DpSnip::keep(0.5).noise_multiplier(20.0).mask(&model, &data)?;
    let plan = settings().steps(2).pre_prune(&mask).plan(&others)?;
    let ledger = home().join("ledger").join(format!("{}.jsonl", data.origin()));
    let error = fit("elsewhere", &plan, &model, &data, &open_ledger(&ledger)?, &mut NoopObserver);
    let error = error.unwrap_err();
    assert!(error.to_string().contains("a plan for other data"), "{error}");
    Ok(())
}
