//! Checkpoints: a run that was killed or stopped resumes from the last one.
//!
//! A checkpoint is one file in a folder of its own. `file` reads and writes it,
//! [`CheckpointManager`] decides when, and the training loop says what is in it.
//!
//! The ledger has no part in the file and is never restored from it. A checkpoint names the entry
//! under which its run was charged, and the run continues under that entry. The first checkpoint is
//! written before the charge, so that no charged step is without one.

mod file;
mod manager;

use std::collections::HashMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Curve;
use super::meter::PendingMetrics;
use super::train_state::{StateSnapshot, restore_parameters};
use crate::Result;
use crate::mask::Mask;
use crate::nn::Model;
use crate::train::{RunRecord, Seeds};

pub use file::CheckpointHeader;
pub(crate) use file::{checkpoint_exists, read_header};
pub(crate) use manager::{CheckpointManager, cpu_fingerprint};

/// Content of a checkpoint.
#[derive(Clone)]
pub(super) struct Checkpoint {
    pub(super) header: CheckpointHeader,
    pub(super) payload: CheckpointPayload,
    /// The file of the mask, if the run has one and knows it.
    pub(super) mask: Option<Vec<u8>>,
    /// Parameters, the arrays of the optimizer, and so on, by name.
    pub(super) arrays: HashMap<String, Vec<f32>>,
}

/// The numbers of a checkpoint.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct CheckpointPayload {
    pub(super) seeds: Seeds,
    /// The resumptions before this checkpoint.
    pub(super) resumed: Vec<Resumption>,
    /// Progress of the run; `None` before the first step: only the parameters are known then.
    pub(super) progress: Option<SavedProgress>,
}

/// Progress of a run at a checkpoint.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct SavedProgress {
    pub(super) state: StateSnapshot,
    pub(super) curve: Curve,
    pub(super) thresholds: Vec<f64>,
    pub(super) seconds: f64,
    /// Seconds that the steps waited for features from files.
    pub(super) waited: Option<f64>,
    pub(super) pending: PendingMetrics,
}

impl Checkpoint {
    /// Returns the model that the run started from, if no step has been taken since: initial
    /// parameters without a seed are those of the checkpoint. Otherwise `model`, whose parameters
    /// are replaced later.
    ///
    /// # Errors
    /// `CorruptData` if the checkpoint has other parameters.
    pub(super) fn restore_initial_model(&self, model: &Model) -> Result<Model> {
        if self.payload.progress.is_some() {
            return Ok(model.clone());
        }
        restore_parameters(model.network(), &mut self.arrays.clone())
            .map(|network| model.with_same_parameters(network))
    }

    /// Returns the mask of the run, if it was known.
    ///
    /// # Errors
    /// As [`Mask::load`].
    pub(super) fn mask(&self) -> Result<Option<Mask>> {
        let path = Path::new("checkpoint");
        self.mask.as_ref().map(|bytes| Mask::from_bytes(bytes, path)).transpose()
    }
}

/// The checkpoints of a run that wrote some, in its record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CheckpointRecord {
    /// The resumptions, in order.
    pub resumed: Vec<Resumption>,
}

/// A run that resumed from a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumption {
    /// Number of steps of the checkpoint.
    pub step: u64,
    /// Whether steps may have been taken twice: the process that wrote the checkpoint was killed,
    /// and may have taken further steps.
    pub repeated: bool,
    /// Whether both processes computed on the CPU with the same instructions, so that a step which
    /// was taken twice released the same bits.
    pub same_bits: bool,
}

/// Returns the sentence on checkpoints in the statement of a run.
pub(crate) fn describe(record: &RunRecord) -> Option<String> {
    let CheckpointRecord { resumed } = record.checkpoints.as_ref()?;
    let mut text = String::from("Checkpoints: ");
    if !resumed.is_empty() {
        let steps: Vec<String> = resumed.iter().map(|resumed| resumed.step.to_string()).collect();
        text += &format!(
            "the run was stopped or killed, and resumed after step {}. Repeated steps had the same \
             batches and the same noise. ",
            steps.join(", then after step ")
        );
    }
    text += "until the run was finished, a file that only its owner may read held the seeds of its \
             batches and its noise. Anyone with a copy can subtract the noise.";
    Some(text)
}

/// Returns the assumptions about steps that were taken twice and rounded differently: by this run,
/// and by copies of its checkpoint.
pub(super) fn assumptions(record: &RunRecord) -> Vec<String> {
    let resumed =
        record.checkpoints.iter().flat_map(|use_record| &use_record.resumed).collect::<Vec<_>>();
    if resumed.is_empty() {
        return Vec::new();
    }
    let differ = resumed.iter().any(|resumed| resumed.repeated && !resumed.same_bits);
    let of_killed = differ.then(|| {
        "nothing was published that a process which was killed showed of the steps after its last \
         checkpoint: these steps were taken again with the same noise, but rounded differently"
            .to_owned()
    });
    let of_copies = "no result of a copy of its checkpoint that was resumed elsewhere is \
                     published: its noise is the same, but another processor or device rounds \
                     differently";
    of_killed.into_iter().chain([of_copies.to_owned()]).collect()
}
