//! A run: what training gives back.

use crate::mask::{self, Mask, Touched};
use crate::methods::Plan;
use crate::nn::Model;
use crate::privacy::digits::Rounded;
use crate::privacy::{Badge, Event, STOPPING};
use crate::train::Curve;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Why nothing is guaranteed of a run with [`Ending::Unreadable`].
pub(super) const UNREADABLE: &str = "training ended because an example could not be read, so the number of steps depends on the \
     private data";

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// All steps of the plan were taken.
    Finished,
    /// It was interrupted at a step boundary; model and epsilon are those of the steps taken.
    Interrupted,
    /// It ended at a step boundary because an example could no longer be read. Which step that was
    /// depends on the data, so no epsilon covers what is left.
    Unreadable,
}

/// Where the privacy ledger charges a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charged {
    /// The [`origin`](crate::data::Dataset::origin) of the data, which names the ledger.
    pub origin: String,
    /// The run's name there: each training of the same settings has its own.
    pub run: String,
    /// The [names](crate::data::Dataset::former_origins) that earlier versions gave to the data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former_origins: Vec<String>,
}

impl Charged {
    /// All names of the data.
    fn names(&self) -> Vec<&str> {
        let former = self.former_origins.iter().map(String::as_str);
        std::iter::once(self.origin.as_str()).chain(former).collect()
    }
}

/// Everything about a run except its weights; what the run store keeps as text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Name of the run, a hash of its settings.
    pub id: String,
    /// The plan that was followed.
    pub plan: Plan,
    /// Name of the data.
    pub data: String,
    /// Content hash of the training part.
    pub data_hash: String,
    /// Where it is charged; unknown for runs stored before this was recorded.
    #[serde(default)]
    pub charged: Option<Charged>,
    /// The device it was trained on: `cpu`, `cuda:0, NVIDIA H200 (140 GiB)`. Runs stored before
    /// this was recorded are of the CPU.
    #[serde(default = "cpu")]
    pub device: String,
    /// Training started from parameters that were not just drawn: trained before, read from a
    /// file, or those of a module of the user's own.
    #[serde(default)]
    pub warm_start: bool,
    /// The test part does not come from the data that training protects, as
    /// [`Dataset::has_public_test`](crate::data::Dataset::has_public_test) says. Where this was not
    /// recorded, nothing is claimed.
    #[serde(default)]
    pub public_test: bool,
    /// The model is a module of the user's own, whose guarantee rests on what its code does.
    #[serde(default)]
    pub own_module: bool,
    /// How it ended.
    pub ending: Ending,
    /// Steps taken.
    pub steps: u64,
    /// What was released, as events an accountant reads.
    pub events: Vec<Event>,
    /// Epsilon truly spent, at the plan's delta; `None` where nothing is guaranteed.
    pub epsilon: Option<f64>,
    /// Epsilon of the whole plan, at its delta; `None` where nothing is guaranteed.
    pub planned_epsilon: Option<f64>,
    /// Accuracy on the test part after the last step, if there is a test part and it can be read.
    pub test_accuracy: Option<f64>,
    /// Wall-clock seconds of training.
    pub seconds: f64,
    /// When training ended: UTC, ISO 8601. Runs stored before this was recorded have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trained_at: Option<String>,
    /// The measurements along the way.
    pub curve: Curve,
}

fn cpu() -> String {
    "cpu".into()
}

/// A trained model with its history and its guarantee. Cheap to clone.
#[derive(Clone)]
pub struct Run(Arc<Inner>);

struct Inner {
    record: RunRecord,
    model: Model,
    mask: Option<Mask>,
    touched: Option<Touched>,
    restored: bool,
    warnings: Vec<String>,
}

impl Run {
    pub(crate) fn new(
        record: RunRecord,
        model: Model,
        mask: Option<Mask>,
        touched: Option<Touched>,
    ) -> Self {
        let (restored, warnings) = (false, Vec::new());
        Self(Arc::new(Inner { record, model, mask, touched, restored, warnings }))
    }

    /// The same run, read back from the store: it was not trained again and cost nothing.
    pub(crate) fn restored(
        record: RunRecord,
        model: Model,
        mask: Option<Mask>,
        touched: Option<Touched>,
        warnings: Vec<String>,
    ) -> Self {
        Self(Arc::new(Inner { record, model, mask, touched, restored: true, warnings }))
    }

    /// The same run, said to be trained just now: read back for its numbers as they are stored.
    pub(crate) fn as_trained(&self) -> Self {
        let Inner { record, model, mask, touched, .. } = &*self.0;
        Self::new(record.clone(), model.clone(), mask.clone(), touched.clone())
    }

    /// The trained model (after an interrupt: the model of the last step taken).
    pub fn model(&self) -> Model {
        self.0.model.clone()
    }
    /// The mask it was trained with, if there was one.
    pub fn mask(&self) -> Option<Mask> {
        self.0.mask.clone()
    }
    /// Which coordinates its steps were about, if gradients were dropped.
    pub fn touched(&self) -> Option<Touched> {
        self.0.touched.clone()
    }
    /// Everything else, as plain data.
    pub fn record(&self) -> &RunRecord {
        &self.0.record
    }
    /// The plan that was followed.
    pub fn plan(&self) -> &Plan {
        &self.0.record.plan
    }
    /// The measurements along the way.
    pub fn curve(&self) -> &Curve {
        &self.0.record.curve
    }
    /// Epsilon truly spent, at the plan's delta; infinite without privacy.
    pub fn epsilon(&self) -> f64 {
        self.0.record.epsilon.unwrap_or(f64::INFINITY)
    }
    /// Accuracy on the test part, in [0, 1]; NaN if the data has none.
    pub fn accuracy(&self) -> f64 {
        self.0.record.test_accuracy.unwrap_or(f64::NAN)
    }
    /// Whether it was interrupted before the last step.
    pub fn interrupted(&self) -> bool {
        self.0.record.ending == Ending::Interrupted
    }
    /// Whether it took all steps of its plan.
    pub fn is_finished(&self) -> bool {
        self.0.record.ending == Ending::Finished
    }
    /// Whether it was read back from the store instead of trained.
    pub fn is_restored(&self) -> bool {
        self.0.restored
    }
    /// What the store had to say when it read the run back: what can't be checked about it, or was
    /// not believed. Empty for a run that was trained just now.
    pub fn warnings(&self) -> &[String] {
        &self.0.warnings
    }
    /// How far the guarantee can be trusted.
    pub fn badge(&self) -> Badge {
        let record = self.record();
        if record.plan.privacy().is_none() {
            return Badge::None("training used raw gradients".into());
        }
        if let Some(why) = record.plan.not_covered() {
            return Badge::None(why);
        }
        if record.ending == Ending::Unreadable {
            return Badge::None(UNREADABLE.into());
        }
        let mut assumptions = Vec::new();
        if let Some(mask) = self.mask() {
            let names = record.charged.as_ref().map(Charged::names).unwrap_or_default();
            assumptions.extend(mask::assumptions(&mask.origin().covered, &names));
        }
        if record.own_module {
            assumptions.push(
                "no example's output in the user's own module depends on another example (tried on \
                 made-up examples, not proved)"
                    .to_owned(),
            );
        }
        if record.warm_start {
            assumptions.push(
                "the parameters that training started from do not come from these data, or from \
                 private runs that are counted too"
                    .to_owned(),
            );
        }
        if record.plan.seed().is_some() {
            assumptions.push(
                "nobody who sees the results knows the seed of this run (study mode)".to_owned(),
            );
            if !record.device.starts_with("cpu") {
                // On the CPU a repetition is the same run, bit for bit.
                assumptions.push(
                    "no other run of the same settings and seed is published: its noise is the same, \
                     its sums, rounded elsewhere, are not"
                        .to_owned(),
                );
            }
        }
        if self.interrupted() {
            assumptions.push(format!(
                "{STOPPING}; if released results decided it (models, accuracy on public test \
                 data), count the planned epsilon, {}; if the training loss or anything else that \
                 is not covered decided it, no epsilon covers the run",
                Rounded(record.planned_epsilon.unwrap_or(f64::INFINITY))
            ));
        }
        match assumptions.is_empty() {
            true => Badge::Proved,
            false => Badge::Assumption(assumptions.join("; ")),
        }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let record = self.record();
        let (plan, steps) = (&record.plan, record.steps);
        write!(f, "{} on {}: {steps} of {} steps", plan.method(), record.data, plan.steps())?;
        if let Some(accuracy) = record.test_accuracy {
            write!(f, ", test accuracy {:.2} %", 100.0 * accuracy)?;
        }
        match (record.epsilon, plan.privacy()) {
            (Some(epsilon), Some(privacy)) => {
                write!(f, ", epsilon {} at delta {}", Rounded(epsilon), privacy.delta)?;
            }
            (None, Some(_)) => write!(f, ", no guarantee")?,
            _ => write!(f, ", no privacy")?,
        }
        let marks = [
            ("interrupted", self.interrupted()),
            ("ended by unreadable data", record.ending == Ending::Unreadable),
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
