use std::sync::Arc;

use super::*;
use crate::data;
use crate::device::DeviceArray;
use crate::engine::Gradient;
use crate::mask::{Dropping, RandomMask, Selector};
use crate::nn::{Model, models};

const OPTIMIZERS: [Optimizer; 3] =
    [Optimizer::Sgd { momentum: 0.0 }, Optimizer::Sgd { momentum: 0.9 }, Optimizer::Adam];

fn model() -> Model {
    let data = data::from_vecs(vec![0.5; 60], &[6], (0..10).map(|i| i % 2).collect(), 2).unwrap();
    models::mlp(&data, &[7, 5]).seed(3).build().unwrap()
}

/// Gradients that differ from step to step, zero where nothing is selected.
fn gradient(network: &Network, step: u32, selected: Option<&Weights>) -> Gradients {
    let mut gradient = Gradients::zeros_like(network);
    for (t, entry) in gradient.entries.iter_mut().enumerate() {
        for (i, value) in entry.values.iter_mut().enumerate() {
            *value = ((i as f32 + 1.0) * (t as f32 + 2.0) * (step as f32 + 0.5)).sin();
        }
    }
    if let Some(selected) = selected {
        selected.select(&mut gradient);
    }
    gradient
}

fn numbers(network: &Network) -> Vec<f32> {
    network.values().into_iter().flat_map(|(_, values)| values).collect()
}

fn flags(weights: &Weights) -> Vec<bool> {
    weights.entries().iter().flat_map(|e| e.values.iter().map(|&w| w != 0.0)).collect()
}

#[test]
fn with_every_coordinate_selected_it_is_burns_optimizer() {
    for optimizer in OPTIMIZERS {
        let start = model().network().clone();
        let (mut burn, mut ours) = (start.clone(), start.clone());
        let mut dense = Update::Dense(optimizer.init());
        for state in [StateOfDropped::Lazy, StateOfDropped::Zeros] {
            let mut update = Update::Selected(Selected::new(optimizer, state));
            for step in 0..20 {
                let g = gradient(&start, step, None);
                if state == StateOfDropped::Lazy {
                    burn = dense.step(0.05, &burn, &g, None, None);
                }
                ours = update.step(0.05, &ours, &g, None, None);
            }
            let (a, b) = (numbers(&burn), numbers(&ours));
            let far = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(far < 1e-5, "{optimizer}, {state:?}: {far}");
            assert!(a.iter().zip(numbers(&start)).any(|(a, s)| (a - s).abs() > 0.01));
            ours = start.clone();
        }
    }
}

#[test]
fn coordinates_that_are_not_touched_keep_their_bits_with_every_optimizer() {
    for optimizer in OPTIMIZERS {
        for state in [StateOfDropped::Lazy, StateOfDropped::Zeros] {
            let model = model();
            let mask = RandomMask::keep(0.6).seed(1).mask(&model).unwrap();
            let trained = mask.weights(model.network()).unwrap();
            let mut selector = Selector::new(Some(&mask), Some(Dropping::random(0.5)), 30, [1; 32]);
            let mut update = Update::Selected(Selected::new(optimizer, state));
            let mut network = model.network().clone();
            let start = numbers(&network);
            let mut moved_while_dropped = 0;
            for step in 0..30 {
                let selected = selector.next(&network).unwrap().unwrap();
                let g = gradient(&network, step, Some(&selected));
                let next = update.step(0.05, &network, &g, Some(&trained), Some(&selected));
                let (before, after) = (numbers(&network), numbers(&next));
                for (i, selected) in flags(&selected).into_iter().enumerate() {
                    let moved = before[i].to_bits() != after[i].to_bits();
                    assert!(!selected || moved, "{i} was selected and did not move");
                    moved_while_dropped += usize::from(!selected && moved);
                }
                network = next;
            }
            for (i, trained) in flags(&trained).into_iter().enumerate() {
                let frozen = start[i].to_bits() == numbers(&network)[i].to_bits();
                assert_eq!(frozen, !trained, "{optimizer} {state:?} {i}");
            }
            let remembers = optimizer != OPTIMIZERS[0] && state == StateOfDropped::Zeros;
            assert_eq!(moved_while_dropped > 0, remembers, "{optimizer} {state:?}");
        }
    }
}

#[test]
fn a_gradient_at_a_frozen_coordinate_does_not_move_it() {
    // No release has one there, but the mask must hold whatever comes.
    let model = model();
    let mask = RandomMask::keep(0.6).seed(1).mask(&model).unwrap();
    let trained = mask.weights(model.network()).unwrap();
    let g = gradient(model.network(), 0, None);
    let before = numbers(model.network());
    for optimizer in OPTIMIZERS {
        for state in [StateOfDropped::Lazy, StateOfDropped::Zeros] {
            let mut update = Update::Selected(Selected::new(optimizer, state));
            let next = update.step(0.05, model.network(), &g, Some(&trained), Some(&trained));
            let after = numbers(&next);
            for (i, trained) in flags(&trained).into_iter().enumerate() {
                let moved = before[i].to_bits() != after[i].to_bits();
                assert_eq!(moved, trained, "{optimizer} {state:?} {i}");
            }
        }
    }
}

#[test]
fn burns_own_optimizer_moves_dropped_coordinates() {
    // Why there is an optimizer of our own: the wrong version is told from the right one.
    let model = model();
    let mask = RandomMask::keep(0.9).seed(1).mask(&model).unwrap();
    let mut selector = Selector::new(Some(&mask), Some(Dropping::random(0.5)), 30, [1; 32]);
    let mut dense = Update::Dense(Optimizer::Sgd { momentum: 0.9 }.init());
    let mut network = model.network().clone();
    let mut moved = 0;
    for step in 0..5 {
        let selected = selector.next(&network).unwrap().unwrap();
        let g = gradient(&network, step, Some(&selected));
        let next = dense.step(0.05, &network, &g, None, None);
        let (before, after) = (numbers(&network), numbers(&next));
        let dropped = flags(&selected).into_iter().enumerate().filter(|(_, selected)| !selected);
        moved += dropped.filter(|(i, _)| before[*i].to_bits() != after[*i].to_bits()).count();
        network = next;
    }
    assert!(moved > 0);
}

#[test]
fn adam_corrects_by_each_coordinates_own_updates() {
    // The first update of a coordinate is one learning rate long, however late it comes.
    let model = model();
    let network = model.network().clone();
    let mut late = Gradients::zeros_like(&network);
    late.entries[0].values[0] = 1.0;
    let late = Weights::new(&network, late).unwrap();
    let mut others = Gradients::zeros_like(&network);
    others.entries.iter_mut().for_each(|entry| entry.values.fill(1.0));
    others.entries[0].values[0] = 0.0;
    let others = Weights::new(&network, others).unwrap();
    let first_update = |state| {
        let mut update = Update::Selected(Selected::new(Optimizer::Adam, state));
        let mut network = network.clone();
        for step in 0..10 {
            let g = gradient(&network, step, Some(&others));
            network = update.step(0.01, &network, &g, None, Some(&others));
        }
        let g = gradient(&network, 10, Some(&late));
        let next = update.step(0.01, &network, &g, None, Some(&late));
        (numbers(&next)[0] - numbers(&network)[0]).abs()
    };
    let lazy = first_update(StateOfDropped::Lazy);
    assert!((lazy - 0.01).abs() < 1e-5, "{lazy}");
    let zeros = first_update(StateOfDropped::Zeros);
    assert!((zeros - 0.01).abs() > 1e-4, "a common count of steps must be told: {zeros}");
}

fn away(gradient: &Gradients) -> Gradients {
    let mut away = gradient.clone();
    for entry in &mut away.entries {
        entry.values = DeviceArray::from_tensor(entry.values.tensor(&Device::flex()));
    }
    away
}

/// A mask, a selection for every step, and the steps of an optimizer with them.
fn follow(
    optimizer: Optimizer,
    state: StateOfDropped,
    mut place: impl FnMut(u32, &Gradients) -> Gradients,
) -> (Vec<Network>, Vec<Arc<Weights>>) {
    let model = model();
    let mask = RandomMask::keep(0.6).seed(1).mask(&model).unwrap();
    let trained = mask.weights(model.network()).unwrap();
    let mut selector = Selector::new(Some(&mask), Some(Dropping::random(0.5)), 50, [1; 32]);
    let mut update = Update::Selected(Selected::new(optimizer, state));
    let (mut networks, mut selections) = (vec![model.network().clone()], Vec::new());
    for step in 0..50 {
        let network = &networks[step as usize];
        let selected = selector.next(network).unwrap().unwrap();
        let g = place(step, &gradient(network, step, Some(&selected)));
        networks.push(update.step(0.05, network, &g, Some(&trained), Some(&selected)));
        selections.push(selected);
    }
    (networks, selections)
}

/// The largest difference, relative to the numbers where they are larger than one.
fn apart(a: &Network, b: &Network) -> f32 {
    let pairs = numbers(a).into_iter().zip(numbers(b));
    pairs.map(|(a, b)| (a - b).abs() / a.abs().max(1.0)).fold(0.0, f32::max)
}

#[test]
fn on_a_card_selected_coordinates_go_where_they_go_on_the_host() {
    for (optimizer, state) in OPTIMIZERS.into_iter().flat_map(|optimizer| {
        [(optimizer, StateOfDropped::Lazy), (optimizer, StateOfDropped::Zeros)]
    }) {
        let (here, _) = follow(optimizer, state, |_, g| g.clone());
        // An empty batch may leave zeros on the host: the optimizer state stays on the device.
        let (there, selections) = follow(optimizer, state, |step, g| match step {
            20 | 21 => g.clone(),
            _ => away(g),
        });
        for (step, (a, b)) in here.iter().zip(&there).enumerate() {
            let far = apart(a, b);
            assert!(far < 1e-6, "{optimizer} {state:?}: {far} in step {step}");
        }
        assert!(apart(&here[50], &here[49]) > 1e-3, "a step less must be noticed");
        for (step, selected) in
            selections.iter().enumerate().filter(|_| state == StateOfDropped::Lazy)
        {
            let (before, after) = (numbers(&there[step]), numbers(&there[step + 1]));
            for (i, selected) in flags(selected).into_iter().enumerate() {
                let moved = before[i].to_bits() != after[i].to_bits();
                assert_eq!(moved, selected, "{i} in step {step}");
            }
        }
    }
}

#[test]
fn on_a_card_untouched_coordinates_keep_their_bits_whatever_the_gradient_says() {
    let model = model();
    let network = model.network().with_values(|path| {
        let n = model.network().parameters().into_iter().find(|p| p.path == path)?.len();
        Some([-0.0, 1e-40, 0.3].into_iter().cycle().take(n).collect())
    });
    let mask = RandomMask::keep(0.5).seed(2).mask(&model).unwrap();
    let trained = mask.weights(&network).unwrap();
    for optimizer in OPTIMIZERS {
        let mut update = Update::Selected(Selected::new(optimizer, StateOfDropped::Zeros));
        let mut next = network.clone();
        for step in 0..3 {
            let mut g = gradient(&network, step, None);
            for (entry, weights) in g.entries.iter_mut().zip(trained.entries()) {
                let frozen =
                    entry.values.iter_mut().zip(&weights.values).filter(|(_, w)| **w == 0.0);
                frozen.for_each(|(v, _)| *v = [f32::NAN, 3.0, f32::INFINITY][step as usize]);
            }
            next = update.step(0.05, &next, &away(&g), Some(&trained), None);
        }
        let (before, after) = (numbers(&network), numbers(&next));
        for (i, trained) in flags(&trained).into_iter().enumerate() {
            assert!(after[i].is_finite());
            assert_eq!(before[i].to_bits() != after[i].to_bits(), trained, "{optimizer} {i}");
        }
    }
}

#[test]
fn burns_optimizers_take_gradients_from_a_card_without_a_look() {
    for optimizer in OPTIMIZERS {
        let start = model().network().clone();
        let (mut here, mut there) =
            (Update::Dense(optimizer.init()), Update::Dense(optimizer.init()));
        let (mut a, mut b) = (start.clone(), start.clone());
        for step in 0..3 {
            let g = gradient(&start, step, None);
            let moved = away(&g);
            a = here.step(0.05, &a, &g, None, None);
            b = there.step(0.05, &b, &moved, None, None);
            let unseen = |e: &Gradient| format!("{:?}", e.values).ends_with("on a device");
            assert!(moved.entries.iter().all(unseen));
        }
        assert_eq!(numbers(&a), numbers(&b));
        assert_ne!(numbers(&a), numbers(&start));
    }
}
