//! All executors against the reference executor.

use std::collections::BTreeSet;

use epsilab::engine::{Batch, ClipRule, CoordinateWeights, Executor, Gradients, ReferenceExecutor};
use epsilab::nn::{LayerSpec, Network};

use super::networks::{Draw, architecture, batch, network, weights};
use super::{clipped_and_reference, distance, fast, reference, relative_difference};

/// Collects the kinds of all layers, including those inside blocks.
fn collect_kinds(specs: &[LayerSpec], into: &mut BTreeSet<&'static str>) {
    for spec in specs {
        into.insert(spec.kind());
        match spec {
            LayerSpec::Residual(block) => {
                collect_kinds(&block.body, into);
                collect_kinds(&block.shortcut, into);
            }
            LayerSpec::Group(group) => collect_kinds(&group.layers, into),
            _ => {}
        }
    }
}

#[test]
fn fast_executors_agree_with_the_oracle_on_random_networks() {
    let mut seen = BTreeSet::new();
    for seed in 0..400 {
        let mut draw = Draw::new(seed);
        let (specs, shape, tokens) = architecture(&mut draw);
        let network = network(&mut draw, &shape, &specs);
        let (n, copies) = (1 + draw.below(7), 1 + draw.below(2) * draw.below(3));
        let batch = batch(&mut draw, &shape, tokens, n, copies);
        let weights = weights(&mut draw, &network);
        collect_kinds(&specs, &mut seen);
        let (rule, slow) = reference(&network, &batch, weights.as_ref());
        for (name, executor) in fast() {
            let fast = executor.weighted_sum(&network, &batch, &rule, weights.as_ref()).unwrap();
            let context = format!("seed {seed}, {name}, {copies} copies, {shape:?}: {specs:?}");
            assert_eq!(fast.excluded_count(), 0, "{context}");
            let norms = distance(&fast.norms, &slow.norms, 0.0);
            assert!(norms < 1e-5, "norms are off by {norms:.1e}: {context}");
            assert!(distance(&fast.losses, &slow.losses, 0.0) < 1e-5, "losses: {context}");
            let sums = relative_difference(&fast.sum, &slow.sum);
            assert!(sums < 1e-5, "sums are off by {sums:.1e}: {context}");
            // The gradient of a bias before a normalisation is rounding error only.
            let floor = 0.3 * slow.sum.l2_norm();
            for (fast, slow) in fast.sum.entries.iter().zip(&slow.sum.entries) {
                let off = distance(&fast.values, &slow.values, floor);
                assert!(off < 1e-5, "{} is off by {off:.1e}: {context}", fast.path);
            }
        }
    }
    assert_eq!(seen.len(), 18, "{seen:?}");
}

#[test]
fn one_non_finite_copy_excludes_the_whole_example() {
    let mut draw = Draw::new(7);
    let specs = [LayerSpec::Linear(epsilab::nn::LinearSpec { inputs: 4, outputs: 3, bias: true })];
    // With positive weights, large inputs make all logits infinite.
    let network = Network::build(&[4], &specs, |_, shape, _| {
        (0..shape.iter().product()).map(|_| 2.0 + draw.uniform()).collect()
    });
    let network = network.unwrap();
    let clean = batch(&mut draw, &[4], false, 5, 3);
    let rule = ClipRule::flat(0.5);
    let without = |excluded: usize| {
        let keep: Vec<usize> = (0..5).filter(|&i| i != excluded).collect();
        let features = keep.iter().flat_map(|&i| clean.features(i).to_vec()).collect();
        let labels = keep.iter().map(|&i| clean.label(i)).collect();
        Batch::with_copies(features, &[4], labels, 3).unwrap()
    };
    // Not finite, or finite with logits that overflow.
    for bad_value in [f32::NAN, 3e38] {
        let mut features: Vec<f32> = (0..5).flat_map(|i| clean.features(i).to_vec()).collect();
        // The second copy of example 2.
        features[2 * 12 + 4..2 * 12 + 8].fill(bad_value);
        let poisoned = Batch::with_copies(features, &[4], clean.labels().to_vec(), 3).unwrap();
        for (name, executor) in super::all() {
            let with = executor.clipped_sum(&network, &poisoned, &rule).unwrap();
            assert_eq!(with.excluded_count(), 1, "{name}");
            assert!(with.norms[2].is_nan() && with.losses[2].is_nan());
            let without = executor.clipped_sum(&network, &without(2), &rule).unwrap();
            assert_eq!(with.sum.entries.len(), without.sum.entries.len());
            for (a, b) in with.sum.entries.iter().zip(&without.sum.entries) {
                assert_eq!(a.values, b.values, "{name}");
            }
        }
    }
}

#[test]
fn under_a_mask_a_non_finite_example_adds_nothing() {
    use epsilab::nn::{Conv2dSpec, LinearSpec};
    let specs = [
        LayerSpec::Conv2d(Conv2dSpec::new(1, 3, 2)),
        LayerSpec::Tanh,
        LayerSpec::Flatten,
        LayerSpec::Linear(LinearSpec { inputs: 12, outputs: 3, bias: true }),
    ];
    let mut draw = Draw::new(4);
    let network = network(&mut draw, &[1, 3, 3], &specs);
    let mut mask = Gradients::zeros_like(&network);
    for entry in &mut mask.entries {
        let step = if entry.shape.len() > 1 { 2 } else { 1 };
        entry.values.iter_mut().step_by(step).for_each(|w| *w = 1.0);
    }
    let mask = CoordinateWeights::new(&network, mask).unwrap();
    let rule = ClipRule::flat(0.05);
    let clean = batch(&mut draw, &[1, 3, 3], false, 5, 1);
    let batch_of = |examples: &[usize], bad_value: Option<f32>| {
        let mut features: Vec<f32> =
            examples.iter().flat_map(|&i| clean.features(i).to_vec()).collect();
        bad_value.into_iter().for_each(|bad_value| features[2 * 9 + 4] = bad_value);
        let labels = examples.iter().map(|&i| clean.label(i)).collect();
        Batch::new(features, &[1, 3, 3], labels).unwrap()
    };
    for (name, executor) in super::all() {
        let sum =
            |batch: &Batch| executor.weighted_sum(&network, batch, &rule, Some(&mask)).unwrap();
        let without = sum(&batch_of(&[0, 1, 3, 4], None)).sum;
        for bad_value in [f32::NAN, f32::INFINITY] {
            let with = sum(&batch_of(&[0, 1, 2, 3, 4], Some(bad_value)));
            assert_eq!((with.excluded_count(), with.norms[2].is_nan()), (1, true), "{name}");
            for ((a, b), w) in with.sum.entries.iter().zip(&without.entries).zip(mask.entries()) {
                assert_eq!(a.values, b.values, "{name}");
                for (value, weight) in a.values.iter().zip(&w.values) {
                    assert_eq!(*value == 0.0, *weight == 0.0, "{name}: {value} in {}", a.path);
                }
            }
        }
        let all = sum(&batch_of(&[0, 1, 2, 3, 4], None)).sum;
        assert_ne!(
            all.entries[0].values, without.entries[0].values,
            "{name}: a finite example contributes"
        );
    }
}

#[test]
fn gradients_of_equal_tokens_are_summed_before_the_norm() {
    use epsilab::nn::{EmbeddingSpec, LinearSpec, LstmSpec};
    let specs = [
        LayerSpec::Embedding(EmbeddingSpec { vocabulary: 6, features: 3 }),
        LayerSpec::Lstm(LstmSpec { inputs: 3, hidden: 3, bidirectional: false }),
        LayerSpec::MeanOverTime,
        LayerSpec::Linear(LinearSpec { inputs: 3, outputs: 3, bias: true }),
    ];
    let mut draw = Draw::new(5);
    let network = network(&mut draw, &[8], &specs);
    let tokens =
        |tokens: [u8; 8]| Batch::new(tokens.map(f32::from).to_vec(), &[8], vec![1]).unwrap();
    let mut only = Gradients::zeros_like(&network);
    only.entries[0].values.fill(1.0);
    let only = CoordinateWeights::new(&network, only).unwrap();
    for batch in
        [tokens([2; 8]), tokens([0, 1, 0, 1, 0, 5, 5, 0]), tokens([0, 1, 2, 3, 4, 5, 0, 1])]
    {
        for (name, executor) in fast() {
            let (fast, slow) = clipped_and_reference(&*executor, &network, &batch, Some(&only));
            let off = (fast.norms[0] / slow.norms[0] - 1.0).abs();
            assert!(off < 1e-5, "{name}: {:?} {:?}", fast.norms, slow.norms);
        }
    }
    for (_, executor) in fast() {
        assert_eq!(executor.norm_methods(&network)[0], "ghost");
    }
}

#[test]
fn tokens_beyond_the_vocabulary_are_refused() {
    use epsilab::nn::{EmbeddingSpec, LinearSpec};
    let specs = [
        LayerSpec::Embedding(EmbeddingSpec { vocabulary: 6, features: 3 }),
        LayerSpec::MeanOverTime,
        LayerSpec::Linear(LinearSpec { inputs: 3, outputs: 3, bias: true }),
    ];
    let network = network(&mut Draw::new(5), &[2], &specs);
    for (name, executor) in super::all() {
        for (token, fits) in [(5.0, true), (6.0, false), (-1.0, false), (0.5, false), (3e9, false)]
        {
            let batch = Batch::new(vec![0.0, token], &[2], vec![1]).unwrap();
            let got = executor.clipped_sum(&network, &batch, &ClipRule::flat(1.0));
            assert_eq!(got.is_ok(), fits, "{name}: {token}");
        }
        // Examples that are not finite are excluded, not refused.
        let batch = Batch::new(vec![0.0, f32::NAN], &[2], vec![1]).unwrap();
        let got = executor.clipped_sum(&network, &batch, &ClipRule::flat(1.0)).unwrap();
        assert_eq!(got.excluded_count(), 1, "{name}");
    }
}

#[test]
fn mismatched_weights_are_refused() {
    let specs = [LayerSpec::Linear(epsilab::nn::LinearSpec { inputs: 4, outputs: 3, bias: true })];
    let ours = network(&mut Draw::new(1), &[4], &specs);
    let fill = |value: f32| {
        let mut weights = Gradients::zeros_like(&ours);
        weights.entries[0].values.fill(value);
        weights
    };
    assert!(CoordinateWeights::new(&ours, fill(2.0)).is_ok());
    for wrong in [-1.0, f32::NAN, f32::INFINITY] {
        assert!(CoordinateWeights::new(&ours, fill(wrong)).is_err(), "{wrong}");
    }
    let mut short = fill(1.0);
    short.entries.pop();
    assert!(CoordinateWeights::new(&ours, short).is_err());
    let mut wrong_length = fill(1.0);
    wrong_length.entries[1].values = vec![1.0; wrong_length.entries[1].values.len() + 1].into();
    assert!(CoordinateWeights::new(&ours, wrong_length).is_err());
    // Weights of one network do not fit another.
    let specs = [LayerSpec::Linear(epsilab::nn::LinearSpec { inputs: 5, outputs: 3, bias: true })];
    let other = network(&mut Draw::new(1), &[5], &specs);
    let weights = CoordinateWeights::new(&ours, fill(1.0)).unwrap();
    let batch = batch(&mut Draw::new(2), &[5], false, 2, 1);
    let rule = ClipRule::flat(1.0);
    for (name, executor) in super::all() {
        assert!(executor.weighted_sum(&other, &batch, &rule, Some(&weights)).is_err(), "{name}");
    }
}

#[test]
fn dropout_masks_depend_on_the_seed() {
    use epsilab::nn::{DropoutSpec, LinearSpec};
    let specs = [
        LayerSpec::Linear(LinearSpec { inputs: 4, outputs: 16, bias: true }),
        LayerSpec::Dropout(DropoutSpec { rate: 0.5 }),
        LayerSpec::Linear(LinearSpec { inputs: 16, outputs: 3, bias: true }),
    ];
    let mut draw = Draw::new(3);
    let network = network(&mut draw, &[4], &specs);
    let batch = batch(&mut draw, &[4], false, 6, 2);
    let sum = |executor: &dyn Executor, seed: u64| {
        executor.clipped_sum(&network, &batch.clone().seed(seed), &ClipRule::flat(1.0)).unwrap().sum
    };
    for (name, executor) in fast() {
        let one = sum(&*executor, 1);
        assert_eq!(one, sum(&*executor, 1), "{name}");
        assert!(
            relative_difference(&one, &sum(&*executor, 2)) > 1e-2,
            "{name}: other seeds give other masks"
        );
        assert!(relative_difference(&one, &sum(&ReferenceExecutor, 1)) < 1e-5, "{name}");
    }
}
