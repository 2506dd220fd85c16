//! Names of weight tensors for readers: `conv 1` instead of `0.weight`.

use std::collections::HashMap;

/// Returns the display names of tensors, given their paths and shapes in the order of the model's
/// parameters.
///
/// Layers of a plain list have a number as their path. They are named by kind, which follows from
/// the rank of their weight, and counted by kind. A matrix in layer 0 can be a linear layer or an
/// embedding, so it is called `layer 0`. Paths with words, as in residual networks, stay.
pub(super) fn tensor_names<'a>(
    tensors: impl Iterator<Item = (&'a str, &'a [usize])>,
) -> Vec<String> {
    let mut layers: HashMap<&str, String> = HashMap::new();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let name = |(path, shape): (&'a str, &'a [usize])| {
        let Some((layer, parameter)) = path.rsplit_once('.') else { return path.to_owned() };
        if !layer.bytes().all(|byte| byte.is_ascii_digit()) {
            return path.to_owned();
        }
        let kind = match (shape.len(), parameter) {
            (3.., "weight") => Some("conv"),
            (2, "weight") if layer != "0" => Some("linear"),
            _ => None,
        };
        let layer = layers.entry(layer).or_insert_with(|| match kind {
            Some(kind) => {
                let count = counts.entry(kind).or_default();
                *count += 1;
                format!("{kind} {count}")
            }
            None => format!("layer {layer}"),
        });
        match parameter {
            "weight" if shape.len() > 1 || shape.is_empty() => layer.clone(),
            _ => format!("{layer} {parameter}"),
        }
    };
    tensors.map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_named_by_kind_and_number() {
        let names = |tensors: &[(&str, &[usize])]| tensor_names(tensors.iter().copied());
        assert_eq!(
            names(&[
                ("0.weight", &[16, 1, 8, 8]),
                ("0.bias", &[16]),
                ("3.weight", &[32, 16, 4, 4]),
                ("7.weight", &[512, 32]),
                ("9.weight", &[32, 10]),
            ]),
            ["conv 1", "conv 1 bias", "conv 2", "linear 1", "linear 2"]
        );
        assert_eq!(
            names(&[("0.weight", &[5000, 16]), ("2.weight", &[16, 2]), ("4.weight", &[8])]),
            ["layer 0", "linear 1", "layer 4 weight"]
        );
        assert_eq!(
            names(&[("group1.0.body.3.weight", &[4, 3, 3, 3]), ("own", &[2, 2])]),
            ["group1.0.body.3.weight", "own"]
        );
    }
}
