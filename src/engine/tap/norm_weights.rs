//! The weights of one parameter's coordinates, ready for tensor operations.

use burn::prelude::*;

use crate::engine::{Gradient, Weights};

/// How the coordinates of one parameter enter the norm.
pub(super) struct NormWeights {
    /// √ of the largest weight; norms found with [`share`](Self::share) are multiplied by it.
    pub(super) scale: f64,
    /// Weights over the largest one, and their square roots; `None` if all are equal.
    relative: Option<(Tensor<1>, Tensor<1>)>,
}

impl NormWeights {
    /// One metric per entry of the weights; every coordinate counts once if there are none.
    pub(super) fn per_parameter(
        weights: Option<&Weights>,
        entries: usize,
        device: &Device,
    ) -> Vec<Self> {
        let Some(weights) = weights else {
            return (0..entries).map(|_| Self { scale: 1.0, relative: None }).collect();
        };
        weights.entries().iter().map(|entry| Self::of(&entry.values, device)).collect()
    }

    /// The same without a look at weights that live on a device: they are taken for what they
    /// are there, and the largest for about 1. Only whether all are zero must be known.
    pub(super) fn per_parameter_on_device(
        weights: Option<&Weights>,
        entries: usize,
        device: &Device,
    ) -> Vec<Self> {
        let Some(weights) = weights else { return Self::per_parameter(None, entries, device) };
        let of = |(entry, weight): (usize, &Gradient)| match weight.values.device() {
            _ if weights.is_zero(entry) => Self { scale: 0.0, relative: None },
            None => Self::of(&weight.values, device),
            Some(_) => {
                let weights = weight.values.tensor(device);
                let root = weights.clone().sqrt();
                Self { scale: 1.0, relative: Some((weights, root)) }
            }
        };
        weights.entries().iter().enumerate().map(of).collect()
    }

    fn of(values: &[f32], device: &Device) -> Self {
        let largest = values.iter().copied().fold(0.0, f32::max);
        let scale = f64::from(largest).sqrt();
        if values.iter().all(|&w| w == largest) {
            return Self { scale, relative: None };
        }
        // Beside a huge weight a small one must not become 0, whose gradients are not measured.
        let relative_weight =
            |&w: &f32| if w > 0.0 { (w / largest).max(f32::MIN_POSITIVE) } else { 0.0 };
        let relative: Vec<f32> = values.iter().map(relative_weight).collect();
        let roots: Vec<f32> = relative.iter().map(|w| w.sqrt()).collect();
        let tensor = |values: Vec<f32>| Tensor::<1>::from_data(values.as_slice(), device);
        Self { scale, relative: Some((tensor(relative), tensor(roots))) }
    }

    /// Whether no coordinate counts: the parameter is left out altogether.
    pub(super) fn is_zero(&self) -> bool {
        self.scale == 0.0
    }

    /// Weights over the largest one.
    pub(super) fn relative(&self) -> Option<&Tensor<1>> {
        self.relative.as_ref().map(|(relative, _)| relative)
    }

    /// Square roots of [`share`](Self::share).
    pub(super) fn relative_sqrt(&self) -> Option<&Tensor<1>> {
        self.relative.as_ref().map(|(_, root)| root)
    }
}
