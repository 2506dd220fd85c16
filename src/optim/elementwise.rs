//! Formulas for the coordinates of tensors, and their loops on the host and on a device.

use std::mem::MaybeUninit;

use burn::prelude::*;
use rayon::prelude::*;

use super::number::{Lanes, Number};
use crate::device::vectorised;

/// Coordinates that are converted to f64 at a time. Their arrays fit into the first-level cache.
const BLOCK: usize = 256;
/// Number of coordinates of one parallel job.
const JOB: usize = 1 << 15;
/// Smallest number of coordinates that is worth waking other threads.
const MIN_PARALLEL: usize = 1 << 16;

/// New values of `S` arrays, from their old values and those of `I` inputs, the same formula for
/// every coordinate.
pub(super) trait Formula<const S: usize, const I: usize>: Copy + Send {
    fn apply<N: Number>(&self, arrays: [N; S], inputs: [N; I]) -> [N; S];
}

/// An array that a formula changes on the host.
pub(super) enum Target<'a> {
    /// The same value for all coordinates. The result is dropped.
    Uniform(f64),
    /// Old values that are replaced by new ones.
    InPlace(&'a mut [f32]),
    /// Old values, and the place for the new ones. Every new value is written.
    OutOfPlace { old: &'a [f32], new: &'a mut [MaybeUninit<f32>] },
}

/// An array that a formula reads on the host.
#[derive(Clone, Copy)]
pub(super) enum Input<'a> {
    /// The same value for all coordinates.
    Uniform(f64),
    /// One value per coordinate.
    PerCoordinate(&'a [f32]),
    /// This value at coordinates of nonzero weight, zero elsewhere.
    Masked(f64, &'a [f32]),
}

/// The arrays of one tensor, or of a part of it. Where `touched` is zero, targets keep their old
/// values bit for bit; `None` means that all coordinates change.
pub(super) struct ElementwiseJob<'a, F, const S: usize, const I: usize> {
    pub formula: F,
    pub targets: [Target<'a>; S],
    pub inputs: [Input<'a>; I],
    pub update_mask: Option<&'a [f32]>,
    pub len: usize,
}

/// Applies formulas on the host, in f64, with several threads if there is enough to do. The result
/// does not depend on the number of threads.
pub(super) fn apply_on_host<F: Formula<S, I>, const S: usize, const I: usize>(
    mut tensors: Vec<ElementwiseJob<F, S, I>>,
) {
    if tensors.iter().map(|work| work.len).sum::<usize>() < MIN_PARALLEL {
        return tensors.into_iter().for_each(run);
    }
    let mut jobs = Vec::new();
    for tensor in &mut tensors {
        while tensor.len > 0 {
            jobs.push(tensor.take(JOB));
        }
    }
    jobs.into_par_iter().for_each(run);
}

/// Applies a formula on a device, in f32, without a copy to the host.
pub(super) fn apply_on_device<F: Formula<S, I>, const S: usize, const I: usize>(
    formula: &F,
    arrays: [Lanes; S],
    inputs: [Lanes; I],
    update_mask: Option<&Tensor<1, Bool>>,
) -> [Lanes; S] {
    let new = formula.apply(arrays.clone(), inputs);
    let Some(update_mask) = update_mask else { return new };
    let ([len], device) = (update_mask.dims(), update_mask.device());
    std::array::from_fn(|k| {
        let [old, new] = [&arrays[k], &new[k]].map(|lanes| lanes.tensor(len, &device));
        Lanes::PerCoordinate(old.mask_where(update_mask.clone(), new))
    })
}

vectorised! {
    /// Applies the formula to one part after the other.
    fn run[F: Formula<S, I>, const S: usize, const I: usize](job: ElementwiseJob<F, S, I>) {
        let mut job = job;
        let (mut arrays, mut inputs) = ([[0.0; BLOCK]; S], [[0.0; BLOCK]; I]);
        while job.len > 0 {
            let block = job.take(BLOCK);
            for (target, array) in block.targets.iter().zip(&mut arrays) {
                target.load(array);
            }
            for (input, array) in block.inputs.iter().zip(&mut inputs) {
                input.load(array);
            }
            for i in 0..BLOCK {
                let old = std::array::from_fn(|k| arrays[k][i]);
                let new = block.formula.apply(old, std::array::from_fn(|k| inputs[k][i]));
                for k in 0..S {
                    arrays[k][i] = new[k];
                }
            }
            for (target, array) in block.targets.into_iter().zip(&arrays) {
                target.store(array, block.update_mask);
            }
        }
    }
}

impl<'a, F: Copy, const S: usize, const I: usize> ElementwiseJob<'a, F, S, I> {
    /// Splits off the first `count` coordinates, or all if there are fewer.
    #[inline(always)]
    fn take(&mut self, count: usize) -> ElementwiseJob<'a, F, S, I> {
        let len = self.len.min(count);
        self.len -= len;
        ElementwiseJob {
            formula: self.formula,
            targets: self.targets.each_mut().map(|target| target.take(len)),
            inputs: self.inputs.each_mut().map(|input| input.take(len)),
            update_mask: self.update_mask.as_mut().map(|update_mask| first(update_mask, len)),
            len,
        }
    }
}

impl<'a> Target<'a> {
    #[inline(always)]
    fn take(&mut self, len: usize) -> Target<'a> {
        match self {
            Self::Uniform(value) => Target::Uniform(*value),
            Self::InPlace(values) => Target::InPlace(first_mut(values, len)),
            Self::OutOfPlace { old, new } => {
                Target::OutOfPlace { old: first(old, len), new: first_mut(new, len) }
            }
        }
    }

    #[inline(always)]
    fn load(&self, block: &mut [f64; BLOCK]) {
        match self {
            Self::Uniform(value) => block.fill(*value),
            Self::InPlace(values) => load(values, block),
            Self::OutOfPlace { old, .. } => load(old, block),
        }
    }

    #[inline(always)]
    fn store(self, block: &[f64; BLOCK], update_mask: Option<&[f32]>) {
        match (self, update_mask) {
            (Self::Uniform(_), _) => {}
            (Self::InPlace(values), None) => {
                values.iter_mut().zip(block).for_each(|(new, value)| *new = *value as f32);
            }
            (Self::InPlace(values), Some(update_mask)) => {
                for ((new, value), mask_entry) in values.iter_mut().zip(block).zip(update_mask) {
                    *new = if *mask_entry == 0.0 { *new } else { *value as f32 };
                }
            }
            (Self::OutOfPlace { new, .. }, None) => {
                new.iter_mut().zip(block).for_each(|(new, value)| _ = new.write(*value as f32));
            }
            (Self::OutOfPlace { old, new }, Some(update_mask)) => {
                let values = old.iter().zip(block).zip(update_mask);
                for (new, ((old, value), mask_entry)) in new.iter_mut().zip(values) {
                    new.write(if *mask_entry == 0.0 { *old } else { *value as f32 });
                }
            }
        }
    }
}

impl<'a> Input<'a> {
    #[inline(always)]
    fn take(&mut self, len: usize) -> Input<'a> {
        match self {
            Self::Uniform(value) => Input::Uniform(*value),
            Self::PerCoordinate(values) => Input::PerCoordinate(first(values, len)),
            Self::Masked(value, weights) => Input::Masked(*value, first(weights, len)),
        }
    }

    #[inline(always)]
    fn load(&self, block: &mut [f64; BLOCK]) {
        match self {
            Self::Uniform(value) => block.fill(*value),
            Self::PerCoordinate(values) => load(values, block),
            Self::Masked(value, weights) => {
                for (block, weight) in block.iter_mut().zip(*weights) {
                    *block = if *weight == 0.0 { 0.0 } else { *value };
                }
            }
        }
    }
}

#[inline(always)]
fn load(values: &[f32], block: &mut [f64; BLOCK]) {
    block.iter_mut().zip(values).for_each(|(block, value)| *block = f64::from(*value));
}

/// Returns the first `len` values, which the slice no longer has afterwards.
fn first<'a>(values: &mut &'a [f32], len: usize) -> &'a [f32] {
    let (first, rest) = values.split_at(len);
    *values = rest;
    first
}

fn first_mut<'a, T>(values: &mut &'a mut [T], len: usize) -> &'a mut [T] {
    let (first, rest) = std::mem::take(values).split_at_mut(len);
    *values = rest;
    first
}
