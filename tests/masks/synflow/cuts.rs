//! How Synflow cuts: in rounds that leave something everywhere, and what it does where one can't.

use super::*;

#[test]
fn a_deep_chain_overflows_f32_and_is_pruned_to_one_in_a_hundred() {
    let mut layers = layers![LinearSpec::new(16, 128)];
    for _ in 0..49 {
        layers.extend(layers![Tanh, LinearSpec::new(128, 128)]);
    }
    layers.extend(layers![Tanh, LinearSpec::new(128, 10)]);
    let model = model(&[16], 10, layers);
    let all = total(&model);
    assert!(all > f64::from(f32::MAX), "R = {all:e}");
    let mask = Synflow::keep(0.01).mask(&model).unwrap();
    let weights = 16 * 128 + 49 * 128 * 128 + 1280;
    assert_eq!((mask.len(), mask.kept()), (weights, weights - dropped_of(0.99, weights)));
    assert!(count(&mask).into_iter().all(|kept| kept > 1), "{:?}", count(&mask));
    assert!(mask.collapsed().is_empty());
    // Something still flows: through the kept weights alone the scores can be taken.
    assert!(total(&mask.apply(&model).unwrap()) > 0.0);
}

#[test]
fn one_cut_collapses_layers_that_many_cuts_keep() {
    // Wide layers have small scores: a single cut takes nearly all of them.
    let layers = layers![
        LinearSpec::new(6, 200),
        Tanh,
        LinearSpec::new(200, 200),
        Tanh,
        LinearSpec::new(200, 3)
    ];
    let model = model(&[6], 3, layers);
    let once = Synflow::keep(0.005).rounds(1).mask(&model).unwrap();
    let gradually = Synflow::keep(0.005).mask(&model).unwrap();
    assert_eq!(once.kept(), gradually.kept(), "{:?} {:?}", count(&once), count(&gradually));
    assert_eq!(once.collapsed(), ["0.weight", "2.weight"], "{:?}", count(&once));
    assert!(gradually.collapsed().is_empty(), "{:?}", count(&gradually));
    assert!(total(&gradually.apply(&model).unwrap()) > 0.0);
    // What is left by one cut leads nowhere, and the mask says so.
    assert!(once.origin().method.contains("nothing flows"), "{}", once.origin().method);
    assert!(!gradually.origin().method.contains("flow "), "{}", gradually.origin().method);
    assert!(Synflow::saliency(&once.apply(&model).unwrap()).is_err());
    // Another round can't be made from there.
    let error = Synflow::keep(0.005 * 0.005).rounds(2).mask(&model).unwrap_err();
    assert!(error.to_string().contains("use more rounds"), "{error}");
}

#[test]
fn resnet_50_keeps_weights_everywhere_at_one_in_a_hundred() {
    let model = models::resnet50(&data(&[3, 16, 16], 10)).seed(1).build().unwrap();
    let mask = Synflow::keep(0.01).rounds(10).mask(&model).unwrap();
    let weights = mask.len();
    assert!(weights > 23_000_000);
    assert_eq!(mask.kept(), weights - dropped_of(0.99, weights));
    assert_eq!(mask.tensors().len(), 54);
    assert!(count(&mask).into_iter().all(|kept| kept > 0));
    // Nearly everything flows through the bodies: each layer multiplies what comes in, and
    // nothing is normalised. So a shortcut may be left with one weight, but no other layer.
    let thin = mask.collapsed();
    assert!(thin.iter().all(|path| path.contains("shortcut")), "{thin:?}");
    assert!(mask.origin().method.contains("10 rounds"), "{}", mask.origin().method);
}

#[test]
fn the_scores_of_the_last_cut_come_with_the_mask() {
    let model = models::mlp(&data(&[6], 3), &[9, 7]).seed(3).build().unwrap();
    let mask = Synflow::keep(0.3).mask(&model).unwrap();
    let saliency = mask.saliency().unwrap();
    let (mut smallest, mut largest, mut none) = (f64::INFINITY, 0.0f64, 0);
    for (tensor, scores) in mask.tensors().iter().zip(saliency.tensors()) {
        assert_eq!(tensor.path, scores.path);
        for (&kept, &score) in tensor.kept.iter().zip(&scores.values) {
            match kept {
                true => smallest = smallest.min(score),
                false => largest = largest.max(score),
            }
            none += usize::from(score == 0.0);
        }
    }
    assert!(0.0 < largest && largest <= smallest, "{largest} {smallest}");
    assert!(none > 0 && none < mask.len() - mask.kept(), "{none}");
    // The same scores give the same mask.
    assert_eq!(saliency.keep(0.3).unwrap().jaccard(&mask).unwrap(), 1.0);
}

#[test]
fn rates_that_ask_for_everything_or_nothing() {
    let model = models::mlp(&data(&[6], 3), &[9, 7]).seed(3).build().unwrap();
    let all = Synflow::prune(0.0).mask(&model).unwrap();
    assert_eq!(all.kept(), all.len());
    assert!(all.saliency().unwrap().tensors().iter().all(|t| t.values.iter().all(|&s| s > 0.0)));
    // The last weight of each tensor stays, and they lie in one chain.
    let least = Synflow::prune(0.999).mask(&model).unwrap();
    assert_eq!(count(&least), [1, 1, 1]);
    assert_eq!(least.collapsed().len(), 3);
    assert!(total(&least.apply(&model).unwrap()) > 0.0);
}

#[test]
fn a_cut_that_stops_the_flow_is_undone() {
    let mut undone = 0;
    for seed in 0..20 {
        let model = models::mlp(&data(&[6], 3), &[9, 7]).seed(seed).build().unwrap();
        for (rounds, rate) in [(2, 0.98), (3, 0.98), (2, 0.95)] {
            let recipe = Synflow::prune(rate).rounds(rounds);
            let mask = match recipe.mask(&model) {
                Ok(mask) => mask,
                Err(e) => {
                    assert!(e.to_string().contains("more rounds"), "{e}");
                    continue;
                }
            };
            assert!(total(&mask.apply(&model).unwrap()) > 0.0, "{recipe:?}");
            let exact = mask.kept() == mask.len() - dropped_of(rate, mask.len());
            let said = mask.origin().method.contains("stopped at");
            assert_eq!(exact, !said, "{recipe:?} {mask}");
            undone += usize::from(said);
            // It comes with scores of its own.
            let scores = mask.saliency().unwrap().tensors();
            let apart = mask.tensors().iter().zip(scores).flat_map(|(kept, scores)| {
                kept.kept.iter().zip(&scores.values).filter(|&(&kept, &score)| !kept && score > 0.0)
            });
            assert!(!said || apart.count() == 0, "{recipe:?}");
        }
    }
    println!("{undone} undone");
    assert!(undone > 2);
}
