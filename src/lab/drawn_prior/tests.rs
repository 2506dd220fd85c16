use super::*;
use crate::methods::DpSgd;
use crate::privacy::{Badge, Ledger};
use crate::train::{NoopObserver, fit};

fn head(model: &Model) -> Vec<f32> {
    model.network().values().pop().unwrap().1
}

#[test]
fn the_start_does_not_depend_on_the_data_and_the_head_fits_the_classes() -> Result<()> {
    // Digits by their names, as MNIST.
    let digits = data::glyphs_with(200, 20, 0)?;
    let prior = |data: &Dataset| drawn_prior(data).examples(400).epochs(0.5);
    let drawn = prior(&digits).drawn()?;
    assert_ne!(drawn.origin(), digits.origin(), "the built-in digits are not its training images");
    let untrained = prior(&digits).untrained()?;
    assert_eq!(untrained.classes(), 10);
    assert_eq!(head(&untrained), head(&models::papernot_cnn(&digits).seed(SEED).build()?));
    assert_ne!(head(&prior(&digits).new_head().seed(3).untrained()?), head(&untrained));
    // Three classes of other names.
    let features = digits.train().features_flat()[..30 * 784].to_vec();
    let other = data::from_vecs(features, &[1, 28, 28], (0..30).map(|i| i % 3).collect(), 3)?;
    assert_eq!(prior(&other).untrained()?.classes(), 3);

    let plan = recipes::pretraining().seed(SEED).epochs(0.5).plan(&drawn)?;
    let trained =
        fit("p", &plan, &untrained, &drawn, &Ledger::in_memory(), &mut NoopObserver)?.model();
    let start = prior(&digits).with_head(&trained, &drawn)?;
    assert_eq!(head(&start), head(&trained));
    assert!(start.provenance().is_data_free());
    let plan = DpSgd::new().noise_multiplier(1.0).batch_size(50).steps(2).plan(&digits)?;
    let run = fit("r", &plan, &start, &digits, &Ledger::in_memory(), &mut NoopObserver)?;
    assert_eq!(run.badge(), Badge::Proved);
    let statement = run.statement().to_string();
    assert!(
        statement.contains("drawn digits (drawn by code)") && statement.contains("cost nothing"),
        "{statement}"
    );
    Ok(())
}

#[test]
fn other_images_are_refused_and_other_models_taken() -> Result<()> {
    let table = data::from_vecs(vec![0.0; 8], &[4], vec![0, 1], 2)?;
    let error = drawn_prior(&table).untrained().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Setting);
    assert!(error.to_string().contains("[3, 32, 32]"), "{error}");
    let colour = data::patterns_with(10, 5, 0)?;
    let vgg = |drawn: &Dataset| models::simple_vgg(drawn, &[4, 8], 1).seed(1).build();
    let start = drawn_prior(&colour).model(vgg).untrained()?;
    assert_eq!(start.input_shape(), [3, 32, 32]);
    assert_eq!(start.name(), vgg(&colour)?.name());
    Ok(())
}
