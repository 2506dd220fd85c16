//! Roofline of a step: the shortest time that the limits of this machine allow (Williams, Waterman
//! and Patterson, 2009, "Roofline: an insightful visual performance model for multicore
//! architectures").

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use pulp::{Simd, WithSimd};

use crate::device::simd;
use crate::nn::kernels::product::{MatrixView, WriteMode, add_scaled, matmul};

/// Rounds of each measurement; the fastest counts.
const ROUNDS: usize = 7;

/// Shortest time of one round.
const MIN_ROUND_TIME: Duration = Duration::from_millis(20);

/// Sides of the square matrices whose product is measured: one that fits into the second-level
/// caches of most processors, and larger ones.
const MATMUL_SIZES: [usize; 3] = [192, 384, 768];

/// Arithmetic and memory traffic of a layer for one row (one augmented copy of one example).
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerWork {
    /// Number of multiplications of f32 values, each with an addition.
    pub multiplications: usize,
    /// Number of f32 values of inputs, outputs and gradients that are read or written.
    pub values: usize,
    /// Number of parameters, which are read twice and whose gradient is written once in a step.
    pub parameters: usize,
}

/// Measured upper limits of this machine, for all threads together.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuRoofline {
    /// Number of threads that worked at the same time.
    pub threads: usize,
    /// f32 multiply-adds per second on values in vector registers.
    pub fma_rate: f64,
    /// f32 multiply-adds per second of the matrix product that the layers use, on its best size.
    pub matmul_rate: f64,
    /// Bytes per second that an addition of two buffers in memory reads and writes.
    pub bandwidth: f64,
    /// Size of the buffers of one thread in bytes, for the bandwidth.
    pub buffer_bytes: usize,
}

impl CpuRoofline {
    /// Measures the limits of this machine, for about a second. On a busy machine the result is
    /// too low.
    ///
    /// The bandwidth is that of `buffer_bytes` per thread (at least 64 KiB), which may fit into a
    /// cache.
    pub fn measure(threads: usize, buffer_bytes: usize) -> Self {
        let threads = threads.max(1);
        let buffer_bytes = buffer_bytes.max(1 << 16);
        let multiply_adds = peak_rate(threads, || {
            let mut values = [0.25; 64];
            move || simd::dispatch(FmaBenchmark { values: &mut values })
        });
        let products = MATMUL_SIZES.map(|side| {
            peak_rate(threads, || {
                let (a, b) = (vec![0.5; side * side], vec![0.25; side * side]);
                let mut out = vec![0.0; side * side];
                move || {
                    let (a, b) = (MatrixView::new(&a, side, side), MatrixView::new(&b, side, side));
                    matmul(&mut out, WriteMode::Overwrite, a, b);
                    black_box(&out);
                    side * side * side
                }
            })
        });
        let bandwidth = peak_rate(threads, || {
            let len = buffer_bytes / (2 * size_of::<f32>());
            let (x, mut out) = (vec![0.5; len], vec![0.25; len]);
            move || {
                add_scaled(&mut out, 0.5, &x);
                black_box(&out);
                // Two reads and one write.
                3 * size_of::<f32>() * len
            }
        });
        let products = products.into_iter().fold(0.0, f64::max);
        Self { threads, fma_rate: multiply_adds, matmul_rate: products, bandwidth, buffer_bytes }
    }

    /// Returns the higher rates of two measurements of the same buffers, between which other load
    /// changed.
    pub fn fastest_of(self, other: Self) -> Self {
        Self {
            fma_rate: self.fma_rate.max(other.fma_rate),
            matmul_rate: self.matmul_rate.max(other.matmul_rate),
            bandwidth: self.bandwidth.max(other.bandwidth),
            ..self
        }
    }

    /// Returns the shortest time for this many rows: that of the multiplications or that of moving
    /// the values, whichever is longer.
    pub fn min_time(&self, work: &LayerWork, rows: usize) -> Duration {
        let multiplying = rows as f64 * work.multiplications as f64 / self.fma_rate;
        let moved = rows as f64 * work.values as f64 + 3.0 * work.parameters as f64;
        let moving = size_of::<f32>() as f64 * moved / self.bandwidth;
        Duration::from_secs_f64(multiplying.max(moving))
    }
}

/// Returns the units of work per second of all threads together, in the fastest round. Each thread
/// makes a job that returns how many units it has done.
fn peak_rate<J: FnMut() -> usize>(threads: usize, make: impl Fn() -> J + Sync) -> f64 {
    let barrier = Barrier::new(threads);
    let rates = |_| {
        let mut job = make();
        job();
        let mut rounds = [0.0; ROUNDS];
        for rate in &mut rounds {
            barrier.wait();
            let (start, mut units) = (Instant::now(), 0);
            while start.elapsed() < MIN_ROUND_TIME {
                units += job();
            }
            *rate = units as f64 / start.elapsed().as_secs_f64();
        }
        rounds
    };
    let each: Vec<[f64; ROUNDS]> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|i| scope.spawn(move || rates(i))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let together = |round: usize| each.iter().map(|rates| rates[round]).sum();
    (0..ROUNDS).map(together).fold(0.0, f64::max)
}

/// Benchmark of multiply-adds in as many independent chains as hide their latency.
struct FmaBenchmark<'a> {
    values: &'a mut [f32; 64],
}

impl WithSimd for FmaBenchmark<'_> {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> usize {
        const CHAINS: usize = 12;
        const REPEATS: usize = 4096;
        let (vectors, _) = S::as_simd_f32s(&self.values[..]);
        let (first, factor) = (vectors[0], simd.splat_f32s(0.5));
        let mut sums = [first; CHAINS];
        for _ in 0..REPEATS {
            for sum in &mut sums {
                *sum = simd.mul_add_f32s(*sum, factor, first);
            }
        }
        // Without this, the compiler would leave the additions out.
        let total = sums.into_iter().fold(first, |total, sum| simd.add_f32s(total, sum));
        let (vectors, _) = S::as_mut_simd_f32s(&mut self.values[..]);
        vectors[vectors.len() - 1] = total;
        black_box(&*self.values);
        REPEATS * CHAINS * S::F32_LANES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> CpuRoofline {
        CpuRoofline { threads: 1, fma_rate: 1e9, matmul_rate: 9e8, bandwidth: 1e9, buffer_bytes: 0 }
    }

    #[test]
    fn the_longer_of_multiplying_and_moving_counts() {
        let multiplying = LayerWork { multiplications: 1_000_000, values: 10, parameters: 0 };
        assert_eq!(limits().min_time(&multiplying, 3), Duration::from_millis(3));
        let moving = LayerWork { multiplications: 10, values: 250_000, parameters: 0 };
        assert_eq!(limits().min_time(&moving, 3), Duration::from_millis(3));
        // Parameters are moved once per step, not once per row.
        let parameters = LayerWork { multiplications: 0, values: 0, parameters: 250_000 };
        assert_eq!(limits().min_time(&parameters, 7), Duration::from_millis(3));
    }

    #[test]
    fn the_faster_of_two_measurements_counts() {
        let slowed = CpuRoofline { fma_rate: 2e8, bandwidth: 3e9, ..limits() };
        let both = CpuRoofline { bandwidth: 3e9, ..limits() };
        assert_eq!((limits().fastest_of(slowed), slowed.fastest_of(limits())), (both, both));
    }

    #[test]
    fn rates_are_those_of_a_processor() {
        let found = CpuRoofline::measure(1, 1 << 20);
        // A product can't be faster than the registers, but other load may have slowed them down.
        assert!(found.matmul_rate < 4.0 * found.fma_rate, "{found:?}");
        for rate in [found.fma_rate, found.matmul_rate, found.bandwidth] {
            assert!((1e8..1e13).contains(&rate), "{found:?}");
        }
        assert_eq!((found.threads, found.buffer_bytes), (1, 1 << 20));
    }
}
