//! The methods that a grid can compare, and their plans for a cell.

use std::fmt;

use crate::data::Dataset;
use crate::mask::{Dropping, PrePrune};
use crate::methods::{Method, Plan};
use crate::privacy::{Delta, Epsilon, Trials};
use crate::{Error, ErrorKind, Result};

/// A method with its settings; the grid adds epsilon, rates and seeds.
///
/// A private method has one cell per epsilon, another one is for all epsilons together. A method
/// that takes masks has one cell per pruning rate and dropping rate. Where both rates are 0,
/// DP-SSGD is DP-SGD and shares its runs.
#[derive(Clone, Debug)]
pub struct GridMethod(Box<dyn Method>);

impl<M: Method + 'static> From<M> for GridMethod {
    fn from(method: M) -> Self {
        Self(Box::new(method))
    }
}

impl From<Box<dyn Method>> for GridMethod {
    fn from(method: Box<dyn Method>) -> Self {
        Self(method)
    }
}

impl PartialEq for GridMethod {
    fn eq(&self, other: &Self) -> bool {
        *self.0 == *other.0
    }
}

impl GridMethod {
    /// The name, as on the command line.
    pub fn name(&self) -> &'static str {
        self.0.recipe().name
    }

    /// Whether it adds noise.
    pub fn is_private(&self) -> bool {
        self.0.recipe().is_private
    }

    /// Whether coordinates can be pruned and dropped.
    pub(super) fn is_sparse(&self) -> bool {
        self.0.recipe().is_sparse
    }

    /// Refuses settings that belong to the grid.
    pub(super) fn check(&self) -> Result<()> {
        let settings = self.0.settings();
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

    /// The plan for a target (`None` for the method's own), a mask and gradient dropping. With
    /// `best_of`, the target is that of so many trials together.
    pub(super) fn plan(
        &self,
        target: Option<(Epsilon, Delta)>,
        best_of: Option<Trials>,
        mask: Option<PrePrune>,
        dropping: Option<Dropping>,
        data: &Dataset,
    ) -> Result<Plan> {
        let is_dense = mask.is_none() && dropping.is_none();
        let mut method = if is_dense { self.0.dense() } else { self.0.clone() };
        if let (Some((epsilon, delta)), Some(private)) = (target, method.private_mut()) {
            private.target(epsilon, delta);
        }
        if let (Some(trials), Some(private)) = (best_of, method.private_mut()) {
            private.set_best_of(trials);
        }
        if !is_dense {
            let sparsity = method.settings_mut().sparsity.get_or_insert_default();
            sparsity.pre_prune = mask.or(sparsity.pre_prune.take());
            sparsity.dropping = dropping.or(sparsity.dropping.take());
        }
        method.plan(data)
    }
}

impl fmt::Display for GridMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
