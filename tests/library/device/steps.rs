//! Noise, selection and the mechanism on gradients on a device.

use epsilab::burn::module::Module;
use epsilab::burn::prelude::Device;
use epsilab::device::DeviceArray;
use epsilab::engine::{ClipRule, CoordinateWeights, GaussianNoise, Gradients};
use epsilab::mask::CoordinateSelector;
use epsilab::methods::dp_sgd::GaussianMechanism;
use epsilab::nn::{LayerSpec, LinearSpec, Network};
use epsilab::prelude::*;
use epsilab::privacy::Stages;

const SEED: [u8; 32] = [9; 32];

/// A network with tensors of 6,150, 15, 30 and 2 parameters: several noise chunks and partial ones.
fn network() -> Network {
    let linear = |inputs, outputs| LayerSpec::Linear(LinearSpec::new(inputs, outputs));
    let specs = [linear(410, 15), LayerSpec::Tanh, linear(15, 2)];
    let value = |i: usize| ((i * 37 % 1009) as f32 - 504.0) / 504.0;
    Network::build(&[410], &specs, |_, shape, _| (0..shape.iter().product()).map(value).collect())
        .unwrap()
}

/// The same gradient sum on the host and on a device.
fn sums(device: &Device) -> [Gradients; 2] {
    let mut host = Gradients::zeros_like(&network());
    for entry in &mut host.entries {
        entry.values.iter_mut().enumerate().for_each(|(i, v)| *v = (i as f32).sin());
    }
    let mut device_sum = host.clone();
    for entry in &mut device_sum.entries {
        entry.values = DeviceArray::from_tensor(entry.values.to_tensor(device));
    }
    [host, device_sum]
}

/// Weights that select every third coordinate, but none of the second tensor.
fn every_third() -> CoordinateWeights {
    let network = network();
    let mut flags = Gradients::zeros_like(&network);
    for (_, entry) in flags.entries.iter_mut().enumerate().filter(|(index, _)| *index != 1) {
        entry.values.iter_mut().step_by(3).for_each(|flag| *flag = 1.0);
    }
    CoordinateWeights::new(&network, flags).unwrap()
}

/// The sum with zeros where the weights are zero.
fn masked(mut sum: Gradients, weights: &CoordinateWeights) -> Gradients {
    for (entry, weights) in sum.entries.iter_mut().zip(weights.entries()) {
        let flags = weights.values.iter();
        entry.values.iter_mut().zip(flags).filter(|(_, w)| **w == 0.0).for_each(|(v, _)| *v = 0.0);
    }
    sum
}

/// Whether no entry has been copied to the host.
fn is_only_on_device(gradients: &Gradients) -> bool {
    gradients.entries.iter().all(|e| format!("{:?}", e.values).ends_with("on a device"))
}

/// The largest absolute difference.
fn max_difference(a: &Gradients, b: &Gradients) -> f32 {
    let pairs = a.entries.iter().zip(&b.entries).flat_map(|(a, b)| a.values.iter().zip(&b.values));
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// The accepted difference of noise with standard deviation 1 from that of the host.
fn tolerance(device: &Device) -> f32 {
    if *device == Device::flex() { 0.0 } else { 1e-4 }
}

pub fn noise_equals_that_of_the_host(device: &Device) {
    for secure in [false, true] {
        let noise = GaussianNoise::new(SEED).at_step(3);
        let noise = if secure { noise.secure() } else { noise };
        let [mut host, mut device_sum] = sums(device);
        let (mut on_host, mut on_device) = (noise.clone(), noise);
        for step in [4, 5] {
            on_host.add_to(&mut host, 1.0).unwrap();
            on_device.add_to(&mut device_sum, 1.0).unwrap();
            assert_eq!(on_device.step(), step);
        }
        assert!(is_only_on_device(&device_sum), "the sum was copied to the host");
        // Secure noise is rounded to f32 once more, before it is added.
        let more = if secure { 2e-6 } else { 0.0 };
        let far = max_difference(&host, &device_sum);
        assert!(far <= 2.0 * tolerance(device) + more, "{far}, secure {secure}");
        // Noise of another step, or of the chunks of another tensor, is detected.
        let [mut others, _] = sums(device);
        GaussianNoise::new(SEED).at_step(4).add_to(&mut others, 1.0).unwrap();
        assert!(max_difference(&others, &device_sum) > 1.0);
        let [mut shifted, _] = sums(device);
        shifted.entries.remove(0);
        let last = Gradients { entries: device_sum.entries[1..].to_vec() };
        for step in [3, 4] {
            let noise = GaussianNoise::new(SEED).at_step(step);
            if secure { noise.secure() } else { noise }.add_to(&mut shifted, 1.0).unwrap();
        }
        assert!(
            max_difference(&shifted, &last) > 1.0,
            "noise that ignores the position of the tensor"
        );
    }
}

pub fn selected_noise_equals_that_of_the_host_and_the_rest_is_zero(device: &Device) {
    let weights = every_third();
    for secure in [false, true] {
        let noise = GaussianNoise::new(SEED);
        let noise = if secure { noise.secure() } else { noise };
        let [host, mut device_sum] = sums(device);
        let mut host = masked(host, &weights);
        // Unselected values, which the executor should have zeroed, must not be released.
        for (index, i, wrong) in [(0, 1, f32::NAN), (1, 0, 7.0), (3, 1, f32::INFINITY)] {
            let mut values = device_sum.entries[index].values.to_vec();
            values[i] = wrong;
            device_sum.entries[index].values =
                DeviceArray::from_tensor(DeviceArray::from(values).to_tensor(device));
        }
        noise.clone().add_to_selected(&mut host, 0.5, &weights).unwrap();
        let mut on_device = noise;
        on_device.add_to_selected(&mut device_sum, 0.5, &weights).unwrap();
        assert_eq!(on_device.step(), 1);
        assert!(is_only_on_device(&device_sum), "the sum was copied to the host");
        let more = if secure { 1e-6 } else { 0.0 };
        let far = max_difference(&host, &device_sum);
        assert!(far <= 0.5 * tolerance(device) + more, "{far}, secure {secure}");
        assert_eq!(
            masked(device_sum.clone(), &weights),
            device_sum,
            "an unselected value was released"
        );
        assert!(device_sum.entries[1].values.iter().all(|&v| v == 0.0));
        assert!(device_sum.entries[0].values.iter().step_by(3).all(|&v| v.is_finite() && v != 0.0));
    }
}

pub fn invalid_noise_is_refused_without_a_host_sync(device: &Device) {
    let [host, device_sum] = sums(device);
    let mut noise = GaussianNoise::new(SEED);
    let mut assert_refused = |weights: &CoordinateWeights, std: f64, text: &str| {
        let mut sum = device_sum.clone();
        let error = noise.add_to_selected(&mut sum, std, weights).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
        assert!(is_only_on_device(&sum) && noise.step() == 0 && max_difference(&sum, &host) == 0.0);
    };
    let network = network();
    let mut quarters = Gradients::zeros_like(&network);
    quarters.entries[2].values.fill(0.25);
    assert_refused(&CoordinateWeights::new(&network, quarters).unwrap(), 1.0, "weight = 0.25");
    assert_refused(&every_third(), -1.0, "std");
}

pub fn a_mechanism_step_equals_that_of_the_host(device: &Device) {
    let mechanism = || {
        let stages = Stages::constant(NoiseMultiplier(2.0), 100).unwrap();
        GaussianMechanism::new(ClipRule::flat(0.5), stages, 16, SEED)
    };
    let weights = every_third();
    for selected in [None, Some(&weights)] {
        let [mut on_host, mut on_device] = [(); 2].map(|()| mechanism());
        let [host, device_sum] = sums(device);
        let host = selected.map_or(host.clone(), |weights| masked(host, weights));
        for _ in 0..2 {
            let host = on_host.privatise(host.clone(), selected).unwrap();
            let device_sum = on_device.privatise(device_sum.clone(), selected).unwrap();
            assert!(is_only_on_device(&device_sum), "the step was copied to the host");
            let far = max_difference(&host, &device_sum);
            assert!(far <= tolerance(device) / 16.0 + 1e-7, "{far}");
            assert!(max_difference(&host, &Gradients::zeros_like(&network())) > 0.1);
        }
    }
}

pub fn magnitude_selection_equals_that_of_the_host(device: &Device) {
    let host = network();
    let device_network = host.clone().to_device(device);
    for dropping in [Dropping::magnitude(0.3), Dropping::magnitude(0.7).include_1d()] {
        let selected = |network: &Network| {
            CoordinateSelector::new(None, Some(dropping), 1, SEED)
                .next_selection(network)
                .unwrap()
                .unwrap()
        };
        let (on_host, on_device) = (selected(&host), selected(&device_network));
        for ((_, values), (a, b)) in
            host.values().into_iter().zip(on_host.entries().iter().zip(on_device.entries()))
        {
            assert_eq!(a.values, b.values, "{dropping} of {}", a.path);
            let magnitudes = |kept: f32| {
                let matching = values.iter().zip(&b.values).filter(move |(_, w)| **w == kept);
                matching.map(|(v, _)| v.abs()).collect::<Vec<_>>()
            };
            let (kept, dropped) = (magnitudes(1.0), magnitudes(0.0));
            let smallest = kept.iter().copied().fold(f32::INFINITY, f32::min);
            assert!(dropped.iter().all(|&v| v <= smallest) && !kept.is_empty());
            assert_eq!(dropped.is_empty(), a.shape.len() < 2 && !dropping.include_1d);
        }
    }
}
