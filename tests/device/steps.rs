//! Noise, selections and the mechanism on numbers that live on a device.

use epsilab::burn::module::Module;
use epsilab::burn::prelude::Device;
use epsilab::device::DeviceArray;
use epsilab::engine::{ClipRule, GaussianNoise, Gradients, Weights};
use epsilab::mask::Selector;
use epsilab::methods::Privacy;
use epsilab::methods::dp_sgd::GaussianSum;
use epsilab::nn::{LayerSpec, LinearSpec, Network};
use epsilab::prelude::*;
use epsilab::privacy::Delta;

const SEED: [u8; 32] = [9; 32];

/// 6,150, 15, 30 and 2 parameters: pieces that end within and at the end of a tensor.
fn network() -> Network {
    let linear = |inputs, outputs| LayerSpec::Linear(LinearSpec::new(inputs, outputs));
    let specs = [linear(410, 15), LayerSpec::Tanh, linear(15, 2)];
    let number = |i: usize| ((i * 37 % 1009) as f32 - 504.0) / 504.0;
    Network::build(&[410], &specs, |_, shape, _| (0..shape.iter().product()).map(number).collect())
        .unwrap()
}

/// A sum on the host, and the same on a device.
fn sums(device: &Device) -> [Gradients; 2] {
    let mut host = Gradients::zeros_like(&network());
    for entry in &mut host.entries {
        entry.values.iter_mut().enumerate().for_each(|(i, v)| *v = (i as f32).sin());
    }
    let mut away = host.clone();
    for entry in &mut away.entries {
        entry.values = DeviceArray::from_tensor(entry.values.tensor(device));
    }
    [host, away]
}

/// Every third coordinate, and nothing at all of the second tensor.
fn thirds() -> Weights {
    let network = network();
    let mut flags = Gradients::zeros_like(&network);
    for (_, entry) in flags.entries.iter_mut().enumerate().filter(|(index, _)| *index != 1) {
        entry.values.iter_mut().step_by(3).for_each(|flag| *flag = 1.0);
    }
    Weights::new(&network, flags).unwrap()
}

/// Zeros where the weights are.
fn left(mut sum: Gradients, weights: &Weights) -> Gradients {
    for (entry, weights) in sum.entries.iter_mut().zip(weights.entries()) {
        let flags = weights.values.iter();
        entry.values.iter_mut().zip(flags).filter(|(_, w)| **w == 0.0).for_each(|(v, _)| *v = 0.0);
    }
    sum
}

/// Nobody has looked at any of the numbers.
fn unseen(gradients: &Gradients) -> bool {
    gradients.entries.iter().all(|e| format!("{:?}", e.values).ends_with("on a device"))
}

/// The largest difference.
fn apart(a: &Gradients, b: &Gradients) -> f32 {
    let pairs = a.entries.iter().zip(&b.entries).flat_map(|(a, b)| a.values.iter().zip(&b.values));
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// How far noise of standard deviation 1 may be from the host's: not at all on the CPU.
fn tolerance(device: &Device) -> f32 {
    if *device == Device::flex() { 0.0 } else { 1e-4 }
}

pub fn noise_is_that_of_the_host(device: &Device) {
    for secure in [false, true] {
        let noise = GaussianNoise::new(SEED).at_step(3);
        let noise = if secure { noise.secure() } else { noise };
        let [mut host, mut away] = sums(device);
        let (mut here, mut there) = (noise.clone(), noise);
        for step in [4, 5] {
            here.add_to(&mut host, 1.0).unwrap();
            there.add_to(&mut away, 1.0).unwrap();
            assert_eq!(there.step(), step);
        }
        assert!(unseen(&away), "somebody looked at the sum");
        // The secure noise is rounded once more: to f32, before it is added.
        let more = if secure { 2e-6 } else { 0.0 };
        let far = apart(&host, &away);
        assert!(far <= 2.0 * tolerance(device) + more, "{far}, secure {secure}");
        // Noise of the step before, and of the pieces of a tensor's neighbour, would be seen.
        let [mut others, _] = sums(device);
        GaussianNoise::new(SEED).at_step(4).add_to(&mut others, 1.0).unwrap();
        assert!(apart(&others, &away) > 1.0);
        let [mut shifted, _] = sums(device);
        shifted.entries.remove(0);
        let last = Gradients { entries: away.entries[1..].to_vec() };
        for step in [3, 4] {
            let noise = GaussianNoise::new(SEED).at_step(step);
            if secure { noise.secure() } else { noise }.add_to(&mut shifted, 1.0).unwrap();
        }
        assert!(apart(&shifted, &last) > 1.0, "noise that doesn't count the tensor before");
    }
}

pub fn selected_noise_is_that_of_the_host_and_the_others_are_zero(device: &Device) {
    let weights = thirds();
    for secure in [false, true] {
        let noise = GaussianNoise::new(SEED);
        let noise = if secure { noise.secure() } else { noise };
        let [host, mut away] = sums(device);
        let mut host = left(host, &weights);
        // What the executor ought to have left out: no number of it may be released.
        for (index, i, wrong) in [(0, 1, f32::NAN), (1, 0, 7.0), (3, 1, f32::INFINITY)] {
            let mut values = away.entries[index].values.to_vec();
            values[i] = wrong;
            away.entries[index].values =
                DeviceArray::from_tensor(DeviceArray::from(values).tensor(device));
        }
        noise.clone().add_to_selected(&mut host, 0.5, &weights).unwrap();
        let mut there = noise;
        there.add_to_selected(&mut away, 0.5, &weights).unwrap();
        assert_eq!(there.step(), 1);
        assert!(unseen(&away), "somebody looked at the sum");
        let more = if secure { 1e-6 } else { 0.0 };
        let far = apart(&host, &away);
        assert!(far <= 0.5 * tolerance(device) + more, "{far}, secure {secure}");
        assert_eq!(left(away.clone(), &weights), away, "a number without noise");
        assert!(away.entries[1].values.iter().all(|&v| v == 0.0));
        assert!(away.entries[0].values.iter().step_by(3).all(|&v| v.is_finite() && v != 0.0));
    }
}

pub fn wrong_noise_is_refused_without_a_look(device: &Device) {
    let [host, away] = sums(device);
    let mut noise = GaussianNoise::new(SEED);
    let mut refused = |weights: &Weights, std: f64, words: &str| {
        let mut tried = away.clone();
        let error = noise.add_to_selected(&mut tried, std, weights).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert!(unseen(&tried) && noise.step() == 0 && apart(&tried, &host) == 0.0);
    };
    let network = network();
    let mut quarters = Gradients::zeros_like(&network);
    quarters.entries[2].values.fill(0.25);
    refused(&Weights::new(&network, quarters).unwrap(), 1.0, "weight = 0.25");
    refused(&thirds(), -1.0, "std");
}

pub fn a_step_is_noised_and_divided_as_on_the_host(device: &Device) {
    let privacy = Privacy {
        clip: ClipRule::flat(0.5),
        noise_multiplier: 2.0,
        delta: Delta(1e-5),
        target: None,
    };
    let weights = thirds();
    for selected in [None, Some(&weights)] {
        let [mut here, mut there] = [(); 2].map(|()| GaussianSum::new(&privacy, 16, SEED));
        let [host, away] = sums(device);
        let host = selected.map_or(host.clone(), |weights| left(host, weights));
        for _ in 0..2 {
            let host = here.privatise(host.clone(), selected).unwrap();
            let away = there.privatise(away.clone(), selected).unwrap();
            assert!(unseen(&away), "somebody looked at the step");
            let far = apart(&host, &away);
            assert!(far <= tolerance(device) / 16.0 + 1e-7, "{far}");
            assert!(apart(&host, &Gradients::zeros_like(&network())) > 0.1);
        }
    }
}

pub fn the_choice_of_a_step_is_that_of_the_host(device: &Device) {
    let host = network();
    let away = host.clone().to_device(device);
    for dropping in [Dropping::magnitude(0.3), Dropping::magnitude(0.7).include_1d()] {
        let selected = |network: &Network| {
            Selector::new(None, Some(dropping), 1, SEED).next(network).unwrap().unwrap()
        };
        let (here, there) = (selected(&host), selected(&away));
        for ((_, values), (a, b)) in
            host.values().into_iter().zip(here.entries().iter().zip(there.entries()))
        {
            assert_eq!(a.values, b.values, "{dropping} of {}", a.path);
            let size = |kept: f32| {
                let some = values.iter().zip(&b.values).filter(move |(_, w)| **w == kept);
                some.map(|(v, _)| v.abs()).collect::<Vec<_>>()
            };
            let (kept, dropped) = (size(1.0), size(0.0));
            let smallest = kept.iter().copied().fold(f32::INFINITY, f32::min);
            assert!(dropped.iter().all(|&v| v <= smallest) && !kept.is_empty());
            assert_eq!(dropped.is_empty(), a.shape.len() < 2 && !dropping.include_1d);
        }
    }
}
