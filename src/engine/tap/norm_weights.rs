//! The weights of one parameter's coordinates, ready for tensor operations.

use burn::prelude::*;

use crate::engine::{Gradient, Weights};

/// How the coordinates of one parameter enter the norm.
pub(super) struct NormWeights {
    /// √ of the largest weight; norms found with [`share`](Self::share) are multiplied by it.
    pub(super) scale: f64,
    /// Weights over the largest one, and their square roots; `None` if all are equal.
    shares: Option<(Tensor<1>, Tensor<1>)>,
}

impl NormWeights {
    /// One metric per entry of the weights; every coordinate counts once if there are none.
    pub(super) fn all(weights: Option<&Weights>, entries: usize, device: &Device) -> Vec<Self> {
        let Some(weights) = weights else {
            return (0..entries).map(|_| Self { scale: 1.0, shares: None }).collect();
        };
        weights.entries().iter().map(|entry| Self::of(&entry.values, device)).collect()
    }

    /// The same without a look at weights that live on a device: they are taken for what they
    /// are there, and the largest for about 1. Only whether all are zero must be known.
    pub(super) fn all_on_device(
        weights: Option<&Weights>,
        entries: usize,
        device: &Device,
    ) -> Vec<Self> {
        let Some(weights) = weights else { return Self::all(None, entries, device) };
        let of = |(entry, weight): (usize, &Gradient)| match weight.values.device() {
            _ if weights.is_zero(entry) => Self { scale: 0.0, shares: None },
            None => Self::of(&weight.values, device),
            Some(_) => {
                let share = weight.values.tensor(device);
                let root = share.clone().sqrt();
                Self { scale: 1.0, shares: Some((share, root)) }
            }
        };
        weights.entries().iter().enumerate().map(of).collect()
    }

    fn of(values: &[f32], device: &Device) -> Self {
        let largest = values.iter().copied().fold(0.0, f32::max);
        let scale = f64::from(largest).sqrt();
        if values.iter().all(|&w| w == largest) {
            return Self { scale, shares: None };
        }
        // Beside a huge weight a small one must not become 0, whose gradients are not measured.
        let share = |&w: &f32| if w > 0.0 { (w / largest).max(f32::MIN_POSITIVE) } else { 0.0 };
        let shares: Vec<f32> = values.iter().map(share).collect();
        let roots: Vec<f32> = shares.iter().map(|w| w.sqrt()).collect();
        let tensor = |values: Vec<f32>| Tensor::<1>::from_data(values.as_slice(), device);
        Self { scale, shares: Some((tensor(shares), tensor(roots))) }
    }

    /// Whether no coordinate counts: the parameter is left out altogether.
    pub(super) fn is_zero(&self) -> bool {
        self.scale == 0.0
    }

    /// Weights over the largest one.
    pub(super) fn share(&self) -> Option<&Tensor<1>> {
        self.shares.as_ref().map(|(share, _)| share)
    }

    /// Square roots of [`share`](Self::share).
    pub(super) fn root(&self) -> Option<&Tensor<1>> {
        self.shares.as_ref().map(|(_, root)| root)
    }
}
