//! [`Sparsity`]: the pre-pruning mask and the gradient dropping of a training plan.

use serde::{Deserialize, Serialize};
use std::fmt;

use super::origin::{MaskOrigin, PrivacyStatus};
use super::rate::{check_pruning, in_percent};
use super::{DpSnip, Dropping, MagnitudeMask, Mask, RandomMask, Synflow};
use crate::data::Population;
use crate::engine::CoordinateWeights;
use crate::privacy::{Delta, Epsilon, Event};
use crate::{Error, ErrorKind, Result};

/// Mask of a run: a fixed one, or a pruning method that makes it when the run begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PrePrune {
    /// Mask that was made before the run.
    #[serde(rename = "given")]
    Fixed(FixedMask),
    /// Random pruning.
    Random(RandomMask),
    /// Synflow.
    Synflow(Synflow),
    /// Magnitude pruning of the initial parameters.
    Magnitude(MagnitudeMask),
    /// DP-SNIP: noisy release on the training examples, charged together with the run.
    DpSnip(DpSnip),
}

/// Fixed mask in a plan. Serialised without its flags, which the fingerprint identifies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FixedMask {
    fingerprint: String,
    origin: MaskOrigin,
    kept: usize,
    /// The number of coordinates of all masked tensors.
    #[serde(rename = "of")]
    total: usize,
    #[serde(default)]
    zeroing: bool,
    /// Mask itself; not serialised: a stored run keeps its mask in a separate file.
    #[serde(skip)]
    pub(super) mask: Option<Mask>,
}

impl PrePrune {
    /// Returns the origin of a fixed mask.
    pub(crate) fn origin(&self) -> Option<&MaskOrigin> {
        match self {
            Self::Fixed(fixed) => Some(&fixed.origin),
            _ => None,
        }
    }

    /// Returns the fraction of prunable coordinates that is dropped.
    pub(crate) fn rate(&self) -> f64 {
        match self {
            Self::Fixed(fixed) => 1.0 - fixed.kept as f64 / fixed.total as f64,
            Self::Random(method) => method.rate,
            Self::Synflow(method) => method.rate,
            Self::Magnitude(method) => method.rate,
            Self::DpSnip(method) => method.rate,
        }
    }

    fn privacy(&self) -> &[PrivacyStatus] {
        self.origin().map_or(&[], |origin| &origin.privacy)
    }
}

impl From<&Mask> for PrePrune {
    fn from(mask: &Mask) -> Self {
        Self::Fixed(FixedMask {
            fingerprint: mask.fingerprint(),
            origin: mask.origin().clone(),
            kept: mask.kept_count(),
            total: mask.len(),
            zeroing: mask.is_zeroing(),
            mask: Some(mask.clone()),
        })
    }
}

macro_rules! from_method {
    ($($method:ident => $variant:ident),*) => {$(
        impl From<$method> for PrePrune {
            fn from(method: $method) -> Self {
                Self::$variant(method)
            }
        }
    )*};
}

from_method!(
    RandomMask => Random, Synflow => Synflow, MagnitudeMask => Magnitude, DpSnip => DpSnip
);

impl From<Mask> for PrePrune {
    fn from(mask: Mask) -> Self {
        Self::from(&mask)
    }
}

impl fmt::Display for PrePrune {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dropped = in_percent(self.rate());
        match self {
            Self::Fixed(fixed) => {
                write!(f, "{} of {} kept: {}", fixed.kept, fixed.total, fixed.origin)
            }
            Self::Random(_) => write!(f, "random, {dropped} dropped"),
            Self::Synflow(_) => write!(f, "Synflow, {dropped} dropped"),
            Self::Magnitude(_) => write!(f, "magnitude, {dropped} dropped"),
            Self::DpSnip(method) => write!(f, "{method}"),
        }
    }
}

/// Policy of the optimizer for the value and state of a coordinate that a step drops.
///
/// ```
/// use epsilab::prelude::*;
/// let method = DpSsgd::new()
///     .noise_multiplier(1.0)
///     .drop_gradients(Dropping::random(0.5))
///     .state_of_dropped(DroppedStatePolicy::Zeros); // momentum moves what is dropped
/// let plan = method.plan_for(&data::Population::with_size(60_000))?;
/// let sparsity = plan.settings().sparsity.as_ref();
/// assert_eq!(sparsity.map(|sparsity| sparsity.state), Some(DroppedStatePolicy::Zeros));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DroppedStatePolicy {
    /// No change of value, momentum and moments (eq. 5 of the pre-pruning paper). Adam counts the
    /// steps of each coordinate separately.
    #[default]
    Lazy,
    /// Gradient of zero, so momentum continues to move the coordinate.
    Zeros,
}

impl DroppedStatePolicy {
    /// Returns the coordinates that a step may change, of those that the mask keeps (`trained`)
    /// and those of them that the step does not drop (`selected`); `None` means all.
    pub(crate) fn update_mask<'a>(
        self,
        trained: Option<&'a CoordinateWeights>,
        selected: Option<&'a CoordinateWeights>,
    ) -> Option<&'a CoordinateWeights> {
        match self {
            Self::Lazy => selected,
            Self::Zeros => trained,
        }
    }
}

/// The sparsity settings of a plan: mask, gradient dropping and optimizer state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sparsity {
    /// The mask of the whole run, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_prune: Option<PrePrune>,
    /// Gradient dropping in every step, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropping: Option<Dropping>,
    /// Policy of the optimizer for coordinates that a step drops.
    #[serde(default)]
    pub state: DroppedStatePolicy,
}

impl Sparsity {
    /// Checks that all rates are in [0, 1), and clip and noise of a mask by DP-SNIP.
    pub(crate) fn check(&self) -> Result<()> {
        match &self.pre_prune {
            Some(PrePrune::DpSnip(method)) => method.check()?,
            Some(mask) => {
                check_pruning(mask.rate())?;
            }
            None => {}
        }
        self.dropping.map_or(Ok(()), |dropping| dropping.rate.check())
    }

    /// Returns the same settings, with the noise multiplier of a DP-SNIP mask calibrated for a run
    /// that stays within `total`.
    pub(crate) fn calibrated(mut self, total: Option<(Epsilon, Delta)>) -> Result<Self> {
        if let Some(PrePrune::DpSnip(method)) = self.pre_prune {
            self.pre_prune = Some(PrePrune::DpSnip(method.calibrated(total)?));
        }
        Ok(self)
    }

    /// Returns the releases on the data of this population that made the mask and are charged
    /// already, each with the name of its run in the ledger.
    ///
    /// # Errors
    /// `Setting` if the mask was released on some data, and those of the population are not here:
    /// whether they are the same decides what a plan costs.
    pub(crate) fn prior_releases(&self, population: &Population) -> Result<Vec<(String, Event)>> {
        let mut releases = Vec::new();
        for status in self.pre_prune.iter().flat_map(|mask| mask.privacy()) {
            let PrivacyStatus::Released { event, data, run, .. } = status else { continue };
            let Some(data_set) = population.data() else {
                let what = "a mask that was released on data, in a plan without data";
                let why = "if the plan trains on the same data, the release of the mask is part of \
                           its cost";
                return Err(Error::new(ErrorKind::Setting, what, why)
                    .fix("make the plan from the data, or let the run make its mask"));
            };
            if data_set.origin() == data {
                releases.push((run.clone(), event.clone()));
            }
        }
        Ok(releases)
    }

    /// Returns the release that makes the mask within the run, if any. A mask that was made from
    /// private examples without noise gives an event that no accountant accepts.
    pub(crate) fn mask_release(&self) -> Result<Option<Event>> {
        if let Some(why) = self.non_private_reason() {
            return Ok(Some(Event::Unaccountable { why: format!("the mask: {why}") }));
        }
        match &self.pre_prune {
            Some(PrePrune::DpSnip(method)) => method.event().map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the reason why the mask voids the privacy guarantee, if it does.
    pub(crate) fn non_private_reason(&self) -> Option<&str> {
        let mut statuses = self.pre_prune.iter().flat_map(|mask| mask.privacy());
        statuses.find_map(|status| match status {
            PrivacyStatus::NotPrivate(why) => Some(why.as_str()),
            _ => None,
        })
    }
}

/// Returns the assumptions under which a mask costs no more than is charged, in a run on the data
/// set with this `origin`.
pub(crate) fn mask_assumptions(statuses: &[PrivacyStatus], origin: &str) -> Vec<String> {
    let assumptions_of = |status: &PrivacyStatus| match status {
        PrivacyStatus::Assumption(assumed) => vec![assumed.clone()],
        PrivacyStatus::Released { data, assumed, .. } => {
            let other_data = data != origin;
            let disjoint = "nobody is in both these data and those it was released on";
            assumed.iter().cloned().chain(other_data.then(|| disjoint.to_owned())).collect()
        }
        _ => Vec::new(),
    };
    statuses.iter().flat_map(assumptions_of).map(|what| format!("of the mask: {what}")).collect()
}

impl fmt::Display for Sparsity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.pre_prune, &self.dropping) {
            (None, None) => f.write_str("every coordinate is trained"),
            (Some(mask), None) => write!(f, "pre-pruned ({mask})"),
            (None, Some(dropping)) => write!(f, "gradient dropping ({dropping})"),
            (Some(mask), Some(dropping)) => {
                write!(f, "pre-pruned ({mask}), gradient dropping ({dropping})")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mask::SelectionLog;
    use serde::de::DeserializeOwned;

    fn assert_round_trip<T: Serialize + DeserializeOwned>(json: &str) {
        let value: T = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&value).unwrap(), json);
    }

    #[test]
    fn serialised_names_do_not_follow_renamed_fields() {
        assert_round_trip::<Sparsity>(concat!(
            r#"{"pre_prune":{"given":{"fingerprint":"ab","origin":{"how":"random","#,
            r#""covered":["data_free",{"assumption":"a"},{"not_private":"b"}]},"#,
            r#""kept":1,"of":2,"zeroing":false}},"state":"lazy"}"#,
        ));
        assert_round_trip::<PrePrune>(
            r#"{"dp_snip":{"rate":0.5,"clip":0.25,"asked":{"share":0.05},"settled":16.5}}"#,
        );
        assert_round_trip::<SelectionLog>(concat!(
            r#"{"steps":2,"recorded":[1,1],"tensors":[{"path":"0.weight","coordinates":2,"#,
            r#""share":[[0.5,1.0],[0.0,1.0]]}]}"#,
        ));
    }
}
