//! Explicit vector instructions of the CPU, by `pulp`. Loops that the compiler vectorises by itself
//! use [`vectorised`](super::vectorised).

use pulp::{Simd, WithSimd};

/// Returns the number of `f32` values in a vector register, 1 without vector instructions.
pub(crate) fn f32_lanes() -> usize {
    struct Lanes;
    impl WithSimd for Lanes {
        type Output = usize;

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) -> usize {
            S::F32_LANES
        }
    }
    dispatch(Lanes)
}

/// Runs `work` with the widest vector instructions of this processor.
pub(crate) fn dispatch<W: WithSimd>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(simd) = pulp::x86::V4::try_new() {
            return simd.vectorize(InlinedCall { simd, work });
        }
        if let Some(simd) = pulp::x86::V3::try_new() {
            return simd.vectorize(InlinedCall { simd, work });
        }
    }
    #[cfg(target_arch = "aarch64")]
    if let Some(simd) = pulp::aarch64::Neon::try_new() {
        return simd.vectorize(InlinedCall { simd, work });
    }
    work.with_simd(pulp::Scalar::new())
}

/// Call that is always inlined, so that it is compiled with the instructions of its caller.
struct InlinedCall<S, W> {
    simd: S,
    work: W,
}

impl<S: Simd, W: WithSimd> pulp::NullaryFnOnce for InlinedCall<S, W> {
    type Output = W::Output;

    #[inline(always)]
    fn call(self) -> W::Output {
        self.work.with_simd(self.simd)
    }
}
