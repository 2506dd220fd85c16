//! Data that were prepared by looking at private examples: no noise gives a guarantee then.

use super::*;
use epsilab::data::{TextOptions, Vocabulary};
use epsilab::mask::{DpSnip, Mask};
use epsilab::privacy::{Badge, Rdp};

const TEXTS: [&str; 4] = ["rain fell again", "what a fine day", "fine rain", "a cold day"];

/// Texts of its own for each test, read with a vocabulary.
fn texts(test: &str, vocabulary: Vocabulary) -> Result<Dataset> {
    home();
    let texts: Vec<String> = (0..80).map(|i| format!("w{i} {} {test}", TEXTS[i % 4])).collect();
    let labels = (0..80).map(|i| i % 2).collect();
    let options = TextOptions::default().length(4).vocabulary(vocabulary);
    data::from_texts(&texts, labels, 2, &options)
}

fn settings() -> DpSgd {
    DpSgd::new().target(Epsilon(3.0), Delta(1e-3)).batch_size(20).steps(3)
}

/// A run on the data has no guarantee, and says why.
fn is_refused(data: &Dataset, why: &str) -> Result<()> {
    assert!(data.not_covered_reason().is_some_and(|text| text.contains(why)), "{data}");
    let plan = settings().plan(data)?;
    assert!(!plan.has_guarantee());
    assert!(privacy::epsilon(&[plan.event()], Delta(1e-3)).is_err());
    assert!(Rdp::default().epsilon(&[plan.event()], Delta(1e-3)).is_err());
    let preview = settings().preview(data)?;
    assert!(preview.warnings().iter().any(|text| text.contains(why)), "{preview}");
    let model = models::mlp(data, &[4]).seed(1).build()?;
    let run = settings().train(&model, data)?;
    assert!(
        matches!(run.badge(), Badge::NoGuarantee(text) if text.contains(why)),
        "{}",
        run.badge()
    );
    assert_eq!(run.epsilon(), f64::INFINITY);
    let text = run.statement().to_string();
    assert!(text.starts_with("Nothing is guaranteed: the "), "{text}");
    for line in ["the data: ", "Accountant", "Treated as public", "Not covered by epsilon"] {
        assert!(!text.contains(line), "{line} is in:\n{text}");
    }
    assert!(lab::ledger()?.without_privacy(data.origin()) > 0);
    Ok(())
}

#[test]
fn a_vocabulary_made_from_the_private_texts_voids_the_guarantee() -> Result<()> {
    if process::alone(this_test!()) {
        return Ok(());
    }
    let private = Vocabulary::from_private_text_not_covered(TEXTS, 5)?;
    let data = texts("vocabulary", private)?;
    is_refused(&data, "the vocabulary was made from private texts: one text can change")?;
    // Whatever is cut from it has the same token ids.
    is_refused(&data.limit(60, 0), "vocabulary was made from private texts")
}

#[test]
fn public_vocabularies_keep_it() -> Result<()> {
    let listed = Vocabulary::from_words(["rain", "day", "fine"])?;
    for vocabulary in [Vocabulary::hashed(64)?, listed, Vocabulary::from_public_text(TEXTS, 5)?] {
        let data = texts("public", vocabulary)?;
        assert_eq!(data.not_covered_reason(), None);
        let plan = settings().plan(&data)?;
        assert!(plan.epsilon_after(plan.steps())?.is_some_and(|epsilon| epsilon <= 3.0));
    }
    Ok(())
}

#[test]
fn other_statistics_of_private_data_can_be_declared() -> Result<()> {
    if process::alone(this_test!()) {
        return Ok(());
    }
    home();
    let y = (0..80).map(|i| i % 2).collect();
    let data = data::from_vecs((0..160).map(|i| i as f32).collect(), &[2], y, 2)?;
    let scaled = data.normalized(79.5, 46.2)?;
    assert_eq!(scaled.not_covered_reason(), None);
    let scaled = scaled.prepared_from_private_examples("features were scaled by their own mean");
    let why = "the data was prepared from private examples: features were scaled by their own mean";
    is_refused(&scaled, why)
}

#[test]
fn a_plan_is_only_followed_on_data_prepared_as_it_says() -> Result<()> {
    let public = texts("mixed", Vocabulary::hashed(64)?)?;
    let private = public.prepared_from_private_examples("texts were chosen by hand");
    let model = models::mlp(&public, &[4]).seed(1).build()?;
    let plan = settings().plan(&public)?;
    let ledger = Ledger::in_memory();
    let error = fit("run", &plan, &model, &private, &ledger, &mut NoopObserver).unwrap_err();
    assert!(error.to_string().contains("prepared in another way"), "{error}");
    assert!(ledger.events()?.is_empty(), "nothing may be charged");
    Ok(())
}

#[test]
fn a_noisy_mask_of_such_data_is_not_covered_either() -> Result<()> {
    if process::alone(this_test!()) {
        return Ok(());
    }
    let private = Vocabulary::from_private_text_not_covered(TEXTS, 5)?;
    let data = texts("mask", private)?;
    let model = models::mlp(&data, &[4]).seed(1).build()?;
    let recipe = DpSnip::keep(0.5).noise_multiplier(20.0);
    let not_covered = |mask: &Mask| !mask.origin().privacy[0].is_covered();
    assert!(not_covered(&recipe.mask(&model, &data)?));
    assert!(lab::ledger()?.without_privacy(data.origin()) > 0);
    let run = settings().pre_prune(recipe).train(&model, &data)?;
    assert!(run.mask().is_some_and(|mask| not_covered(&mask)), "{run}");
    Ok(())
}

#[test]
fn the_statement_names_a_test_part_that_is_private_too() -> Result<()> {
    let data = texts("split", Vocabulary::hashed(64)?)?;
    let split = "accuracy on a test part that was split off the private data";
    for (data, private) in [(data.clone(), false), (data.split(0.5, 1)?, true)] {
        let model = models::mlp(&data, &[4]).seed(1).build()?;
        let text = settings().train(&model, &data)?.statement().to_string();
        assert_eq!(text.contains(split), private, "{text}");
        assert_eq!(text.contains(", the test part,"), !private, "{text}");
        for word in ["classes", "vocabulary", "scaling", "image size", "confusion tables"] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }
    Ok(())
}
