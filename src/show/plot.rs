//! The inside of a panel: grid, axes, references and lines.

use super::axis::Axis;
use super::chart::{Panel, Reference};
use super::font;
use super::format::one_line;
use super::head::marked_point;
use super::layout::{SMALL, letters};
use super::palette::{self, Rgb};
use super::scene::{Align, Area, Point, Scene};
use super::series::{Series, running_mean, thin};

/// Most points that a series keeps, over all its runs.
const MOST_POINTS: usize = 400;
const THICK: f64 = 1.75;
const FINE: f64 = 1.0;
const NO_DATA: &str = "no data yet";
const DASHES: (f64, f64) = (6.0, 4.0);
/// Markers along each line of a panel with several.
const MARKERS: usize = 5;

/// Draws a panel's plot into `area`.
pub(super) fn draw(scene: &mut Scene, panel: &Panel, area: Area, x: &Axis, y: &Axis) {
    let map = Map { area, x, y };
    grid(scene, &map);
    for (_, y) in levels(panel, &map) {
        scene.dashed(&[(area.left, y), (area.right, y)], palette::REFERENCE, 1.25, (5.0, 4.0));
    }
    if let Some(x) = place_mark(panel, &map) {
        scene.dashed(&[(x, area.bottom), (x, area.top)], palette::REFERENCE, 1.25, (5.0, 4.0));
    }
    let mut lines: Vec<Vec<Point>> = Vec::new();
    for (i, series) in panel.series.iter().enumerate() {
        let on_axis = |p: &(f64, f64)| (!panel.log || p.1 > 0.0) && x.can_show(p.0);
        let colour = colour(panel, i);
        let map = map.beside(if series.errors.is_empty() { 0.0 } else { beside(i, panel) });
        error_bars(scene, series, &map, panel.log, colour);
        let runs: Vec<Vec<(f64, f64)>> = series
            .runs()
            .iter()
            .flat_map(|run| run.split(|p| !on_axis(p)).map(<[_]>::to_vec).collect::<Vec<_>>())
            .filter(|run| !run.is_empty())
            .collect();
        let total: usize = runs.iter().map(Vec::len).sum();
        let mut ends: Vec<Point> = Vec::new();
        for run in &runs {
            let most = (MOST_POINTS * run.len() / total.max(1)).max(4);
            if let Some(window) = series.window() {
                let raw = thin(run, most);
                lines.push(line(scene, &map, &raw, palette::tint(colour, 0.38), FINE, false));
                let mean = thin(&running_mean(run, window), most / 2);
                ends.extend(line(scene, &map, &mean, colour, THICK, series.approximate));
            } else {
                let run = thin(run, most);
                ends.extend(line(scene, &map, &run, colour, THICK, series.approximate));
            }
        }
        let stands_for = match panel.mark {
            Some(_) => marked_point(panel, series).map(|p| map.at(p)).filter(|p| inside(&area, *p)),
            None => ends.last().copied(),
        };
        if series.marked {
            ends.iter().for_each(|&at| marker(scene, at, i, colour));
        } else if panel.series.len() > 1 {
            markers(scene, &ends, &map, stands_for, (i, panel.series.len()), colour);
        }
        // A ring would take the neighbour's marker away, and this one is marked already.
        if let Some(at) = stands_for.filter(|_| !series.marked) {
            end_mark(scene, at, &map, if panel.series.len() > 1 { i } else { 0 }, colour);
        }
        lines.push(ends);
    }
    labels(scene, panel, &map, &lines);
    if panel.points().next().is_none() {
        let middle = ((area.left + area.right) / 2.0, (area.top + area.bottom) / 2.0);
        let style = letters(SMALL + 1.0, false, palette::MUTED, Align::Middle);
        let half = font::width(NO_DATA, style.size, false) / 2.0 + 6.0;
        let (x, y) = middle;
        scene.fill(
            Area { left: x - half, top: y - 9.0, right: x + half, bottom: y + 9.0 },
            palette::CARD,
        );
        scene.text(middle, NO_DATA, style);
    }
}

/// A short piece of the line of series `i`, as the legend shows it.
pub(super) fn sample(scene: &mut Scene, panel: &Panel, i: usize, (x, y): Point, length: f64) {
    let (from, to) = ((x, y), (x + length, y));
    let colour = colour(panel, i);
    if panel.series[i].approximate {
        // Both ends drawn: two dashes left and right of the marker.
        scene.dashed(&[from, to], colour, THICK, (length * 0.28, length * 0.08));
    } else {
        scene.stroke(vec![from, to], colour, THICK);
    }
    marker(scene, (x + length / 2.0, y), i, colour);
}

fn colour(panel: &Panel, i: usize) -> Rgb {
    palette::series(panel.series[i].colour.unwrap_or(i))
}

/// How far series `i` stands beside its place: series at the same places would hide one another.
fn beside(i: usize, panel: &Panel) -> f64 {
    const APART: f64 = 3.5;
    /// However many there are, they stay within reach of their place.
    const SPREAD: f64 = 14.0;
    let gaps = panel.series.len() as f64 - 1.0;
    APART.min(SPREAD / gaps.max(1.0)) * (i as f64 - gaps / 2.0)
}

/// Upright lines with caps, behind the series they belong to.
fn error_bars(scene: &mut Scene, series: &Series, map: &Map<'_>, log: bool, colour: Rgb) {
    const CAP: f64 = 3.0;
    let colour = palette::tint(colour, 0.6);
    for ((x, y), error) in series.bars().take(MOST_POINTS).filter(|(p, _)| map.x.can_show(p.0)) {
        // A bar that goes below a logarithmic axis ends at its foot.
        let low = if log && y <= error { f64::MIN_POSITIVE } else { y - error };
        let (from, to) = (map.at((x, low)), map.at((x, y + error)));
        let Some((from, to)) = map.area.clip(from, to) else { continue };
        scene.stroke(vec![from, to], colour, FINE + 0.25);
        for (x, y) in [from, to] {
            scene.stroke(vec![(x - CAP, y), (x + CAP, y)], colour, FINE + 0.25);
        }
    }
}

#[derive(Clone, Copy)]
struct Map<'a> {
    area: Area,
    x: &'a Axis,
    y: &'a Axis,
}

impl Map<'_> {
    /// The same, moved to the right.
    fn beside(self, by: f64) -> Self {
        let area = Area { left: self.area.left + by, right: self.area.right + by, ..self.area };
        Self { area, ..self }
    }

    /// The place on the page, held within reach of it: numbers far off the axes must not
    /// overflow what draws them.
    fn at(&self, (x, y): (f64, f64)) -> Point {
        const FAR: f64 = 1e4;
        let across = (self.x.place(x) * self.area.width()).clamp(-FAR, FAR);
        let up = (self.y.place(y) * self.area.height()).clamp(-FAR, FAR);
        (self.area.left + across, self.area.bottom - up)
    }
}

fn grid(scene: &mut Scene, map: &Map<'_>) {
    let area = map.area;
    // Whole units: a line that lies between two pixels is grey and wide.
    let (left, right) = (area.left.round(), area.right.round());
    for (value, label) in &map.y.ticks {
        let y = (area.bottom - map.y.place(*value) * area.height()).round();
        scene.fill(Area { left, top: y, right, bottom: y + 1.0 }, palette::GRID);
        let style = letters(SMALL, false, palette::MUTED, Align::Right);
        // Digits are taller than the small letters that text is centred on.
        scene.text((area.left - 6.0, y + 1.4), label, style);
    }
    let base = area.bottom.round();
    scene.fill(Area { left, top: base, right, bottom: base + 1.0 }, palette::AXIS);
    for (value, label) in &map.x.ticks {
        let x = (area.left + map.x.place(*value) * area.width()).round();
        scene.fill(Area { left: x, top: base, right: x + 1.0, bottom: base + 5.0 }, palette::AXIS);
        // The last label may stand out into the gap between panels, but not off the card.
        let half = font::width(label, SMALL, false) / 2.0;
        let x = x.min(area.right + 10.0 - half);
        let style = letters(SMALL, false, palette::MUTED, Align::Middle);
        scene.text((x, base + 14.0), label, style);
    }
}

/// Draws one run of points and gives the points that are inside, on the page.
fn line(
    scene: &mut Scene,
    map: &Map<'_>,
    run: &[(f64, f64)],
    colour: Rgb,
    width: f64,
    is_dashed: bool,
) -> Vec<Point> {
    let points: Vec<Point> = run.iter().map(|&p| map.at(p)).collect();
    // Half a unit of tolerance: a line along the edge is inside.
    let room = Area {
        left: map.area.left - 0.5,
        top: map.area.top - 0.5,
        right: map.area.right + 0.5,
        bottom: map.area.bottom + 0.5,
    };
    for piece in clipped(&points, &room) {
        if is_dashed {
            scene.dashed(&piece, colour, width, DASHES);
        } else {
            scene.stroke(piece, colour, width);
        }
    }
    if let [only] = points[..]
        && room.contains(only)
    {
        scene.dot(only, 2.5, colour);
    }
    points.into_iter().filter(|&p| room.contains(p)).collect()
}

fn clipped(points: &[Point], area: &Area) -> Vec<Vec<Point>> {
    let mut pieces: Vec<Vec<Point>> = Vec::new();
    let mut piece: Vec<Point> = Vec::new();
    for ends in points.windows(2) {
        let Some((a, b)) = area.clip(ends[0], ends[1]) else {
            pieces.push(std::mem::take(&mut piece));
            continue;
        };
        if piece.last() != Some(&a) {
            pieces.push(std::mem::replace(&mut piece, vec![a]));
        }
        piece.push(b);
    }
    pieces.push(piece);
    pieces.retain(|piece| piece.len() > 1);
    pieces
}

/// Marks spread over the width, each series at its own places so that they don't pile up, nor on
/// the point that is marked already.
fn markers(
    scene: &mut Scene,
    points: &[Point],
    map: &Map<'_>,
    marked: Option<Point>,
    (i, of): (usize, usize),
    colour: Rgb,
) {
    const APART: f64 = 14.0;
    if points.len() < 2 {
        return;
    }
    // Not quite to the right end: the newest point has a marker of its own.
    const REACH: f64 = 0.94;
    for m in 0..MARKERS {
        let share = REACH * (m as f64 + (i as f64 + 0.5) / of as f64) / MARKERS as f64;
        let x = map.area.left + share * map.area.width();
        if marked.is_some_and(|at| (at.0 - x).abs() < APART) {
            continue;
        }
        let Some(pair) = points.windows(2).find(|pair| pair[0].0 <= x && x <= pair[1].0) else {
            continue;
        };
        let (a, b) = (pair[0], pair[1]);
        let t = if b.0 > a.0 { (x - a.0) / (b.0 - a.0) } else { 0.0 };
        marker(scene, (x, a.1 + t * (b.1 - a.1)), i, colour);
    }
}

/// The newest point, set off from its line by a ring of the card's colour.
fn end_mark(scene: &mut Scene, at: Point, map: &Map<'_>, i: usize, colour: Rgb) {
    if map.area.width() > 0.0 {
        scene.dot(at, 4.6, palette::CARD);
        marker(scene, at, i, colour);
    }
}

/// Circle, square, triangle, diamond, bar, turned triangle: told apart without colour.
fn marker(scene: &mut Scene, (x, y): Point, i: usize, colour: Rgb) {
    let corners: &[Point] = match i % 6 {
        0 => return scene.dot((x, y), 3.4, colour),
        1 => &[(-3.0, -3.0), (3.0, -3.0), (3.0, 3.0), (-3.0, 3.0)],
        2 => &[(0.0, -4.4), (4.0, 3.0), (-4.0, 3.0)],
        3 => &[(0.0, -4.6), (4.6, 0.0), (0.0, 4.6), (-4.6, 0.0)],
        4 => &[(-1.6, -4.6), (1.6, -4.6), (1.6, 4.6), (-1.6, 4.6)],
        _ => &[(0.0, 4.4), (4.0, -3.0), (-4.0, -3.0)],
    };
    scene.polygon(corners.iter().map(|(dx, dy)| (x + dx, y + dy)).collect(), colour);
}

/// Half a unit of tolerance: a point on the edge is inside.
fn inside(area: &Area, (x, y): Point) -> bool {
    (area.left - 0.5..=area.right + 0.5).contains(&x)
        && (area.top - 0.5..=area.bottom + 0.5).contains(&y)
}

/// Where the marked place is on the page, if it is on the axis.
fn place_mark(panel: &Panel, map: &Map<'_>) -> Option<f64> {
    let mark = panel.mark.as_ref().filter(|mark| map.x.can_show(mark.x))?;
    let x = map.at((mark.x, 0.0)).0;
    // At an edge a line would look like the frame of something.
    (map.area.left + 1.0..=map.area.right - 1.0).contains(&x).then_some(x)
}

/// The references that are on the axis, with their height on the page.
fn levels<'a>(panel: &'a Panel, map: &Map<'_>) -> Vec<(&'a Reference, f64)> {
    let on_axis = panel.references.iter().filter(|r| !panel.log || r.level > 0.0);
    let edges = map.area.top - 0.5..=map.area.bottom + 0.5;
    on_axis.map(|r| (r, map.at((0.0, r.level)).1)).filter(|(_, y)| edges.contains(y)).collect()
}

/// The labels of the references, each where the fewest points of the lines are.
fn labels(scene: &mut Scene, panel: &Panel, map: &Map<'_>, lines: &[Vec<Point>]) {
    let area = map.area;
    let mut taken: Vec<Area> = Vec::new();
    for (Reference { label, .. }, y) in levels(panel, map) {
        let text = font::fit(&one_line(label), SMALL, false, area.width() - 8.0);
        let width = font::width(&text, SMALL, false);
        let place = |x: f64, up: f64| Area {
            left: x,
            top: y + up - 7.0,
            right: x + width,
            bottom: y + up + 7.0,
        };
        let (left, right) = (area.left + 5.0, area.right - 5.0 - width);
        let middle = (left + right) / 2.0;
        let places =
            [-10.0, 10.0].into_iter().flat_map(|up| [left, right, middle].map(|x| (x, up)));
        let best = places
            .map(|(x, up)| place(x, up))
            .min_by_key(|spot| crowding(spot, &area, lines, &taken));
        let Some(spot) = best else { continue };
        // The card's colour behind the label keeps grid lines out of it.
        scene.fill(
            Area {
                left: spot.left - 2.0,
                top: spot.top + 1.0,
                right: spot.right + 2.0,
                bottom: spot.bottom - 1.0,
            },
            palette::CARD,
        );
        let at = (spot.left, (spot.top + spot.bottom) / 2.0);
        scene.text(at, text, letters(SMALL, false, palette::REFERENCE, Align::Left));
        taken.push(spot);
    }
}

/// How much a label would cover at this spot: points of lines, other labels, the plot's edge.
fn crowding(spot: &Area, plot: &Area, lines: &[Vec<Point>], taken: &[Area]) -> usize {
    let near = Area {
        left: spot.left - 4.0,
        top: spot.top - 2.0,
        right: spot.right + 4.0,
        bottom: spot.bottom + 2.0,
    };
    let crossed: usize = lines
        .iter()
        .map(|line| line.windows(2).filter(|w| near.clip(w[0], w[1]).is_some()).count())
        .sum();
    let overlaps = taken.iter().filter(|other| {
        other.left < spot.right
            && spot.left < other.right
            && other.top < spot.bottom
            && spot.top < other.bottom
    });
    let outside = spot.top < plot.top - 4.0 || spot.bottom > plot.bottom;
    crossed + 1000 * overlaps.count() + if outside { 500 } else { 0 }
}
