//! Training from settings to a stored run, on the built-in data.

use epsilab::prelude::*;
use epsilab::privacy::{Accountant, Ledger, Rdp};
use epsilab::train::{Observer, Progress, Silent, fit};
use std::sync::OnceLock;

/// One project folder for this test program; the environment is set before anything reads it.
fn home() -> &'static std::path::Path {
    static HOME: OnceLock<tempfile::TempDir> = OnceLock::new();
    HOME.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // SAFETY: every test calls this first, and OnceLock lets only one of them in here.
        unsafe { std::env::set_var("EPSILAB_HOME", folder.path()) };
        folder
    })
    .path()
}

fn glyphs() -> Dataset {
    static DATA: OnceLock<Dataset> = OnceLock::new();
    home();
    DATA.get_or_init(|| data::glyphs_with(2000, 500, 3).expect("glyphs")).clone()
}

fn settings() -> DpSgd {
    DpSgd::new().target(Epsilon(8.0), Delta(1e-4)).clip(0.1).learning_rate(4.0).batch_size(250)
}

#[test]
fn a_private_run_learns_pays_what_it_says_and_is_not_trained_twice() -> Result<()> {
    let data = glyphs();
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let settings = settings().epochs(4);
    let before = model.accuracy(&data)?;
    let run = settings.train(&model, &data)?;

    assert!(run.accuracy() > before + 0.3, "{before} -> {run}");
    assert!(!run.interrupted() && !run.is_restored());
    assert!(run.epsilon() <= 8.0 && run.epsilon() > 7.8, "{run}");
    let again = Rdp::default().epsilon(&run.record().events, Delta(1e-4))?.epsilon;
    assert_eq!(run.epsilon(), again, "the reported epsilon is the accountant's");
    assert_eq!(run.model().accuracy(&data)?, run.accuracy());

    let spent = lab::ledger()?.epsilon(data.hash());
    let repeated = settings.train(&model, &data)?;
    assert!(repeated.is_restored());
    assert_eq!(repeated.model().predict(&data)?, run.model().predict(&data)?);
    assert_eq!(lab::ledger()?.epsilon(data.hash()), spent, "showing a run again costs nothing");

    let folder = home().join("runs").join(&run.record().id);
    for file in ["settings.json", "curve.json", "result.json", "model.safetensors", "run.svg"] {
        assert!(folder.join(file).is_file(), "{file} is missing");
    }
    let anew = settings.fresh().train(&model, &data)?;
    assert!(!anew.is_restored());
    assert!(lab::ledger()?.epsilon(data.hash()) > spent, "a fresh run is charged");
    Ok(())
}

#[test]
fn study_mode_repeats_to_the_bit_and_says_so() -> Result<()> {
    let data = glyphs();
    let model = models::papernot_cnn(&data).seed(2).build()?;
    let weights = |seed| -> Result<Vec<u32>> {
        let run = settings().steps(3).seed(seed).fresh().train(&model, &data)?;
        assert!(run.statement().to_string().contains("study mode"), "{}", run.statement());
        let values = run.model().network().values();
        Ok(values.iter().flat_map(|(_, v)| v.iter().map(|v| v.to_bits())).collect())
    };
    assert_eq!(weights(5)?, weights(5)?);
    assert_ne!(weights(5)?, weights(6)?);
    Ok(())
}

#[test]
fn a_run_that_dies_leaves_the_whole_plan_charged() -> Result<()> {
    struct Dies;
    impl Observer for Dies {
        fn progressed(&mut self, progress: &Progress<'_>) {
            assert!(progress.step < 2, "the process dies here");
        }
    }
    let data = glyphs();
    let model = models::papernot_cnn(&data).seed(3).build()?;
    let plan = settings().steps(5).plan(&data)?;
    let path = home().join("dies.jsonl");
    let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let ledger = Ledger::open(&path)?;
        fit("dies", &plan, &model, &data, &ledger, &mut Dies)
    }));
    assert!(died.is_err());
    assert_eq!(Ledger::open(&path)?.events()?, vec![plan.event()]);
    Ok(())
}

#[test]
fn nothing_is_trained_when_the_ledger_is_damaged() -> Result<()> {
    let data = glyphs();
    let model = models::papernot_cnn(&data).seed(3).build()?;
    let plan = settings().steps(2).plan(&data)?;
    let path = home().join("damaged.jsonl");
    std::fs::write(&path, "{\"this is\": \"not an entry").expect("writing");
    let error = Ledger::open(&path)
        .and_then(|ledger| fit("x", &plan, &model, &data, &ledger, &mut Silent))
        .expect_err("a damaged ledger");
    assert_eq!(error.kind(), ErrorKind::Ledger);
    assert!(error.to_string().contains("damaged.jsonl"), "{error}");
    Ok(())
}

#[test]
fn a_model_for_other_data_is_refused() -> Result<()> {
    let data = glyphs();
    let other = data::from_vecs(vec![0.5; 60], &[3], (0..20).map(|i| i % 2).collect(), 2)?;
    let model = models::linear(&other).seed(1).build()?;
    let error = settings().steps(1).train(&model, &data).expect_err("shapes differ");
    assert!(error.to_string().contains("[1, 28, 28]"), "{error}");
    Ok(())
}

#[test]
fn non_private_training_learns_and_promises_nothing() -> Result<()> {
    let data = glyphs();
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let run = NonPrivate::new().batch_size(64).epochs(4).train(&model, &data)?;
    assert!(run.accuracy() > 0.8, "{run}");
    assert_eq!(run.epsilon(), f64::INFINITY);
    assert!(run.statement().to_string().starts_with("Nothing is guaranteed"));
    Ok(())
}
