//! Bisection of an interval.

/// Halves an interval `times` times and returns the lower end of the last one. `below` must be true
/// up to some point of the interval, and false beyond it.
pub fn bisect((mut low, mut high): (f64, f64), times: u32, below: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..times {
        let middle = 0.5 * (low + high);
        if below(middle) { low = middle } else { high = middle }
    }
    low
}
