use super::*;
use crate::ErrorKind;
use crate::data::glyphs_with;
use crate::engine::Batch;
use crate::methods::{Batches, DpSgd};
use crate::nn::models;
use crate::privacy::{Accountant, Delta, Epsilon, Event, Headline, Ledger, gdp};
use crate::train::{Silent, fit};

/// The relations of disjoint batches.
const RELATIONS: [Neighbouring; 2] = [Neighbouring::ZeroOutOne, Neighbouring::ReplaceOne];

#[test]
fn an_epoch_of_disjoint_batches_is_one_release_under_its_own_relation() -> Result<()> {
    let data = glyphs_with(100, 10, 1)?;
    for relation in RELATIONS {
        let method = DpSgd::new().batch_size(30).disjoint_batches(relation);
        // 2.5 epochs of 30 in 100: nine steps, of which four make an epoch.
        let plan = method.clone().epochs(2.5).noise_multiplier(4.0).plan(&data)?;
        assert_eq!(plan.steps(), 9);
        assert_eq!(plan.event(), Event::ShuffledEpochs { noise_multiplier: 4.0, epochs: 3 });
        for (steps, epochs) in [(1, 1), (4, 1), (5, 2), (9, 3)] {
            let part = Event::ShuffledEpochs { noise_multiplier: 4.0, epochs };
            assert_eq!(plan.event_after(steps), part);
            assert!(plan.event().reduced_to(&part).is_ok());
        }
        assert_eq!(plan.neighbouring(), relation);
        let epsilon = plan.epsilon_after(9)?.unwrap();
        let sensitivity = if relation == Neighbouring::ReplaceOne { 2.0 } else { 1.0 };
        let mu = sensitivity * 3f64.sqrt() / 4.0;
        let exact = gdp::epsilon_of(mu, 1e-5);
        assert!((epsilon / exact - 1.0).abs() < 1e-6, "{epsilon} {exact}");
        // Poisson sampling with the same noise is not the same claim, nor is the relation free.
        let poisson = DpSgd::new().batch_size(30).epochs(2.5).noise_multiplier(4.0).plan(&data)?;
        assert_ne!(poisson.event(), plan.event());
        assert!(Headline::new().epsilon(&[plan.event()], Delta(1e-5)).is_err());
        // A target is met under the relation.
        let target = method.epochs(3.0).target(Epsilon(2.0), Delta(1e-5)).plan(&data)?;
        let reached = target.epsilon_after(target.steps())?.unwrap();
        assert!(reached <= 2.0 && reached > 1.99, "{reached}");
    }
    let refused = DpSgd::new().batch_size(30).noise_multiplier(1.0);
    let refused = refused.disjoint_batches(Neighbouring::AddOrRemoveOne).plan(&data).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Setting);
    assert!(refused.to_string().contains("other batches"), "{refused}");
    Ok(())
}

#[test]
fn disjoint_batches_hold_every_example_once_per_epoch() -> Result<()> {
    let data = glyphs_with(100, 10, 1)?;
    let method = DpSgd::new().batch_size(30).epochs(3.0).noise_multiplier(1.0);
    let plan = method.disjoint_batches(Neighbouring::ZeroOutOne).plan(&data)?;
    let mut batches = Batches::new(&plan, data.train(), [1; 32], [2; 32])?;
    for epoch in 0..2 {
        let drawn: Vec<Batch> = (0..4).map(|_| batches.draw()).collect::<Result<_>>()?;
        assert_eq!(drawn.iter().map(Batch::len).collect::<Vec<_>>(), [30, 30, 30, 10]);
        let features = |batch: &Batch| {
            let rows = (0..batch.len()).map(|i| format!("{:?}", batch.features(i)));
            rows.collect::<Vec<_>>()
        };
        let mut all: Vec<String> = drawn.iter().flat_map(features).collect();
        all.sort_unstable();
        let everybody = Batch::of(data.train(), &(0..100).collect::<Vec<_>>())?;
        let mut expected = features(&everybody);
        expected.sort_unstable();
        assert_eq!(all, expected, "epoch {epoch}");
    }
    Ok(())
}

#[test]
fn a_run_on_disjoint_batches_says_its_relation_and_counts_in_the_ledger() -> Result<()> {
    let data = glyphs_with(100, 20, 1)?;
    let model = models::mlp(&data, &[8]).seed(1).build()?;
    let ledger = Ledger::in_memory();
    let method = DpSgd::new().batch_size(30).epochs(2.0).noise_multiplier(4.0).seed(1);
    let disjoint = method.clone().disjoint_batches(Neighbouring::ZeroOutOne).plan(&data)?;
    let run = fit("disjoint", &disjoint, &model, &data, &ledger, &mut Silent)?;
    let statement = run.statement().to_string();
    assert!(statement.contains("zero out one"), "{statement}");
    assert!(!statement.contains("add or remove one"), "{statement}");
    // Beside a run on Poisson samples, both count under the relation that covers them.
    fit("poisson", &method.plan(&data)?, &model, &data, &ledger, &mut Silent)?;
    let events = ledger.events()?;
    let headline = Headline::covering(&events);
    assert_eq!(headline.neighbouring(), Neighbouring::ZeroOutOne);
    let both = headline.epsilon(&events, Delta(1e-5))?.epsilon;
    assert!(both > run.epsilon() && both.is_finite());
    // A budget names the relation of what it has counted.
    ledger.set_budget(Epsilon(50.0), Delta(1e-5))?;
    let spending = ledger.spending()?.unwrap();
    assert_eq!(spending.neighbouring, Neighbouring::ZeroOutOne);
    assert!((spending.spent.epsilon - both).abs() < 1e-9);
    assert!(spending.to_string().contains("neighbours: zero out one"), "{spending}");
    assert_eq!(Headline::covering(&events[1..]).neighbouring(), Neighbouring::AddOrRemoveOne);
    Ok(())
}
