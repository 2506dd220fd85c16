//! Checks of the tap executor on a device. Several test programs load this folder, so it loads what
//! it shares with other folders itself.

pub mod bad;
#[path = "../../per_example/compare.rs"]
mod compare;
pub mod edges;
#[path = "../../../support/files.rs"]
mod files;
#[path = "../../../reference/golden_networks.rs"]
mod golden_networks;
pub mod goldens;
#[path = "../../per_example/modules.rs"]
mod modules;
pub mod networks;
pub mod precision;
#[path = "../../per_example/networks.rs"]
mod random;
pub mod reads;

use epsilab::burn::module::Module;
use epsilab::burn::prelude::*;
use epsilab::device::DeviceArray;
use epsilab::engine::{
    Batch, ClipRule, ClippedSum, CoordinateWeights, Executor, ReferenceExecutor, TapExecutor,
};
use epsilab::nn::Network;

use compare::{distance, median, relative_difference};

/// An executor that computes a batch at once, and one that uses chunks.
fn executors() -> [(&'static str, TapExecutor); 2] {
    let device_path = || TapExecutor::default().with_device_path();
    [("at once", device_path()), ("in chunks", device_path().with_chunk_size(3))]
}

/// The accepted relative difference from the CPU. GPUs may round the factors of matrix products,
/// and bound some norms from above for that.
fn tolerance(device: &Device) -> f64 {
    if *device == Device::flex() { 1e-5 } else { 5e-3 }
}

/// The network on the device.
fn to_device(network: &Network, device: &Device) -> Network {
    network.clone().to_device(device)
}

/// The weights with their values on the device.
fn weights_on(
    network: &Network,
    weights: &CoordinateWeights,
    device: &Device,
) -> CoordinateWeights {
    let mut moved = epsilab::engine::Gradients { entries: weights.entries().to_vec() };
    for entry in &mut moved.entries {
        entry.values = DeviceArray::from_tensor(Tensor::from_data(&entry.values[..], device));
    }
    CoordinateWeights::new(network, moved).unwrap()
}

/// The clipped sums of the executor on the device and of the reference executor on the CPU, clipped
/// to the median norm.
fn with_reference(
    executor: &TapExecutor,
    network: &Network,
    device: &Device,
    batch: &Batch,
    weights: Option<&CoordinateWeights>,
) -> (ClippedSum, ClippedSum) {
    let unclipped = ClipRule::unclipped();
    let norms = ReferenceExecutor.weighted_sum(network, batch, &unclipped, weights).unwrap().norms;
    let rule = ClipRule::flat(median(&norms).max(1e-12));
    let got = executor.weighted_sum(&to_device(network, device), batch, &rule, weights).unwrap();
    (got, ReferenceExecutor.weighted_sum(network, batch, &rule, weights).unwrap())
}

/// The sums of the executor and of the reference with a bound of this number: flat clipping,
/// automatic clipping, normalisation or per-layer clipping, at the median norm.
fn with_reference_and_bound(
    executor: &TapExecutor,
    network: &Network,
    device: &Device,
    (batch, weights): (&Batch, Option<&CoordinateWeights>),
    number: u64,
) -> (ClippedSum, ClippedSum) {
    let sum = |rule: &ClipRule| ReferenceExecutor.weighted_sum(network, batch, rule, weights);
    let typical = median(&sum(&ClipRule::unclipped()).unwrap().norms).max(1e-12);
    let rule = match number % 4 {
        0 => ClipRule::flat(typical),
        1 => ClipRule::auto_s(0.5),
        2 => ClipRule::Normalised { max_grad_norm: 1.0, gamma: typical },
        _ => ClipRule::per_layer(typical),
    };
    let got = executor.weighted_sum(&to_device(network, device), batch, &rule, weights).unwrap();
    let want = sum(&rule).unwrap();
    assert_eq!(got.group_norms.len(), want.group_norms.len(), "{rule:?}");
    for (got, want) in got.group_norms.iter().zip(&want.group_norms) {
        // The gradient of a layer may be rounding error only.
        assert!(distance(got, want, 1e-2 * typical) < 100.0 * tolerance(device), "{rule:?}");
    }
    (got, want)
}

/// Compares norms, losses, the whole sum and the sum of each parameter.
#[track_caller]
fn assert_close(got: &ClippedSum, want: &ClippedSum, tolerance: f64, about: &str) {
    assert_eq!(got.excluded_count(), 0, "{about}");
    let norms = distance(&got.norms, &want.norms, 0.0);
    assert!(norms < tolerance, "norms are off by {norms:.1e}: {about}");
    assert!(distance(&got.losses, &want.losses, 0.0) < tolerance, "losses: {about}");
    assert_sums(got, want, tolerance, about);
}

#[track_caller]
fn assert_sums(got: &ClippedSum, want: &ClippedSum, tolerance: f64, about: &str) {
    let sums = relative_difference(&got.sum, &want.sum);
    assert!(sums < tolerance, "sums are off by {sums:.1e}: {about}");
    // The gradient of a bias before a normalisation is only rounding error.
    let floor = 0.3 * want.sum.l2_norm();
    for (got, want) in got.sum.entries.iter().zip(&want.sum.entries) {
        assert_eq!((&got.path, &got.shape), (&want.path, &want.shape), "{about}");
        let off = distance(&got.values, &want.values, floor);
        assert!(off < tolerance, "{} is off by {off:.1e}: {about}", got.path);
    }
}

/// Asserts that coordinates of weight 0 are exactly zero.
#[track_caller]
fn assert_selected(got: &ClippedSum, weights: &CoordinateWeights, about: &str) {
    for (entry, weights) in got.sum.entries.iter().zip(weights.entries()) {
        let dropped = entry.values.iter().zip(&weights.values).filter(|(_, w)| **w == 0.0);
        assert!(dropped.clone().all(|(v, _)| v.to_bits() == 0), "{}: {about}", entry.path);
    }
}
