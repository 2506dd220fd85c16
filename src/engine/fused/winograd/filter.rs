//! Transformed kernels, computed once per step:
//! `[16 points, panels, inputs, outputs of the panel]`.

use pulp::{Simd, WithSimd};

use super::{POINTS, Winograd, panel, transform};
use crate::device::simd::{dispatch, f32_lanes};
use crate::engine::fused::op::resize_buffer;

impl Winograd {
    /// Transforms a kernel, `[3, 3, inputs, outputs]`.
    pub(in super::super) fn transform_filter(&self, weight: &[f32], to: &mut Vec<f32>) {
        dispatch(Filter {
            plan: self,
            weight,
            to: resize_buffer(to, POINTS * self.input * self.out),
        });
    }

    /// Computes the transformed kernel of the input gradient, given that of the convolution:
    /// rotated by 180° and with inputs and outputs exchanged. `self` is the convolution of the
    /// output gradient.
    pub(in super::super) fn rotate_filter(&self, filter: &[f32], to: &mut Vec<f32>) {
        let (inputs, outputs, panel) = (self.input, self.out, 2 * f32_lanes());
        let each = inputs * outputs;
        let points = resize_buffer(to, filter.len()).chunks_exact_mut(each);
        for (point, to) in points.enumerate() {
            // A rotated kernel exchanges the first and the last row of points, and of columns.
            let turned = |i: usize| [3, 1, 2, 0][i];
            let from = &filter[(4 * turned(point / 4) + turned(point % 4)) * each..][..each];
            // Blocks of one panel by one panel stay in the L1 cache.
            for start in (0..outputs).step_by(panel) {
                let width = panel.min(outputs - start);
                for first in (0..inputs).step_by(panel) {
                    let count = panel.min(inputs - first);
                    let from = &from[first * outputs..][..count * outputs];
                    let to = &mut to[start * inputs..][..width * inputs];
                    for i in 0..count {
                        for o in 0..width {
                            to[(first + i) * width + o] = from[(start + o) * count + i];
                        }
                    }
                }
            }
        }
    }
}

struct Filter<'a> {
    plan: &'a Winograd,
    weight: &'a [f32],
    to: &'a mut [f32],
}

impl WithSimd for Filter<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { plan, weight, to } = self;
        let (inputs, outputs, panel) = (plan.input, plan.out, panel::<S>());
        for start in (0..outputs).step_by(panel) {
            let width = panel.min(outputs - start);
            for i in 0..inputs {
                let mut taps = weight.chunks_exact(inputs * outputs);
                let taps = [(); 9].map(|()| {
                    let tap = &taps.next().unwrap_or_default()[i * outputs + start..][..width];
                    S::as_simd_f32s(tap).0
                });
                let from = start * inputs + i * width;
                transform::kernel(simd, taps, from, to);
            }
        }
    }
}
