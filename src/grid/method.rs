//! The methods that a grid can compare, and their plans for a cell.

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
    /// DP-SGD: it has no rates, so one cell per epsilon.
    DpSgd(DpSgd),
    /// DP-SSGD: one cell per epsilon, pruning rate and dropping rate. Where both rates are 0 it is
    /// DP-SGD and shares its runs.
    DpSsgd(DpSsgd),
    /// Without privacy: one cell per pruning rate and dropping rate, for all epsilons together.
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

    /// Refuses settings that belong to the grid.
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
                format!("a grid of a method with {setting}"),
                "seeds, masks and dropping are the grid's own axes, and finished runs are never \
                 trained again",
            )
            .fix("leave it out; use the grid's seeds, pre_prune and drop_gradients")),
        }
    }

    /// The plan for a target (`None` for the method's own), a mask and gradient dropping.
    pub(super) fn plan(
        &self,
        target: Option<(Epsilon, Delta)>,
        mask: Option<PrePrune>,
        dropping: Option<Dropping>,
        data: &Dataset,
    ) -> Result<Plan> {
        /// The plan of a sparse method with mask and dropping.
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
                    // Drops the setting for dropped coordinates too, so that the run is the same.
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
