//! Layers without parameters.

use super::op::{Backward, Forward, InputGradient, Op};
use super::outer_product::add;
use crate::nn::kernels::product::{WriteMode, transpose};

/// Identity: an activation that could not be fused into the previous layer, and the end of a
/// residual block, whose second value the caller adds.
pub(super) struct Identity {
    pub(super) name: &'static str,
    pub(super) len: usize,
}

impl Op for Identity {
    fn describe(&self) -> String {
        self.name.into()
    }

    fn len(&self) -> usize {
        self.len
    }

    fn forward(&self, pass: Forward) {
        pass.y.copy_from_slice(pass.x);
        pass.activation.apply(pass.y, &[]);
    }

    fn backward(&self, pass: Backward) {
        if let Some(InputGradient { values, store }) = pass.gx {
            store.put(values, pass.g);
        }
    }
}

/// Layer that flattens channels-last values in Burn's order, channel by channel.
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

    fn forward(&self, pass: Forward) {
        for (x, y) in pass.x.chunks_exact(self.len()).zip(pass.y.chunks_exact_mut(self.len())) {
            transpose(x, self.positions, y, |to, from| *to = from);
        }
    }

    fn backward(&self, pass: Backward) {
        let Some(InputGradient { values, store }) = pass.gx else { return };
        for (g, gx) in pass.g.chunks_exact(self.len()).zip(values.chunks_exact_mut(self.len())) {
            match store {
                WriteMode::Overwrite => transpose(g, self.channels, gx, |to, from| *to = from),
                WriteMode::Accumulate => transpose(g, self.channels, gx, |to, from| *to += from),
            }
        }
    }
}

/// Mean over positions: global average pooling of images, mean over time of sequences.
pub(super) struct PositionMean {
    pub(super) positions: usize,
    pub(super) channels: usize,
}

impl Op for PositionMean {
    fn describe(&self) -> String {
        "mean".into()
    }

    fn len(&self) -> usize {
        self.channels
    }

    fn forward(&self, pass: Forward) {
        let rows = pass.x.chunks_exact(self.positions * self.channels);
        for (x, y) in rows.zip(pass.y.chunks_exact_mut(self.channels)) {
            y.fill(0.0);
            x.chunks_exact(self.channels).for_each(|row| add(y, row));
            y.iter_mut().for_each(|y| *y /= self.positions as f32);
        }
    }

    fn backward(&self, pass: Backward) {
        let Some(InputGradient { values, store }) = pass.gx else { return };
        pass.g.iter_mut().for_each(|g| *g /= self.positions as f32);
        let rows = values.chunks_exact_mut(self.positions * self.channels);
        for (gx, g) in rows.zip(pass.g.chunks_exact(self.channels)) {
            gx.chunks_exact_mut(self.channels).for_each(|gx| store.put(gx, g));
        }
    }
}

/// Dropout layer. The saved values are the mask with its scale, which the caller fills in before
/// the forward pass.
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

    fn as_dropout(&self) -> Option<&Dropout> {
        Some(self)
    }

    fn forward(&self, pass: Forward) {
        let pairs = pass.y.iter_mut().zip(pass.x).zip(pass.saved);
        pairs.for_each(|((y, x), scale)| *y = scaled(*x, *scale));
    }

    fn backward(&self, pass: Backward) {
        let Some(InputGradient { values, store }) = pass.gx else { return };
        pass.g.iter_mut().zip(pass.saved).for_each(|(g, scale)| *g = scaled(*g, *scale));
        store.put(values, pass.g);
    }
}

/// Returns the value times the scale. By selection, so that a dropped NaN becomes zero.
fn scaled(value: f32, scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { value * scale }
}
