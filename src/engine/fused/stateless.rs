//! Layers without parameters.

use super::activation::Activation;
use super::op::{ContextMut, Op, Rows, Scratch};
use super::outer::add;
use crate::nn::kernels::product::{Store, transpose};

/// `gx = value(i)` or `gx += value(i)` for every element.
fn store_gradient(gx: Option<(&mut [f32], Store)>, value: impl Fn(usize) -> f32) {
    match gx {
        None => {}
        Some((gx, Store::Replace)) => gx.iter_mut().enumerate().for_each(|(i, o)| *o = value(i)),
        Some((gx, Store::Add)) => gx.iter_mut().enumerate().for_each(|(i, o)| *o += value(i)),
    }
}

/// An activation that could not be fused into the previous layer.
pub(super) struct ActivationLayer {
    pub(super) activation: Activation,
    pub(super) len: usize,
}

impl Op for ActivationLayer {
    fn describe(&self) -> String {
        "activation".into()
    }

    fn len(&self) -> usize {
        self.len
    }

    fn forward(&self, _: Rows, x: &[f32], y: &mut [f32], _: &mut [f32], _: &mut Scratch) {
        y.copy_from_slice(x);
        self.activation.apply(y, None);
    }

    fn backward(
        &self,
        ctx: ContextMut,
        gx: Option<(&mut [f32], Store)>,
        _: &mut [f32],
        _: &mut Scratch,
    ) {
        self.activation.backward(ctx.y, ctx.g);
        store_gradient(gx, |i| ctx.g[i]);
    }
}

/// Flattens images in Burn's order, channel by channel.
pub(super) struct Flatten {
    pub(super) positions: usize,
    pub(super) channels: usize,
}

impl Op for Flatten {
    fn describe(&self) -> String {
        "flatten".into()
    }

    fn len(&self) -> usize {
        self.positions * self.channels
    }

    fn forward(&self, _: Rows, x: &[f32], y: &mut [f32], _: &mut [f32], _: &mut Scratch) {
        for (x, y) in x.chunks_exact(self.len()).zip(y.chunks_exact_mut(self.len())) {
            transpose(x, self.positions, y, |to, from| *to = from);
        }
    }

    fn backward(
        &self,
        ctx: ContextMut,
        gx: Option<(&mut [f32], Store)>,
        _: &mut [f32],
        _: &mut Scratch,
    ) {
        let Some((gx, store)) = gx else { return };
        for (g, gx) in ctx.g.chunks_exact(self.len()).zip(gx.chunks_exact_mut(self.len())) {
            match store {
                Store::Replace => transpose(g, self.channels, gx, |to, from| *to = from),
                Store::Add => transpose(g, self.channels, gx, |to, from| *to += from),
            }
        }
    }
}

/// Mean over positions: global average pooling of images, mean over time of sequences.
pub(super) struct Mean {
    pub(super) positions: usize,
    pub(super) channels: usize,
}

impl Op for Mean {
    fn describe(&self) -> String {
        "mean".into()
    }

    fn len(&self) -> usize {
        self.channels
    }

    fn forward(&self, _: Rows, x: &[f32], y: &mut [f32], _: &mut [f32], _: &mut Scratch) {
        let each =
            x.chunks_exact(self.positions * self.channels).zip(y.chunks_exact_mut(self.channels));
        for (x, y) in each {
            y.fill(0.0);
            x.chunks_exact(self.channels).for_each(|row| add(y, row));
            y.iter_mut().for_each(|y| *y /= self.positions as f32);
        }
    }

    fn backward(
        &self,
        ctx: ContextMut,
        gx: Option<(&mut [f32], Store)>,
        _: &mut [f32],
        _: &mut Scratch,
    ) {
        let Some((gx, store)) = gx else { return };
        ctx.g.iter_mut().for_each(|g| *g /= self.positions as f32);
        let rows = gx.chunks_exact_mut(self.positions * self.channels);
        for (gx, g) in rows.zip(ctx.g.chunks_exact(self.channels)) {
            for gx in gx.chunks_exact_mut(self.channels) {
                match store {
                    Store::Replace => gx.copy_from_slice(g),
                    Store::Add => add(gx, g),
                }
            }
        }
    }
}

/// Dropout. The saved values are the mask with its scale, which the caller fills in before the
/// forward pass.
pub(super) struct Dropout {
    pub(super) rate: f64,
    pub(super) positions: usize,
    pub(super) channels: usize,
}

impl Op for Dropout {
    fn describe(&self) -> String {
        "dropout".into()
    }

    fn len(&self) -> usize {
        self.positions * self.channels
    }

    fn saved_len(&self) -> usize {
        self.len()
    }

    fn dropout(&self) -> Option<&Dropout> {
        Some(self)
    }

    fn forward(&self, _: Rows, x: &[f32], y: &mut [f32], saved: &mut [f32], _: &mut Scratch) {
        for ((y, x), scale) in y.iter_mut().zip(x).zip(saved) {
            // By selection, so that a dropped NaN becomes zero.
            *y = if *scale == 0.0 { 0.0 } else { x * *scale };
        }
    }

    fn backward(
        &self,
        ctx: ContextMut,
        gx: Option<(&mut [f32], Store)>,
        _: &mut [f32],
        _: &mut Scratch,
    ) {
        store_gradient(gx, |i| if ctx.saved[i] == 0.0 { 0.0 } else { ctx.g[i] * ctx.saved[i] });
    }
}

/// Sum of two values at the end of a residual block. The caller adds the second one.
pub(super) struct Sum {
    pub(super) len: usize,
}

impl Op for Sum {
    fn describe(&self) -> String {
        "shortcut".into()
    }

    fn len(&self) -> usize {
        self.len
    }

    fn forward(&self, _: Rows, x: &[f32], y: &mut [f32], _: &mut [f32], _: &mut Scratch) {
        y.copy_from_slice(x);
    }

    fn backward(
        &self,
        ctx: ContextMut,
        gx: Option<(&mut [f32], Store)>,
        _: &mut [f32],
        _: &mut Scratch,
    ) {
        match gx {
            None => {}
            Some((gx, Store::Replace)) => gx.copy_from_slice(ctx.g),
            Some((gx, Store::Add)) => add(gx, ctx.g),
        }
    }
}
