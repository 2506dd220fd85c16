use std::sync::Arc;

use burn::optim::{AdamConfig, AdamWConfig, ModuleOptimizer, SgdConfig, momentum::MomentumConfig};
use burn::prelude::*;

use super::{Optimizer, OptimizerState, StepSettings};
use crate::data;
use crate::device::DeviceArray;
use crate::engine::{self, CoordinateWeights, Gradient, Gradients};
use crate::mask::{CoordinateSelector, DroppedStatePolicy, Dropping, RandomMask};
use crate::nn::{Model, Network, models};

const OPTIMIZERS: [Optimizer; 6] = [
    Optimizer::Sgd { momentum: 0.0 },
    Optimizer::Sgd { momentum: 0.9 },
    Optimizer::Nesterov { momentum: 0.9 },
    Optimizer::adam(),
    Optimizer::adamw(),
    Optimizer::dp_adam_bc(),
];

/// Returns every optimizer with both treatments of dropped coordinates.
fn all_cases() -> impl Iterator<Item = (Optimizer, DroppedStatePolicy)> {
    let both =
        |optimizer| [DroppedStatePolicy::Lazy, DroppedStatePolicy::Zeros].map(|s| (optimizer, s));
    OPTIMIZERS.into_iter().flat_map(both)
}

/// Returns Burn's optimizer of the same rule, if it has one.
fn burns(optimizer: Optimizer) -> Option<ModuleOptimizer> {
    let sgd = |momentum, nesterov| {
        let config = MomentumConfig::new().with_momentum(momentum).with_dampening(0.0);
        SgdConfig::new().with_momentum(Some(config.with_nesterov(nesterov))).init()
    };
    match optimizer {
        Optimizer::Sgd { momentum: 0.0 } => Some(SgdConfig::new().init()),
        Optimizer::Sgd { momentum } => Some(sgd(momentum, false)),
        Optimizer::Nesterov { momentum } => Some(sgd(momentum, true)),
        Optimizer::Adam(_) => Some(AdamConfig::new().with_epsilon(1e-8).init()),
        // Burn decays biases as well.
        Optimizer::AdamW(_) => {
            Some(AdamWConfig::new().with_epsilon(1e-8).with_weight_decay(0.0).init())
        }
        Optimizer::DpAdamBc(_) => None,
    }
}

fn model() -> Model {
    let data = data::from_vecs(vec![0.5; 60], &[6], (0..10).map(|i| i % 2).collect(), 2).unwrap();
    models::mlp(&data, &[7, 5]).seed(3).build().unwrap()
}

/// Creates gradients that differ from step to step, zero where nothing is selected.
fn gradient(network: &Network, number: u32, selected: Option<&CoordinateWeights>) -> Gradients {
    let mut gradient = Gradients::zeros_like(network);
    for (t, entry) in gradient.entries.iter_mut().enumerate() {
        for (i, value) in entry.values.iter_mut().enumerate() {
            *value = ((i as f32 + 1.0) * (t as f32 + 2.0) * (number as f32 + 0.5)).sin();
        }
    }
    if let Some(selected) = selected {
        selected.apply_mask(&mut gradient);
    }
    gradient
}

/// Returns the same gradient on a device.
fn away(gradient: &Gradients) -> Gradients {
    let mut away = gradient.clone();
    for entry in &mut away.entries {
        entry.values = DeviceArray::from_tensor(entry.values.to_tensor(&Device::flex()));
    }
    away
}

/// Takes one step with a rate of 0.05.
fn step(
    optimizer: &mut OptimizerState,
    network: &Network,
    gradient: &Gradients,
    mask: Option<&CoordinateWeights>,
    selected: Option<&CoordinateWeights>,
) -> Network {
    let noise_std = vec![0.1; gradient.entries.len()];
    let step = StepSettings {
        noise_std: Some(&noise_std),
        noise_mask: selected,
        update_mask: mask,
        ..StepSettings::new(0.05)
    };
    optimizer.step(network, gradient, &step).unwrap()
}

fn numbers(network: &Network) -> Vec<f32> {
    network.values().into_iter().flat_map(|(_, values)| values).collect()
}

fn flags(weights: &CoordinateWeights) -> Vec<bool> {
    weights.entries().iter().flat_map(|e| e.values.iter().map(|&w| w != 0.0)).collect()
}

/// Returns, for each coordinate, whether its bits have changed.
fn moved(before: &Network, after: &Network) -> Vec<bool> {
    let pairs = numbers(before).into_iter().zip(numbers(after));
    pairs.map(|(before, after)| before.to_bits() != after.to_bits()).collect()
}

/// Computes the largest difference, relative to the numbers where they are larger than one.
fn apart(a: &Network, b: &Network) -> f32 {
    let pairs = numbers(a).into_iter().zip(numbers(b));
    pairs.map(|(a, b)| (a - b).abs() / a.abs().max(1.0)).fold(0.0, f32::max)
}

/// A run with a mask and a selection for every step.
struct Followed {
    networks: Vec<Network>,
    trained: CoordinateWeights,
    selections: Vec<Arc<CoordinateWeights>>,
}

/// Takes the steps of an optimizer with gradients where `transform` puts them.
fn follow(
    optimizer: Optimizer,
    state: DroppedStatePolicy,
    transform: impl Fn(u32, Gradients) -> Gradients,
) -> Followed {
    let model = model();
    let mask = RandomMask::keep(0.6).seed(1).mask(&model).unwrap();
    let trained = mask.to_weights(model.network()).unwrap();
    let mut selector =
        CoordinateSelector::new(Some(&mask), Some(Dropping::random(0.5)), 50, [1; 32]);
    let mut update = optimizer.init();
    let (mut networks, mut selections) = (vec![model.network().clone()], Vec::new());
    for number in 0..50 {
        let network = &networks[number as usize];
        let selected = selector.next_selection(network).unwrap().unwrap();
        let g = transform(number, gradient(network, number, Some(&selected)));
        let update_mask = state.update_mask(Some(&trained), Some(&selected));
        networks.push(step(&mut update, network, &g, update_mask, Some(&selected)));
        selections.push(selected);
    }
    Followed { networks, trained, selections }
}

#[test]
fn on_all_coordinates_it_is_burns_optimizer() {
    for optimizer in OPTIMIZERS {
        let Some(mut burns) = burns(optimizer) else { continue };
        let start = model().network().clone();
        let mut ours = optimizer.init().with_weight_decay(0.0);
        let (mut a, mut b) = (start.clone(), start.clone());
        for number in 0..20 {
            let g = gradient(&start, number, None);
            a = engine::optimizer_step(&mut burns, 0.05, &a, &g);
            b = step(&mut ours, &b, &g, None, None);
        }
        assert!(apart(&a, &b) < 1e-5, "{optimizer}: {}", apart(&a, &b));
        assert!(apart(&a, &start) > 0.01);
    }
}

#[test]
fn coordinates_that_are_not_touched_keep_their_bits_with_every_optimizer() {
    for (optimizer, state) in all_cases() {
        let Followed { networks, trained, selections } = follow(optimizer, state, |_, g| g);
        let mut moved_while_dropped = 0;
        for (pair, selected) in networks.windows(2).zip(&selections) {
            for (moved, selected) in moved(&pair[0], &pair[1]).into_iter().zip(flags(selected)) {
                assert!(!selected || moved, "a coordinate was selected and did not move");
                moved_while_dropped += usize::from(!selected && moved);
            }
        }
        let ever_moved = moved(&networks[0], &networks[50]);
        assert_eq!(ever_moved, flags(&trained), "{optimizer} {state:?}");
        let remembers = optimizer != OPTIMIZERS[0] && state == DroppedStatePolicy::Zeros;
        assert_eq!(moved_while_dropped > 0, remembers, "{optimizer} {state:?}");
    }
}

#[test]
fn burns_own_optimizer_moves_dropped_coordinates() {
    // Why there is an optimizer of our own: the wrong version is told from the right one.
    let mut burns = burns(Optimizer::default()).unwrap();
    let run = follow(Optimizer::default(), DroppedStatePolicy::Lazy, |_, g| g);
    let (mut network, mut wrong) = (run.networks[0].clone(), 0);
    for (number, selected) in run.selections.iter().take(5).enumerate() {
        let g = gradient(&network, number as u32, Some(selected));
        let next = engine::optimizer_step(&mut burns, 0.05, &network, &g);
        let pairs = moved(&network, &next).into_iter().zip(flags(selected));
        wrong += pairs.filter(|(moved, selected)| *moved && !selected).count();
        network = next;
    }
    assert!(wrong > 0);
}

#[test]
fn adam_corrects_by_each_coordinates_own_updates() {
    // The first update of a coordinate is one learning rate long, however late it comes.
    let network = model().network().clone();
    let weights = |first: f32, others: f32| {
        let mut flags = Gradients::zeros_like(&network);
        flags.entries.iter_mut().for_each(|entry| entry.values.fill(others));
        flags.entries[0].values[0] = first;
        CoordinateWeights::new(&network, flags).unwrap()
    };
    let (late, others) = (weights(1.0, 0.0), weights(0.0, 1.0));
    let first_update = |state: DroppedStatePolicy, transform: fn(&Gradients) -> Gradients| {
        let (mut update, mut network) = (Optimizer::adam().init(), network.clone());
        for number in 0..10 {
            let g = transform(&gradient(&network, number, Some(&others)));
            let update_mask = state.update_mask(None, Some(&others));
            network = step(&mut update, &network, &g, update_mask, Some(&others));
        }
        let g = transform(&gradient(&network, 10, Some(&late)));
        let next =
            step(&mut update, &network, &g, state.update_mask(None, Some(&late)), Some(&late));
        (numbers(&next)[0] - numbers(&network)[0]).abs()
    };
    for transform in [Gradients::clone, away] {
        let lazy = first_update(DroppedStatePolicy::Lazy, transform);
        assert!((lazy - 0.05).abs() < 1e-5, "{lazy}");
        let zeros = first_update(DroppedStatePolicy::Zeros, transform);
        assert!((zeros - 0.05).abs() > 1e-3, "a common count of steps must be told: {zeros}");
    }
}

#[test]
fn on_a_device_selected_coordinates_go_where_they_go_on_the_host() {
    for (optimizer, state) in all_cases() {
        let here = follow(optimizer, state, |_, g| g).networks;
        // An empty batch may leave zeros on the host: the optimizer state stays on the device.
        let on_device = follow(optimizer, state, |number, g| match number {
            20 | 21 => g,
            _ => away(&g),
        });
        for (number, (a, b)) in here.iter().zip(&on_device.networks).enumerate() {
            let far = apart(a, b);
            assert!(far < 1e-6, "{optimizer} {state:?}: {far} in step {number}");
        }
        assert!(apart(&here[50], &here[49]) > 1e-3, "a step less must be noticed");
        if state == DroppedStatePolicy::Lazy {
            for (pair, selected) in on_device.networks.windows(2).zip(&on_device.selections) {
                assert_eq!(moved(&pair[0], &pair[1]), flags(selected), "{optimizer}");
            }
        }
    }
}

#[test]
fn untouched_coordinates_keep_their_bits_whatever_the_gradient() {
    // No release has a gradient there, but the mask must hold whatever comes.
    let model = model();
    let network = model.network().with_values(|path| {
        let n = model.network().parameters().into_iter().find(|p| p.path == path)?.len();
        Some([-0.0, 1e-40, 0.3].into_iter().cycle().take(n).collect())
    });
    let mask = RandomMask::keep(0.5).seed(2).mask(&model).unwrap();
    let trained = mask.to_weights(&network).unwrap();
    for optimizer in OPTIMIZERS {
        for transform in [Gradients::clone, away] {
            let (mut update, mut next) = (optimizer.init(), network.clone());
            for (number, wrong) in [f32::NAN, 3.0, f32::INFINITY].into_iter().enumerate() {
                let mut g = gradient(&network, number as u32, None);
                for (entry, weights) in g.entries.iter_mut().zip(trained.entries()) {
                    let pairs = entry.values.iter_mut().zip(&weights.values);
                    pairs.filter(|(_, w)| **w == 0.0).for_each(|(value, _)| *value = wrong);
                }
                next = step(&mut update, &next, &transform(&g), Some(&trained), Some(&trained));
            }
            assert!(numbers(&next).iter().all(|value| value.is_finite()));
            assert_eq!(moved(&network, &next), flags(&trained), "{optimizer}");
        }
    }
}

#[test]
fn gradients_on_a_device_are_not_copied_to_the_host() {
    for optimizer in OPTIMIZERS {
        let start = model().network().clone();
        let (mut ours, mut burns) = (optimizer.init(), burns(optimizer));
        let mut network = start.clone();
        for number in 0..3 {
            let g = away(&gradient(&start, number, None));
            network = step(&mut ours, &network, &g, None, None);
            if let Some(burns) = &mut burns {
                engine::optimizer_step(burns, 0.05, &start, &g);
            }
            let unseen = |e: &Gradient| format!("{:?}", e.values).ends_with("on a device");
            assert!(g.entries.iter().all(unseen));
        }
        assert!(apart(&network, &start) > 0.01);
    }
}

#[test]
fn the_result_does_not_depend_on_the_number_of_threads() {
    // More coordinates than one job and the limit for other threads.
    let data = data::from_vecs(vec![0.5; 1200], &[300], vec![0, 1, 0, 1], 2).unwrap();
    let network = models::mlp(&data, &[301]).seed(3).build().unwrap().network().clone();
    let g = gradient(&network, 0, None);
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let mut state = Optimizer::adamw().init();
        let first = pool.install(|| step(&mut state, &network, &g, None, None));
        numbers(&pool.install(|| step(&mut state, &first, &g, None, None)))
    };
    let one = run(1);
    assert_eq!(one, run(3));
    // Every coordinate is updated by its own gradient, also at the borders of blocks and jobs.
    let far = |step: f32| {
        let gradients = g.entries.iter().flat_map(|entry| entry.values.iter());
        let pairs = numbers(&network).into_iter().zip(&one).zip(gradients);
        pairs.map(|((old, new), g)| (old - new - step * g.signum()).abs()).fold(0.0, f32::max)
    };
    assert!(far(0.1) < 1e-3, "{}", far(0.1));
}
