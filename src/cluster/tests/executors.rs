//! Conformance of executors: a seeded run has the same parameters, charge and badge, whichever
//! executor trains it.

use std::collections::BTreeMap;

use super::*;
use crate::grid::Quiet;
use crate::privacy::Badge;
use crate::runs::load_or_train;

/// The bytes of a run's model, its charged event, whether the charge is closed, and its badge.
type Outcome = (Vec<u8>, Event, bool, Badge);

/// Trains the grid of a lab into its store.
type Executor = fn(&Lab);

fn here(lab: &Lab, jobs: usize) {
    let build = |seed| models::mlp(&lab.data, &[8]).seed(seed).build();
    let experiment = lab.experiment.clone().jobs(jobs);
    let result = crate::grid::run::run(&experiment, &build, &lab.data, &lab.store(), &mut Quiet);
    assert_eq!(result.unwrap().runs(), 15);
}

const EXECUTORS: [(&str, Executor); 5] = [
    ("one after the other", |lab| here(lab, 1)),
    ("two at once", |lab| here(lab, 2)),
    ("four at once", |lab| here(lab, 4)),
    ("arrays of a batch system", |lab| {
        lab.submit().unwrap();
        lab.run(99);
        assert_eq!(lab.collect().unwrap().runs(), 15);
    }),
    ("each as a run of its own", |lab| {
        lab.submit().unwrap();
        for ticket in lab.tickets() {
            let model = models::mlp(&lab.data, &[8]).seed(ticket.seed).build().unwrap();
            let store = Store::open(lab.folder.path().join("own")).unwrap();
            load_or_train(&store, &ticket.plan, &model, &lab.data, &mut Silent).unwrap();
        }
    }),
];

/// Returns the outcome of each stored run by its id.
fn outcomes(store: &Store, data: &Dataset) -> BTreeMap<String, Outcome> {
    let account = store.ledger(data).unwrap().account().unwrap();
    let run = |id: String| {
        let reported = store.reported(&id).unwrap();
        let charge = account.charge(&reported.record.charged.run).expect("it is charged");
        let model = std::fs::read(store.folder(&id).join("model.safetensors")).unwrap();
        let badge = reported.record.badge(reported.mask.as_ref());
        (id, (model, charge.event.clone(), charge.closed, badge))
    };
    store.overview().unwrap().into_iter().map(|summary| run(summary.id)).collect()
}

#[test]
fn every_executor_gives_the_same_runs() {
    let mut first: Option<BTreeMap<String, Outcome>> = None;
    for (name, execute) in EXECUTORS {
        let lab = Lab::new(114);
        execute(&lab);
        let own = lab.folder.path().join("own");
        let store = if own.exists() { Store::open(own).unwrap() } else { lab.store() };
        let outcomes = outcomes(&store, &lab.data);
        assert!(outcomes.values().all(|(.., is_closed, _)| *is_closed), "{name}");
        let known = first.get_or_insert_with(|| outcomes.clone());
        assert_eq!(outcomes.keys().collect::<Vec<_>>(), known.keys().collect::<Vec<_>>(), "{name}");
        for (id, (model, event, _, badge)) in &outcomes {
            assert!(*model == known[id].0, "{name}: other parameters in {id}");
            assert_eq!((event, badge), (&known[id].1, &known[id].3), "{name}: {id}");
        }
    }
}
