//! Training from settings to a stored run, on the built-in data.

mod augmented;
mod divergence;
mod images;
mod not_covered;
mod own_module;
mod population;
mod released;
mod sparse;
mod transfer;

use epsilab::lab::open_ledger;
use epsilab::prelude::*;
use epsilab::privacy::Ledger;
use epsilab::train::{NoopObserver, Observer, Progress, fit};

use crate::support::environment::home;
use crate::support::process;

/// Each test has its own data, hence its own ledger: they run at the same time.
fn glyphs(seed: u64) -> Dataset {
    home();
    data::glyphs_with(2000, 500, seed).expect("glyphs")
}

/// The same examples as vectors of a program, which nobody declared public.
fn undeclared(data: &Dataset) -> Dataset {
    let train = data.train();
    let (features, labels) = (train.features_flat().to_vec(), train.labels().to_vec());
    data::from_vecs(features, data.shape(), labels, 10).expect("vectors")
}

/// A ledger file of its own for the data.
fn ledger_file(test: &str, data: &Dataset) -> std::path::PathBuf {
    home().join(test).join(format!("{}.jsonl", data.origin()))
}

fn weights(run: &Run) -> Vec<u32> {
    bits(&run.model())
}

fn bits(model: &Model) -> Vec<u32> {
    let values = model.network().values();
    values.iter().flat_map(|(_, v)| v.iter().map(|v| v.to_bits())).collect()
}

fn settings() -> DpSgd {
    DpSgd::new().target(Epsilon(8.0), Delta(1e-4)).clip(0.1).learning_rate(4.0).batch_size(250)
}

#[test]
fn a_private_run_learns_is_charged_its_stated_epsilon_and_is_trained_once() -> Result<()> {
    if process::alone(this_test!()) {
        return Ok(());
    }
    let data = glyphs(11);
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let settings = settings().epochs(4);
    let before = model.accuracy(&data)?;
    let run = settings.train(&model, &data)?;

    assert!(run.accuracy() > before + 0.3, "{before} -> {run}");
    assert!(!run.is_interrupted() && !run.is_restored());
    assert!(run.epsilon() <= 8.0 && run.epsilon() > 7.8, "{run}");
    let again = privacy::epsilon(&run.record().events(), Delta(1e-4))?.epsilon;
    assert_eq!(run.epsilon(), again, "the reported epsilon is the accountant's");
    assert_eq!(run.model().accuracy(&data)?, run.accuracy());

    let spent = lab::ledger()?.epsilon(data.origin());
    let repeated = settings.train(&model, &data)?;
    assert!(repeated.is_restored());
    assert_eq!(repeated.model().predict(&data)?, run.model().predict(&data)?);
    assert_eq!(lab::ledger()?.epsilon(data.origin()), spent, "showing a run again costs nothing");

    let folder = home().join("runs").join(&run.record().id);
    for file in ["settings.json", "curve.json", "result.json", "model.safetensors", "run.svg"] {
        assert!(folder.join(file).is_file(), "{file} is missing");
    }
    let anew = settings.fresh().train(&model, &data)?;
    assert!(!anew.is_restored());
    assert!(lab::ledger()?.epsilon(data.origin()) > spent, "a fresh run is charged");
    Ok(())
}

#[test]
fn study_mode_repeats_to_the_bit_and_is_stated() -> Result<()> {
    let data = glyphs(20);
    let model = models::papernot_cnn(&data).seed(2).build()?;
    let run = |seed| settings().steps(3).seed(seed).fresh().train(&model, &data);
    let first = run(5)?;
    for form in [first.to_string(), first.statement().to_string(), first.badge().to_string()] {
        assert!(form.contains("study mode"), "{form}");
    }
    assert_eq!(weights(&first), weights(&run(5)?));
    assert_ne!(weights(&first), weights(&run(6)?));
    Ok(())
}

#[test]
fn without_a_seed_no_two_runs_share_their_noise() -> Result<()> {
    let data = glyphs(21);
    let model = models::papernot_cnn(&data).seed(2).build()?;
    let run = || settings().steps(1).fresh().train(&model, &data);
    let (first, second) = (run()?, run()?);
    assert_eq!(first.record().id, second.record().id);
    assert_ne!(weights(&first), weights(&second));
    assert_eq!(first.badge().to_string(), "proved");
    Ok(())
}

/// To the store, models that nobody seeded are the same. With a seed of the plan they are: equal
/// parameters, equal noise, one release. Two releases with equal noise would cancel it.
#[test]
fn in_study_mode_unseeded_models_start_and_end_equal() -> Result<()> {
    let data = glyphs(26);
    let models = [models::mlp(&data, &[16]).build()?, models::mlp(&data, &[16]).build()?];
    assert_eq!(models[0].fingerprint(), models[1].fingerprint(), "to the store they are the same");
    assert_ne!(bits(&models[0]), bits(&models[1]));
    let method = DpSgd::new().noise_multiplier(1.0).clip(0.1).batch_size(250).steps(1);
    let plan = method.seed(5).plan(&data)?;
    let trained = |model: &Model| -> Result<Vec<u32>> {
        let run = fit("the same", &plan, model, &data, &Ledger::in_memory(), &mut NoopObserver)?;
        Ok(weights(&run))
    };
    assert_eq!(trained(&models[0])?, trained(&models[1])?);
    Ok(())
}

#[test]
fn a_run_is_charged_before_its_first_step_and_in_full_if_it_dies() -> Result<()> {
    struct Dies(std::path::PathBuf, privacy::Event);
    impl Observer for Dies {
        fn on_start(&mut self, _progress: &Progress<'_>) {
            let charged = open_ledger(&self.0).expect("a ledger").events();
            assert_eq!(charged.expect("events"), vec![self.1.clone()], "before the first step");
        }
        fn on_step(&mut self, progress: &Progress<'_>) {
            if progress.step == 2 {
                std::panic::panic_any("the process dies here");
            }
        }
    }
    let data = glyphs(22);
    let model = models::papernot_cnn(&data).seed(3).build()?;
    let plan = settings().steps(5).plan(&data)?;
    let path = ledger_file("dies", &data);
    let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut observer = Dies(path.clone(), plan.event());
        fit("dies", &plan, &model, &data, &open_ledger(&path)?, &mut observer)
    }));
    let payload = died.expect_err("it died");
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"the process dies here"));
    // A float read back from JSON may differ in its last bit, which the comparison allows for.
    let on_record = open_ledger(&path)?.events()?;
    assert_eq!(on_record.len(), 1);
    assert_eq!(plan.event().reduced_to(&on_record[0])?, plan.event());
    Ok(())
}

#[test]
fn nothing_is_trained_when_the_ledger_is_damaged_or_another_ones() -> Result<()> {
    let data = glyphs(23);
    let model = models::papernot_cnn(&data).seed(3).build()?;
    let plan = settings().steps(2).plan(&data)?;
    let path = ledger_file("damaged", &data);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    std::fs::write(&path, "{\"this is\": \"not an entry").expect("writing");
    let error = open_ledger(&path)
        .and_then(|ledger| fit("x", &plan, &model, &data, &ledger, &mut NoopObserver))
        .expect_err("a damaged ledger");
    assert_eq!(error.kind(), ErrorKind::Ledger);
    assert!(error.to_string().contains("damaged"), "{error}");

    // The name of a ledger in memory opens no file to other data.
    for name in ["0123", "in-memory"] {
        let other = open_ledger(&home().join(format!("other/{name}.jsonl")))?;
        let error =
            fit("x", &plan, &model, &data, &other, &mut NoopObserver).expect_err("another's");
        assert!(error.to_string().contains(name), "{error}");
        assert!(other.entries()?.is_empty());
    }

    let half = data.limit(1000, 100);
    let ledger = Ledger::in_memory();
    let error =
        fit("x", &plan, &model, &half, &ledger, &mut NoopObserver).expect_err("another size");
    assert!(error.to_string().contains("2,000 training examples"), "{error}");
    Ok(())
}

#[test]
fn the_error_of_a_diverging_run_has_its_full_charge() -> Result<()> {
    let data = glyphs(24);
    let model = models::papernot_cnn(&data).seed(3).build()?;
    let plan = settings().learning_rate(1e300).steps(40).plan(&data)?;
    let ledger = Ledger::in_memory();
    let error = fit("x", &plan, &model, &data, &ledger, &mut NoopObserver).expect_err("not finite");
    assert!(error.advice().contains("learning rate"), "{error}");
    // The step at which parameters overflow follows from what was released before.
    assert!(error.advice().contains("charged in the ledger: 40 of 40 steps"), "{error}");
    let charged = ledger.events()?.iter().map(privacy::Event::release_count).sum::<u64>();
    assert_eq!(charged, 40);
    Ok(())
}

#[test]
fn a_model_for_other_data_is_refused() -> Result<()> {
    let data = glyphs(15);
    let other = data::from_vecs(vec![0.5; 60], &[3], (0..20).map(|i| i % 2).collect(), 2)?;
    let model = models::linear(&other).seed(1).build()?;
    let error = settings().steps(1).train(&model, &data).expect_err("shapes differ");
    assert!(error.to_string().contains("[1, 28, 28]"), "{error}");
    Ok(())
}

#[test]
fn a_vocabulary_that_is_too_small_is_refused_before_anything_is_charged() -> Result<()> {
    home();
    let text = data::sentences_with(100, 10, 25)?;
    let words = text.vocabulary().expect("texts have one").len();
    // Token ids from elsewhere, without a vocabulary; the largest, 7, is in the test part.
    let ids = (0..80).map(|i| if i == 79 { 7.0 } else { (i % 2 * (i / 2 % 7)) as f32 }).collect();
    let ids = data::from_vecs(ids, &[2], (0..40).map(|i| i % 2).collect(), 2)?;
    let splits = (0..100).map(|seed| ids.split(0.5, seed).expect("two parts"));
    let ids = splits.into_iter().find(|d| d.test().features_flat().contains(&7.0));
    let ids = ids.expect("half of all splits");
    for (data, known) in [(&text, words), (&ids, 8)] {
        let plan = settings().batch_size(5).steps(1).plan(data)?;
        let train = |vocabulary| {
            let model = models::bilstm(data, vocabulary, 2, 2).seed(1).build()?;
            let ledger = Ledger::in_memory();
            let trained = fit("x", &plan, &model, data, &ledger, &mut NoopObserver);
            Ok::<_, Error>((trained, ledger.entries()?.len()))
        };
        let (trained, charged) = train(known - 1)?;
        let error = trained.expect_err("too small");
        assert_eq!(charged, 0, "{error}");
        assert!(error.advice().contains("vocabulary"), "{error}");
        let (trained, charged) = train(known)?;
        assert!(trained.is_ok() && charged > 0);
    }
    Ok(())
}

#[test]
fn non_private_training_learns_and_promises_nothing() -> Result<()> {
    if process::alone(this_test!()) {
        return Ok(());
    }
    let data = glyphs(16);
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let run = NonPrivate::new().batch_size(64).epochs(4).train(&model, &data)?;
    assert!(run.accuracy() > 0.8, "{run}");
    assert_eq!(run.epsilon(), f64::INFINITY);
    let ledger = lab::ledger()?;
    assert_eq!(ledger.without_privacy(data.origin()), 1, "the ledger counts it all the same");
    assert_eq!(ledger.epsilon(data.origin()), 0.0);
    assert!(run.statement().to_string().starts_with("Nothing is guaranteed"));
    Ok(())
}
