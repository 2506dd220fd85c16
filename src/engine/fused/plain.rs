//! Layers without parameters.

use super::activation::Activation;
use super::op::{Chunk, Op, Rows, Scratch};
use super::outer::add;
use crate::nn::kernels::product::{Store, turn};

/// Hands `gx = f(i)` or `gx += f(i)` to every place.
fn put(gx: Option<(&mut [f32], Store)>, value: impl Fn(usize) -> f32) {
    match gx {
        None => {}
        Some((gx, Store::Replace)) => gx.iter_mut().enumerate().for_each(|(i, o)| *o = value(i)),
        Some((gx, Store::Add)) => gx.iter_mut().enumerate().for_each(|(i, o)| *o += value(i)),
    }
}

/// An activation that could not be made part of the layer before it.
pub(super) struct Alone {
    pub(super) activation: Activation,
    pub(super) len: usize,
}

impl Op for Alone {
    fn len(&self) -> usize {
        self.len
    }

    fn forward(&self, _: Rows, x: &[f32], y: &mut [f32], _: &mut [f32], _: &mut Scratch) {
        y.copy_from_slice(x);
        self.activation.apply(y, None);
    }

    fn backward(
        &self,
        seen: Chunk,
        gx: Option<(&mut [f32], Store)>,
        _: &mut [f32],
        _: &mut Scratch,
    ) {
        self.activation.back(seen.y, seen.g);
        put(gx, |i| seen.g[i]);
    }
}

/// Images as plain features: in the order of Burn, channel after channel.
pub(super) struct Flatten {
    pub(super) positions: usize,
    pub(super) channels: usize,
}

impl Op for Flatten {
    fn len(&self) -> usize {
        self.positions * self.channels
    }

    fn forward(&self, _: Rows, x: &[f32], y: &mut [f32], _: &mut [f32], _: &mut Scratch) {
        for (x, y) in x.chunks_exact(self.len()).zip(y.chunks_exact_mut(self.len())) {
            turn(x, self.positions, y, |to, from| *to = from);
        }
    }

    fn backward(
        &self,
        seen: Chunk,
        gx: Option<(&mut [f32], Store)>,
        _: &mut [f32],
        _: &mut Scratch,
    ) {
        let Some((gx, store)) = gx else { return };
        for (g, gx) in seen.g.chunks_exact(self.len()).zip(gx.chunks_exact_mut(self.len())) {
            match store {
                Store::Replace => turn(g, self.channels, gx, |to, from| *to = from),
                Store::Add => turn(g, self.channels, gx, |to, from| *to += from),
            }
        }
    }
}

/// The mean over positions: of images by channel, of sequences over time.
pub(super) struct Mean {
    pub(super) positions: usize,
    pub(super) channels: usize,
}

impl Op for Mean {
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
        seen: Chunk,
        gx: Option<(&mut [f32], Store)>,
        _: &mut [f32],
        _: &mut Scratch,
    ) {
        let Some((gx, store)) = gx else { return };
        seen.g.iter_mut().for_each(|g| *g /= self.positions as f32);
        let rows = gx.chunks_exact_mut(self.positions * self.channels);
        for (gx, g) in rows.zip(seen.g.chunks_exact(self.channels)) {
            for gx in gx.chunks_exact_mut(self.channels) {
                match store {
                    Store::Replace => gx.copy_from_slice(g),
                    Store::Add => add(gx, g),
                }
            }
        }
    }
}

/// Keeps some values and makes them larger; what is kept of the forward pass are the factors,
/// which the pass writes down before.
pub(super) struct Dropout {
    pub(super) rate: f64,
    pub(super) positions: usize,
    pub(super) channels: usize,
}

impl Op for Dropout {
    fn len(&self) -> usize {
        self.positions * self.channels
    }

    fn kept(&self) -> usize {
        self.len()
    }

    fn dropout(&self) -> Option<&Dropout> {
        Some(self)
    }

    fn forward(&self, _: Rows, x: &[f32], y: &mut [f32], kept: &mut [f32], _: &mut Scratch) {
        for ((y, x), keep) in y.iter_mut().zip(x).zip(kept) {
            // By selection: a dropped NaN is gone.
            *y = if *keep == 0.0 { 0.0 } else { x * *keep };
        }
    }

    fn backward(
        &self,
        seen: Chunk,
        gx: Option<(&mut [f32], Store)>,
        _: &mut [f32],
        _: &mut Scratch,
    ) {
        put(gx, |i| if seen.kept[i] == 0.0 { 0.0 } else { seen.g[i] * seen.kept[i] });
    }
}

/// The sum of two values: where a residual comes back. The pass adds the second.
pub(super) struct Sum {
    pub(super) len: usize,
}

impl Op for Sum {
    fn len(&self) -> usize {
        self.len
    }

    fn forward(&self, _: Rows, x: &[f32], y: &mut [f32], _: &mut [f32], _: &mut Scratch) {
        y.copy_from_slice(x);
    }

    fn backward(
        &self,
        seen: Chunk,
        gx: Option<(&mut [f32], Store)>,
        _: &mut [f32],
        _: &mut Scratch,
    ) {
        match gx {
            None => {}
            Some((gx, Store::Replace)) => gx.copy_from_slice(seen.g),
            Some((gx, Store::Add)) => add(gx, seen.g),
        }
    }
}
