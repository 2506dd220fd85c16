//! The inside of a panel: grid, axes, references and lines.

use super::axis::Axis;
use super::chart::{Panel, ReferenceLine};
use super::font;
use super::format::to_single_line;
use super::layout::{SMALL_SIZE, muted, text_style};
use super::palette::{self, Rgb};
use super::panel_header::marked_point;
use super::scene::{Align, Point, Rect, Scene};
use super::series::Series;

/// Maximum number of error bars of a series.
const MOST_BARS: usize = 400;
const LINE_WIDTH: f64 = 1.75;
const THIN_LINE_WIDTH: f64 = 1.0;
/// Tolerance in page units: a line or a point at the edge of the plot is inside it.
const TOLERANCE: f64 = 0.5;
const NO_DATA: &str = "no data yet";
/// Dashes and gaps of an approximate line.
pub(super) const DASHES: (f64, f64) = (6.0, 4.0);
/// The shapes of markers: their names in Vega, and their corners; a circle has none.
pub(super) const SHAPES: [(&str, &[Point]); 6] = [
    ("circle", &[]),
    ("square", &[(-3.0, -3.0), (3.0, -3.0), (3.0, 3.0), (-3.0, 3.0)]),
    ("triangle-up", &[(0.0, -4.4), (4.0, 3.0), (-4.0, 3.0)]),
    ("diamond", &[(0.0, -4.6), (4.6, 0.0), (0.0, 4.6), (-4.6, 0.0)]),
    ("stroke", &[(-1.6, -4.6), (1.6, -4.6), (1.6, 4.6), (-1.6, 4.6)]),
    ("triangle-down", &[(0.0, 4.4), (4.0, -3.0), (-4.0, -3.0)]),
];
/// Number of markers along each line of a panel with several.
const MARKERS_PER_LINE: usize = 5;

/// Draws the plot of a panel into `area`.
pub(super) fn draw(scene: &mut Scene, panel: &Panel, area: Rect, x: &Axis, y: &Axis) {
    let map = PlotTransform { area, x, y };
    draw_grid(scene, &map);
    for (_, y) in visible_references(panel, &map) {
        scene.dashed(&[(area.left, y), (area.right, y)], palette::REFERENCE, 1.25, (5.0, 4.0));
    }
    if let Some(x) = marker_x(panel, &map) {
        scene.dashed(&[(x, area.bottom), (x, area.top)], palette::REFERENCE, 1.25, (5.0, 4.0));
    }
    draw_bands(scene, panel, &map);
    let series = 0..panel.series.len();
    let lines: Vec<_> = series.flat_map(|i| draw_series(scene, panel, i, &map)).collect();
    draw_reference_labels(scene, panel, &map, &lines);
    if panel.points().next().is_none() {
        no_data(scene, &area);
    }
}

/// Draws in the middle of the plot the message that there is nothing to draw yet.
fn no_data(scene: &mut Scene, area: &Rect) {
    let (x, y) = ((area.left + area.right) / 2.0, (area.top + area.bottom) / 2.0);
    let style = text_style(SMALL_SIZE + 1.0, false, palette::MUTED, Align::Middle);
    let half = font::text_width(NO_DATA, style.size, false) / 2.0 + 6.0;
    let point = Rect { left: x, top: y, right: x, bottom: y };
    scene.fill(point.grown(half, 9.0), palette::CARD);
    scene.text((x, y), NO_DATA, style);
}

/// Draws series `i` and returns the page coordinates of its lines.
fn draw_series(
    scene: &mut Scene,
    panel: &Panel,
    i: usize,
    map: &PlotTransform<'_>,
) -> Vec<Vec<Point>> {
    let (series, series_count) = (&panel.series[i], panel.series.len());
    let (colour, shape) = (colour(panel, i), marker_index(panel, i));
    let is_line = series.errors.is_empty() && !series.unconnected;
    let map = map.shifted_by(if is_line || series.without_offset {
        0.0
    } else {
        series_offset(i, panel)
    });
    if !series.band {
        draw_error_bars(scene, series, &map, panel.log, colour);
    }
    let on_axis = |p: &(f64, f64)| (!panel.log || p.1 > 0.0) && map.x.can_show(p.0);
    let (mut raw, mut drawn) = (Vec::new(), Vec::new());
    for curve in series.curves(on_axis) {
        if series.unconnected {
            drawn.push(map.visible_points(&curve.points));
            continue;
        }
        raw.push(draw_line(
            scene,
            &map,
            &curve.raw,
            palette::tint(colour, 0.38),
            THIN_LINE_WIDTH,
            false,
        ));
        let (colour, width) = line_style(series, colour);
        drawn.push(draw_line(scene, &map, &curve.points, colour, width, series.approximate));
    }
    let stands_for = match panel.x_marker {
        Some(_) => marked_point(panel, series).and_then(|p| map.visible_points(&[p]).pop()),
        None => drawn.iter().flatten().last().copied(),
    };
    if series.marked && !series.without_markers {
        drawn.iter().flatten().for_each(|&at| draw_marker(scene, at, shape, colour));
    } else if series_count > 1 && !series.without_markers {
        draw_markers(scene, &drawn, &map, stands_for, (i, series_count), (shape, colour));
    }
    // A series with a marker at every point needs no end mark.
    if let Some(at) = stands_for.filter(|_| !series.marked && !series.without_markers) {
        draw_end_marker(scene, at, &map, if series_count > 1 { shape } else { 0 }, colour);
    }
    raw.extend(drawn);
    raw
}

/// Draws a sample of the line of series `i` for the legend.
pub(super) fn draw_line_sample(
    scene: &mut Scene,
    panel: &Panel,
    i: usize,
    (x, y): Point,
    length: f64,
) {
    let (from, to) = ((x, y), (x + length, y));
    let colour = colour(panel, i);
    if panel.series[i].approximate {
        // Two dashes, left and right of the marker.
        scene.dashed(&[from, to], colour, LINE_WIDTH, (length * 0.28, length * 0.08));
    } else if !panel.series[i].unconnected {
        let (colour, width) = line_style(&panel.series[i], colour);
        scene.stroke(vec![from, to], colour, width);
    }
    if !panel.series[i].without_markers {
        draw_marker(scene, (x + length / 2.0, y), marker_index(panel, i), colour);
    }
}

/// Returns the colour and width of a series' line.
fn line_style(series: &Series, colour: Rgb) -> (Rgb, f64) {
    const BROAD: f64 = 7.0;
    if series.broad { (palette::tint(colour, 0.4), BROAD) } else { (colour, LINE_WIDTH) }
}

/// Returns the colour of series `i`.
pub(super) fn colour(panel: &Panel, i: usize) -> Rgb {
    palette::series(panel.series[i].colour.unwrap_or(i))
}

/// Returns the number of the marker of series `i`.
pub(super) fn marker_index(panel: &Panel, i: usize) -> usize {
    panel.series[i].marker.unwrap_or(i)
}

/// Returns the horizontal offset of series `i`, so that error bars at the same x do not overlap.
fn series_offset(i: usize, panel: &Panel) -> f64 {
    const APART: f64 = 3.5;
    /// Maximum offset between the first and the last series.
    const SPREAD: f64 = 14.0;
    let gaps = panel.series.len() as f64 - 1.0;
    APART.min(SPREAD / gaps.max(1.0)) * (i as f64 - gaps / 2.0)
}

/// Draws the bands of all series behind all lines: first the areas, then their edges, which stay
/// visible where bands overlap.
fn draw_bands(scene: &mut Scene, panel: &Panel, map: &PlotTransform<'_>) {
    let mut edges = Vec::new();
    for (i, series) in panel.series.iter().enumerate() {
        let colour = colour(panel, i);
        for piece in series.band_pieces() {
            let can_show = |(x, y): (f64, f64)| map.x.can_show(x) && !(panel.log && y <= 0.0);
            let piece: Vec<_> = piece.into_iter().filter(|(point, _)| can_show(*point)).collect();
            let edge = |sign: f64| {
                let at = |((x, y), error): &((f64, f64), f64)| {
                    // Below a logarithmic axis, and beyond any axis, the band ends at the axis.
                    let end = y + sign * error;
                    let end = if panel.log { end.max(f64::MIN_POSITIVE) } else { end };
                    let (x, y) = map.page_point((*x, end));
                    (x.clamp(map.area.left, map.area.right), y.clamp(map.area.top, map.area.bottom))
                };
                piece.iter().map(at).collect::<Vec<Point>>()
            };
            let (high, low) = (edge(1.0), edge(-1.0));
            let outline = high.iter().copied().chain(low.iter().rev().copied());
            scene.polygon(outline.collect(), palette::tint(colour, 0.16));
            edges.extend([high, low].map(|points| (points, palette::tint(colour, 0.5))));
        }
    }
    for (points, colour) in edges {
        scene.stroke(points, colour, THIN_LINE_WIDTH);
    }
}

/// Draws vertical error bars with caps, behind their series.
fn draw_error_bars(
    scene: &mut Scene,
    series: &Series,
    map: &PlotTransform<'_>,
    log: bool,
    colour: Rgb,
) {
    const CAP: f64 = 3.0;
    let colour = palette::tint(colour, 0.6);
    for ((x, y), error) in series.error_bars().take(MOST_BARS).filter(|(p, _)| map.x.can_show(p.0))
    {
        // A bar that goes below a logarithmic axis ends at the axis.
        let low = if log && y <= error { f64::MIN_POSITIVE } else { y - error };
        let (from, to) = (map.page_point((x, low)), map.page_point((x, y + error)));
        let Some((from, to)) = map.area.clip(from, to) else { continue };
        scene.stroke(vec![from, to], colour, THIN_LINE_WIDTH + 0.25);
        for (x, y) in [from, to] {
            scene.stroke(vec![(x - CAP, y), (x + CAP, y)], colour, THIN_LINE_WIDTH + 0.25);
        }
    }
}

#[derive(Clone, Copy)]
struct PlotTransform<'a> {
    area: Rect,
    x: &'a Axis,
    y: &'a Axis,
}

impl PlotTransform<'_> {
    /// Returns the same map, shifted to the right.
    fn shifted_by(self, offset: f64) -> Self {
        let area =
            Rect { left: self.area.left + offset, right: self.area.right + offset, ..self.area };
        Self { area, ..self }
    }

    /// Returns the page coordinates of the points inside the plot.
    fn visible_points(&self, points: &[(f64, f64)]) -> Vec<Point> {
        let room = self.area.grown(TOLERANCE, TOLERANCE);
        points.iter().map(|&p| self.page_point(p)).filter(|&at| room.contains(at)).collect()
    }

    /// Returns the page coordinates of a point, clamped so that values far off the axes do not
    /// overflow the renderer.
    fn page_point(&self, (x, y): (f64, f64)) -> Point {
        const FAR: f64 = 1e4;
        let across = (self.x.position(x) * self.area.width()).clamp(-FAR, FAR);
        let up = (self.y.position(y) * self.area.height()).clamp(-FAR, FAR);
        (self.area.left + across, self.area.bottom - up)
    }
}

fn draw_grid(scene: &mut Scene, map: &PlotTransform<'_>) {
    let area = map.area;
    // Whole units: a line between two pixel rows would be blurred.
    let (left, right) = (area.left.round(), area.right.round());
    for (value, label) in &map.y.ticks {
        let y = (area.bottom - map.y.position(*value) * area.height()).round();
        scene.fill(Rect { left, top: y, right, bottom: y + 1.0 }, palette::GRID);
        // Text is centred on the x-height, but digits are taller.
        scene.text((area.left - 6.0, y + 1.4), label, muted(Align::Right));
    }
    let base = area.bottom.round();
    scene.fill(Rect { left, top: base, right, bottom: base + 1.0 }, palette::AXIS);
    for (value, label) in &map.x.ticks {
        let x = (area.left + map.x.position(*value) * area.width()).round();
        scene.fill(Rect { left: x, top: base, right: x + 1.0, bottom: base + 5.0 }, palette::AXIS);
        // The last label may extend into the gap between panels but not beyond the card.
        let half = font::text_width(label, SMALL_SIZE, false) / 2.0;
        let x = x.min(area.right + 10.0 - half);
        scene.text((x, base + 14.0), label, muted(Align::Middle));
    }
}

/// Draws one run of points and returns the page coordinates of those inside the area.
fn draw_line(
    scene: &mut Scene,
    map: &PlotTransform<'_>,
    run: &[(f64, f64)],
    colour: Rgb,
    width: f64,
    is_dashed: bool,
) -> Vec<Point> {
    let points: Vec<Point> = run.iter().map(|&p| map.page_point(p)).collect();
    let room = map.area.grown(TOLERANCE, TOLERANCE);
    for piece in clip_polyline(&points, &room) {
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
    map.visible_points(run)
}

fn clip_polyline(points: &[Point], area: &Rect) -> Vec<Vec<Point>> {
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

/// Draws markers along the lines of a series. Each series has its own positions, so that markers of
/// different series do not overlap; none is drawn close to the point `marked`.
fn draw_markers(
    scene: &mut Scene,
    lines: &[Vec<Point>],
    map: &PlotTransform<'_>,
    marked: Option<Point>,
    (i, series_count): (usize, usize),
    (shape, colour): (usize, Rgb),
) {
    const APART: f64 = 14.0;
    // The newest point, at the right end, has a marker of its own.
    const REACH: f64 = 0.94;
    for m in 0..MARKERS_PER_LINE {
        let share =
            REACH * (m as f64 + (i as f64 + 0.5) / series_count as f64) / MARKERS_PER_LINE as f64;
        let x = map.area.left + share * map.area.width();
        if marked.is_some_and(|at| (at.0 - x).abs() < APART) {
            continue;
        }
        let mut pairs = lines.iter().flat_map(|points| points.windows(2));
        let Some(pair) = pairs.find(|pair| pair[0].0 <= x && x <= pair[1].0) else { continue };
        let (a, b) = (pair[0], pair[1]);
        let t = if b.0 > a.0 { (x - a.0) / (b.0 - a.0) } else { 0.0 };
        draw_marker(scene, (x, a.1 + t * (b.1 - a.1)), shape, colour);
    }
}

/// Draws the newest point, separated from its line by a ring in the colour of the card.
fn draw_end_marker(scene: &mut Scene, at: Point, map: &PlotTransform<'_>, i: usize, colour: Rgb) {
    if map.area.width() > 0.0 {
        scene.dot(at, 4.6, palette::CARD);
        draw_marker(scene, at, i, colour);
    }
}

/// Draws marker number `i`, cyclically.
fn draw_marker(scene: &mut Scene, (x, y): Point, i: usize, colour: Rgb) {
    match SHAPES[i % SHAPES.len()].1 {
        [] => scene.dot((x, y), 3.4, colour),
        corners => {
            let corners = corners.iter().map(|(dx, dy)| (x + dx, y + dy));
            scene.polygon(corners.collect(), colour);
        }
    }
}

/// Returns the page coordinate of the marked x, if it is inside the axis.
fn marker_x(panel: &Panel, map: &PlotTransform<'_>) -> Option<f64> {
    let mark = panel.x_marker.as_ref().filter(|mark| map.x.can_show(mark.at))?;
    let x = map.page_point((mark.at, 0.0)).0;
    // A line at the edge would look like a frame.
    (map.area.left + 1.0..=map.area.right - 1.0).contains(&x).then_some(x)
}

/// Returns the references inside the axis, with their page coordinate.
fn visible_references<'a>(
    panel: &'a Panel,
    map: &PlotTransform<'_>,
) -> Vec<(&'a ReferenceLine, f64)> {
    let on_axis = panel.references.iter().filter(|r| !panel.log || r.at > 0.0);
    let room = map.area.grown(0.0, TOLERANCE);
    let position = |r: &'a ReferenceLine| (r, map.page_point((0.0, r.at)).1);
    on_axis.map(position).filter(|(_, y)| (room.top..=room.bottom).contains(y)).collect()
}

/// Draws the labels of the references, each where it covers the fewest line segments.
fn draw_reference_labels(
    scene: &mut Scene,
    panel: &Panel,
    map: &PlotTransform<'_>,
    lines: &[Vec<Point>],
) {
    let area = map.area;
    let mut taken: Vec<Rect> = Vec::new();
    for (ReferenceLine { label, .. }, y) in visible_references(panel, map) {
        let text =
            font::truncate_to_width(&to_single_line(label), SMALL_SIZE, false, area.width() - 8.0);
        let width = font::text_width(&text, SMALL_SIZE, false);
        let candidate = |left: f64, up: f64| {
            let (top, bottom) = (y + up - 7.0, y + up + 7.0);
            Rect { left, top, right: left + width, bottom }
        };
        let (left, right) = (area.left + 5.0, area.right - 5.0 - width);
        let middle = (left + right) / 2.0;
        let places = [-10.0, 10.0]
            .into_iter()
            .flat_map(|up| [left, right, middle].map(|x| candidate(x, up)));
        let best = places.min_by_key(|spot| label_overlap_cost(spot, &area, lines, &taken));
        let Some(spot) = best else { continue };
        // A background in the colour of the card hides grid lines behind the label.
        scene.fill(spot.grown(2.0, -1.0), palette::CARD);
        let at = (spot.left, (spot.top + spot.bottom) / 2.0);
        scene.text(at, text, text_style(SMALL_SIZE, false, palette::REFERENCE, Align::Left));
        taken.push(spot);
    }
}

/// Returns the cost of a label at this spot: line segments and labels that it covers, overlap with
/// the edge.
fn label_overlap_cost(spot: &Rect, plot: &Rect, lines: &[Vec<Point>], taken: &[Rect]) -> usize {
    let near = spot.grown(4.0, 2.0);
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
