//! The methods a grid can compare, and the plan each makes of a point.

use std::fmt;

use crate::data::Dataset;
use crate::mask::{Dropping, PrePrune};
use crate::methods::{DpSgd, DpSsgd, NonPrivate, Plan, Settings};
use crate::privacy::{Delta, Epsilon};
use crate::{Error, ErrorKind, Result};

/// A method with its settings; the grid adds epsilon, rates and seeds.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum GridMethod {
    /// DP-SGD: has no rates, so it is one cell per epsilon.
    DpSgd(DpSgd),
    /// DP-SSGD: one cell per epsilon, pruning rate and dropping rate. Where both are 0 it is
    /// plain DP-SGD and shares its runs with it.
    DpSsgd(DpSsgd),
    /// Without privacy: one cell per pruning rate and dropping rate, whatever the epsilons.
    NonPrivate(NonPrivate),
}

impl From<DpSgd> for GridMethod {
    fn from(method: DpSgd) -> Self {
        Self::DpSgd(method)
    }
}

impl From<DpSsgd> for GridMethod {
    fn from(method: DpSsgd) -> Self {
        Self::DpSsgd(method)
    }
}

impl From<NonPrivate> for GridMethod {
    fn from(method: NonPrivate) -> Self {
        Self::NonPrivate(method)
    }
}

impl GridMethod {
    /// The name, as on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::DpSgd(_) => "dp-sgd",
            Self::DpSsgd(_) => "dp-ssgd",
            Self::NonPrivate(_) => "non-private",
        }
    }

    /// Whether it adds noise.
    pub fn is_private(&self) -> bool {
        !matches!(self, Self::NonPrivate(_))
    }

    /// Whether coordinates can be pruned and dropped.
    pub(super) fn is_sparse(&self) -> bool {
        !matches!(self, Self::DpSgd(_))
    }

    fn settings(&self) -> &Settings {
        match self {
            Self::DpSgd(method) => &method.settings,
            Self::DpSsgd(method) => &method.settings,
            Self::NonPrivate(method) => &method.settings,
        }
    }

    /// Refuses settings that are the grid's to make.
    pub(super) fn check(&self) -> Result<()> {
        let settings = self.settings();
        let sparsity = settings.sparsity.as_ref();
        let said = [
            (".seed(…)", settings.seed.is_some()),
            (".fresh()", settings.fresh),
            (".pre_prune(…)", sparsity.is_some_and(|sparsity| sparsity.pre_prune.is_some())),
            (".drop_gradients(…)", sparsity.is_some_and(|sparsity| sparsity.dropping.is_some())),
        ];
        match said.iter().find(|(_, said)| *said) {
            None => Ok(()),
            Some((setting, _)) => Err(Error::new(
                ErrorKind::Setting,
                format!("a grid of a method that says {setting}"),
                "seeds, masks and dropping are the grid's own axes, and finished runs are never \
                 trained again",
            )
            .fix("leave it out; use the grid's seeds, pre_prune and drop_gradients")),
        }
    }

    /// The plan for a target (none: the method's own), a mask and a dropping.
    pub(super) fn plan(
        &self,
        target: Option<(Epsilon, Delta)>,
        mask: Option<PrePrune>,
        dropping: Option<Dropping>,
        data: &Dataset,
    ) -> Result<Plan> {
        /// What the sparse methods do with mask and dropping.
        macro_rules! sparse {
            ($method:ident) => {{
                if let Some(mask) = mask {
                    $method = $method.pre_prune(mask);
                }
                if let Some(dropping) = dropping {
                    $method = $method.drop_gradients(dropping);
                }
                $method.plan(data)
            }};
        }
        let is_dense = mask.is_none() && dropping.is_none();
        match self.clone() {
            Self::DpSgd(mut method) => {
                if let Some((epsilon, delta)) = target {
                    method = method.target(epsilon, delta);
                }
                method.plan(data)
            }
            Self::DpSsgd(mut method) => {
                if let Some((epsilon, delta)) = target {
                    method = method.target(epsilon, delta);
                }
                if is_dense {
                    return method.dense().plan(data);
                }
                sparse!(method)
            }
            Self::NonPrivate(mut method) => {
                if is_dense {
                    // Also without a word on the state of dropped coordinates: the same run.
                    method.settings.sparsity = None;
                }
                sparse!(method)
            }
        }
    }
}

impl fmt::Display for GridMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
