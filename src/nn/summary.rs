//! The table of a model's layers. How norms of single examples are found is the executor's affair,
//! not the layer's: `model.prove(&data)` says it.

use std::fmt;

use super::LayerSpec;
use super::network::shapes;

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerInfo {
    /// Place in the network, the prefix of the parameters' paths: `"0"`, `"group1.0.body.2"`.
    pub name: String,
    /// What it is.
    pub kind: &'static str,
    /// The shape of one example after it.
    pub output_shape: Vec<usize>,
    /// How many numbers it learns itself; layers within it count for themselves.
    pub parameters: usize,
}

impl LayerInfo {
    /// The lines of a list of layers that is given examples of shape `input`. Layers within
    /// layers have lines of their own; that of a residual block, where both ways meet, comes last.
    pub(super) fn list(prefix: &str, input: &[usize], specs: &[LayerSpec]) -> Vec<Self> {
        let after = shapes(input, specs).unwrap_or_default();
        let before = std::iter::once(input).chain(after.iter().map(Vec::as_slice));
        let mut lines = Vec::new();
        for (index, ((spec, shape), input)) in specs.iter().zip(&after).zip(before).enumerate() {
            let name = format!("{prefix}{}", spec.place(index));
            let own = match spec {
                LayerSpec::Group(group) => {
                    lines.extend(Self::list(&format!("{name}."), input, &group.layers));
                    continue;
                }
                LayerSpec::Residual(block) => {
                    for (way, specs) in [("body", &block.body), ("shortcut", &block.shortcut)] {
                        lines.extend(Self::list(&format!("{name}.{way}."), input, specs));
                    }
                    0
                }
                _ => {
                    spec.parameters().iter().map(|(_, shape)| shape.iter().product::<usize>()).sum()
                }
            };
            lines.push(Self {
                name,
                kind: spec.kind(),
                output_shape: shape.clone(),
                parameters: own,
            });
        }
        lines
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
        let names = self.layers.iter().map(|layer| layer.name.len());
        let wide = names.max().unwrap_or(0).max("layer".len());
        let head = ("layer", "kind", "output", "parameters");
        write!(f, "{:<wide$}  {:<13}  {:<14}  {:>10}", head.0, head.1, head.2, head.3)?;
        for layer in &self.layers {
            let output = format!("{:?}", layer.output_shape);
            write!(
                f,
                "\n{:<wide$}  {:<13}  {:<14}  {:>10}",
                layer.name, layer.kind, output, layer.parameters
            )?;
        }
        Ok(())
    }
}
