//! Copy of the files of a run.

use std::fs;
use std::path::Path;

use epsilab::train::Run;
use epsilab::{Error, Result, lab};

/// Copies model, mask, figures and record of a stored run to `folder`. A model is written also
/// where the run could not be stored.
///
/// # Errors
/// Kind `Io` for the first file that can't be written.
pub fn export_run(folder: &Path, run: &Run) -> Result<()> {
    let stored = lab::home().join("runs").join(&run.record().id);
    let failed = |e: std::io::Error| {
        Error::io(format!("copying the run to {}", folder.display()), &e)
            .fix("name a folder that you can write with `--out DIR`, on a disk with free space")
    };
    for entry in fs::read_dir(&stored).into_iter().flatten() {
        let entry = entry.map_err(failed)?;
        fs::copy(entry.path(), folder.join(entry.file_name())).map_err(failed)?;
    }
    run.model().save(folder.join("model.safetensors"))?;
    eprintln!("wrote {}", folder.display());
    Ok(())
}
