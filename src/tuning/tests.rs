use super::live::LiveTuning;
use super::*;
use crate::data::{self, Dataset};
use crate::grid::{CellResult, CellRun, GridObserver, GridProgress};
use crate::methods::{BackpropClip, DpSgd};
use crate::nn::{Model, models};
use crate::privacy::{Badge, Delta, Epsilon, Trials};
use crate::store::RunStore;
use crate::{Error, ErrorKind, Result};

fn store() -> (tempfile::TempDir, RunStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::open(folder.path().to_path_buf()).unwrap();
    (folder, store)
}

fn linear(data: &Dataset) -> Result<Model> {
    models::linear(data).seed(1).build()
}

fn small() -> Tuning<DpSgd> {
    let method = DpSgd::new().target(Epsilon(3.0), Delta(1e-4)).batch_size(40).steps(8).seed(3);
    Tuning::new(method)
        .learning_rates([0.001, 0.1, 1.0])
        .clips([0.01, 1.0, 30.0])
        .factors([0.1, 1.0, 10.0])
        .around([1.0, 2.0])
}

#[test]
fn public_data_are_tuned_on_at_no_cost_with_the_noise_of_the_private_plan() -> Result<()> {
    let (_folder, store) = store();
    let private = data::glyphs_with(400, 50, 61)?;
    let public = data::glyphs_with(200, 100, 62)?;
    let tuned = small().public(&public).run_in(&store, linear, &private)?;
    assert_eq!(
        store.existing_ledger(&private)?.map_or(0, |ledger| ledger.runs().unwrap().len()),
        0
    );
    assert_eq!(tuned.badge(), &Badge::Proved, "drawn by code");
    assert_eq!(tuned.steps().len(), 4);
    assert_eq!(
        tuned.steps().iter().map(|step| step.trials.len()).collect::<Vec<_>>(),
        [3, 3, 3, 3]
    );
    assert!(tuned.to_string().contains("Cost: none"), "{tuned}");
    // What was charged to the public data has the noise and the steps of the private plan.
    let noise = small().method.plan(&private)?.privacy().unwrap().noise_multiplier;
    let charged = store.existing_ledger(&public)?.unwrap().runs()?;
    let noisy = charged.iter().filter(|(_, event)| event.to_string().contains("8 steps"));
    let noisy: Vec<String> = noisy.map(|(_, event)| format!("{event:?}")).collect();
    assert!(noisy.iter().all(|event| event.contains(&format!("{noise:?}"))), "{noise}: {noisy:?}");
    assert!(!noisy.is_empty());
    let method = tuned.method().plan(&private)?;
    assert_eq!(method.learning_rate(), tuned.learning_rate());
    let plan = tuned.select(Trials::geometric(3.0), [0.5, 1.0])?.plan(&private)?;
    assert!(plan.epsilon_after(8)?.unwrap() <= 3.0);
    // A part of the private data is not public, whatever the caller says.
    for public_data in [private.clone(), private.split(0.6, 1)?] {
        let error = small().public(&public_data).run_in(&store, linear, &private).unwrap_err();
        assert!(error.to_string().contains("a part of them"), "{error}");
    }
    let declared = small().public(&public.split(0.6, 1)?).run_in(&store, linear, &private)?;
    assert!(matches!(declared.badge(), Badge::Proved | Badge::Conditional(_)));
    Ok(())
}

#[test]
fn on_private_data_no_epsilon_covers_the_choice() -> Result<()> {
    let (_folder, store) = store();
    let data = data::glyphs_with(400, 50, 63)?;
    let tuned = small().around([1.0]).run_in(&store, linear, &data)?;
    let Badge::NoGuarantee(why) = tuned.badge() else { panic!("{tuned}") };
    assert!(why.contains("without noise"), "{why}");
    let error = tuned.select(Trials::geometric(3.0), [1.0]).unwrap_err().to_string();
    assert!(error.contains("Tuning::public"), "{error}");
    let [first, second, third] = tuned.steps() else { panic!("{tuned}") };
    assert!(first.cost.contains("no epsilon covers it: 3 runs"), "{first:?}");
    assert!(second.cost.contains("no epsilon covers it"), "{second:?}");
    // Three runs at epsilon 3 cost more than 3; the selection is dearer than one run.
    assert!(third.cost.starts_with("epsilon ") && third.cost.contains("3 runs together"));
    assert!(third.cost.contains("PrivateSelection"), "{third:?}");
    let ledger = store.existing_ledger(&data)?.unwrap();
    assert_eq!(ledger.runs()?.len(), 9);
    // Again: every run is stored.
    let again = small().around([1.0]).run_in(&store, linear, &data)?;
    assert_eq!((again.steps(), ledger.runs()?.len()), (tuned.steps(), 9));
    Ok(())
}

#[test]
fn the_steps_choose_as_the_procedure_specifies() -> Result<()> {
    let (_folder, store) = store();
    let data = data::glyphs_with(400, 100, 64)?;
    let tuned = small().run_in(&store, linear, &data)?;
    let [first, second, third, fourth] = tuned.steps() else { panic!("{tuned}") };
    let accuracy = |trial: &Trial| trial.accuracy.unwrap_or(0.0);
    let best = |trials: &[Trial]| trials.iter().map(accuracy).fold(0.0, f64::max);
    let rate = second.trials[0].learning_rate;
    let chosen = first.trials.iter().find(|trial| trial.learning_rate == rate).unwrap();
    assert_eq!(accuracy(chosen), best(&first.trials), "step 2 uses the best rate of step 1");
    assert!(first.trials.iter().all(|trial| trial.clip.is_none()));
    let clip = third.trials[0].clip.unwrap();
    let harmless = |trial: &&Trial| accuracy(trial) >= best(&first.trials) - 0.01;
    let smallest = second.trials.iter().filter(harmless).filter_map(|trial| trial.clip);
    let smallest = smallest.fold(f64::INFINITY, f64::min);
    if smallest.is_finite() {
        assert_eq!(clip, smallest)
    } else {
        assert!(tuned.warnings().iter().any(|w| w.contains("no clip norm")), "{tuned}")
    }
    let all: Vec<Trial> = third.trials.iter().chain(&fourth.trials).cloned().collect();
    let found = all.iter().find(|trial| {
        (trial.learning_rate, trial.clip) == (tuned.learning_rate(), Some(tuned.clip()))
    });
    assert_eq!(accuracy(found.unwrap()), best(&all));
    let (_folder, other) = self::store();
    let at_once = small().jobs(2).run_in(&other, linear, &data)?;
    assert_eq!(at_once.steps(), tuned.steps(), "several runs at once give the same");
    let map = tuned.heat_map().unwrap().text();
    assert!(map.contains("ridge") && map.contains("noise multiplier"), "{map}");
    Ok(())
}

#[test]
fn noise_is_secret_unless_the_method_has_a_seed() -> Result<()> {
    let data = data::glyphs_with(400, 50, 66)?;
    let mut secret = small().method;
    secret.settings.seed = None;
    for (method, is_study) in [(small().method, true), (secret, false)] {
        let (_folder, store) = store();
        let tuning = Tuning { method, ..small().around([1.0]) };
        let tuned = tuning.run_in(&store, linear, &data)?;
        let entries = || store.existing_ledger(&data).unwrap().unwrap().entries().unwrap();
        let charged = entries();
        let in_study = charged.iter().any(|entry| entry.note.contains("study mode"));
        assert_eq!(in_study, is_study);
        let again = tuning.run_in(&store, linear, &data)?;
        assert_eq!(again.steps(), tuned.steps(), "finished runs are found again");
        assert_eq!(entries().len(), charged.len(), "and charged once");
    }
    Ok(())
}

#[test]
fn invalid_tuning_is_refused() -> Result<()> {
    let (_folder, store) = store();
    let data = data::glyphs_with(400, 50, 65)?;
    let error = |tuning: Tuning<DpSgd>| {
        let error = tuning.run_in(&store, linear, &data).unwrap_err();
        assert!(!error.advice().is_empty(), "{error}");
        error.to_string()
    };
    assert!(error(small().learning_rates([])).contains("learning_rates"));
    assert!(error(small().clips([1.0, 1.0])).contains("twice"));
    assert!(error(small().factors([-1.0])).contains("positive"));
    assert!(error(small().tolerance(2.0)).contains("tolerance"));
    assert!(error(small().public(&data::glyphs_with(39, 9, 1)?)).contains("39"));
    assert!(error(small().public(&data::glyphs_with(90, 0, 1)?)).contains("test part"));
    let other = Tuning::new(BackpropClip::new().noise_multiplier(1.0));
    assert!(other.run_in(&store, linear, &data).unwrap_err().to_string().contains("clip norm"));
    assert!(store.existing_ledger(&data)?.is_none_or(|ledger| ledger.runs().unwrap().is_empty()));
    let diverging = small().learning_rates([1e300]).run_in(&store, linear, &data).unwrap_err();
    assert_eq!(diverging.kind(), ErrorKind::Model, "{diverging}");
    Ok(())
}

#[test]
fn a_run_that_diverged_is_no_failure_and_one_that_is_lost_is() {
    let cell = |label: &str, runs: Vec<CellRun>, errors: &[&str]| CellResult {
        method: "non-private",
        mask: None,
        drop_rule: None,
        pre_prune: 0.0,
        drop: 0.0,
        labels: vec![("clip".into(), label.into())],
        epsilon: None,
        delta: None,
        runs,
        errors: errors.iter().map(ToString::to_string).collect(),
    };
    fn progress(cell: &CellResult) -> GridProgress<'_> {
        GridProgress {
            completed: 1,
            total: 2,
            running: 0,
            failed: 1,
            cell,
            seed: 0,
            step: 8,
            steps: 8,
            seconds: None,
            seconds_left: None,
            cells: std::slice::from_ref(cell),
        }
    }
    let ended = |cell: &CellResult, kind: ErrorKind| {
        let mut live = LiveTuning::default();
        live.begin("step 1");
        live.on_run_end(&progress(cell), Err(&Error::new(kind, "a run", "it failed")));
        live.check(std::slice::from_ref(cell))
    };
    let lost = cell("1", Vec::new(), &["the disk is full"]);
    ended(&lost, ErrorKind::Model).expect("its parameters became infinite");
    assert_eq!(ended(&lost, ErrorKind::Io).unwrap_err().kind(), ErrorKind::Io);
    // A run that nobody reported.
    let mut live = LiveTuning::default();
    live.begin("step 1");
    let error = live.check(&[lost]).unwrap_err().to_string();
    assert!(error.contains("step 1") && error.contains("the disk is full"), "{error}");
}
