//! Matrices of small tiles.

use super::palette::Rgb;
use super::scene::{Area, Scene};

/// An interval of page coordinates, horizontal or vertical.
pub(super) type Interval = (f64, f64);

/// Draws `levels[row][column]` in `colours[level]` at the intervals of its column and row. A level
/// without a colour is left blank. Adjacent tiles of a row with the same colour become one box.
pub(super) fn draw(
    scene: &mut Scene,
    levels: &[Vec<u8>],
    colours: &[Rgb],
    across: &[Interval],
    down: &[Interval],
) {
    let mut areas: Vec<Vec<Area>> = vec![Vec::new(); colours.len()];
    for (row, &(top, bottom)) in levels.iter().zip(down) {
        let mut open: Option<(u8, Interval)> = None;
        let mut close = |run: Option<(u8, Interval)>| {
            if let Some((level, (left, right))) = run
                && let Some(areas) = areas.get_mut(usize::from(level))
            {
                areas.push(Area { left, top, right, bottom });
            }
        };
        for (&level, &(left, right)) in row.iter().zip(across) {
            match &mut open {
                Some((same, stretch)) if *same == level && stretch.1 == left => stretch.1 = right,
                _ => close(open.replace((level, (left, right)))),
            }
        }
        close(open);
    }
    for (areas, colour) in areas.into_iter().zip(colours) {
        scene.cells(areas, *colour);
    }
}

/// Intervals of `groups` groups of `each` cells of this size from `start` on, with gaps between
/// groups.
pub(super) fn intervals(
    start: f64,
    cell: f64,
    groups: usize,
    each: usize,
    gap: f64,
) -> Vec<Interval> {
    let at = |g: usize, k: usize| start + (g * each + k) as f64 * cell + g as f64 * gap;
    (0..groups).flat_map(|g| (0..each).map(move |k| (at(g, k), at(g, k) + cell))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::scene::Mark;
    use super::*;

    #[test]
    fn adjacent_tiles_of_one_colour_become_one_box() {
        let mut scene = Scene::new(10.0, 10.0);
        let across = intervals(0.0, 1.0, 2, 2, 0.5);
        assert_eq!(across, [(0.0, 1.0), (1.0, 2.0), (2.5, 3.5), (3.5, 4.5)]);
        let levels = [vec![0, 0, 0, 1], vec![9, 1, 0, 9]];
        draw(&mut scene, &levels, &[(1, 1, 1), (2, 2, 2)], &across, &[(0.0, 1.0), (1.0, 2.0)]);
        let boxes: Vec<Vec<(f64, f64, f64)>> = scene
            .marks
            .iter()
            .map(|mark| match mark {
                Mark::Cells { areas, .. } => {
                    areas.iter().map(|a| (a.left, a.right, a.top)).collect()
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(boxes[0], [(0.0, 2.0, 0.0), (2.5, 3.5, 0.0), (2.5, 3.5, 1.0)]);
        assert_eq!(boxes[1], [(3.5, 4.5, 0.0), (1.0, 2.0, 1.0)]);
    }
}
