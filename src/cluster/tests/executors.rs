//! Conformance of executors: a seeded run has the same parameters, charge and badge, whichever
//! executor trains it.

use std::collections::BTreeMap;

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::cluster::processes::Processes;
use crate::grid::NoopGridObserver;
use crate::privacy::Badge;
use crate::runs::load_or_train;

/// The bytes of a run's model, its charged event, whether the charge is closed, and its badge.
type Outcome = (Vec<u8>, Event, bool, Badge);

/// Executor: trains the grid of a lab into its store.
type Executor = fn(&Lab);

fn here(lab: &Lab, jobs: usize) {
    let build = |seed| models::mlp(&lab.data, &[8]).seed(seed).build();
    let experiment = lab.experiment.clone().jobs(jobs);
    let result = crate::grid::scheduler::run_grid(
        &experiment,
        &build,
        &lab.data,
        &lab.store(),
        &mut NoopGridObserver,
    );
    assert_eq!(result.unwrap().runs(), 15);
}

const EXECUTORS: [(&str, Executor); 6] = [
    ("one after the other", |lab| here(lab, 1)),
    ("two at once", |lab| here(lab, 2)),
    ("four at once", |lab| here(lab, 4)),
    ("arrays of a batch system", |lab| {
        lab.submit().unwrap();
        lab.run(99);
        assert_eq!(lab.collect().unwrap().runs(), 15);
    }),
    ("child processes", |lab| {
        let batch_system = Processes::new(2);
        let this = std::env::current_exe().unwrap();
        let worker = lab.folder.path().join("worker.sh");
        // Of the arguments `grid-worker --tickets FILE --index N`.
        let call = "WORKER_TICKETS=\"$3\" WORKER_INDEX=\"$5\" exec";
        let name = "cluster::tests::executors::a_worker_process";
        let script = format!("#!/bin/bash\n{call} '{}' --ignored --exact {name}\n", this.display());
        std::fs::write(&worker, script).unwrap();
        std::fs::set_permissions(&worker, PermissionsExt::from_mode(0o755)).unwrap();
        let slurm = Slurm::new().runs_per_task(1).program(&worker);
        let on = |what: &dyn Fn(&ClusterSession<'_>) -> Result<bool>| {
            let build = |seed| models::mlp(&lab.data, &[8]).seed(seed).build();
            let (experiment, data, store) = (&lab.experiment, &lab.data, &lab.store());
            let slurm = &slurm;
            what(&ClusterSession {
                experiment,
                slurm,
                batch_system: &batch_system,
                build: &build,
                data,
                store,
            })
            .unwrap()
        };
        on(&|site| site.submit(false).map(|submitted| submitted.runs == 12));
        while !on(&|site| site.status().map(|status| status.is_over())) {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        assert!(on(&|site| site.collect().map(|result| result.runs() == 15)));
    }),
    ("each as a run of its own", |lab| {
        lab.submit().unwrap();
        for ticket in lab.tickets() {
            let model = models::mlp(&lab.data, &[8]).seed(ticket.seed).build().unwrap();
            let store = RunStore::open(lab.folder.path().join("own")).unwrap();
            load_or_train(&store, &ticket.plan, &model, &lab.data, &mut NoopObserver).unwrap();
        }
    }),
];

/// Returns the outcome of each stored run by its id.
fn outcomes(store: &RunStore, data: &Dataset) -> BTreeMap<String, Outcome> {
    let account = store.ledger(data).unwrap().state().unwrap();
    let run = |id: String| {
        let reported = store.load_for_report(&id).unwrap();
        let charge = account.charge_of(&reported.record.charged.run).expect("it is charged");
        let model = std::fs::read(store.run_dir(&id).join("model.safetensors")).unwrap();
        let badge = reported.record.badge(reported.mask.as_ref());
        (id, (model, charge.event.clone(), charge.closed, badge))
    };
    store.list_runs().unwrap().into_iter().map(|summary| run(summary.id)).collect()
}

/// Worker of child processes: this test alone in a process.
#[test]
#[ignore = "a worker of the next test, which starts it"]
fn a_worker_process() {
    let Some(tickets) = std::env::var_os("WORKER_TICKETS") else { return };
    let index = std::env::var("WORKER_INDEX").unwrap().parse().unwrap();
    let worked = run_worker(Path::new(&tickets), index).unwrap();
    assert_eq!((worked.trained, worked.errors), (1, Vec::new()));
}

#[cfg(unix)]
#[test]
fn processes_that_are_dropped_stop_and_begin_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("sleep.sh");
    let begun = |task: &str| folder.path().join(format!("begun-{task}"));
    let text = format!("touch {}\nexec sleep 600\n", begun("$SLURM_ARRAY_TASK_ID").display());
    std::fs::write(&script, text).unwrap();
    let array = JobArray { name: "sleep".into(), first: 0, tasks: 3, job: None };
    let batch_system = Processes::new(2);
    let job = batch_system.submit(&script, &array).unwrap();
    while !(begun("0").exists() && begun("1").exists()) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let task = |index: usize, running: bool| Task { index, running };
    let expected = (job, vec![task(0, true), task(1, true), task(2, false)]);
    assert_eq!(batch_system.queue(&[&array]).unwrap()["sleep"], expected);
    // It returns when both have ended.
    drop(batch_system);
    assert!(!begun("2").exists());
}

#[test]
fn every_executor_gives_the_same_runs() {
    let mut first: Option<BTreeMap<String, Outcome>> = None;
    for (name, execute) in EXECUTORS {
        let lab = Lab::new(114);
        execute(&lab);
        let own_store = lab.folder.path().join("own");
        let store =
            if own_store.exists() { RunStore::open(own_store).unwrap() } else { lab.store() };
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
