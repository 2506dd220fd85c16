//! [`ModelSummary`]: the table of a model's layers.
//!
//! It does not show how per-example norms are computed, which is the executor's choice:
//! `model.check_gradients(&data)` reports it.

use std::fmt;

use super::LayerSpec;
use super::network::output_shapes;

/// Row of a [`ModelSummary`]: a layer of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerInfo {
    /// Path of the layer, the prefix of its parameters' paths: `"0"`, `"group1.0.body.2"`.
    pub name: String,
    /// The kind of layer, such as `"Conv2d"`.
    pub kind: &'static str,
    /// The shape of one example after the layer.
    pub output_shape: Vec<usize>,
    /// Number of trainable parameters (scalars), without those of nested layers.
    pub parameters: usize,
}

impl LayerInfo {
    /// Returns the rows of a list of layers for examples of shape `input`. Nested layers have rows
    /// of their own, and the row of a residual block comes after those of its body and shortcut.
    pub(super) fn list(prefix: &str, input: &[usize], specs: &[LayerSpec]) -> Vec<Self> {
        let after = output_shapes(input, specs).unwrap_or_default();
        let before = std::iter::once(input).chain(after.iter().map(Vec::as_slice));
        let mut rows = Vec::new();
        for (index, ((spec, shape), input)) in specs.iter().zip(&after).zip(before).enumerate() {
            let name = format!("{prefix}{}", spec.path_segment(index));
            let parameters = match spec {
                LayerSpec::Group(group) => {
                    rows.extend(Self::list(&format!("{name}."), input, &group.layers));
                    continue;
                }
                LayerSpec::Residual(block) => {
                    for (branch, specs) in [("body", &block.body), ("shortcut", &block.shortcut)] {
                        rows.extend(Self::list(&format!("{name}.{branch}."), input, specs));
                    }
                    0
                }
                _ => {
                    spec.parameters().iter().map(|(_, shape)| shape.iter().product::<usize>()).sum()
                }
            };
            rows.push(Self { name, kind: spec.kind(), output_shape: shape.clone(), parameters });
        }
        rows
    }
}

/// Table of all layers of a model. Displays as a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelSummary {
    title: String,
    layers: Vec<LayerInfo>,
}

impl ModelSummary {
    pub(super) fn new(title: String, layers: Vec<LayerInfo>) -> Self {
        Self { title, layers }
    }

    /// Returns the rows of the table.
    pub fn layers(&self) -> &[LayerInfo] {
        &self.layers
    }
}

impl fmt::Display for ModelSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        let names = self.layers.iter().map(|layer| layer.name.len());
        let width = names.max().unwrap_or(0).max("layer".len());
        let line = |name: &str, kind: &str, output: &str, parameters: &str| {
            format!("{name:<width$}  {kind:<13}  {output:<14}  {parameters:>10}")
        };
        f.write_str(&line("layer", "kind", "output", "parameters"))?;
        self.layers.iter().try_for_each(|LayerInfo { name, kind, output_shape, parameters }| {
            let (output, parameters) = (format!("{output_shape:?}"), parameters.to_string());
            write!(f, "\n{}", line(name, kind, &output, &parameters))
        })
    }
}
