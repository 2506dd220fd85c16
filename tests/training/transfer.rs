//! Private training that starts from parameters that were trained on public data.

use super::{bits, glyphs, settings, undeclared};
use epsilab::methods::recipes;
use epsilab::nn::Provenance;
use epsilab::prelude::*;

/// Few steps on public data.
fn short() -> NonPrivate {
    recipes::pretraining().batch_size(250).epochs(1.0)
}

#[test]
fn a_drawn_start_is_proved_a_declared_one_assumed_and_the_same_data_are_refused() -> Result<()> {
    let (drawn, private) = (glyphs(101), undeclared(&glyphs(102)));
    let model = models::papernot_cnn(&drawn).seed(1).build()?;
    let from = |public: &Dataset, data: &Dataset| -> Result<Run> {
        let start = short().train(&model, public)?.model().transfer(data).build()?;
        settings().steps(2).train(&start, data)
    };
    let run = from(&drawn, &private)?;
    assert_eq!(run.badge().to_string(), "proved");
    let said = run.statement().to_string();
    assert!(said.contains("trained on glyphs (drawn by code). They depend on nobody"), "{said}");

    // Vectors that nobody declared public.
    let other = undeclared(&glyphs(103));
    let badge = from(&other, &private)?.badge().to_string();
    assert!(badge.contains("do not come from these data"), "{badge}");
    // The same runs after the declaration: nothing is trained or charged again.
    let run = from(&other.assumed_public(), &private)?;
    assert!(run.is_restored());
    let (badge, said) = (run.badge().to_string(), run.statement().to_string());
    assert!(badge.starts_with("assumption: table, on which the starting parameters"), "{badge}");
    assert!(!badge.contains("do not come from these data"), "{badge}");
    assert!(said.contains("trained on table (assumed public). Nothing is counted"), "{said}");

    // A part of the private data, declared public, is said to be one.
    let parts = private.split(0.5, 1)?;
    let public = undeclared(&drawn).assumed_public();
    let badge = from(&public.limit(500, 0), &public)?.badge().to_string();
    assert!(badge.contains("both are parts of the same data"), "{badge}");
    assert!(!from(&parts, &private)?.badge().to_string().contains("public"));
    // The very examples that the run protects were never public.
    let run = from(&public, &undeclared(&drawn))?;
    let badge = run.badge().to_string();
    assert!(badge.starts_with("none: ") && badge.contains("these very examples"), "{badge}");
    let said = run.statement().to_string();
    assert!(said.starts_with("Nothing is guaranteed") && !said.contains("is (8"), "{said}");
    Ok(())
}

#[test]
fn frozen_groups_keep_their_values_and_the_epsilon() -> Result<()> {
    let (public, data) = (glyphs(104), undeclared(&glyphs(105)));
    let model = models::papernot_cnn(&public).seed(1).build()?;
    let start = short().train(&model, &public)?.model().transfer(&data).zero_head().build()?;
    assert!(matches!(start.provenance(), Provenance::Public(_)));
    let before = bits(&start);
    let mut epsilons = Vec::new();
    for (groups, frozen) in [(0, 0), (1, 16 * 64 + 16), (2, 26_010 - 330)] {
        let run = settings().steps(3).freeze_groups(groups).train(&start, &data)?;
        let after = bits(&run.model());
        assert_eq!(before[..frozen], after[..frozen]);
        assert!(before[frozen..] != after[frozen..]);
        epsilons.push(run.epsilon());
    }
    assert!(epsilons.iter().all(|&epsilon| epsilon == epsilons[0]));
    let spent = lab::ledger()?.epsilon(data.origin());
    let error = settings().steps(3).freeze_groups(3).train(&start, &data).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Setting);
    assert!(error.to_string().contains("the model has 2 stages"), "{error}");
    assert_eq!(lab::ledger()?.epsilon(data.origin()), spent);
    Ok(())
}

/// The point of it all: a start from images drawn by code beats an initial one.
#[test]
fn a_drawn_start_beats_training_from_scratch_at_a_small_epsilon() -> Result<()> {
    let (public, data) = (glyphs(106), glyphs(107));
    let model = models::papernot_cnn(&public).seed(1).build()?;
    let start = recipes::pretraining().epochs(4.0).seed(1).train(&model, &public)?.model();
    let tight = || settings().target(Epsilon(1.0), Delta(1e-4)).epochs(4).seed(2);
    let scratch = tight().train(&model, &data)?.accuracy();
    let transferred = tight().train(&start.transfer(&data).build()?, &data)?.accuracy();
    assert!(transferred > scratch + 0.1, "{scratch} -> {transferred}");
    Ok(())
}
