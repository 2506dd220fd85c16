use super::*;
use crate::Result;
use crate::data::{self, Dataset};
use crate::methods::Method;
use crate::privacy::Rdp;

/// Data with this number of training examples.
fn examples(n: usize) -> Dataset {
    data::from_vecs(vec![0.5; n], &[1, 1, 1], vec![0; n], 2).unwrap()
}

#[test]
fn published_settings_are_those_of_the_papers() -> Result<()> {
    let imagenet = examples(IMAGENET);
    let plan = imagenet_dp().method().plan(&imagenet)?;
    // 70 epochs of 1,281,167 / 65,536 steps.
    assert_eq!((plan.steps(), plan.expected_batch_size()), (1_369, 65_536));
    let epsilon = plan.epsilon_after(plan.steps())?.unwrap();
    assert!((9.99..=10.0).contains(&epsilon), "{epsilon}");
    let plan = imagenet_non_private().method().plan(&imagenet)?;
    assert_eq!(plan.steps(), 112_603);
    // De et al. account by RDP: (10, 875) is their epsilon 1, (21.1, 250) too.
    let cifar = examples(CIFAR);
    for (recipe, published) in [(cifar10_from_scratch(), 0.99), (cifar10_fine_tuning(), 1.0)] {
        let mut method = recipe.method();
        method.settings_mut().augment = None;
        let plan = method.plan(&cifar)?;
        let epsilon = Rdp::default().epsilon(&[plan.event()], Delta(1e-5))?.epsilon;
        assert!((epsilon - published).abs() < 0.006, "{epsilon} for {published}");
    }
    Ok(())
}

#[test]
fn a_scaled_recipe_keeps_steps_sampling_rate_and_epsilon_and_says_what_it_changed() -> Result<()> {
    let data = examples(60_000);
    let scaled = imagenet_dp().scaled_to(&data);
    let plan = scaled.method().plan(&data)?;
    assert_eq!(plan.expected_batch_size(), 3_069);
    assert!((plan.sampling_rate() - 65_536.0 / 1_281_167.0).abs() < 1e-5);
    assert!((1_368..=1_370).contains(&plan.steps()), "{}", plan.steps());
    let privacy = plan.privacy().unwrap();
    assert_eq!(privacy.delta, Delta(1e-5));
    let said = scaled.to_string();
    for words in ["batch size 3,069 instead of 65,536", "delta 1e-5 instead of 1e-6", "21 times"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let same = imagenet_dp().scaled_to(&examples(IMAGENET));
    assert_eq!((same.method(), same.to_string()), (imagenet_dp().method(), "as published".into()));
    let plain = imagenet_non_private().scaled_to(&data);
    assert_eq!(plain.method().settings_mut().expected_batch_size, 48);
    assert_eq!(plain.changes().len(), 1, "{plain}");
    // A batch is never empty.
    let tiny = imagenet_non_private().scaled_to(&examples(2));
    assert_eq!(tiny.method().settings_mut().expected_batch_size, 1);
    Ok(())
}
