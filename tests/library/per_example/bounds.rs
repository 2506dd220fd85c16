//! Bounds other than flat clipping: all executors against the reference executor, and the
//! sensitivity of the sum.

use epsilab::engine::{
    Batch, Bound, ClipRule, ClippedSum, CoordinateWeights, Executor, Gradients, ReferenceExecutor,
};
use epsilab::nn::Network;
use epsilab::privacy::NeighbouringRelation;

use super::networks::{Draw, architecture, batch, network, weights};
use super::{all, distance, fast, median, relative_difference};

/// Bounds of every kind at which about half of the examples are clipped, for gradients like those
/// of this batch.
fn bounds(network: &Network, batch: &Batch, weights: Option<&CoordinateWeights>) -> Vec<ClipRule> {
    let sum = |rule: &ClipRule| ReferenceExecutor.weighted_sum(network, batch, rule, weights);
    let layers = sum(&ClipRule::per_layer(1.0)).unwrap();
    let typical = median(&layers.norms).max(1e-12);
    let each = |norms: &[f32]| median(norms).max(1e-12);
    let given: Vec<f64> = if layers.group_norms.is_empty() {
        vec![typical]
    } else {
        layers.group_norms.iter().map(|norms| each(norms)).collect()
    };
    vec![
        ClipRule::auto_s(0.5),
        ClipRule::normalised(2.0),
        ClipRule::Normalised { max_grad_norm: 1.0, gamma: typical },
        ClipRule::per_layer(typical),
        ClipRule::per_layer_given(given),
    ]
}

fn assert_close(got: &ClippedSum, want: &ClippedSum, about: &str) {
    assert!(distance(&got.norms, &want.norms, 0.0) < 1e-5, "norms: {about}");
    assert!(distance(&got.losses, &want.losses, 0.0) < 1e-5, "losses: {about}");
    let sums = relative_difference(&got.sum, &want.sum);
    assert!(sums < 1e-5, "sums are off by {sums:.1e}: {about}");
    assert_eq!(got.group_norms.len(), want.group_norms.len(), "{about}");
    // The gradient of a layer may be rounding error only.
    let floor = want.norms.iter().map(|norm| norm.powi(2)).sum::<f32>().sqrt();
    for (got, want) in got.group_norms.iter().zip(&want.group_norms) {
        assert!(distance(got, want, 1e-2 * f64::from(floor)) < 1e-4, "group norms: {about}");
    }
}

#[test]
fn executors_agree_on_every_bound_of_some_networks() {
    executors_agree(60);
}

#[test]
#[ignore = "takes 15 s; .ci/full runs it"]
fn executors_agree_on_every_bound() {
    executors_agree(200);
}

/// Compares them on so many random networks.
fn executors_agree(networks: u64) {
    let mut clipped_layers = 0;
    for seed in 0..networks {
        let mut draw = Draw::new(seed);
        let (specs, shape, tokens) = architecture(&mut draw);
        let network = network(&mut draw, &shape, &specs);
        let (n, copies) = (1 + draw.below(7), 1 + draw.below(2) * draw.below(3));
        let batch = batch(&mut draw, &shape, tokens, n, copies);
        let weights = weights(&mut draw, &network);
        for rule in bounds(&network, &batch, weights.as_ref()) {
            let want =
                ReferenceExecutor.weighted_sum(&network, &batch, &rule, weights.as_ref()).unwrap();
            clipped_layers += want.group_norms.len();
            for (name, executor) in fast() {
                let got = executor.weighted_sum(&network, &batch, &rule, weights.as_ref()).unwrap();
                let about = format!("seed {seed}, {name}, {rule:?}, {copies} copies: {specs:?}");
                assert_close(&got, &want, &about);
            }
        }
    }
    assert!(
        clipped_layers as u64 > 5 * networks / 2,
        "hardly any network has several layers: {clipped_layers}"
    );
}

/// The L2 norm of each group of a difference of two sums.
fn max_influence(with: &Gradients, without: &Gradients, groups: &[usize]) -> Vec<f64> {
    let mut squares = vec![0.0; groups.iter().max().unwrap() + 1];
    for ((a, b), &group) in with.entries.iter().zip(&without.entries).zip(groups) {
        let square = |(a, b): (&f32, &f32)| (f64::from(*a) - f64::from(*b)).powi(2);
        squares[group] += a.values.iter().zip(&b.values).map(square).sum::<f64>();
    }
    squares.into_iter().map(f64::sqrt).collect()
}

/// An MLP, and examples whose features are of very different sizes.
fn case() -> (Network, Batch) {
    use epsilab::nn::{LayerSpec, LinearSpec};
    let mut draw = Draw::new(3);
    let specs = [
        LayerSpec::Linear(LinearSpec::new(4, 5)),
        LayerSpec::Tanh,
        LayerSpec::Linear(LinearSpec::new(5, 3)),
    ];
    let network = network(&mut draw, &[4], &specs);
    let features = (0..32).map(|i| draw.uniform() * 10f32.powi(i / 4 - 4)).collect();
    (network, Batch::new(features, &[4], vec![0, 1, 2, 0, 1, 2, 0, 1]).unwrap())
}

/// The batch without one example.
fn without(batch: &Batch, left_out: usize) -> Batch {
    let rest = (0..batch.len()).filter(|&i| i != left_out);
    let features = rest.clone().flat_map(|i| batch.features(i).to_vec()).collect();
    Batch::new(features, batch.shape(), rest.map(|i| batch.label(i)).collect()).unwrap()
}

#[test]
fn one_example_moves_the_sum_of_each_group_by_at_most_its_sensitivity() {
    let (network, batch) = case();
    let relation = NeighbouringRelation::AddOrRemoveOne;
    let rules = [
        ClipRule::auto_s(0.3),
        ClipRule::normalised(0.3),
        ClipRule::per_layer(0.3),
        ClipRule::per_layer_given([0.05, 0.2]),
    ];
    for (name, executor) in all() {
        // The largest movement of each group, and of the whole sum.
        let largest = |rule: &dyn Bound, groups: &[usize]| {
            let sum = |batch: &Batch| executor.clipped_sum(&network, batch, rule).unwrap().sum;
            let with = sum(&batch);
            let mut largest = (vec![0.0f64; 2], 0.0f64);
            for i in 0..batch.len() {
                let moved = max_influence(&with, &sum(&without(&batch, i)), groups);
                largest.1 = largest.1.max(moved.iter().map(|m| m * m).sum::<f64>().sqrt());
                for (all, one) in largest.0.iter_mut().zip(moved) {
                    *all = all.max(one);
                }
            }
            largest
        };
        for rule in &rules {
            let groups = rule.groups(&network).unwrap();
            let (each, whole) = largest(rule, groups.group_indices());
            let sensitivities = groups.sensitivities(relation);
            for (moved, bound) in each.iter().zip(&sensitivities) {
                assert!(*moved <= bound * (1.0 + 1e-4), "{name}, {rule:?}: {moved} of {bound}");
                assert!(*moved >= 0.5 * bound, "{name}, {rule:?} is far from its bound: {moved}");
            }
            let joint = groups.joint_sensitivity(relation);
            assert!(whole <= joint * (1.0 + 1e-4), "{name}, {rule:?}: {whole} of {joint}");
        }
        // The test finds sums without a bound, and a bound that is stated too small.
        let layers = network.layer_of_parameters();
        let (_, unclipped) = largest(&ClipRule::unclipped(), &layers);
        assert!(unclipped > 0.3 * 1.1, "{name}: {unclipped}");
        let (each, _) = largest(&ClipRule::flat(0.3), &layers);
        assert!(each.iter().any(|moved| *moved > 0.3 / 2f64.sqrt()), "{name}: {each:?}");
    }
}

#[test]
fn a_non_finite_example_adds_nothing_under_any_bound() {
    let (network, batch) = case();
    let mut features: Vec<f32> = (0..8).flat_map(|i| batch.features(i).to_vec()).collect();
    features[2 * 4 + 1] = f32::NAN;
    let poisoned = Batch::new(features, &[4], batch.labels().to_vec()).unwrap();
    for rule in bounds(&network, &batch, None) {
        for (name, executor) in all() {
            let with = executor.clipped_sum(&network, &poisoned, &rule).unwrap();
            let without = executor.clipped_sum(&network, &without(&batch, 2), &rule).unwrap();
            for (a, b) in with.sum.entries.iter().zip(&without.sum.entries) {
                assert_eq!(a.values, b.values, "{name}, {rule:?}");
            }
            let excluded = |norms: &[f32]| norms[2].is_nan() && norms[1].is_finite();
            assert!(excluded(&with.norms), "{name}, {rule:?}");
            assert!(with.group_norms.iter().all(|norms| excluded(norms)), "{name}, {rule:?}");
        }
    }
}

#[test]
fn bounds_for_another_number_of_layers_are_refused() {
    let (network, batch) = case();
    for (name, executor) in all() {
        let wrong = ClipRule::per_layer_given([1.0, 1.0, 1.0]);
        let error = executor.clipped_sum(&network, &batch, &wrong).unwrap_err();
        assert!(error.to_string().contains("2 layers with parameters"), "{name}: {error}");
    }
}
