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
    Uniform(f64),
    PerCoordinate(Tensor<1>),
}

impl Lanes {
    /// Returns the numbers of `len` coordinates as a tensor on this device, which is the one they
    /// are on.
    pub(super) fn tensor(&self, len: usize, device: &Device) -> Tensor<1> {
        match self {
            Self::Uniform(number) => Tensor::full([len], *number, device),
            Self::PerCoordinate(numbers) => numbers.clone(),
        }
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident, $operator:tt) => {
        impl $trait for Lanes {
            type Output = Self;
            fn $method(self, other: Self) -> Self {
                match (self, other) {
                    (Self::Uniform(a), Self::Uniform(b)) => Self::Uniform(a $operator b),
                    (Self::Uniform(a), Self::PerCoordinate(b)) => Self::PerCoordinate(a $operator b),
                    (Self::PerCoordinate(a), Self::Uniform(b)) => Self::PerCoordinate(a $operator b),
                    (Self::PerCoordinate(a), Self::PerCoordinate(b)) => Self::PerCoordinate(a $operator b),
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
        self + Self::Uniform(other)
    }
}

impl Mul<f64> for Lanes {
    type Output = Self;
    fn mul(self, other: f64) -> Self {
        self * Self::Uniform(other)
    }
}

impl Number for Lanes {
    fn sqrt(self) -> Self {
        match self {
            Self::Uniform(number) => Self::Uniform(number.sqrt()),
            Self::PerCoordinate(numbers) => Self::PerCoordinate(numbers.sqrt()),
        }
    }
    fn at_least(self, bound: f64) -> Self {
        match self {
            Self::Uniform(number) => Self::Uniform(number.at_least(bound)),
            Self::PerCoordinate(numbers) => Self::PerCoordinate(numbers.clamp_min(bound)),
        }
    }
}
