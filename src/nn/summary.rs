//! The table of a model's layers.

use std::fmt;

use super::LayerSpec;

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerInfo {
    /// Place in the network, counted from 0: the prefix of the parameters' paths.
    pub name: String,
    /// What it is.
    pub kind: &'static str,
    /// The shape of one example after it.
    pub output_shape: Vec<usize>,
    /// How many numbers it learns.
    pub parameters: usize,
    /// How norms of single examples are found: `"ghost"`, `"instantiated"` or `"-"`.
    pub norms: &'static str,
}

impl LayerInfo {
    pub(super) fn new(index: usize, spec: &LayerSpec, output_shape: Vec<usize>) -> Self {
        let sizes = spec.parameters();
        Self {
            name: index.to_string(),
            kind: spec.kind(),
            output_shape,
            parameters: sizes.iter().map(|(_, shape)| shape.iter().product::<usize>()).sum(),
            norms: spec.norms(),
        }
    }
}

/// All layers of a model; displays as a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    title: String,
    layers: Vec<LayerInfo>,
}

impl Summary {
    pub(super) fn new(title: String, layers: Vec<LayerInfo>) -> Self {
        Self { title, layers }
    }

    /// The lines of the table.
    pub fn layers(&self) -> &[LayerInfo] {
        &self.layers
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        let head = ("layer", "kind", "output", "parameters", "norms");
        write!(f, "{:<5}  {:<13}  {:<14}  {:>10}  {}", head.0, head.1, head.2, head.3, head.4)?;
        for layer in &self.layers {
            let output = format!("{:?}", layer.output_shape);
            write!(
                f,
                "\n{:<5}  {:<13}  {:<14}  {:>10}  {}",
                layer.name, layer.kind, output, layer.parameters, layer.norms
            )?;
        }
        Ok(())
    }
}
