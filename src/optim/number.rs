//! The arithmetic that the formulas of this module use: on the host coordinate by coordinate, on a
//! device tensor by tensor.

use std::ops::{Add, Div, Mul, Sub};

use burn::prelude::*;

/// Number that a formula computes with: one coordinate (`f64`) or all coordinates of a tensor
/// ([`Lanes`]).
pub(super) trait Number:
    Clone
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Add<f64, Output = Self>
    + Mul<f64, Output = Self>
{
    /// Returns the square root.
    fn sqrt(self) -> Self;
    /// Returns the larger of the number and `bound`.
    fn at_least(self, bound: f64) -> Self;
}

impl Number for f64 {
    #[inline(always)]
    fn sqrt(self) -> Self {
        f64::sqrt(self)
    }
    #[inline(always)]
    fn at_least(self, bound: f64) -> Self {
        if self < bound { bound } else { self }
    }
}

/// One number per coordinate of a tensor on a device, in f32, or the same number for all of them.
#[derive(Clone)]
// There are a few per tensor, all of them short-lived.
#[allow(clippy::large_enum_variant)]
pub(super) enum Lanes {
    Same(f64),
    Each(Tensor<1>),
}

impl Lanes {
    /// Returns the numbers of `len` coordinates as a tensor on this device, which is the one they
    /// are on.
    pub(super) fn tensor(&self, len: usize, device: &Device) -> Tensor<1> {
        match self {
            Self::Same(number) => Tensor::full([len], *number, device),
            Self::Each(numbers) => numbers.clone(),
        }
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident, $operator:tt) => {
        impl $trait for Lanes {
            type Output = Self;
            fn $method(self, other: Self) -> Self {
                match (self, other) {
                    (Self::Same(a), Self::Same(b)) => Self::Same(a $operator b),
                    (Self::Same(a), Self::Each(b)) => Self::Each(a $operator b),
                    (Self::Each(a), Self::Same(b)) => Self::Each(a $operator b),
                    (Self::Each(a), Self::Each(b)) => Self::Each(a $operator b),
                }
            }
        }
    };
}
operator!(Add, add, +);
operator!(Sub, sub, -);
operator!(Mul, mul, *);
operator!(Div, div, /);

impl Add<f64> for Lanes {
    type Output = Self;
    fn add(self, other: f64) -> Self {
        self + Self::Same(other)
    }
}

impl Mul<f64> for Lanes {
    type Output = Self;
    fn mul(self, other: f64) -> Self {
        self * Self::Same(other)
    }
}

impl Number for Lanes {
    fn sqrt(self) -> Self {
        match self {
            Self::Same(number) => Self::Same(number.sqrt()),
            Self::Each(numbers) => Self::Each(numbers.sqrt()),
        }
    }
    fn at_least(self, bound: f64) -> Self {
        match self {
            Self::Same(number) => Self::Same(number.at_least(bound)),
            Self::Each(numbers) => Self::Each(numbers.clamp_min(bound)),
        }
    }
}
