//! Series of points: the lines of a panel.

use std::sync::Arc;

/// Maximum number of points drawn of a series, over all its runs.
const MAX_POINTS: usize = 400;

/// One line of a series.
pub(super) struct Curve {
    /// The points, or their running mean.
    pub points: Vec<(f64, f64)>,
    /// The points behind a running mean, which are drawn pale; empty without.
    pub raw: Vec<(f64, f64)>,
}

/// A named series of points (x, y) in order of x.
///
/// Points that are not finite leave a gap in the line. A single point is drawn as a dot.
#[derive(Clone, Debug, Default)]
pub struct Series {
    pub(super) name: String,
    pub(super) points: Arc<[(f64, f64)]>,
    pub(super) approximate: bool,
    pub(super) smooth: bool,
    pub(super) colour: Option<usize>,
    pub(super) marker: Option<usize>,
    pub(super) marked: bool,
    pub(super) unconnected: bool,
    /// Whether the series is drawn without a marker.
    pub(super) without_markers: bool,
    /// Whether the points are never shifted sideways, because x is measured.
    pub(super) without_offset: bool,
    pub(super) broad: bool,
    /// Value beside the name, in place of the last one.
    pub(super) summary: Option<f64>,
    /// Half the height of each point's error bar or band; empty without.
    pub(super) errors: Arc<[f64]>,
    /// Whether errors are drawn as a band along the line.
    pub(super) band: bool,
    /// Description of each point; empty without.
    pub(super) tooltips: Arc<[String]>,
}

impl Series {
    /// Creates a series drawn as a solid line.
    pub fn line(name: impl Into<String>, points: impl Into<Vec<(f64, f64)>>) -> Self {
        Self { name: name.into(), points: points.into().into(), ..Self::default() }
    }

    /// Draws a marker at every point, for series of few points.
    pub fn with_markers(self) -> Self {
        Self { marked: true, ..self }
    }

    /// Draws markers without a line, for independent measurements.
    pub(crate) fn markers_only(self) -> Self {
        Self { unconnected: true, ..self.with_markers() }
    }

    /// Draws the line without any marker, for a line that is no series of measurements.
    pub(super) fn without_markers(self) -> Self {
        Self { without_markers: true, ..self }
    }

    /// Leaves the points unshifted, also beside other series with markers at the same x.
    pub(super) fn without_offset(self) -> Self {
        Self { without_offset: true, ..self }
    }

    /// Sets the value shown beside the name in place of the last one, such as the mean. The panel
    /// says what it is, see [`Panel::value_label`](super::Panel::value_label).
    pub fn summary(self, value: f64) -> Self {
        Self { summary: Some(value), ..self }
    }

    /// Adds error bars: half the height of each point's bar, in the order of the points. Points
    /// without a positive value have none. Every point gets a marker, and the series of a panel are
    /// shifted slightly so that bars at the same x can be told apart.
    pub fn errors(self, errors: impl Into<Vec<f64>>) -> Self {
        Self { errors: errors.into().into(), ..self.with_markers() }
    }

    /// Adds a band along the line: half its height at each point, in the order of the points, for
    /// measurements at few values of x with several seeds each. Every point gets a marker.
    pub(crate) fn band(self, errors: impl Into<Vec<f64>>) -> Self {
        Self { band: true, ..self.errors(errors).without_offset() }
    }

    /// Sets the description of each point, in the order of the points: run, settings, seed. Shown
    /// by the tooltips of the interactive format.
    pub fn tooltips(self, texts: impl Into<Vec<String>>) -> Self {
        Self { tooltips: texts.into().into(), ..self }
    }

    /// Draws the line dashed, for an estimate that is not a proved bound.
    pub fn approximate(self) -> Self {
        Self { approximate: true, ..self }
    }

    /// Draws the line pale and its running mean in full colour, for noisy values. Series of fewer
    /// than 60 points are drawn as they are. The panel shows the window of the mean.
    pub fn smooth(self) -> Self {
        Self { smooth: true, ..self }
    }

    /// Uses colour number `slot` of the series' palette, cyclically, instead of the next one, so
    /// that a quantity keeps its colour across panels.
    pub fn colour(self, slot: usize) -> Self {
        Self { colour: Some(slot), ..self }
    }

    /// Uses marker number `slot`, cyclically, instead of the next one: circle, square, triangle,
    /// diamond, bar, inverted triangle.
    pub fn marker(self, slot: usize) -> Self {
        Self { marker: Some(slot), ..self }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the points (x, y), including those that can't be drawn.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// Returns whether the line is dashed.
    pub fn is_approximate(&self) -> bool {
        self.approximate
    }

    /// Returns the last finite value, if any.
    pub fn last(&self) -> Option<f64> {
        self.points.iter().rev().find(|p| is_finite(p)).map(|p| p.1)
    }

    /// Returns all points that can be drawn.
    pub(super) fn finite_points(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.points.iter().copied().filter(is_finite)
    }

    /// Returns the points that have an error bar, with half its height.
    pub(super) fn error_bars(&self) -> impl Iterator<Item = ((f64, f64), f64)> + '_ {
        let all = self.points.iter().copied().zip(self.errors.iter().copied());
        all.filter(|(point, error)| is_finite(point) && *error > 0.0 && is_drawable(*error))
    }

    /// Returns the pieces of the band between gaps: each point with half the height of the band
    /// there, 0 where there is no error.
    pub(super) fn band_pieces(&self) -> Vec<Vec<((f64, f64), f64)>> {
        if !self.band {
            return Vec::new();
        }
        let error = |i: usize| self.errors.get(i).copied().filter(|e| *e > 0.0 && is_drawable(*e));
        let all = self.points.iter().enumerate();
        let all: Vec<_> = all.map(|(i, &point)| (point, error(i).unwrap_or(0.0))).collect();
        let pieces = all.split(|(point, _)| !is_finite(point));
        pieces.filter(|piece| piece.len() > 1).map(<[_]>::to_vec).collect()
    }

    /// Returns the maximal runs of points without a gap.
    pub(super) fn segments(&self) -> impl Iterator<Item = &[(f64, f64)]> {
        self.points.split(|p| !is_finite(p)).filter(|run| !run.is_empty())
    }

    /// Returns the lines that are drawn of the series, thinned to about [`MAX_POINTS`] together:
    /// one for each run of points without a gap that are on the axes.
    pub(super) fn curves(&self, on_axes: impl Fn(&(f64, f64)) -> bool) -> Vec<Curve> {
        let shown = |run| <[_]>::split(run, |p| !on_axes(p)).filter(|run| !run.is_empty());
        let runs: Vec<&[(f64, f64)]> = self.segments().flat_map(shown).collect();
        let (window, total) =
            (self.smoothing_window(), runs.iter().map(|run| run.len()).sum::<usize>());
        let curve = |run: &[(f64, f64)]| {
            let most = (MAX_POINTS * run.len() / total.max(1)).max(4);
            match window {
                Some(window) => Curve {
                    points: downsample(&running_mean(run, window), most / 2),
                    raw: downsample(run, most),
                },
                None => Curve { points: downsample(run, most), raw: Vec::new() },
            }
        };
        runs.into_iter().map(curve).collect()
    }

    /// Returns the window of the running mean, if the series is drawn with one: an odd number of
    /// points, about a thirtieth of the series.
    pub(super) fn smoothing_window(&self) -> Option<usize> {
        let n = self.finite_points().count();
        (self.smooth && n >= 60).then(|| (n / 30).clamp(5, 101) | 1)
    }
}

fn is_finite(point: &(f64, f64)) -> bool {
    is_drawable(point.0) && is_drawable(point.1)
}

/// Returns the smallest and the largest of the values; `None` without values.
pub(super) fn extent(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.map(|v| (v, v)).reduce(|(low, high), (v, _)| (low.min(v), high.max(v)))
}

/// Returns whether a value is finite and small enough for the arithmetic of axes.
pub(super) fn is_drawable(value: f64) -> bool {
    value.abs() <= 1e300
}

/// Thins a run to at most about `most` points: the lowest and the highest point of each bucket, in
/// order, and the first and the last point of the run.
fn downsample(run: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    if run.len() <= most.max(4) {
        return run.to_vec();
    }
    let buckets = (most.max(4) - 2) / 2;
    let inner = &run[1..run.len() - 1];
    let mut kept = vec![run[0]];
    for b in 0..buckets {
        let stretch = &inner[b * inner.len() / buckets..(b + 1) * inner.len() / buckets];
        let Some((&first, rest)) = stretch.split_first() else { continue };
        let (mut low, mut high) = ((0, first), (0, first));
        for (i, &point) in rest.iter().enumerate() {
            if point.1 < low.1.1 {
                low = (i + 1, point);
            }
            if point.1 > high.1.1 {
                high = (i + 1, point);
            }
        }
        let (a, b) = if low.0 <= high.0 { (low, high) } else { (high, low) };
        kept.push(a.1);
        if a.0 != b.0 {
            kept.push(b.1);
        }
    }
    kept.push(run[run.len() - 1]);
    kept
}

/// Returns the mean of the `window` points around each point; near the ends, of those that exist.
pub(super) fn running_mean(run: &[(f64, f64)], window: usize) -> Vec<(f64, f64)> {
    let half = window / 2;
    let mean = |i: usize| {
        let part = &run[i.saturating_sub(half)..=(i + half).min(run.len() - 1)];
        part.iter().map(|p| p.1 / part.len() as f64).sum::<f64>()
    };
    (0..run.len()).map(|i| (run[i].0, mean(i))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(n: usize) -> Vec<(f64, f64)> {
        (0..n).map(|i| (i as f64, (i as f64 * 0.7).sin() * (i as f64 * 0.001).cos())).collect()
    }

    #[test]
    fn thinning_keeps_extremes_ends_and_order() {
        let mut run = wave(10_000);
        run[4321].1 = 9.0;
        run[8765].1 = -9.0;
        let thin = downsample(&run, 400);
        assert!(thin.len() <= 400, "{}", thin.len());
        assert!(thin.contains(&run[4321]) && thin.contains(&run[8765]));
        assert_eq!((thin[0], thin[thin.len() - 1]), (run[0], run[9_999]));
        assert!(thin.windows(2).all(|w| w[0].0 < w[1].0));
    }

    #[test]
    fn short_runs_are_not_thinned() {
        for n in [0, 1, 2, 3, 400] {
            assert_eq!(downsample(&wave(n), 400), wave(n));
        }
    }

    #[test]
    fn points_that_are_not_finite_leave_a_gap() {
        let bad = [f64::NAN, f64::INFINITY, -1e305];
        let points: Vec<_> = (0..9).map(|i| (f64::from(i), 1.0)).collect();
        for value in bad {
            let mut points = points.clone();
            points[4].1 = value;
            points[8].1 = value;
            let series = Series::line("s", points);
            let lengths: Vec<_> = series.segments().map(<[_]>::len).collect();
            assert_eq!(lengths, [4, 3]);
            assert_eq!(series.last(), Some(1.0));
        }
    }

    #[test]
    fn a_band_has_no_height_without_an_error_and_breaks_at_gaps() {
        let points = [(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 1.0), (4.0, 1.0), (5.0, 1.0)];
        let errors = [0.1, f64::NAN, 1.0, 0.0, 0.3, 0.2];
        let series = Series::line("s", points).band(errors);
        let heights: Vec<Vec<f64>> = series
            .band_pieces()
            .iter()
            .map(|piece| piece.iter().map(|(_, error)| *error).collect())
            .collect();
        assert_eq!(heights, [vec![0.1, 0.0], vec![0.0, 0.3, 0.2]]);
        assert!(Series::line("s", points).errors(errors).band_pieces().is_empty());
    }

    #[test]
    fn the_running_mean_leaves_a_straight_line_alone_and_flattens_a_zigzag() {
        let line: Vec<_> = (0..100).map(|i| (f64::from(i), 3.0 * f64::from(i))).collect();
        for (a, b) in running_mean(&line, 9).iter().zip(&line).skip(4).take(92) {
            assert!((a.1 - b.1).abs() < 1e-9);
        }
        let zigzag: Vec<_> = (0..100).map(|i| (f64::from(i), f64::from(i % 2))).collect();
        let mean = running_mean(&zigzag, 9);
        assert!(mean[10..90].iter().all(|p| (p.1 - 0.5).abs() < 0.1));
    }

    #[test]
    fn only_long_series_get_a_running_mean() {
        assert_eq!(Series::line("s", wave(59)).smooth().smoothing_window(), None);
        assert_eq!(Series::line("s", wave(879)).smooth().smoothing_window(), Some(29));
        assert_eq!(Series::line("s", wave(879)).smoothing_window(), None);
    }
}
