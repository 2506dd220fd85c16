//! Counting how often the host waits for a device.

use std::sync::atomic::{AtomicU64, Ordering};

static HOST_SYNCS: AtomicU64 = AtomicU64::new(0);

/// How many times, in this process, numbers were copied from a device other than the CPU to the
/// host. Each such copy waits until the device is done; a training step makes none.
pub fn host_syncs() -> u64 {
    HOST_SYNCS.load(Ordering::Relaxed)
}

pub(super) fn count() {
    HOST_SYNCS.fetch_add(1, Ordering::Relaxed);
}
