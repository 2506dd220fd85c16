//! Ten shapes as signed distances in units of their radius, negative inside. They are accurate
//! near the edge only, which is enough for soft edges.

pub(super) type Point = (f32, f32);

/// A name and a signed distance.
pub(super) type SdfShape = (&'static str, fn(Point) -> f32);

/// The shapes in the order of the labels. The disc is first: blobs are discs too.
pub(super) const SDF_SHAPES: [SdfShape; 10] = [
    ("disc", disc),
    ("ring", ring),
    ("square", square),
    ("triangle", triangle),
    ("cross", cross),
    ("stripes", stripes),
    ("checks", checks),
    ("dots", dots),
    ("zigzag", zigzag),
    ("crescent", crescent),
];

/// Repetitions of the textures per unit.
const PER_UNIT: f32 = 1.25;

fn length((u, v): Point) -> f32 {
    (u * u + v * v).sqrt()
}

/// Returns a triangle wave between 0 and 1, above one half inside bars.
fn wave(u: f32) -> f32 {
    let turns = u * PER_UNIT;
    (2.0 * (turns - turns.floor()) - 1.0).abs()
}

/// Returns the signed distance of bars that are as wide as the gaps between them.
fn bars(u: f32) -> f32 {
    (0.5 - wave(u)) / (2.0 * PER_UNIT)
}

fn disc(at: Point) -> f32 {
    length(at) - 0.9
}

fn ring(at: Point) -> f32 {
    (length(at) - 0.75).abs() - 0.2
}

fn square((u, v): Point) -> f32 {
    u.abs().max(v.abs()) - 0.82
}

fn triangle((u, v): Point) -> f32 {
    // Intersection of three half planes; the constant is the square root of 3/4.
    let side = 0.866_025_4 * u.abs() - 0.5 * v;
    side.max(v) - 0.55
}

fn cross((u, v): Point) -> f32 {
    let (u, v) = (u.abs(), v.abs());
    (u.max(v) - 1.0).max(u.min(v) - 0.27)
}

fn stripes((u, v): Point) -> f32 {
    square((u, v)).max(bars(u))
}

fn checks((u, v): Point) -> f32 {
    let (a, b) = (bars(u), bars(v));
    // Exclusive or of the two bars.
    square((u, v)).max(a.min(b).max(-a.max(b)))
}

fn dots((u, v): Point) -> f32 {
    let middle = |u: f32| {
        let turns = u * PER_UNIT;
        (turns - turns.floor() - 0.5) / PER_UNIT
    };
    square((u, v)).max(length((middle(u), middle(v))) - 0.28 / PER_UNIT)
}

fn zigzag((u, v): Point) -> f32 {
    square((u, v)).max(0.8 * bars(v + 0.55 * wave(u)))
}

fn crescent((u, v): Point) -> f32 {
    disc((u, v)).max(0.75 - length((u - 0.42, v)))
}
