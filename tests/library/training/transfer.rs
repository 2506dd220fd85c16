//! Private training that starts from parameters that were trained on public data.

use super::{bits, glyphs, home, settings, undeclared};
use epsilab::methods::recipes;
use epsilab::nn::Provenance;
use epsilab::prelude::*;

use crate::support::process;

/// Few steps on public data.
fn short() -> NonPrivate {
    recipes::pretraining().batch_size(250).epochs(1.0)
}

#[test]
fn a_drawn_start_is_proved_and_a_declared_one_is_an_assumption() -> Result<()> {
    let (drawn, private) = (glyphs(101), undeclared(&glyphs(102)));
    let model = models::papernot_cnn(&drawn).seed(1).build()?;
    let from = |public: &Dataset, data: &Dataset| -> Result<Run> {
        let start = short().train(&model, public)?.model().transfer(data).build()?;
        settings().steps(2).train(&start, data)
    };
    let run = from(&drawn, &private)?;
    assert_eq!(run.badge().to_string(), "proved");
    let statement = run.statement().to_string();
    assert!(
        statement.contains("trained on glyphs (drawn by code). They depend on no private data"),
        "{statement}"
    );

    // Vectors that nobody declared public.
    let other = undeclared(&glyphs(103));
    let badge = from(&other, &private)?.badge().to_string();
    assert!(badge.contains("do not come from these data"), "{badge}");
    // The same runs after the declaration: nothing is trained or charged again.
    let run = from(&other.assumed_public(), &private)?;
    assert!(run.is_restored());
    let (badge, statement) = (run.badge().to_string(), run.statement().to_string());
    assert!(badge.starts_with("assumption: table, on which the starting parameters"), "{badge}");
    assert!(!badge.contains("do not come from these data"), "{badge}");
    assert!(
        statement.contains("trained on table (assumed public). No epsilon is counted"),
        "{statement}"
    );

    // After the proved run, a file of the same start is believed, not known.
    let start = short().train(&model, &drawn)?.model();
    let path = home().join("start.safetensors");
    start.save(&path)?;
    let again =
        settings().steps(2).train(&models::load(&path)?.transfer(&private).build()?, &private)?;
    assert!(again.is_restored());
    assert!(
        again.badge().to_string().contains("drawn by code as the file says"),
        "{}",
        again.badge()
    );
    Ok(())
}

#[test]
fn a_start_that_knows_the_data_is_refused_whatever_was_declared() -> Result<()> {
    let data = undeclared(&glyphs(108));
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let starts = [
        short().train(&model, &data)?.model(),
        short().train(&model, &data.assumed_public())?.model(),
        short().train(&model, &data.limit(500, 0).assumed_public())?.model(),
        short().train(&model, &data.split(0.5, 1)?)?.model().transfer(&data).build()?,
    ];
    let ledger = home().join("ledger").join(format!("{}.jsonl", data.origin()));
    let charged = std::fs::read_to_string(&ledger).unwrap();
    for start in &starts {
        for data in [&data, &data.limit(300, 0)] {
            let error = settings().steps(2).train(start, data).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Setting);
            assert!(error.to_string().contains("trained on the same data"), "{error}");
        }
    }
    assert_eq!(std::fs::read_to_string(&ledger).unwrap(), charged);
    // Training without a guarantee claims nothing, so it may start anywhere.
    assert!(short().batch_size(200).train(&starts[0], &data).is_ok());
    // A private run is counted: more private training may follow.
    let counted = settings().steps(2).train(&model, &data)?.model();
    let badge = settings().steps(2).train(&counted, &data)?.badge().to_string();
    assert!(badge.contains("or from private runs that are counted too"), "{badge}");
    // A mask that was chosen by raw gradients of the data makes public training tell of them.
    let mask = Snip::keep(0.1).mask(&model, &data)?;
    let public = glyphs(109);
    let chosen = short().pre_prune(&mask).train(&model, &public)?.model();
    assert_eq!(chosen.provenance().public_data(), None);
    let badge = settings().steps(2).train(&chosen, &data)?.badge().to_string();
    assert!(badge.contains("do not come from these data"), "{badge}");
    Ok(())
}

#[test]
fn the_start_of_backpropagation_clipping_is_stated_too() -> Result<()> {
    let (public, data) = (glyphs(110), undeclared(&glyphs(111)));
    let model = models::stevens_mnist_cnn(&public).seed(1).build()?;
    let start = short().train(&model, &public)?.model().transfer(&data).build()?;
    let method = BackpropClip::new().target(Epsilon(8.0), Delta(1e-4)).batch_size(250).steps(2);
    let run = method.train(&start, &data)?;
    assert_eq!(run.badge().to_string(), "proved");
    assert!(run.statement().to_string().contains("glyphs (drawn by code)"));
    assert!(run.record().warm_start);
    Ok(())
}

#[test]
fn frozen_groups_keep_their_values_and_the_epsilon() -> Result<()> {
    if process::alone(this_test!()) {
        return Ok(());
    }
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
