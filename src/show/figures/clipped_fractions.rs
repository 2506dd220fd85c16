//! Bars of the examples that the clips of backpropagation clipping scale down.

use super::as_sentence;
use crate::engine::{ClippedFractions, LayerClippedFractions};
use crate::show::axis::{Axis, Unit};
use crate::show::bars::{Bar, Bars};
use crate::show::figure_card::FigureHeader;
use crate::show::palette::{self, Rgb};
use crate::show::{Coverage, Figure, Table, format};

/// Maximum number of layers that are drawn.
const MAX_ROWS: usize = 24;
const INPUTS: Rgb = palette::SERIES[0];
const UPSTREAM: Rgb = palette::SERIES[1];

/// Draws the fractions of the examples whose input and upstream gradient the clips of each layer
/// scale down.
///
/// ```
/// use epsilab::prelude::*;
/// let data = data::glyphs_with(20, 0, 1)?;
/// let plan = BackpropClip::new().noise_multiplier(1.0).batch_size(10).plan(&data)?;
/// let model = plan.prepare_model(&models::linear(&data).seed(1).build()?)?; // adds the clips
/// let shares = model.clipped_fractions(&data)?; // or run.clipped_fractions(&data)?
/// assert_eq!((shares.layers.len(), shares.examples), (1, 20));
/// assert!(figures::clipped_fractions(&shares).text().contains(epsilab::show::NOT_COVERED));
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// None: the fractions are computed from the examples without noise. The figure carries
/// [`NOT_COVERED`](crate::show::NOT_COVERED).
pub fn clipped_fractions(shares: &ClippedFractions) -> Figure {
    let all = shares.layers.len();
    let layers = &shares.layers[..all.min(MAX_ROWS)];
    let head = FigureHeader::new("Examples that the clips scale down")
        .note(format!(
            "Of {}. {}",
            format::pluralise(shares.examples, "example"),
            common_clips_note(shares)
        ))
        .note_if(layers.len() < all, || {
            let drawn = layers.len();
            format!("The first {drawn} of {all} layers are drawn; the text form lists all.")
        })
        .coverage(Coverage::NotCovered)
        .key(INPUTS, "input above the input clip")
        .key(UPSTREAM, "upstream gradient above the gradient clip");
    let row = |layer: &LayerClippedFractions| {
        let bars = [layer.inputs, Some(layer.upstream)];
        (layer_label(layer), bars.map(|share| Bar::new(share, format_share(share))).to_vec())
    };
    let bars = Bars {
        name: "examples above the clip",
        axis: Axis::linear_exact(0.0, 1.0, 5, Unit::Percent),
        kinds: vec![("input", INPUTS), ("upstream gradient", UPSTREAM)],
        rows: layers.iter().map(row).collect(),
        mark: None,
    };
    head.figure(&bars, table(shares))
}

/// Returns the name of a layer, such as `0 Conv2d`.
fn layer_label(layer: &LayerClippedFractions) -> String {
    format!("{} {}", layer.layer, layer.kind)
}

/// Formats a fraction as percent, with a dash for inputs that are not clipped.
fn format_share(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), format::percent)
}

/// Describes the clips, if all layers have the same.
fn common_clips_note(shares: &ClippedFractions) -> String {
    let mut all = shares.layers.iter().map(|layer| layer.clips);
    match all.next() {
        Some(first) if all.all(|clips| clips == first) => as_sentence(&first.to_string()),
        _ => String::new(),
    }
}

fn table(shares: &ClippedFractions) -> Table {
    let head =
        ["layer", "kind", "input clip", "inputs clipped", "gradient clip", "gradients clipped"];
    let row = |layer: &LayerClippedFractions| {
        let clips = &layer.clips;
        [
            layer.layer.clone(),
            layer.kind.clone(),
            layer.inputs.map_or("–".to_owned(), |_| clips.max_input_norm.to_string()),
            format_share(layer.inputs),
            clips.max_upstream_norm.to_string(),
            format_share(Some(layer.upstream)),
        ]
    };
    Table::new(head).rows(shares.layers.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::LayerClips;
    use crate::show::NOT_COVERED;
    use crate::show::layout::tests::collisions;

    fn layer(
        index: usize,
        kind: &str,
        inputs: Option<f64>,
        upstream: f64,
    ) -> LayerClippedFractions {
        let clips = LayerClips::new(1.0, 0.01);
        LayerClippedFractions {
            layer: index.to_string(),
            kind: kind.into(),
            clips,
            inputs,
            upstream,
        }
    }

    #[test]
    fn shares_are_drawn_with_the_badge_and_an_embedding_has_a_dash() {
        let mut layers =
            vec![layer(0, "Embedding", None, 0.25), layer(2, "Linear", Some(1.0), 0.004)];
        let shares = ClippedFractions { layers: layers.clone(), examples: 1_234 };
        let figure = clipped_fractions(&shares);
        let text = figure.text();
        assert!(text.contains(NOT_COVERED) && figure.svg().contains(NOT_COVERED), "{text}");
        assert!(
            text.contains("Of 1,234 examples. Inputs clipped to 1, upstream gradients to 0.01")
        );
        let line = |kind: &str| -> Vec<String> {
            let line = text.lines().find(|line| line.contains(kind)).unwrap();
            line.split_whitespace().map(str::to_owned).collect()
        };
        assert_eq!(line("Embedding")[2..], ["–", "–", "0.01", "25.0", "%"], "{text}");
        assert_eq!(line("Linear")[2..], ["1", "100.0", "%", "0.01", "0.4", "%"], "{text}");
        assert_eq!(collisions(figure.scene()), Vec::<String>::new());

        // Other clips in a layer are in the table only, and so are layers beyond the last bar.
        layers[1].clips.max_upstream_norm = 7.0;
        layers.extend((3..40).map(|i| layer(i, "Conv2d", Some(0.5), 0.5)));
        let text = clipped_fractions(&ClippedFractions { layers, examples: 1 }).text();
        assert!(!text.contains("Inputs clipped to") && text.contains("of 39 layers"), "{text}");
        assert!(text.contains(" 7 ") && text.contains("39"), "{text}");
    }
}
