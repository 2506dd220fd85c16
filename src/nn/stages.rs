//! Stages of a network: what is frozen together in transfer learning.

use super::{LayerSpec, Network};
use crate::{Error, ErrorKind, Result};

impl Network {
    /// Whether each parameter tensor is frozen if the first `groups` stages are, in the network's
    /// order.
    ///
    /// The stages of a residual network are its groups `group1`, `group2` and so on, and the first
    /// includes the stem. In other networks a stage ends with each pooling layer, and the last one
    /// where the features become plain. If all stages are frozen, only the last linear layer is
    /// trained (Kurakin et al., 2022, "Toward training at ImageNet scale with differential
    /// privacy", appendix G): also normalisation and linear layers before it are frozen.
    ///
    /// # Errors
    /// `Setting` if the network has no stages, or fewer than `groups`; the text says how many.
    pub(crate) fn frozen_stages(&self, groups: usize) -> Result<Vec<bool>> {
        let stages = self.stages();
        if groups > stages.len() {
            let (why, fix) = match stages.len() {
                0 => (
                    "the model has no stages: it neither has groups of layers nor pools images"
                        .to_owned(),
                    "name layers instead, such as .freeze(\"0\"), or .train_only(\"2\")".to_owned(),
                ),
                n => (
                    format!("the model has {n} stages"),
                    format!("freeze 1 to {n}; with all {n} only the last linear layer is trained"),
                ),
            };
            return Err(
                Error::new(ErrorKind::Setting, format!("freeze_groups = {groups}"), why).fix(fix)
            );
        }
        let tensors = self.paths().len();
        let frozen = match groups {
            0 => 0,
            all if all == stages.len() => tensors - self.head_tensors(),
            some => stages[some - 1],
        };
        Ok((0..tensors).map(|i| i < frozen).collect())
    }

    /// For each stage, the number of parameter tensors up to its end.
    fn stages(&self) -> Vec<usize> {
        let specs = self.specs();
        let grouped = |spec: &LayerSpec| match spec {
            LayerSpec::Group(group) => {
                let number = group.name.strip_prefix("group");
                number.is_some_and(|number| number.parse::<u32>().is_ok())
            }
            _ => false,
        };
        let by_groups = specs.iter().any(grouped);
        let (mut tensors, mut ends) = (0, Vec::new());
        for spec in specs {
            tensors += spec.parameters().len();
            let is_end = match spec {
                group if by_groups => grouped(group),
                LayerSpec::MaxPool2d(_) | LayerSpec::AvgPool2d(_) => true,
                LayerSpec::Flatten | LayerSpec::GlobalAvgPool => true,
                _ => false,
            };
            if is_end && tensors > ends.last().copied().unwrap_or(0) {
                ends.push(tensors);
            }
            if matches!(spec, LayerSpec::Flatten | LayerSpec::GlobalAvgPool) {
                break;
            }
        }
        ends
    }

    /// Number of parameter tensors of the last layer that has some.
    fn head_tensors(&self) -> usize {
        self.leaf_specs().last().map_or(0, |layer| layer.parameters().len())
    }
}
