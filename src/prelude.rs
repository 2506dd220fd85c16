//! The names that notebooks use, for a glob import: `use epsilab::prelude::*;`.

pub use crate::audit::{self, Audit};
pub use crate::cluster::Slurm;
pub use crate::data::{self, Dataset, Examples, ImageOptions};
pub use crate::engine::ClipRule;
pub use crate::grid::{Grid, MaskKind};
pub use crate::lab::{self, Show as _, recipes};
pub use crate::layers;
pub use crate::mask::{
    self, DpSnip, DropRate, DroppedStatePolicy, Dropping, DroppingRule, MagnitudeMask, Mask,
    RandomMask, Saliency, Snip, Synflow,
};
pub use crate::methods::{
    AdaptiveDpSgd, AutoDpSgd, BackpropClip, DpSgd, DpSsgd, DynamicDpSgd, NonPrivate, Optimizer,
    Plan, PrivateSelection, QuantileDpSgd,
};
pub use crate::nn::{self, Activation, Model, Precision, models};
pub use crate::optim::{Average, LearningRate, WarmUp};
pub use crate::privacy::{
    self, Accountant, ClipSchedule, Delta, Epsilon, Event, NeighbouringRelation, NoiseMultiplier,
    NoiseSchedule, SamplingRate, Trials,
};
pub use crate::show::figures;
pub use crate::train::Run;
pub use crate::tuning::{Tuning, TuningResult};
pub use crate::{Error, ErrorKind, Result};
