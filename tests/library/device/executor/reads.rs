//! Host syncs of training steps.

use epsilab::burn::prelude::Device;
use epsilab::device::host_sync_count;
use epsilab::engine::{ClipRule, Executor, TapExecutor};

use super::modules::tied;
use super::random::{Draw, batch, weights};
use super::{to_device, weights_on};

/// From the second step on nothing is copied to the host.
///
/// Meaningful only on a device other than the CPU, and while nothing else in the process uses it.
pub fn later_steps_have_no_host_syncs(device: &Device) {
    assert!(*device != Device::flex(), "host syncs of the CPU are not counted");
    let mut draw = Draw::new(1);
    let (model, _) = tied();
    let network = to_device(model.network(), device);
    let mask = loop {
        if let Some(weights) = weights(&mut draw, model.network()) {
            break weights_on(&network, &weights, device);
        }
    };
    let executor = TapExecutor::default();
    let mut step = |examples| {
        let batch = batch(&mut draw, &[2, 4, 5], false, examples, 2);
        let rule = ClipRule::flat(0.1);
        let before = host_sync_count();
        let sums = [
            executor.weighted_sum(&network, &batch, &rule, Some(&mask)).unwrap(),
            executor.unclipped_sum(&network, &batch, None).unwrap(),
        ];
        let during = host_sync_count() - before;
        // Reading the results counts.
        assert!(sums.iter().all(|sum| sum.losses.len() == examples && !sum.losses[0].is_nan()));
        assert!(host_sync_count() - before > during, "the results were not on the device");
        during
    };
    assert!(step(32) > 0, "the first step checks the memory");
    assert_eq!([step(32), step(35), step(1)], [0; 3]);
}
