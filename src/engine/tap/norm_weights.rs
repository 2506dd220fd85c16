//! Coordinate weights of one parameter, prepared for tensor operations.

use burn::prelude::*;

use crate::engine::{CoordinateWeights, Gradient};

/// Weights of the coordinates of one parameter in the gradient norm.
pub(super) struct NormWeights {
    /// √ of the largest weight. Norms computed with [`relative`](Self::relative) are multiplied by
    /// it.
    pub(super) scale: f64,
    /// Weights divided by the largest, and their square roots, `[parameters]`; `None` if all are
    /// equal.
    relative: Option<(Tensor<1>, Tensor<1>)>,
}

impl NormWeights {
    /// Creates the norm weights, one item per parameter; every weight is 1 if there are none.
    ///
    /// Unless `reads`, weights that live on a device are not read: they are used as they are, on
    /// the assumption that the largest is about 1.
    pub(super) fn per_parameter(
        weights: Option<&CoordinateWeights>,
        entries: usize,
        device: &Device,
        reads: bool,
    ) -> Vec<Self> {
        let Some(weights) = weights else {
            return (0..entries).map(|_| Self { scale: 1.0, relative: None }).collect();
        };
        let norm_weights = |(entry, weight): (usize, &Gradient)| match weight.values.device() {
            _ if weights.is_zero_tensor(entry) => Self { scale: 0.0, relative: None },
            Some(_) if !reads => {
                let weights = weight.values.to_tensor(device);
                let root = weights.clone().sqrt();
                Self { scale: 1.0, relative: Some((weights, root)) }
            }
            _ => Self::from_values(&weight.values, device),
        };
        weights.entries().iter().enumerate().map(norm_weights).collect()
    }

    fn from_values(values: &[f32], device: &Device) -> Self {
        let largest = values.iter().copied().fold(0.0, f32::max);
        let scale = f64::from(largest).sqrt();
        if values.iter().all(|&w| w == largest) {
            return Self { scale, relative: None };
        }
        // A small positive weight must not round to 0: its gradients would be added but not
        // measured.
        let relative_weight =
            |&w: &f32| if w > 0.0 { (w / largest).max(f32::MIN_POSITIVE) } else { 0.0 };
        let relative: Vec<f32> = values.iter().map(relative_weight).collect();
        let roots: Vec<f32> = relative.iter().map(|w| w.sqrt()).collect();
        let tensor = |values: Vec<f32>| Tensor::<1>::from_data(values.as_slice(), device);
        Self { scale, relative: Some((tensor(relative), tensor(roots))) }
    }

    /// Returns whether all weights are zero, so that the parameter is skipped.
    pub(super) fn is_zero(&self) -> bool {
        self.scale == 0.0
    }

    /// Returns the weights divided by the largest.
    pub(super) fn relative(&self) -> Option<&Tensor<1>> {
        self.relative.as_ref().map(|(relative, _)| relative)
    }

    /// Returns the square roots of [`relative`](Self::relative).
    pub(super) fn relative_sqrt(&self) -> Option<&Tensor<1>> {
        self.relative.as_ref().map(|(_, root)| root)
    }
}
