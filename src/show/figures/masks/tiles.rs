//! Masks with a tile for each coordinate.

use super::{
    MAX_PANELS, kept_summary, largest_indices, layer_cell, mask_coverage, mask_tensor_names,
    omission_note, percent, shape,
};
use crate::Result;
use crate::mask::{Mask, MaskTensor};
use crate::nn::Model;
use crate::show::figure_card::FigureHeader;
use crate::show::multiples::{PanelHead, panel_width};
use crate::show::palette::{self, Rgb};
use crate::show::tiles::{Interval, TilePanel, Tiles, grouped_intervals};
use crate::show::{Coverage, Figure, Table, format};

/// Maximum number of tiles, for an SVG of about 150 kB.
const MAX_TILES: usize = 7000;
/// Possible sides of a tile.
const TILE_SIDES: [f64; 7] = [10.0, 8.0, 6.0, 5.0, 4.0, 3.5, 3.0];
const GAP: f64 = 2.0;
/// Maximum height of a panel; taller ones are cut.
const MAX_PANEL_HEIGHT: f64 = 200.0;
/// Number of shades for the magnitude of a weight.
const LEVELS: u8 = 5;
const DROPPED: Rgb = palette::GRID;

/// Draws a tile for each coordinate, blue where it is kept. With a model, the shade shows the
/// magnitude of the weight relative to the largest of its tensor. The longer of inputs and outputs
/// runs to the right; convolutions have a block of kernel height x width tiles for each pair. The
/// twelve largest tensors are drawn; of those that do not fit, the first inputs and outputs.
///
/// ```
/// use epsilab::prelude::*;
/// let data = data::glyphs_with(20, 0, 1)?;
/// let model = models::mlp(&data, &[4]).seed(1).build()?;
/// let mask = Synflow::keep(0.25).mask(&model)?;
/// let figure = figures::tiles(&mask, &model)?; // shaded by the size of the weights
/// assert_eq!(figure.table().len(), 2); // a row for each tensor
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// The figure reveals what the mask reveals, and the weights of the model if one is given. For a
/// mask computed from private examples without noise it carries
/// [`NOT_COVERED`](crate::show::NOT_COVERED).
///
/// # Errors
/// Kind `Model` if the mask is not for this model.
pub fn tiles<'a>(mask: &Mask, model: impl Into<Option<&'a Model>>) -> Result<Figure> {
    let model = model.into();
    let values = match model {
        Some(model) => {
            mask.check(model.network())?;
            model.network().values()
        }
        None => Vec::new(),
    };
    let saliencies = |tensor: &MaskTensor| -> Option<&[f32]> {
        let found = values.iter().find(|(parameter, _)| parameter.path == tensor.path);
        found.map(|(_, values)| values.as_slice())
    };
    let sizes: Vec<usize> = mask.tensors().iter().map(|tensor| tensor.kept.len()).collect();
    let shown = largest_indices(&sizes, MAX_PANELS);
    let mut head =
        FigureHeader::new(format!("Mask, a tile for each coordinate: {}", mask.origin().method))
            .note(kept_summary(mask))
            .note("Convolutions: a small tile, kernel height x width, for each output and input.")
            .note(omission_note(shown.len(), sizes.len()))
            .coverage(
                mask_coverage(mask).max(model.map_or(Coverage::Public, |model| {
                    Coverage::for_parameters(model.provenance())
                })),
            )
            .key(DROPPED, "dropped");
    head = match model {
        None => head.key(palette::KEPT, "kept"),
        Some(_) => head
            .key(level_colour(1), "kept, weight near zero")
            .key(level_colour(LEVELS), "kept, as large as the tensor's largest"),
    };
    let (room, budget) = (panel_width(shown.len()), MAX_TILES / shown.len().max(1));
    let names = mask_tensor_names(mask);
    let panel = |&i: &usize| {
        let tensor = &mask.tensors()[i];
        let laid = TileLayout::new(&tensor.shape, room, budget);
        TilePanel {
            head: PanelHead {
                title: names[i].clone(),
                size: shape(&tensor.shape),
                remarks: vec![format!("{} kept", percent(tensor.density())), laid.axes_text()],
            },
            across: laid.intervals(0),
            down: laid.intervals(1),
            tooltip: laid.tooltip(),
            levels: tile_levels(&laid, tensor, saliencies(tensor)),
            ends: None,
        }
    };
    let levels = level_legend(model.is_some());
    let drawing = Tiles { panels: shown.iter().map(panel).collect(), levels };
    Ok(head.figure(&drawing, table(mask, saliencies)))
}

/// Returns the colour and name of each level.
fn level_legend(has_weights: bool) -> Vec<(Rgb, String)> {
    let name = |level: u8| match (has_weights, level) {
        (false, LEVELS) => "kept".to_owned(),
        (false, _) => String::new(),
        (true, level) => {
            let percent = u32::from(level) * 100 / u32::from(LEVELS);
            format!("kept, up to {percent} % of the largest weight")
        }
    };
    let kept = (1..=LEVELS).map(|level| (level_colour(level), name(level)));
    std::iter::once((DROPPED, "dropped".to_owned())).chain(kept).collect()
}

fn level_colour(level: u8) -> Rgb {
    palette::shade(0.16 + 0.84 * f64::from(level - 1) / f64::from(LEVELS - 1))
}

/// Layout of a tensor as groups of tiles: number of groups, number drawn, and tiles per group,
/// across and down. The longer dimension runs across.
struct TileLayout {
    groups: [usize; 2],
    drawn: [usize; 2],
    group_size: [usize; 2],
    side: f64,
    gap: f64,
    /// Whether the first dimension of the tensor runs across instead of the second.
    transposed: bool,
    /// Names of the dimensions, across and down.
    names: [&'static str; 2],
}

impl TileLayout {
    fn new(shape: &[usize], room: f64, budget: usize) -> Self {
        let rest = |from: usize| shape[from.min(shape.len())..].iter().product::<usize>();
        let ([first, second], each, gap, names) = match *shape {
            // At least one kernel must fit.
            [out, input, high, wide] if (high * wide).max(wide * wide) <= budget.min(900) => {
                ([out, input], [wide, high], GAP, ["outputs", "inputs"])
            }
            [inputs, outputs] => ([inputs, outputs], [1, 1], 0.0, ["inputs", "outputs"]),
            [] | [_] => ([1, rest(0)], [1, 1], 0.0, ["rows", "columns"]),
            [first, ..] => ([first, rest(1)], [1, 1], 0.0, ["rows", "columns"]),
        };
        let transposed = first > second;
        let (mut groups, mut names) = ([first, second], names);
        if !transposed {
            groups.reverse();
            names.reverse();
        }
        let mut laid = Self {
            groups,
            drawn: groups,
            group_size: each,
            side: TILE_SIDES[0],
            gap,
            transposed,
            names,
        };
        let smallest = TILE_SIDES[TILE_SIDES.len() - 1];
        let rooms = [room, room.min(MAX_PANEL_HEIGHT)];
        laid.side =
            TILE_SIDES.into_iter().find(|&s| laid.fits(s, rooms, budget)).unwrap_or(smallest);
        for (axis, room) in rooms.into_iter().enumerate() {
            let group = laid.group_size[axis] as f64 * laid.side + gap;
            let most = ((room + gap) / group) as usize;
            laid.drawn[axis] = laid.drawn[axis].min(most).max(1);
        }
        while laid.tiles() > budget && laid.drawn != [1, 1] {
            let longer = usize::from(laid.size(1) > laid.size(0));
            let axis = if laid.drawn[longer] > 1 { longer } else { 1 - longer };
            laid.drawn[axis] -= 1;
        }
        laid
    }

    fn fits(&self, side: f64, rooms: [f64; 2], budget: usize) -> bool {
        let layout = Self { drawn: self.groups, side, ..*self };
        (0..2).all(|axis| layout.size(axis) <= rooms[axis]) && layout.tiles() <= budget
    }

    fn tiles(&self) -> usize {
        (0..2).map(|axis| self.drawn[axis].saturating_mul(self.group_size[axis])).product()
    }

    /// Returns the size on the page, across (0) or down (1).
    fn size(&self, axis: usize) -> f64 {
        let groups = self.drawn[axis] as f64;
        groups * self.group_size[axis] as f64 * self.side + (groups - 1.0) * self.gap
    }

    /// Formats the dimensions as `→ 45 of 512 outputs, ↓ 3 inputs`.
    fn axes_text(&self) -> String {
        let part = |axis: usize| match (self.drawn[axis], self.groups[axis]) {
            (drawn, all) if drawn == all => all.to_string(),
            (drawn, all) => format!("{drawn} of {all}"),
        };
        let word = |axis: usize| match self.groups[axis] {
            1 => self.names[axis].trim_end_matches('s'),
            _ => self.names[axis],
        };
        format!("→ {} {}, ↓ {} {}", part(0), word(0), part(1), word(1))
    }

    /// Returns the index into the tensor of the tile in this row and column.
    fn index(&self, row: usize, column: usize) -> usize {
        let [wide, high] = self.group_size;
        let (inner_row, inner_column) = (row % high, column % wide);
        let (group_down, group_across) = (row / high, column / wide);
        let [across, down] = self.groups;
        let group = if self.transposed {
            group_across * down + group_down
        } else {
            group_down * across + group_across
        };
        (group * high + inner_row) * wide + inner_column
    }

    /// Returns the names and expressions of the place of a tile: output, input and place in the
    /// kernel, counted from 0.
    fn tooltip(&self) -> Vec<(String, String)> {
        let [wide, high] = self.group_size;
        let [across, down] = self.names.map(|name| name.trim_end_matches('s'));
        let mut lines = vec![
            (down.to_owned(), format!("floor(datum.row / {high})")),
            (across.to_owned(), format!("floor(datum.column / {wide})")),
        ];
        if wide * high > 1 {
            let position = format!("(datum.row % {high}) + ', ' + (datum.column % {wide})");
            lines.push(("row, column of the kernel".to_owned(), position));
        }
        lines
    }

    fn intervals(&self, axis: usize) -> Vec<Interval> {
        grouped_intervals(self.side, self.drawn[axis], self.group_size[axis], self.gap)
    }
}

/// Returns the level of each tile: 0 if it is dropped, else by the magnitude of the weight.
fn tile_levels(laid: &TileLayout, tensor: &MaskTensor, values: Option<&[f32]>) -> Vec<Vec<u8>> {
    let largest = values.map(|values| {
        let kept = values.iter().zip(&tensor.kept).filter(|(_, kept)| **kept);
        kept.map(|(v, _)| v.abs()).filter(|v| v.is_finite()).fold(0.0, f32::max)
    });
    let level = |index: usize| match (tensor.kept[index], values.zip(largest)) {
        (false, _) => 0,
        (true, None) => LEVELS,
        (true, Some((values, largest))) => {
            let share = values[index].abs() / largest.max(f32::MIN_POSITIVE);
            ((share * f32::from(LEVELS)).ceil() as u8).clamp(1, LEVELS)
        }
    };
    let [wide, high] = [0, 1].map(|axis| laid.drawn[axis] * laid.group_size[axis]);
    (0..high).map(|row| (0..wide).map(|column| level(laid.index(row, column))).collect()).collect()
}

fn table<'a>(mask: &Mask, values: impl Fn(&MaskTensor) -> Option<&'a [f32]>) -> Table {
    let mean = |tensor: &MaskTensor, wanted: bool| -> String {
        let Some(values) = values(tensor) else { return "-".into() };
        let picked = values.iter().zip(&tensor.kept).filter(|(_, kept)| **kept == wanted);
        let picked: Vec<f64> = picked.map(|(v, _)| f64::from(v.abs())).collect();
        let mean = picked.iter().sum::<f64>() / picked.len() as f64;
        if picked.is_empty() { "-".into() } else { format::significant(mean, 3) }
    };
    let names = ["tensor", "layer", "shape", "kept", "mean |kept weight|", "mean |dropped weight|"];
    let row = |(tensor, name): (&MaskTensor, String)| {
        [
            tensor.path.clone(),
            layer_cell(&name, &tensor.path),
            shape(&tensor.shape),
            percent(tensor.density()),
            mean(tensor, true),
            mean(tensor, false),
        ]
    };
    Table::new(names).rows(mask.tensors().iter().zip(mask_tensor_names(mask)).map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_of_a_convolution_are_its_coordinates() {
        let laid = TileLayout::new(&[2, 3, 2, 4], 300.0, 1000);
        assert_eq!((laid.groups, laid.group_size, laid.transposed), ([3, 2], [4, 2], false));
        let mut seen: Vec<usize> = (0..4)
            .flat_map(|row| (0..12).map(move |c| (row, c)))
            .map(|(r, c)| laid.index(r, c))
            .collect();
        // Output 1, input 2, kernel row 1, kernel column 3: the last of all.
        assert_eq!(laid.index(3, 11), 47);
        // Output 0, input 1, kernel row 1, kernel column 0.
        assert_eq!(laid.index(1, 4), 12);
        seen.sort_unstable();
        assert_eq!(seen, (0..48).collect::<Vec<_>>());
        assert_eq!(laid.axes_text(), "→ 3 inputs, ↓ 2 outputs");
    }

    #[test]
    fn the_longer_side_goes_across() {
        let laid = TileLayout::new(&[3, 2, 2, 2], 300.0, 1000);
        assert_eq!((laid.groups, laid.transposed), ([3, 2], true));
        // Output 1, input 0, kernel row 1, kernel column 0; then output 0, input 1.
        assert_eq!((laid.index(1, 2), laid.index(2, 0)), (10, 4));
        let linear = TileLayout::new(&[4, 2], 300.0, 1000);
        assert_eq!(
            (linear.axes_text().as_str(), linear.index(1, 3)),
            ("→ 4 inputs, ↓ 2 outputs", 7)
        );
    }

    #[test]
    fn large_values_are_cut_to_their_budget() {
        for shape in [&[512, 512, 3, 3][..], &[3136, 128], &[10], &[1, 1, 99, 99], &[4, 4, 4], &[]]
        {
            let laid = TileLayout::new(shape, 238.0, 583);
            assert!(laid.tiles() <= 583 && laid.tiles() > 0, "{shape:?}: {}", laid.tiles());
            assert!(laid.size(0) <= 238.0 && laid.size(1) <= MAX_PANEL_HEIGHT, "{shape:?}");
            let last = laid.index(
                laid.drawn[1] * laid.group_size[1] - 1,
                laid.drawn[0] * laid.group_size[0] - 1,
            );
            assert!(last < shape.iter().product::<usize>(), "{shape:?}");
        }
        assert!(!TileLayout::new(&[16, 10], 238.0, 583).axes_text().contains("of"));
        assert!(TileLayout::new(&[512, 512, 3, 3], 238.0, 583).axes_text().contains("of 512"));
    }
}
