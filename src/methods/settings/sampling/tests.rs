use super::*;
use crate::ErrorKind;
use crate::data::{Population, glyphs_with};
use crate::engine::Batch;
use crate::methods::{DataLoader, DpSgd};
use crate::nn::models;
use crate::optim::LearningRate;
use crate::privacy::{
    Accountant, Delta, Epsilon, Event, Ledger, TightestAccountant, TrainingLength, gdp,
};
use crate::train::{NoopObserver, fit};

/// The relations of disjoint batches.
const RELATIONS: [NeighbouringRelation; 2] =
    [NeighbouringRelation::ZeroOutOne, NeighbouringRelation::ReplaceOne];

#[test]
fn an_epoch_of_disjoint_batches_is_one_release_under_its_own_relation() -> Result<()> {
    let data = glyphs_with(100, 10, 1)?;
    for relation in RELATIONS {
        let method = DpSgd::new().batch_size(30).disjoint_batches(relation);
        // Four batches of at most 30 make an epoch of 100.
        let plan = method.clone().epochs(2.5).noise_multiplier(4.0).plan(&data)?;
        assert_eq!((plan.steps(), plan.epochs(), plan.sampling_rate()), (10, 2.5, 0.25));
        assert_eq!(plan.event(), Event::ShuffledEpochs { noise_multiplier: 4.0, epochs: 3 });
        for (steps, epochs) in [(1, 1), (4, 1), (5, 2), (10, 3)] {
            let part = Event::ShuffledEpochs { noise_multiplier: 4.0, epochs };
            assert_eq!(plan.event_after(steps), part);
            assert!(plan.event().reduced_to(&part).is_ok());
        }
        assert_eq!(plan.neighbouring(), relation);
        let epsilon = plan.epsilon_after(10)?.unwrap();
        let sensitivity = if relation == NeighbouringRelation::ReplaceOne { 2.0 } else { 1.0 };
        let mu = sensitivity * 3f64.sqrt() / 4.0;
        let exact = gdp::epsilon_at_delta(mu, 1e-5);
        assert!((epsilon / exact - 1.0).abs() < 1e-6, "{epsilon} {exact}");
        // Poisson sampling with the same noise is not the same claim, nor is the relation free.
        let poisson = DpSgd::new().batch_size(30).epochs(2.5).noise_multiplier(4.0).plan(&data)?;
        assert_ne!(poisson.event(), plan.event());
        assert!(TightestAccountant::new().epsilon(&[plan.event()], Delta(1e-5)).is_err());
        // A target is met under the relation.
        let target = method.epochs(3.0).target(Epsilon(2.0), Delta(1e-5)).plan(&data)?;
        let reached = target.epsilon_after(target.steps())?.unwrap();
        assert!(reached <= 2.0 && reached > 1.99, "{reached}");
    }
    let refused = DpSgd::new().batch_size(30).noise_multiplier(1.0);
    let refused =
        refused.disjoint_batches(NeighbouringRelation::AddOrRemoveOne).plan(&data).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Setting);
    assert!(refused.to_string().contains("other batches"), "{refused}");
    Ok(())
}

#[test]
fn an_epoch_of_disjoint_batches_is_a_whole_pass_in_steps_and_schedules() -> Result<()> {
    // The last batch of a pass is smaller, so a pass is three steps and not 60,000 / 25,000 = 2.4.
    let mnist = Population::with_size(60_000);
    let large = DpSgd::new().batch_size(25_000).epochs(10.0).noise_multiplier(5.0);
    let poisson = large.plan_for(&mnist)?;
    assert_eq!((poisson.steps(), poisson.epochs()), (24, 10.0));
    let disjoint = large.disjoint_batches(NeighbouringRelation::ZeroOutOne).plan_for(&mnist)?;
    assert_eq!((disjoint.steps(), disjoint.epochs()), (30, 10.0));
    assert_eq!(disjoint.event(), Event::ShuffledEpochs { noise_multiplier: 5.0, epochs: 10 });

    let data = glyphs_with(100, 10, 1)?;
    let method = DpSgd::new()
        .batch_size(30)
        .disjoint_batches(NeighbouringRelation::ZeroOutOne)
        .noise_multiplier(4.0)
        .learning_rate(1.0)
        .learning_rate_schedule(LearningRate::Step { every: 1.0, gamma: 0.5 })
        .noise_schedule("step:0.25:1".parse()?);
    let plan = method.steps(20).plan(&data)?;
    assert_eq!(plan.epochs(), 5.0);
    let (rates, stages) = (plan.learning_rate_scheduler()?, plan.stages()?.unwrap());
    for step in 0..20 {
        let factor = 0.5f64.powi(step as i32 / 4);
        assert_eq!(rates.at(step).learning_rate, factor, "step {step}");
        let noise = stages.at(step).noise_multiplier;
        assert!((noise / factor - 4.0).abs() < 1e-12, "step {step}: {noise}");
    }
    // A pass has as many batches as the sampler draws, whatever the sizes.
    for (examples, batch_size) in [(100, 30), (100, 100), (49, 1), (60_000, 1_224), (7, 3)] {
        let sampling = Sampling::DisjointBatches { neighbouring: NeighbouringRelation::ZeroOutOne };
        let sampler = ShuffledSampler::new(examples, batch_size, [0; 32])?;
        for epochs in [1, 3, 10, 99] {
            let steps =
                TrainingLength::Epochs(epochs as f64).steps(sampling.rate(examples, batch_size))?;
            assert_eq!(steps, epochs * sampler.steps_per_epoch(), "{examples} {batch_size}");
        }
    }
    Ok(())
}

#[test]
fn disjoint_batches_hold_every_example_once_per_epoch() -> Result<()> {
    let data = glyphs_with(100, 10, 1)?;
    let method = DpSgd::new().batch_size(30).epochs(3.0).noise_multiplier(1.0);
    let plan = method.disjoint_batches(NeighbouringRelation::ZeroOutOne).plan(&data)?;
    let mut batches = DataLoader::new(&plan, data.train(), [1; 32], [2; 32])?;
    for epoch in 0..2 {
        let drawn: Vec<Batch> = (0..4).map(|_| batches.draw()).collect::<Result<_>>()?;
        assert_eq!(drawn.iter().map(Batch::len).collect::<Vec<_>>(), [30, 30, 30, 10]);
        let features = |batch: &Batch| {
            let rows = (0..batch.len()).map(|i| format!("{:?}", batch.features(i)));
            rows.collect::<Vec<_>>()
        };
        let mut all: Vec<String> = drawn.iter().flat_map(features).collect();
        all.sort_unstable();
        let full_batch = Batch::from_examples(data.train(), &(0..100).collect::<Vec<_>>())?;
        let mut expected = features(&full_batch);
        expected.sort_unstable();
        assert_eq!(all, expected, "epoch {epoch}");
    }
    Ok(())
}

#[test]
fn a_run_on_disjoint_batches_states_its_relation_and_is_charged() -> Result<()> {
    let data = glyphs_with(100, 20, 1)?;
    let model = models::mlp(&data, &[8]).seed(1).build()?;
    let ledger = Ledger::in_memory();
    let method = DpSgd::new().batch_size(30).epochs(2.0).noise_multiplier(4.0).seed(1);
    let disjoint = method.clone().disjoint_batches(NeighbouringRelation::ZeroOutOne).plan(&data)?;
    let run = fit("disjoint", &disjoint, &model, &data, &ledger, &mut NoopObserver)?;
    let statement = run.statement().to_string();
    assert!(statement.contains("zero out one"), "{statement}");
    assert!(!statement.contains("add or remove one"), "{statement}");
    // Beside a run on Poisson samples, both count under the relation that covers them.
    fit("poisson", &method.plan(&data)?, &model, &data, &ledger, &mut NoopObserver)?;
    let events = ledger.events()?;
    let tightest = TightestAccountant::for_events(&events);
    assert_eq!(tightest.neighbouring(), NeighbouringRelation::ZeroOutOne);
    let both = tightest.epsilon(&events, Delta(1e-5))?.epsilon;
    assert!(both > run.epsilon() && both.is_finite());
    // A budget names the relation of what it has counted.
    ledger.set_budget(Epsilon(50.0), Delta(1e-5))?;
    let spending = ledger.budget_status()?.unwrap();
    assert_eq!(spending.neighbouring, NeighbouringRelation::ZeroOutOne);
    assert!((spending.cost.epsilon - both).abs() < 1e-9);
    assert!(spending.to_string().contains("neighbours: zero out one"), "{spending}");
    assert_eq!(
        TightestAccountant::for_events(&events[1..]).neighbouring(),
        NeighbouringRelation::AddOrRemoveOne
    );
    Ok(())
}
