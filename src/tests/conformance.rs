//! What every method of the registry is held to. A line in the registry enrols a method.

use crate::data::{self, Dataset, Population};
use crate::engine::{Batch, ClipRule, CoordinateWeights, Gradients};
use crate::methods::{Method, Plan, methods};
use crate::nn::{Model, models};
use crate::optim::{Average, LearningRate, Optimizer, WarmUp};
use crate::privacy::{Badge, ClipSchedule, Delta, Event, NeighbouringRelation, NoiseSchedule};
use crate::store::{RunStore, run_id};
use crate::train::{NoopObserver, Run};
use crate::{ErrorKind, Result, runs};

const SEED: [u8; 32] = [7; 32];
const BATCH: usize = 10;
const STEPS: u64 = 8;

/// 40 examples of 6 numbers in 3 classes, of very different sizes.
fn small() -> Dataset {
    let x = (0..240).map(|i| ((i * 37 % 23) as f32 - 11.0) * (1.0 + (i / 60) as f32)).collect();
    data::from_vecs(x, &[6], (0..40).map(|i| i % 3).collect(), 3).unwrap()
}

fn model(data: &Dataset) -> Model {
    models::mlp(data, &[64, 48]).seed(1).build().unwrap()
}

/// Every method: as it is, and with schedules of noise and clip norm.
fn enrolled() -> Vec<Box<dyn Method>> {
    let with_settings = |mut method: Box<dyn Method>, scheduled: bool| {
        let takes_clip = method.descriptor().takes_clip;
        let settings = method.settings_mut();
        settings.expected_batch_size = BATCH;
        settings.epochs = STEPS as f64 * 0.25;
        if let Some(private) = method.privacy_settings_mut() {
            private.set_noise_multiplier(1.5);
            if takes_clip {
                private.set_clip(0.5);
            }
            if scheduled {
                private.noise_schedule = NoiseSchedule::linear(0.5);
                private.clip_schedule = ClipSchedule::decay(0.3);
            }
        }
        // A method that adapts its clip norm refuses a schedule of it.
        if let Err(error) = method.plan(&small()) {
            assert!(scheduled && error.to_string().contains("clip"), "{error}");
            let private = method.privacy_settings_mut().unwrap();
            private.clip_schedule = ClipSchedule::default();
        }
        method
    };
    let scheduled = methods().into_iter().map(|method| with_settings(method, true));
    methods().into_iter().map(|method| with_settings(method, false)).chain(scheduled).collect()
}

/// The plans of the enrolled methods with a guarantee, or of those without.
fn plans(data: &Dataset, guaranteed: bool) -> Vec<Plan> {
    let all = enrolled().into_iter().map(|method| method.plan(data).unwrap());
    let plans: Vec<Plan> = all.filter(|plan| plan.has_guarantee() == guaranteed).collect();
    assert!(plans.len() >= 4);
    plans
}

fn batch(data: &Dataset, ids: impl IntoIterator<Item = u32>) -> Batch {
    Batch::from_examples(data.train(), &ids.into_iter().collect::<Vec<_>>()).unwrap()
}

fn all(entry: &Gradients) -> Vec<f64> {
    entry.entries.iter().flat_map(|entry| entry.values.iter().map(|&v| f64::from(v))).collect()
}

/// The noise multiplier of each step according to the event.
fn multipliers(event: &Event) -> Vec<f64> {
    match event {
        Event::PoissonGaussian { noise_multiplier, steps, .. } => {
            vec![*noise_multiplier; *steps as usize]
        }
        Event::Composed { events } => events.iter().flat_map(multipliers).collect(),
        other => panic!("the suite does not know {other}"),
    }
}

/// Distance, in standard errors, of the sample's variance from `std` squared.
fn score(values: &[f64], std: f64) -> f64 {
    let n = values.len() as f64;
    let ratio = values.iter().map(|v| v * v).sum::<f64>() / (n * std * std);
    ((ratio - 1.0) / (2.0 / n).sqrt()).abs()
}

#[test]
fn the_noise_of_every_step_is_that_of_the_ledger() {
    let data = small();
    let empty = batch(&data, []);
    for plan in plans(&data, true) {
        let model = plan.prepare_model(&model(&data)).unwrap();
        let mut mechanism = plan.mechanism(SEED).unwrap();
        let multipliers = multipliers(&plan.event());
        assert_eq!(multipliers.len() as u64, plan.steps(), "{}", plan.method());
        for (step, multiplier) in multipliers.into_iter().enumerate() {
            let about = format!("{}, step {step}", plan.method());
            // An empty batch releases noise alone.
            let release = mechanism.release(model.network(), &empty, None).unwrap();
            assert!(release.losses.is_empty());
            // What the mechanism says of its noise is what the ledger charges.
            let bound = match release.threshold {
                Some(threshold) => Box::new(ClipRule::flat(threshold.value)),
                None => plan.bound(step as u64).unwrap().unwrap(),
            };
            let groups = bound.groups(model.network()).unwrap();
            let batch_size = plan.expected_batch_size() as f64;
            let stds: Vec<f64> = release.noise_std.iter().map(|std| std * batch_size).collect();
            let mut joint = groups.joint_noise_multiplier(&stds);
            // What adapts the threshold is released from the same sample.
            if let Some(other) = release.threshold.and_then(|t| t.noise_multiplier) {
                joint = (joint.powi(-2) + other.powi(-2)).powf(-0.5);
            }
            assert!((joint / multiplier - 1.0).abs() < 1e-9, "{about}: {joint} {multiplier}");
            // It is the noise that there is, in every tensor and over all of them.
            let mut standardised = Vec::new();
            for (entry, std) in release.gradient.entries.iter().zip(&release.noise_std) {
                let noise = entry.values.iter().map(|&v| f64::from(v) / std);
                let noise: Vec<f64> = noise.collect();
                assert!(score(&noise, 1.0) < 5.0, "{about}: {}", entry.path);
                standardised.extend(noise);
            }
            assert!(score(&standardised, 1.0) < 4.0, "{about}");
            for wrong in [0.5, 0.9, 1.1] {
                assert!(score(&standardised, wrong) > 4.0, "{about}: {wrong} was accepted");
            }
        }
    }
}

#[test]
fn one_example_moves_a_release_by_at_most_the_sensitivity_over_the_expected_batch_size() {
    let data = small();
    for plan in plans(&data, true) {
        let model = plan.prepare_model(&model(&data)).unwrap();
        // Mechanisms of one seed add the same noise in the same step, so it cancels.
        let released = |ids: &[u32]| {
            let mut mechanism = plan.mechanism(SEED).unwrap();
            let batch = batch(&data, ids.iter().copied());
            all(&mechanism.release(model.network(), &batch, None).unwrap().gradient)
        };
        let all_ids: Vec<u32> = (0..40).collect();
        let with = released(&all_ids);
        let moved = (0..40).map(|left_out| {
            let rest: Vec<u32> = all_ids.iter().copied().filter(|&id| id != left_out).collect();
            let square = |(a, b): (&f64, f64)| (a - b).powi(2);
            with.iter().zip(released(&rest)).map(square).sum::<f64>().sqrt()
        });
        let largest = moved.fold(0.0, f64::max);
        let groups = plan.bound(0).unwrap().unwrap().groups(model.network()).unwrap();
        let sensitivity = groups.joint_sensitivity(NeighbouringRelation::AddOrRemoveOne);
        let bound = sensitivity / plan.expected_batch_size() as f64;
        assert!(largest <= bound * (1.0 + 1e-4), "{}: {largest} of {bound}", plan.method());
        assert!(largest > 0.5 * bound, "{}: the bound is far from {largest}", plan.method());
    }
    // The same test finds a method without a bound.
    let model = model(&data);
    let plan = &plans(&data, false)[0];
    let released = |ids: Vec<u32>| {
        let release =
            plan.mechanism(SEED).unwrap().release(model.network(), &batch(&data, ids), None);
        all(&release.unwrap().gradient)
    };
    let (with, without) = (released((0..40).collect()), released((0..39).collect()));
    let moved = with.iter().zip(without).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
    assert!(moved > 0.5 / BATCH as f64);
}

#[test]
fn an_example_that_is_not_finite_contributes_nothing() {
    let data = small();
    let full_batch = batch(&data, 0..40);
    let mut features: Vec<f32> = (0..40).flat_map(|i| full_batch.features(i).to_vec()).collect();
    features[7 * 6 + 2] = f32::NAN;
    let labels: Vec<u32> = (0..40).map(|i| i % 3).collect();
    let poisoned = Batch::new(features, &[6], labels).unwrap();
    let rest = batch(&data, (0..40).filter(|&i| i != 7));
    for plan in plans(&data, true).into_iter().chain(plans(&data, false)) {
        let model = plan.prepare_model(&model(&data)).unwrap();
        let released = |batch: &Batch| {
            plan.mechanism(SEED).unwrap().release(model.network(), batch, None).unwrap()
        };
        let (with, without) = (released(&poisoned), released(&rest));
        for (a, b) in with.gradient.entries.iter().zip(&without.gradient.entries) {
            assert_eq!(a.values, b.values, "{}: {}", plan.method(), a.path);
        }
        assert!(with.losses[7].is_nan() && with.mean_loss() == without.mean_loss());
    }
}

#[test]
fn only_selected_coordinates_are_released() {
    let data = small();
    let model = model(&data);
    let mut values = Gradients::zeros_like(model.network());
    for entry in &mut values.entries {
        entry.values.iter_mut().step_by(3).for_each(|weight| *weight = 1.0);
    }
    let selected = CoordinateWeights::new(model.network(), values.clone()).unwrap();
    for plan in plans(&data, true).into_iter().chain(plans(&data, false)) {
        let model = plan.prepare_model(&model).unwrap();
        let mut mechanism = plan.mechanism(SEED).unwrap();
        let release = mechanism.release(model.network(), &batch(&data, 0..40), Some(&selected));
        let released = all(&release.unwrap().gradient);
        let mut chosen = 0;
        for (value, weight) in released.iter().zip(all(&values)) {
            assert!(weight != 0.0 || *value == 0.0, "{}", plan.method());
            chosen += usize::from(*value != 0.0);
        }
        assert!(chosen > released.len() / 4, "{}", plan.method());
    }
}

#[test]
fn a_run_that_is_interrupted_is_charged_for_a_part_of_its_plan() {
    let data = small();
    for plan in plans(&data, true) {
        let whole = plan.event();
        for steps in 0..=plan.steps() {
            let part = plan.event_after(steps);
            assert_eq!(part.release_count(), steps, "{}", plan.method());
            assert!(whole.reduced_to(&part).is_ok(), "{}: {part}", plan.method());
        }
        assert!(plan.epsilon_after(1).unwrap() < plan.epsilon_after(plan.steps()).unwrap());
    }
}

/// An event as a ledger's file returns it: the last digit of a number may differ.
fn stored(event: &Event) -> Event {
    serde_json::from_str(&serde_json::to_string(event).unwrap()).unwrap()
}

/// Trains a plan in a project of its own.
fn trained(plan: &Plan, data: &Dataset, store: &RunStore) -> Result<Run> {
    let model = model(data);
    let id = run_id(plan, &model, data)?;
    runs::train_as(store, &id, plan, &model, data, &mut NoopObserver)
}

fn parameters(run: &Run) -> Vec<Vec<f32>> {
    run.model().network().values().into_iter().map(|(_, values)| values).collect()
}

#[test]
fn runs_are_charged_stored_shown_again_and_have_a_statement() -> Result<()> {
    let data = small();
    for plan in plans(&data, true).into_iter().chain(plans(&data, false)) {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(folder.path().to_path_buf())?;
        let plan = plan.with_seed(3);
        let run = trained(&plan, &data, &store)?;
        let about = plan.method();
        assert!(run.is_finished(), "{about}");
        assert_eq!(store.ledger(&data)?.events()?, [stored(&plan.event())], "{about}");
        let again = store.load_charged_run(&run.record().id, &model(&data), &data)?.unwrap();
        assert_eq!(parameters(&again), parameters(&run), "{about}");
        let released = |run: &Run| stored(&run.record().released.charged_event());
        assert_eq!(released(&again), released(&run), "{about}");
        assert_eq!(again.record().plan, plan, "{about}");
        let statement = run.statement().to_string();
        if plan.has_guarantee() {
            let epsilon = plan.epsilon_after(plan.steps())?.unwrap();
            assert!((run.epsilon() - epsilon).abs() < 1e-9, "{about}");
            let Badge::Conditional(why) = run.badge() else { panic!("{about}: {}", run.badge()) };
            assert!(why.contains("knows the seed"), "{about}: {why}");
            assert!(why.contains("on another kind of processor"), "{about}: {why}");
            assert!(statement.contains("differentially private"), "{about}: {statement}");
            assert!(statement.contains("Study mode"), "{about}: {statement}");
        } else {
            assert!(run.epsilon().is_infinite() && matches!(run.badge(), Badge::NoGuarantee(_)));
            assert!(statement.contains("Nothing is guaranteed"), "{about}: {statement}");
        }
        // One seed repeats a run bit for bit; another one does not.
        let repeat = |plan: &Plan| -> Result<Vec<Vec<f32>>> {
            let folder = tempfile::tempdir().unwrap();
            Ok(parameters(&trained(plan, &data, &RunStore::open(folder.path().to_path_buf())?)?))
        };
        assert_eq!(repeat(&plan)?, parameters(&run), "{about}");
        assert_ne!(repeat(&plan.with_seed(4))?, parameters(&run), "{about}");
    }
    Ok(())
}

#[test]
fn a_plan_for_a_population_is_that_for_data_of_its_size() -> Result<()> {
    let data = small();
    for method in enrolled() {
        let plan = method.plan_for(&Population::with_size(data.train().len()))?;
        assert_eq!(plan, method.plan(&data)?, "{method:?}");
        assert!(method.plan_for(&Population::with_size(BATCH - 1)).is_err(), "{method:?}");
    }
    Ok(())
}

#[test]
fn post_processing_and_public_data_cost_nothing() -> Result<()> {
    let data = small();
    for mut method in enrolled() {
        let plain = method.plan(&data)?;
        let settings = method.settings_mut();
        settings.optimizer = Optimizer::dp_adam_bc();
        settings.learning_rate_schedule = LearningRate::Cosine { end_factor: 0.1 };
        settings.warm_up = Some(WarmUp::Steps(2));
        settings.weight_decay = Some(0.01);
        settings.average = Some(Average::ema());
        settings.freezing.freeze.push("0".into());
        let other = method.plan(&data)?;
        assert_eq!(other.event(), plain.event(), "{}", plain.method());
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(folder.path().to_path_buf())?;
        let run = trained(&other.with_seed(3), &data, &store)?;
        assert_eq!(store.ledger(&data)?.events()?, [stored(&plain.event())], "{}", plain.method());
        // Frozen parameters keep their bits; the others moved.
        let initial = model(&data);
        let frozen = |path: &str| path.starts_with("0.");
        for ((parameter, before), after) in
            initial.network().values().into_iter().zip(parameters(&run))
        {
            assert_eq!(before == after, frozen(&parameter.path), "{}", parameter.path);
        }
    }
    Ok(())
}

#[test]
fn a_learning_rate_that_follows_a_loss_is_refused_or_voids_the_guarantee() -> Result<()> {
    let data = small();
    for mut method in enrolled() {
        method.settings_mut().learning_rate_schedule = "plateau".parse()?;
        if method.descriptor().adds_noise {
            let error = method.plan(&data).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Setting);
            assert!(error.advice().contains("accept_no_guarantee"), "{error}");
            method.settings_mut().accept_no_guarantee = true;
        }
        let plan = method.plan(&data)?;
        assert!(!plan.has_guarantee() && plan.epsilon_after(1)?.is_none());
        let folder = tempfile::tempdir().unwrap();
        let run = trained(&plan, &data, &RunStore::open(folder.path().to_path_buf())?)?;
        assert!(matches!(run.badge(), Badge::NoGuarantee(_)), "{}", plan.method());
        assert!(crate::privacy::epsilon(&run.record().events(), Delta(1e-5)).is_err());
    }
    Ok(())
}

#[test]
fn names_in_the_registry_are_distinct() {
    let names: Vec<_> = methods().iter().map(|method| method.descriptor().name).collect();
    let titles: Vec<_> = methods().iter().map(|method| method.descriptor().title).collect();
    for all in [names, titles] {
        assert!(all.iter().enumerate().all(|(i, name)| !all[..i].contains(name)), "{all:?}");
    }
}

mod checkpoints;
