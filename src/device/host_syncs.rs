//! [`host_sync_count`]: a counter of copies from a device to the host.

use std::sync::atomic::{AtomicU64, Ordering};

static HOST_SYNCS: AtomicU64 = AtomicU64::new(0);

/// Returns the number of copies from a device other than the CPU to the host, in this process.
///
/// Each copy waits until the device has finished. A training step makes none.
pub fn host_sync_count() -> u64 {
    HOST_SYNCS.load(Ordering::Relaxed)
}

pub(super) fn record_host_sync() {
    HOST_SYNCS.fetch_add(1, Ordering::Relaxed);
}
