//! The rounds of Synflow: layer collapse, and rounds that stop the flow.

use super::*;

#[test]
fn a_deep_network_beyond_f32_is_pruned_to_one_percent() {
    let mut layers = layers![LinearSpec::new(16, 128)];
    for _ in 0..49 {
        layers.extend(layers![Tanh, LinearSpec::new(128, 128)]);
    }
    layers.extend(layers![Tanh, LinearSpec::new(128, 10)]);
    let model = model(&[16], 10, layers);
    let all = objective(&model);
    assert!(all > f64::from(f32::MAX), "R = {all:e}");
    let mask = Synflow::keep(0.01).mask(&model).unwrap();
    let weights = 16 * 128 + 49 * 128 * 128 + 1280;
    assert_eq!((mask.len(), mask.kept_count()), (weights, weights - dropped_count(0.99, weights)));
    assert!(count(&mask).into_iter().all(|kept| kept > 1), "{:?}", count(&mask));
    assert!(mask.collapsed_tensors().is_empty());
    // There is still flow through the kept weights.
    assert!(objective(&mask.apply(&model).unwrap()) > 0.0);
}

#[test]
fn one_round_collapses_layers_that_many_rounds_keep() {
    // Weights of wide layers have small scores, so a single round drops nearly all of them.
    let layers = layers![
        LinearSpec::new(6, 200),
        Tanh,
        LinearSpec::new(200, 200),
        Tanh,
        LinearSpec::new(200, 3)
    ];
    let model = model(&[6], 3, layers);
    let once = Synflow::keep(0.005).rounds(1).mask(&model).unwrap();
    let iterative = Synflow::keep(0.005).mask(&model).unwrap();
    assert_eq!(
        once.kept_count(),
        iterative.kept_count(),
        "{:?} {:?}",
        count(&once),
        count(&iterative)
    );
    assert_eq!(once.collapsed_tensors(), ["0.weight", "2.weight"], "{:?}", count(&once));
    assert!(iterative.collapsed_tensors().is_empty(), "{:?}", count(&iterative));
    assert!(objective(&iterative.apply(&model).unwrap()) > 0.0);
    // Nothing flows after the single round, and the origin says so.
    assert!(once.origin().method.contains("nothing flows"), "{}", once.origin().method);
    assert!(!iterative.origin().method.contains("flow "), "{}", iterative.origin().method);
    assert!(Synflow::saliency(&once.apply(&model).unwrap()).is_err());
    // A second round is not possible from there.
    let error = Synflow::keep(0.005 * 0.005).rounds(2).mask(&model).unwrap_err();
    assert!(error.to_string().contains("use more rounds"), "{error}");
}

#[test]
fn resnet_50_keeps_weights_in_every_layer_at_one_percent() {
    let model = models::resnet50(&data(&[3, 16, 16], 10)).seed(1).build().unwrap();
    let mask = Synflow::keep(0.01).rounds(10).mask(&model).unwrap();
    let weights = mask.len();
    assert!(weights > 23_000_000);
    assert_eq!(mask.kept_count(), weights - dropped_count(0.99, weights));
    assert_eq!(mask.tensors().len(), 54);
    assert!(count(&mask).into_iter().all(|kept| kept > 0));
    // Without normalisation, each layer of a body multiplies the flow, so nearly everything flows
    // through the bodies. Only shortcuts may collapse.
    let collapsed = mask.collapsed_tensors();
    assert!(collapsed.iter().all(|path| path.contains("shortcut")), "{collapsed:?}");
    assert!(mask.origin().method.contains("10 rounds"), "{}", mask.origin().method);
}

#[test]
fn the_mask_has_the_scores_of_the_last_round() {
    let model = models::mlp(&data(&[6], 3), &[9, 7]).seed(3).build().unwrap();
    let mask = Synflow::keep(0.3).mask(&model).unwrap();
    let saliency = mask.saliency().unwrap();
    let (mut smallest_kept, mut largest_dropped, mut zeros) = (f64::INFINITY, 0.0f64, 0);
    for (tensor, scores) in mask.tensors().iter().zip(saliency.tensors()) {
        assert_eq!(tensor.path, scores.path);
        for (&kept, &score) in tensor.kept.iter().zip(&scores.values) {
            if kept {
                smallest_kept = smallest_kept.min(score)
            } else {
                largest_dropped = largest_dropped.max(score)
            }
            zeros += usize::from(score == 0.0);
        }
    }
    assert!(0.0 < largest_dropped, "{largest_dropped}");
    assert!(largest_dropped <= smallest_kept, "{largest_dropped} {smallest_kept}");
    assert!(zeros > 0 && zeros < mask.len() - mask.kept_count(), "{zeros}");
    // The same scores give the same mask.
    assert_eq!(saliency.keep(0.3).unwrap().jaccard(&mask).unwrap(), 1.0);
}

#[test]
fn extreme_rates_keep_everything_or_one_weight_per_tensor() {
    let model = models::mlp(&data(&[6], 3), &[9, 7]).seed(3).build().unwrap();
    let all = Synflow::prune(0.0).mask(&model).unwrap();
    assert_eq!(all.kept_count(), all.len());
    assert!(all.saliency().unwrap().tensors().iter().all(|t| t.values.iter().all(|&s| s > 0.0)));
    // One weight of each tensor remains, and together they form a path.
    let least = Synflow::prune(0.999).mask(&model).unwrap();
    assert_eq!(count(&least), [1, 1, 1]);
    assert_eq!(least.collapsed_tensors().len(), 3);
    assert!(objective(&least.apply(&model).unwrap()) > 0.0);
}

#[test]
fn a_round_that_stops_the_flow_is_undone() {
    let mut undone = 0;
    for seed in 0..20 {
        let model = models::mlp(&data(&[6], 3), &[9, 7]).seed(seed).build().unwrap();
        for (rounds, rate) in [(2, 0.98), (3, 0.98), (2, 0.95)] {
            let method = Synflow::prune(rate).rounds(rounds);
            let mask = match method.mask(&model) {
                Ok(mask) => mask,
                Err(e) => {
                    assert!(e.to_string().contains("more rounds"), "{e}");
                    continue;
                }
            };
            assert!(objective(&mask.apply(&model).unwrap()) > 0.0, "{method:?}");
            let is_exact = mask.kept_count() == mask.len() - dropped_count(rate, mask.len());
            let was_undone = mask.origin().method.contains("stopped at");
            assert_eq!(is_exact, !was_undone, "{method:?} {mask}");
            undone += usize::from(was_undone);
            // Its scores are those of the smaller set of dropped weights: 0 for each of these.
            let scores = mask.saliency().unwrap().tensors();
            let nonzero_dropped = mask.tensors().iter().zip(scores).flat_map(|(kept, scores)| {
                kept.kept.iter().zip(&scores.values).filter(|&(&kept, &score)| !kept && score > 0.0)
            });
            assert!(!was_undone || nonzero_dropped.count() == 0, "{method:?}");
        }
    }
    println!("{undone} undone");
    assert!(undone > 2);
}
