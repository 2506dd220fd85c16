//! Training with dropout and with several versions of each example.

use super::*;
use epsilab::data::Augment;
use epsilab::layers;
use epsilab::nn::{DropoutSpec, Flatten, LinearSpec, Tanh};

fn run_trajectory(settings: &DpSgd, model: &Model, data: &Dataset) -> Result<Run> {
    fit("the same", &settings.plan(data)?, model, data, &Ledger::in_memory(), &mut NoopObserver)
}

/// How far the parameters of two runs are apart, relatively.
fn max_difference(a: &Run, b: &Run) -> f64 {
    let all = |run: &Run| -> Vec<f32> {
        run.model().network().values().into_iter().flat_map(|(_, v)| v).collect()
    };
    let square = |x: f32| f64::from(x).powi(2);
    let difference: f64 = all(a).iter().zip(all(b)).map(|(a, b)| square(a - b)).sum();
    (difference / all(b).into_iter().map(square).sum::<f64>()).sqrt()
}

#[test]
fn copies_that_are_all_alike_change_nothing_and_random_ones_do() -> Result<()> {
    let data = glyphs(31).limit(300, 50);
    let model = models::mlp(&data, &[16]).seed(1).build()?;
    let settings = || DpSgd::new().noise_multiplier(1.0).clip(0.5).batch_size(40).steps(4).seed(3);
    let plain = run_trajectory(&settings(), &model, &data)?;
    let alike = run_trajectory(&settings().augment(Augment::new().copies(3)), &model, &data)?;
    assert!(max_difference(&alike, &plain) < 1e-5, "{}", max_difference(&alike, &plain));
    let random = Augment::new().copies(3).flip().crop(2);
    let random = run_trajectory(&settings().augment(random), &model, &data)?;
    assert!(max_difference(&random, &plain) > 1e-3, "{}", max_difference(&random, &plain));
    assert_eq!(random.epsilon(), plain.epsilon());
    Ok(())
}

#[test]
fn a_private_run_with_flips_and_crops_learns_and_is_stored() -> Result<()> {
    let data = glyphs(32);
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let settings = settings().epochs(2).augment(Augment::new().copies(4).flip().crop(2));
    let preview = settings.preview(&data)?.to_string();
    assert!(preview.contains("4 copies, flips, crops by 2 pixels"), "{preview}");
    let before = model.accuracy(&data)?;
    let run = settings.train(&model, &data)?;
    assert!(run.accuracy() > before + 0.1, "{before} -> {run}");
    assert!(run.epsilon() <= 8.0);
    let again = settings.train(&model, &data)?;
    assert!(again.is_restored());
    assert_eq!(again.plan(), run.plan());
    let plain = DpSgd::new().target(Epsilon(8.0), Delta(1e-4)).batch_size(250).steps(1);
    assert!(!plain.train(&model, &data)?.is_restored(), "another plan is another run");
    Ok(())
}

#[test]
fn without_privacy_it_trains_as_well() -> Result<()> {
    let data = glyphs(33).limit(400, 100);
    let model = models::mlp(&data, &[32]).seed(1).build()?;
    let settings = NonPrivate::new().batch_size(64).epochs(5);
    let run = settings.augment(Augment::new().copies(2).crop(1)).train(&model, &data)?;
    assert!(run.accuracy() > 0.3, "{run}");
    Ok(())
}

#[test]
fn a_model_with_dropout_trains_with_privacy() -> Result<()> {
    let data = glyphs(34);
    let layers = layers![
        Flatten,
        LinearSpec::new(784, 64),
        Tanh,
        DropoutSpec { rate: 0.3 },
        LinearSpec::new(64, 10)
    ];
    let model = models::sequential(&data, layers).seed(1).build()?;
    let before = model.accuracy(&data)?;
    let run = settings().epochs(3).train(&model, &data)?;
    assert!(run.accuracy() > before + 0.2, "{before} -> {run}");
    Ok(())
}
