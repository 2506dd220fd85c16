//! DP-SSGD from settings to a stored run.

use super::{bits, glyphs, home, undeclared};
use epsilab::mask::MaskTensor;
use epsilab::prelude::*;
use epsilab::privacy::Ledger;
use epsilab::train::{NoopObserver, fit};

use crate::support::process;

/// A plan to be completed with its length and its coordinates.
pub fn settings() -> DpSsgd {
    DpSsgd::new().target(Epsilon(8.0), Delta(1e-4)).clip(0.1).learning_rate(4.0).batch_size(250)
}

/// The flags of a mask over all parameters of a model: true where it says nothing.
fn trained(mask: &Mask, model: &Model) -> Vec<bool> {
    let parameters = model.network().parameters();
    let flags = parameters.iter().flat_map(|p| match mask.get(&p.path) {
        Some(tensor) => tensor.kept.clone(),
        None => vec![true; p.shape.iter().product()],
    });
    flags.collect()
}

#[test]
fn pruned_coordinates_keep_their_bits_with_every_optimizer_rule_and_mode() -> Result<()> {
    let data = glyphs(70);
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let mask = RandomMask::keep(0.4).seed(3).mask(&model)?;
    let before = bits(&model);
    let trained = trained(&mask, &model);
    let optimizers =
        [Optimizer::Sgd { momentum: 0.0 }, Optimizer::Sgd { momentum: 0.9 }, Optimizer::adam()];
    let droppings = [Dropping::random(0.5), Dropping::magnitude(DropRate::linear(0.1, 0.8))];
    for optimizer in optimizers {
        for dropping in droppings {
            for state in [DroppedStatePolicy::Lazy, DroppedStatePolicy::Zeros] {
                let rate = if optimizer == Optimizer::adam() { 0.01 } else { 1.0 };
                let method = settings().steps(3).optimizer(optimizer).learning_rate(rate).seed(1);
                let method = method.pre_prune(&mask).drop_gradients(dropping);
                let run = method.state_of_dropped(state).train(&model, &data)?;
                let after = bits(&run.model());
                let moved = |i: usize| before[i] != after[i];
                assert!((0..after.len()).all(|i| trained[i] || !moved(i)), "{optimizer} {state:?}");
                let share = (0..after.len()).filter(|&i| moved(i)).count() as f64
                    / trained.iter().filter(|&&t| t).count() as f64;
                assert!(share > 0.5 && share <= 1.0, "{optimizer} {dropping}: {share}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_sparse_run_learns_is_stored_with_its_mask_and_shown_again() -> Result<()> {
    let data = glyphs(71);
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let method = settings().epochs(4).pre_prune(Synflow::keep(0.5));
    let method = method.drop_gradients(Dropping::random(0.3));
    let before = model.accuracy(&data)?;
    let run = method.train(&model, &data)?;
    assert!(run.accuracy() > before + 0.3, "{before} -> {run}");
    assert_eq!(run.badge().to_string(), "proved");
    assert!(run.epsilon() <= 8.0 && run.epsilon() > 7.8, "{run}");
    let mask = run.mask().expect("a mask");
    assert_eq!(mask, Synflow::keep(0.5).mask(&model)?);
    let statement = run.statement().to_string();
    assert!(
        statement.contains("weights are trained") && statement.contains("Synflow"),
        "{statement}"
    );
    assert!(statement.contains("every step leaves out random coordinates"), "{statement}");

    let again = method.train(&model, &data)?;
    assert!(again.is_restored());
    assert_eq!(again.mask(), Some(mask));
    assert_eq!(again.selection_log(), run.selection_log());
    let folder = home().join("runs").join(&run.record().id);
    assert!(folder.join("mask.safetensors").is_file() && folder.join("touched.json").is_file());
    // Another mask is another run.
    let other = settings().epochs(4).pre_prune(Synflow::keep(0.4));
    let other = other.drop_gradients(Dropping::random(0.3)).train(&model, &data)?;
    assert!(!other.is_restored());
    Ok(())
}

#[test]
fn a_stored_run_whose_mask_is_lost_is_neither_shown_nor_trained_anew() -> Result<()> {
    if process::alone(this_test!()) {
        return Ok(());
    }
    let data = glyphs(84);
    let model = models::mlp(&data, &[8]).seed(1).build()?;
    let method = settings().steps(2).pre_prune(RandomMask::keep(0.5));
    let run = method.train(&model, &data)?;
    let spent = lab::ledger()?.epsilon(data.origin());
    let folder = home().join("runs").join(&run.record().id);
    std::fs::remove_file(folder.join("mask.safetensors")).expect("removed");
    // Without its mask the run would pass for one that trained everything.
    let error = method.train(&model, &data).expect_err("the mask is lost");
    assert_eq!(error.kind(), ErrorKind::CorruptData, "{error}");
    assert!(error.to_string().contains("mask.safetensors"), "{error}");
    assert!(!error.advice().is_empty(), "{error}");
    assert_eq!(lab::ledger()?.epsilon(data.origin()), spent);
    Ok(())
}

#[test]
fn masks_that_keep_as_many_but_others_are_different_runs() -> Result<()> {
    let data = glyphs(85);
    let model = models::mlp(&data, &[8]).seed(1).build()?;
    let every_second = |from: usize| {
        let kept = (0..784 * 8).map(|i| i % 2 == from).collect();
        Mask::new(vec![MaskTensor { path: "1.weight".into(), shape: vec![784, 8], kept }])
    };
    let train = |mask: Mask| settings().steps(2).pre_prune(mask).train(&model, &data);
    let (even, odd) = (train(every_second(0)?)?, train(every_second(1)?)?);
    assert_ne!(even.record().id, odd.record().id);
    assert_eq!(odd.mask(), Some(every_second(1)?), "not the run of the first mask, shown again");
    assert!(!odd.is_restored() && train(every_second(0)?)?.is_restored());
    Ok(())
}

#[test]
fn a_zeroing_mask_trains_what_is_left_of_a_network_with_zeros() -> Result<()> {
    let data = glyphs(72);
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let mask = MagnitudeMask::keep(0.5).mask(&model)?.with_zeroing();
    let run = settings().steps(3).pre_prune(&mask).train(&model, &data)?;
    let values = run.model().network().values();
    for (parameter, values) in values {
        let Some(tensor) = mask.get(&parameter.path) else { continue };
        assert!(tensor.kept.iter().zip(&values).all(|(&kept, &v)| kept || v == 0.0));
        assert!(tensor.kept.iter().zip(&values).any(|(&kept, &v)| kept && v != 0.0));
    }
    assert_ne!(run.mask().unwrap(), MagnitudeMask::keep(0.5).mask(&model)?);
    Ok(())
}

#[test]
fn a_mask_for_another_model_costs_nothing() -> Result<()> {
    if process::alone(this_test!()) {
        return Ok(());
    }
    let data = glyphs(73);
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let mlp = models::mlp(&data, &[32]).seed(1).build()?;
    let unknown = Mask::new(vec![MaskTensor {
        path: "9.weight".into(),
        shape: vec![2],
        kept: vec![true, false],
    }])?;
    for mask in [RandomMask::keep(0.5).mask(&mlp)?, unknown] {
        let error = settings().steps(2).pre_prune(&mask).train(&model, &data).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Model, "{error}");
        assert!(error.to_string().contains("a mask for"), "{error}");
    }
    assert_eq!(lab::ledger()?.epsilon(data.origin()), 0.0);
    Ok(())
}

#[test]
fn a_start_that_is_not_fresh_and_a_study_mask_are_assumptions() -> Result<()> {
    if process::alone(this_test!()) {
        return Ok(());
    }
    let data = undeclared(&glyphs(78));
    let fresh = models::papernot_cnn(&data).seed(1).build()?;
    let other = undeclared(&glyphs(79));
    let raw = NonPrivate::new().batch_size(250).steps(2).train(&fresh, &other)?.model();
    let starts: [DpSsgd; 3] = [
        settings().steps(2).pre_prune(MagnitudeMask::keep(0.1)),
        settings().steps(2).pre_prune(RandomMask::keep(0.01)),
        settings().steps(2),
    ];
    for method in starts {
        let badge = method.train(&raw, &data)?.badge().to_string();
        assert!(badge.contains("started from do not come from these data"), "{badge}");
        assert_eq!(method.train(&fresh, &data)?.badge().to_string(), "proved");
    }
    let by_size = settings().steps(2).pre_prune(MagnitudeMask::keep(0.1)).train(&raw, &data)?;
    assert!(by_size.badge().to_string().contains("of the mask: the model it was made from"));

    let recipe = DpSnip::keep(0.5).noise_multiplier(20.0).seed(1);
    let mask = recipe.mask(&fresh, &data)?;
    let run = settings().steps(2).pre_prune(&mask).train(&fresh, &data)?;
    assert!(run.badge().to_string().contains("study mode"), "{}", run.badge());
    // The same lines again: the same mask, charged once, and the run is found.
    let spent = lab::ledger()?.epsilon(data.origin());
    let again = recipe.mask(&fresh, &data)?;
    assert_eq!(again, mask);
    assert!(settings().steps(2).pre_prune(&again).train(&fresh, &data)?.is_restored());
    assert_eq!(lab::ledger()?.epsilon(data.origin()), spent);
    Ok(())
}

#[test]
fn dropped_coordinates_do_not_depend_on_the_data() -> Result<()> {
    let run = |data: Dataset, dropping| {
        let model = models::papernot_cnn(&data).seed(1).build()?;
        let plan = settings().steps(4).seed(3).drop_gradients(dropping).plan(&data)?;
        let ledger = Ledger::in_memory();
        Ok::<_, Error>(
            fit("the same", &plan, &model, &data, &ledger, &mut NoopObserver)?.selection_log(),
        )
    };
    let random = || Dropping::random(0.5);
    assert!(run(glyphs(82), random())? == run(glyphs(83), random())?);
    // Magnitudes follow the parameters, which earlier, noisy steps have moved.
    let magnitude = || Dropping::magnitude(0.5);
    assert!(run(glyphs(82), magnitude())? != run(glyphs(83), magnitude())?);
    Ok(())
}

#[test]
fn a_mask_from_private_data_without_noise_voids_the_guarantee() -> Result<()> {
    let data = glyphs(76);
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let mask = Snip::keep(0.5).mask(&model, &data)?;
    let method = settings().steps(2).pre_prune(&mask);
    assert!(method.preview(&data)?.to_string().contains("voids the guarantee"));
    let run = method.train(&model, &data)?;
    assert_eq!(run.epsilon(), f64::INFINITY);
    assert!(run.badge().to_string().starts_with("none"), "{}", run.badge());
    let statement = run.statement().to_string();
    assert!(statement.starts_with("Nothing is guaranteed: the mask"), "{statement}");
    assert!(privacy::epsilon(&run.record().events(), Delta(1e-5)).is_err());
    Ok(())
}

#[test]
fn sparse_training_without_privacy_shows_what_masks_alone_do() -> Result<()> {
    let data = glyphs(77);
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let method = NonPrivate::new().batch_size(250).epochs(12).pre_prune(Synflow::keep(0.3));
    let run = method.drop_gradients(Dropping::magnitude(0.3)).train(&model, &data)?;
    assert!(run.accuracy() > 0.8, "{run}");
    let (before, after) = (bits(&model), bits(&run.model()));
    let trained = trained(&run.mask().unwrap(), &model);
    assert!((0..after.len()).all(|i| trained[i] || before[i] == after[i]));
    Ok(())
}
