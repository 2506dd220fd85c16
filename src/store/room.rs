//! Whether there is room for a run, before it is charged.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use super::host;
use crate::methods::Plan;
use crate::nn::Model;
use crate::{Error, Result};

/// Bytes of the files of a run beside those of its parameters: record, curves, figures.
const FILES: u64 = 512 << 10;

/// Checks that the files of a run of `plan` can be written into `runs`, by reserving as much and
/// giving it back. A run that is trained and can't be stored would be lost, and stay charged.
///
/// # Errors
/// `Io` if there is no room, or nothing can be written there.
pub(super) fn check(runs: &Path, plan: &Plan, model: &Model) -> Result<()> {
    let parameters = 4 * model.parameters() as u64;
    // A mask, and the coordinates that were selected.
    let others = if plan.sparsity().is_some() { parameters } else { 0 };
    let bytes = parameters + others + FILES;
    let place = || format!("room for a run in {}", runs.display());
    fs::create_dir_all(runs).map_err(|e| Error::io(place(), &e))?;
    let path = runs.join(format!(".room-{}", host::unique()?));
    let reserved = File::create_new(&path).and_then(|file| reserve(&file, bytes));
    let removed = fs::remove_file(&path);
    reserved.and(removed).map_err(|e| {
        let size = bytes.div_ceil(1 << 20);
        Error::io(place(), &e).fix(format!(
            "free space there (the run needs about {size} MB), or set EPSILAB_HOME to a folder on \
             another file system; nothing was trained or charged"
        ))
    })
}

/// Makes a file this long, so that the file system has set the room aside.
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        let length = libc::off_t::try_from(bytes).unwrap_or(libc::off_t::MAX);
        // SAFETY: a call on a descriptor that is open.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) } {
            0 => return Ok(()),
            libc::EOPNOTSUPP | libc::EINVAL => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
    let block = [0; 1 << 16];
    let mut file = file;
    for _ in 0..bytes.div_ceil(block.len() as u64) {
        file.write_all(&block)?;
    }
    file.sync_data()
}
