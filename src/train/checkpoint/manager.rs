//! Writing of the checkpoints of a run, and the search for the one that it resumes from.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::file::{self, CheckpointHeader};
use super::{Checkpoint, CheckpointPayload, Resumption};
use crate::clock::utc_now;
use crate::device::DeviceSpec;
use crate::methods::{CheckpointInterval, CheckpointSettings, Plan};
use crate::train::train_state::Arrays;
use crate::{Error, ErrorKind, Result, program};

/// The name of the file in the folder of a run's checkpoints.
const FILE: &str = "checkpoint.safetensors";

/// The checkpoints of one run, in a folder that is locked while the run is trained.
pub(crate) struct CheckpointManager {
    folder: PathBuf,
    /// Lock on the folder while the process lives, on systems where folders can be locked.
    _lock: Option<File>,
    settings: CheckpointSettings,
    resume_from: Option<Checkpoint>,
    written: Instant,
}

impl CheckpointManager {
    /// Opens the checkpoints of the run `id` in `folder`. `None` if the plan asks for none and
    /// there is none to resume from. A plan that is [`fresh`](Plan::is_fresh) resumes from none.
    ///
    /// # Errors
    /// `Io` if the folder can't be made or another process trains the run; `CorruptData` if there
    /// is a checkpoint that can't be read or is not that of this run; `Setting` if it was written
    /// by another version of the lab.
    pub(crate) fn open(folder: PathBuf, id: &str, plan: &Plan) -> Result<Option<Self>> {
        let (path, settings) = (Self::checkpoint_path(&folder), &plan.settings().checkpoints);
        if settings.is_none() && (plan.is_fresh() || !file::checkpoint_exists(&path)) {
            return Ok(None);
        }
        create_private_dir(&folder)?;
        let lock = lock_folder(&folder, id)?;
        // The run of another process may have been finished just now.
        create_private_dir(&folder)?;
        let goes_on = file::checkpoint_exists(&path) && !plan.is_fresh();
        let found = goes_on.then(|| file::read(&path)).transpose()?;
        if let Some(found) = &found {
            check(&path, &found.header, id)?;
        }
        let checkpoints = match (settings, &found) {
            (Some(checkpoints), _) => checkpoints.clone(),
            (None, Some(found)) => CheckpointSettings {
                every: found.header.every.parse()?,
                command: found.header.command.clone(),
            },
            (None, None) => return Ok(None),
        };
        let written = Instant::now();
        Ok(Some(Self { folder, _lock: lock, settings: checkpoints, resume_from: found, written }))
    }

    /// Returns the file of the checkpoint in a folder.
    pub(crate) fn checkpoint_path(folder: &Path) -> PathBuf {
        folder.join(FILE)
    }

    /// Returns the header of the checkpoint that the run resumes from.
    pub(crate) fn resume_header(&self) -> Option<&CheckpointHeader> {
        self.resume_from.as_ref().map(|found| &found.header)
    }

    /// Takes the checkpoint that the run resumes from; a further call returns `None`.
    ///
    /// # Errors
    /// `Setting` if it was written on another kind of device: steps that are taken again would
    /// release another rounding of the same noisy sums.
    pub(in crate::train) fn take_checkpoint(
        &mut self,
        device: DeviceSpec,
    ) -> Result<Option<Checkpoint>> {
        let Some(mut found) = self.resume_from.take() else { return Ok(None) };
        let header = &found.header;
        if device_kind(&header.device) != device_kind(&device.to_string()) {
            let what =
                format!("a run that was started on {} and resumes on {device}", header.device);
            let why = "steps after the checkpoint are repeated with the same noise, but another \
                       device rounds differently";
            return Err(Error::new(ErrorKind::Setting, what, why).fix(format!(
                "resume with .device(\"{}\"), or start again, at an additional cost, with .fresh()",
                header.device
            )));
        }
        let same_bits = device == DeviceSpec::Cpu && header.processor == cpu_fingerprint();
        found.payload.resumed.push(Resumption {
            step: header.step,
            repeated: !header.stopped,
            same_bits,
        });
        Ok(Some(found))
    }

    /// Returns whether a checkpoint is due after this step.
    pub(in crate::train) fn is_due(&self, step: u64) -> bool {
        match self.settings.every {
            CheckpointInterval::Steps(every) => step.is_multiple_of(every),
            CheckpointInterval::Minutes(minutes) => {
                self.written.elapsed().as_secs_f64() >= 60.0 * minutes
            }
        }
    }

    /// Writes a checkpoint. Versions, time, device and interval of the header are filled in.
    ///
    /// # Errors
    /// `Io` if it can't be written; the last one is then unchanged.
    pub(in crate::train) fn write(
        &mut self,
        base: CheckpointHeader,
        payload: &CheckpointPayload,
        mask: Option<&[u8]>,
        arrays: &Arrays,
    ) -> Result<()> {
        let (format, lab) = CheckpointHeader::current_versions();
        let header = CheckpointHeader {
            format,
            lab,
            processor: cpu_fingerprint(),
            every: self.settings.every.to_string(),
            command: self.settings.command.clone(),
            folder: std::env::current_dir().unwrap_or_default().display().to_string(),
            at: utc_now(),
            ..base
        };
        self.written = Instant::now();
        file::write(&Self::checkpoint_path(&self.folder), &header, payload, mask, arrays)
    }

    /// Removes a checkpoint that no process uses.
    ///
    /// # Errors
    /// `Io` if another process trains the run, or the file can't be removed.
    pub(crate) fn remove_unused(folder: &Path, id: &str) -> Result<()> {
        let _lock = lock_folder(folder, id)?;
        remove(folder)
    }

    /// Removes the checkpoint: the run is finished, or can't be resumed.
    ///
    /// # Errors
    /// `Io` if it can't be removed: its file holds the seeds of the noise.
    pub(crate) fn remove(self) -> Result<()> {
        remove(&self.folder)
    }
}

/// Removes a checkpoint and its folder.
fn remove(folder: &Path) -> Result<()> {
    let removed = match fs::remove_dir_all(folder) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    };
    removed.map_err(|e| {
        Error::io(format!("removing the checkpoint {}", folder.display()), &e)
            .fix("remove it manually: it holds the seeds of the noise of a run")
    })
}

/// Makes a folder that only its owner may enter.
fn create_private_dir(folder: &Path) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .create(folder)
        .map_err(|e| Error::io(format!("creating the folder {}", folder.display()), &e))
}

/// Locks a folder, where folders can be locked.
fn lock_folder(folder: &Path, id: &str) -> Result<Option<File>> {
    let Ok(file) = File::open(folder) else { return Ok(None) };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => {
            let what = format!("the run {id} is being trained by another process");
            let why = "both would take the same steps with the same noise and write the same \
                       checkpoint";
            Err(Error::new(ErrorKind::Io, what, why)
                .fix("wait until it is finished, or stop it; this call then resumes from there"))
        }
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// Refuses a checkpoint of another run or another version of the lab.
fn check(path: &Path, header: &CheckpointHeader, id: &str) -> Result<()> {
    let what = format!("the checkpoint {}", path.display());
    if header.id != id {
        let why = format!("the checkpoint belongs to the run {}, not to {id}", header.id);
        return Err(Error::new(ErrorKind::CorruptData, what, why)
            .fix("move it back to the folder of its own run, or remove it"));
    }
    let (format, lab) = CheckpointHeader::current_versions();
    if (header.format, &header.lab) != (format, &lab) {
        let why = format!(
            "the checkpoint was written by version {} of the lab, but this is {lab}: repeated \
             steps could differ, while their noise is the same",
            header.lab
        );
        return Err(Error::new(ErrorKind::Setting, what, why).fix(format!(
            "finish the run with that version; or remove the checkpoint with `{}`: the run then \
             starts again and is charged again",
            program::command("runs remove ID")
        )));
    }
    Ok(())
}

/// Returns the kind of a device: `cuda` of `cuda:1`.
fn device_kind(device: &str) -> &str {
    device.split(':').next().unwrap_or(device)
}

/// Describes what decides how results are rounded: architecture and vector instructions of this
/// processor, and the C library, which computes functions such as `exp` and `hypot`.
pub(crate) fn cpu_fingerprint() -> String {
    #[allow(unused_mut)]
    let mut features = vec![std::env::consts::ARCH];
    #[cfg(target_arch = "x86_64")]
    for (name, has) in [
        ("sse4.2", is_x86_feature_detected!("sse4.2")),
        ("avx2", is_x86_feature_detected!("avx2")),
        ("fma", is_x86_feature_detected!("fma")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
    ] {
        features.extend(has.then_some(name));
    }
    let glibc = program::glibc().map(|version| format!("glibc-{version}"));
    features.extend(glibc.as_deref());
    features.join(" ")
}
