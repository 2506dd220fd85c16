//! Time of planning and collecting, by the number of runs.

use super::*;

/// Returns the seconds of planning and of collecting a grid of `runs` runs whose training is
/// played, and the largest memory of the process so far, in MiB.
fn measure_grid(runs: u64) -> (f64, f64, f64) {
    let data = data::glyphs_with(40, 10, 107).unwrap();
    let experiment = Grid::new(DpSsgd::new().clip(0.5).batch_size(20).steps(1))
        .drop_gradients(DroppingRule::Random, [0.0, 0.3, 0.6, 0.9])
        .epsilon([2.0])
        .seeds(runs / 4)
        .experiment()
        .unwrap();
    let mut lab = Lab {
        data,
        experiment,
        slurm: Slurm::new().runs_per_task(5).program("/shared/epsilab"),
        ..Lab::new(108)
    };
    lab.batch_system.largest = 1000;
    let build = |seed| models::linear(&lab.data).seed(seed).build();
    let store = lab.store();
    let site = ClusterSession {
        experiment: &lab.experiment,
        slurm: &lab.slurm,
        batch_system: &lab.batch_system,
        build: &build,
        data: &lab.data,
        store: &store,
    };
    let began = std::time::Instant::now();
    assert_eq!(site.submit(false).unwrap().runs as u64, runs);
    let planning = began.elapsed().as_secs_f64();

    // One run is trained, and stands for all.
    let tickets = lab.tickets();
    let aside = lab.folder.path().join("aside");
    let model = build(0).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let first = &tickets[0];
    let grant = PrechargedAttempt { inexact_repeat: false, conflict_path: &aside };
    let claim = Claim::Granted(&first.attempt);
    let fit = Fit { id: &first.id, plan: &first.plan, model: &model, data: &lab.data, claim };
    let other = RunStore::open(elsewhere.path().to_owned()).unwrap();
    train_precharged(&other, &grant, fit, &mut NoopObserver).unwrap();
    let trained = other.load_finished(&first.id, &model, &lab.data).unwrap().unwrap();
    for ticket in &tickets {
        let mut record = trained.record().clone();
        record.id = ticket.id.clone();
        record.plan = ticket.plan.clone();
        record.charged.run = ticket.attempt.clone();
        let run = crate::train::Run::new(record, trained.model(), None, trained.selection_log());
        store.publish(&run, &[], &aside).unwrap();
    }
    lab.batch_system.queue.borrow_mut().clear();
    let began = std::time::Instant::now();
    let result = site.collect().unwrap();
    let collecting = began.elapsed().as_secs_f64();
    assert_eq!(result.runs() as u64, runs);
    let charges = lab.charges();
    assert_eq!(charges.len() as u64, runs);
    assert!(charges.iter().all(|charge| charge.closed));
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|size| size.trim().split(' ').next()?.parse::<f64>().ok());
    (planning, collecting, peak.unwrap_or(0.0) / 1024.0)
}

/// `cargo test --workspace --lib ten_thousand -- --ignored --nocapture`
#[test]
#[ignore = "takes minutes; .ci/full runs it"]
fn ten_thousand_runs_are_planned_and_collected_in_a_time_that_grows_linearly() {
    let [small, middle, large] = [1000, 3000, 10_000].map(|runs| {
        let (planning, collecting, peak) = measure_grid(runs);
        println!(
            "{runs} runs: planned in {planning:.1} s, collected in {collecting:.1} s, {peak:.0} MiB"
        );
        (planning, collecting, peak)
    });
    assert!(large.0 < 60.0 && large.1 < 60.0 && large.2 < 500.0);
    // Ten times the runs: a square would take a hundred times the time, and a busy machine a few.
    let both = |(planning, collecting, _): (f64, f64, f64)| planning + collecting;
    assert!(both(large) < 40.0 * both(small), "{small:?} {middle:?} {large:?}");
}
