//! Check of the disk space for a run, before it is charged.

use std::path::Path;

use crate::methods::Plan;
use crate::nn::Model;
use crate::{Result, file};

/// Bytes of the files of a run beside those of its parameters: record, curves, figures.
const FILES: u64 = 512 << 10;

/// Checks that the files of a run of `plan` can be written into `runs`, by reserving as much and
/// giving it back. A run that is trained and can't be stored would be lost, and stay charged.
///
/// # Errors
/// `Io` if there is no room, or nothing can be written there.
pub(super) fn check(runs: &Path, plan: &Plan, model: &Model) -> Result<()> {
    let parameters = 4 * model.num_parameters() as u64;
    // A mask, and the coordinates that were selected.
    let others = if plan.sparsity().is_some() { parameters } else { 0 };
    let bytes = parameters + others + FILES;
    file::check_disk_space(runs, bytes).map_err(|error| {
        error.fix(format!(
            "free space there (the run needs about {} MB), or set EPSILAB_HOME to a folder on \
             another file system; nothing was trained or charged",
            bytes.div_ceil(1 << 20)
        ))
    })
}
