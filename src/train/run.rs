//! Runs: the results of training.

use crate::data::{Dataset, PublicData};
use crate::mask::{Mask, SelectionLog};
use crate::methods::{ClaimedEpsilon, Plan};
use crate::nn::{Model, Provenance};
use crate::privacy::digits::{RoundedUp, format_count, pluralise};
use crate::privacy::{Badge, Event, RunReleases};
use crate::train::{CheckpointRecord, Curve, Resumption, attempt_id, start};
use crate::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Ending of a run: with all steps, or interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// All steps of the plan were taken.
    Finished,
    /// It was interrupted at a step boundary; model and epsilon are those of the steps taken.
    Interrupted,
}

/// Reference to the entry of a run in a privacy ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerEntryRef {
    /// The [`origin`](crate::data::Dataset::origin) of the data, which names the ledger.
    pub origin: String,
    /// The name of the entry: each attempt at the same settings has its own.
    pub run: String,
}

impl LedgerEntryRef {
    /// Creates the reference to the entry `run` in the ledger of `data`.
    pub(super) fn new(run: &str, data: &Dataset) -> Self {
        Self { origin: data.origin().to_owned(), run: run.to_owned() }
    }
}

/// Everything about a run except its weights, as the run store keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Id of the run, a hash of its plan, model and data.
    pub id: String,
    /// The plan of the run; after a private selection, with the settings of its best trial.
    pub plan: Plan,
    /// Name of the data.
    pub data: String,
    /// Content hash of the training part.
    pub data_hash: String,
    /// Ledger entry that charges the run.
    pub charged: LedgerEntryRef,
    /// The device that the run was trained on: `cpu`, `cuda:0, NVIDIA H200 (140 GiB)`.
    pub device: String,
    /// Whether training started from parameters that are not a fresh initialisation: trained
    /// before, read from a file, or those of a user-defined module.
    pub warm_start: bool,
    /// The public data that these parameters depend on, if they depend on no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_start: Option<Vec<PublicData>>,
    /// Whether the test part is public:
    /// [`Dataset::has_separate_test`](crate::data::Dataset::has_separate_test) of the data.
    pub public_test: bool,
    /// Whether the data are [public](crate::data::Dataset::public): synthetic, or declared public.
    /// Taken from the arguments of the present call, also for a run that is read back, as the
    /// fields about the start are.
    pub public_data: bool,
    /// Whether the model is a user-defined module, whose guarantee depends on its code.
    pub own_module: bool,
    /// Ending of the run.
    pub ending: Ending,
    /// Steps taken.
    pub steps: u64,
    /// Releases that the run is charged for.
    pub released: RunReleases,
    /// Epsilon of the steps that stay charged, at least those taken, at the plan's delta; `None`
    /// without a guarantee.
    pub epsilon: Option<f64>,
    /// Epsilon of the whole plan, at its delta; `None` without a guarantee.
    pub planned_epsilon: Option<f64>,
    /// Accuracy on the test part after the last step, if there is a test part that can be read.
    pub test_accuracy: Option<f64>,
    /// Content hash of the test part that accuracies were measured on.
    pub test_hash: String,
    /// Wall-clock seconds of training; 0 for a private selection, whose times are secret.
    pub seconds: f64,
    /// Seconds of training in which the steps waited for examples to be read from files. `None`
    /// for examples in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_seconds: Option<f64>,
    /// Time at which training ended: UTC, ISO 8601. `None` for a private selection, whose times
    /// are secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trained_at: Option<String>,
    /// Versions of the lab, Burn, the system and the C library that trained it.
    pub software: String,
    /// Mean clip norm of the steps, of a method that adapts it ([`CurvePoint::threshold`]
    /// says what covers it).
    ///
    /// [`CurvePoint::threshold`]: crate::train::CurvePoint::threshold
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_threshold: Option<f64>,
    /// The checkpoints of the run, if it wrote some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoints: Option<CheckpointRecord>,
    /// The measurements along the way.
    pub curve: Curve,
}

impl RunRecord {
    /// Returns the epsilon that the paper of the method claims for the steps taken, without a
    /// valid proof.
    pub fn published_claim(&self) -> Option<ClaimedEpsilon> {
        (self.plan.descriptor().ok()?.published_claim)(&self.plan, self.steps, self.mean_threshold)
    }

    /// Returns the random name of the run, by which exports know it. Unlike [`id`](Self::id) it is
    /// no hash of settings and data.
    pub fn label(&self) -> &str {
        attempt_id::label(&self.charged.run)
    }

    /// Returns the fraction of the training time in which the steps waited for examples to be read
    /// from files. `None` for examples in memory, and for runs without a record of it.
    ///
    /// On a GPU, which works on while the host waits, it is an upper bound on the time lost.
    /// Evaluations on test images in files read these themselves and do not count.
    ///
    /// # Guarantee
    /// None: like [`seconds`](Self::seconds) it is a time of the machine, which depends on the
    /// files that were drawn.
    pub fn waiting_fraction(&self) -> Option<f64> {
        self.waiting_seconds.map(|waiting| (waiting / self.seconds).min(1.0))
    }

    /// Returns the seconds of training, where they may be shown.
    pub(crate) fn publishable_seconds(&self) -> Option<f64> {
        Some(self.seconds).filter(|_| self.plan.selection().is_none())
    }

    /// Sets where the parameters come from that training started from.
    pub(crate) fn with_start(self, provenance: &Provenance) -> Self {
        let warm_start = !matches!(provenance, Provenance::Initial { .. });
        let public = provenance.public_data().filter(|_| warm_start);
        Self { warm_start, public_start: public.map(<[_]>::to_vec), ..self }
    }

    /// Returns whether the run depends on public data only.
    pub(crate) fn is_public(&self) -> bool {
        self.public_data && (!self.warm_start || self.public_start.is_some())
    }

    /// Returns all releases of the run, in chronological order.
    pub fn events(&self) -> Vec<Event> {
        self.released.events()
    }
}

/// A trained model with its history and its guarantee. Cheap to clone.
///
/// ```no_run
/// # use epsilab::prelude::*;
/// # fn train(model: &Model, data: &Dataset) -> Result<()> {
/// let run = DpSgd::new().target(Epsilon(3.0), Delta(1e-5)).train(model, data)?;
/// println!("{run}"); // method, steps, accuracy and epsilon in a line
/// println!("{:.1} % at epsilon {:.2}", 100.0 * run.accuracy(), run.epsilon());
/// println!("{}", run.statement()); // what is guaranteed, and what is not
/// run.model().save("model.safetensors")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Run(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    record: RunRecord,
    model: Model,
    mask: Option<Mask>,
    selection_log: Option<SelectionLog>,
    restored: bool,
    warnings: Vec<String>,
    /// The error by which it could not be stored.
    storing_error: Option<Error>,
}

impl Run {
    pub(crate) fn new(
        record: RunRecord,
        model: Model,
        mask: Option<Mask>,
        selection_log: Option<SelectionLog>,
    ) -> Self {
        let (restored, warnings, storing_error) = (false, Vec::new(), None);
        Self(Arc::new(Inner {
            record,
            model,
            mask,
            selection_log,
            restored,
            warnings,
            storing_error,
        }))
    }

    /// Returns the same run, read from the store: it was not trained again and cost nothing.
    pub(crate) fn restored(mut self, warnings: Vec<String>) -> Self {
        let run = Arc::make_mut(&mut self.0);
        (run.restored, run.warnings) = (true, warnings);
        self
    }

    /// Returns the same run marked as trained just now; for runs that are read back to get their
    /// stored values.
    pub(crate) fn mark_as_trained(&self) -> Self {
        let Inner { record, model, mask, selection_log, .. } = (*self.0).clone();
        Self::new(record, model, mask, selection_log)
    }

    /// Returns the same run, whose steps another process may have taken too, rounded differently.
    /// The statement says so, as of a run that resumes from a checkpoint.
    pub(crate) fn with_inexact_repetition(&self) -> Self {
        let mut run = self.mark_as_trained();
        let record = &mut Arc::make_mut(&mut run.0).record;
        let resumption = Resumption { step: 0, repeated: true, same_bits: false };
        record.checkpoints.get_or_insert_default().resumed.insert(0, resumption);
        run
    }

    /// Returns the same run with parameters that come from the data of `start` and from `data`.
    pub(crate) fn with_start(mut self, start: &Provenance, data: &Dataset) -> Self {
        let Inner { record, model, mask, .. } = Arc::make_mut(&mut self.0);
        let provenance = start::provenance_after(start, &record.plan, mask.as_ref(), data);
        *model = model.with_provenance(provenance);
        *record = record.clone().with_start(start);
        record.public_data = data.public().is_some();
        self
    }

    /// Returns the same run with accuracies on the test part of `data`. If its content is another
    /// than that which they were measured on, the model is evaluated on it, and accuracies along
    /// the way are left out.
    ///
    /// # Errors
    /// `Device` if a device fails. A test part that can't be read gives no accuracy, and a warning.
    pub(crate) fn evaluated_on(mut self, data: &Dataset) -> Result<Self> {
        if self.record().test_hash == data.test_hash() {
            return Ok(self);
        }
        let Inner { record, model, warnings, .. } = Arc::make_mut(&mut self.0);
        warnings.push(
            "The test part has changed since this run was trained: accuracies along the way are \
             left out, and that of the model was measured again."
                .to_owned(),
        );
        let test = data.test();
        let accuracy = (!test.is_empty()).then(|| model.accuracy_of(test)).transpose();
        record.test_accuracy = match accuracy {
            Err(error) if error.kind() == ErrorKind::Device => return Err(error),
            Err(error) => {
                warnings.push(error.to_string());
                None
            }
            Ok(accuracy) => accuracy,
        };
        record.test_hash = data.test_hash().to_owned();
        record.public_test = data.has_separate_test();
        record.curve.points.iter_mut().for_each(|point| point.test_accuracy = None);
        if let Some(last) = record.curve.points.last_mut() {
            last.test_accuracy = record.test_accuracy;
        }
        Ok(self)
    }

    /// Returns the same run, which could not be stored.
    pub(crate) fn not_stored(mut self, error: Error) -> Self {
        Arc::make_mut(&mut self.0).storing_error = Some(error);
        self
    }

    /// Returns the error by which the run could not be stored. Its model is nowhere but here then,
    /// and training it again is charged again.
    pub fn storing_error(&self) -> Option<&Error> {
        self.0.storing_error.as_ref()
    }

    /// Returns the run, if it could be stored.
    ///
    /// # Errors
    /// [`storing_error`](Self::storing_error).
    pub(crate) fn if_stored(self) -> Result<Self> {
        self.0.storing_error.clone().map_or(Ok(self), Err)
    }

    /// Returns the trained model; after an interrupt, that of the last step taken.
    pub fn model(&self) -> Model {
        self.0.model.clone()
    }
    /// Returns the mask that the run was trained with, if there was one.
    pub fn mask(&self) -> Option<Mask> {
        self.0.mask.clone()
    }
    /// Returns the number of parameters that mask and freezing leave to be trained. Dropping
    /// leaves out other coordinates in every step, so it does not count.
    ///
    /// # Errors
    /// `Setting` if the frozen parameters are not those of the model.
    pub fn trained_parameters(&self) -> Result<usize> {
        let (model, mask) = (self.model(), self.mask());
        let frozen = match self.plan().freezing() {
            freezing if freezing.is_empty() => vec![false; model.network().paths().len()],
            freezing => freezing.frozen_flags(model.network())?,
        };
        let parameters = model.network().parameters();
        let trained = parameters.iter().zip(frozen).filter(|(_, frozen)| !frozen);
        let count = trained.map(|(parameter, _)| {
            let kept = mask.as_ref().and_then(|mask| mask.get(&parameter.path));
            kept.map_or(parameter.len(), |tensor| tensor.kept_count())
        });
        Ok(count.sum())
    }
    /// Returns the coordinates that its steps selected, if gradients were dropped.
    pub fn selection_log(&self) -> Option<SelectionLog> {
        self.0.selection_log.clone()
    }
    /// Returns all other data of the run.
    pub fn record(&self) -> &RunRecord {
        &self.0.record
    }
    /// Returns the plan of the run.
    pub fn plan(&self) -> &Plan {
        &self.0.record.plan
    }
    /// Returns the measurements during training.
    pub fn curve(&self) -> &Curve {
        &self.0.record.curve
    }
    /// Returns the epsilon of the steps that stay charged, which are at least those taken, at the
    /// plan's delta; infinite without a guarantee.
    ///
    /// # Guarantee
    /// An upper bound for neighbours under the relation of the [plan](Plan::neighbouring), under
    /// the assumptions of the [badge](Self::badge).
    pub fn epsilon(&self) -> f64 {
        self.0.record.epsilon.unwrap_or(f64::INFINITY)
    }
    /// Returns the accuracy on the test part, in [0, 1]; NaN if the data has none.
    pub fn accuracy(&self) -> f64 {
        self.0.record.test_accuracy.unwrap_or(f64::NAN)
    }
    /// Returns whether the run was interrupted before the last step.
    pub fn is_interrupted(&self) -> bool {
        self.0.record.ending == Ending::Interrupted
    }
    /// Returns whether the run took all steps of its plan.
    pub fn is_finished(&self) -> bool {
        self.0.record.ending == Ending::Finished
    }
    /// Returns whether the run was read from the store instead of trained.
    pub fn is_restored(&self) -> bool {
        self.0.restored
    }
    /// Returns the warnings of the store about a run that was read back: what can't be checked, or
    /// differs from its record. Empty for a run that was trained just now.
    pub fn warnings(&self) -> &[String] {
        &self.0.warnings
    }
    /// Returns the badge of the guarantee.
    pub fn badge(&self) -> Badge {
        self.record().badge(self.0.mask.as_ref())
    }
    /// Returns what a reader must know of a guarantee that says less than it seems to, a sentence
    /// each ([`caveats`](crate::privacy::caveats)).
    pub fn caveats(&self) -> Vec<String> {
        self.record().caveats(self.0.mask.as_ref())
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        RunSummaryLine(self.record()).fmt(f)
    }
}

/// A run in a line: method, data, steps, accuracy, cost and marks.
pub(crate) struct RunSummaryLine<'a>(pub(crate) &'a RunRecord);

impl fmt::Display for RunSummaryLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let record = self.0;
        let (plan, steps) = (&record.plan, record.steps);
        let (steps, planned) =
            (format_count(steps as usize), pluralise(plan.steps() as usize, "step"));
        write!(f, "{} on {}: {steps} of {planned}", plan.method(), record.data)?;
        if let Some(accuracy) = record.test_accuracy {
            write!(f, ", test accuracy {:.2} %", 100.0 * accuracy)?;
        }
        if let Some(selection) = plan.selection() {
            write!(f, ", the best of several trials ({})", selection.trials())?;
        }
        match (record.epsilon, plan.privacy()) {
            (Some(epsilon), Some(privacy)) => {
                write!(f, ", epsilon {} at delta {}", RoundedUp(epsilon), privacy.delta)?;
                if !plan.sampling().is_poisson() {
                    write!(f, " ({})", plan.neighbouring())?;
                }
            }
            (None, Some(_)) => {
                f.write_str(", no guarantee")?;
                if let Some(claim) = record.published_claim() {
                    write!(f, " (the paper claims {claim})")?;
                }
            }
            _ => write!(f, ", no privacy")?,
        }
        let marks = [
            ("interrupted", record.ending == Ending::Interrupted),
            ("diverged", record.curve.divergence().is_some()),
            ("study mode", plan.seed().is_some()),
        ];
        for (mark, _) in marks.iter().filter(|(_, set)| *set) {
            write!(f, " ({mark})")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
