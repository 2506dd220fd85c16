//! [`StateValues`]: the state of optimizers and averages as data.

use burn::prelude::*;

use super::elementwise::Target;
use super::number::Lanes;
use crate::device::DeviceArray;

/// One array of the state of an optimizer or average, for the coordinates of one tensor.
#[derive(Clone, Debug, PartialEq)]
// There are a few per tensor.
#[allow(clippy::large_enum_variant)]
pub enum StateValues {
    /// The same value for all coordinates, in f64.
    Uniform(f64),
    /// One value per coordinate, `[elements of the tensor]`, on the host or on a device.
    PerCoordinate(DeviceArray),
}

impl StateValues {
    /// Gives each of `len` coordinates its own value, on the host.
    pub(super) fn expand(&mut self, len: usize) {
        if let Self::Uniform(value) = *self {
            *self = Self::PerCoordinate(vec![value as f32; len].into());
        }
    }

    /// Returns whether the values fit a tensor of `len` elements.
    pub(super) fn fits(&self, len: usize) -> bool {
        match self {
            Self::Uniform(_) => true,
            Self::PerCoordinate(values) => values.len() == len,
        }
    }

    /// Returns whether the values are on a device.
    pub(super) fn is_on_device(&self) -> bool {
        matches!(self, Self::PerCoordinate(values) if values.device().is_some())
    }

    /// Returns the value of all coordinates, zero if they differ.
    pub(super) fn uniform_value(&self) -> f64 {
        match self {
            Self::Uniform(value) => *value,
            Self::PerCoordinate(_) => 0.0,
        }
    }

    /// Returns the values for a formula on the host. A value of all coordinates is replaced by
    /// `next`.
    pub(super) fn target(&mut self, next: f64) -> Target<'_> {
        match self {
            Self::Uniform(value) => Target::Uniform(std::mem::replace(value, next)),
            Self::PerCoordinate(values) => Target::InPlace(values),
        }
    }

    /// Returns the values for a formula on this device. They are left empty.
    pub(super) fn take_lanes(&mut self, device: &Device) -> Lanes {
        match std::mem::replace(self, Self::Uniform(0.0)) {
            Self::Uniform(value) => Lanes::Uniform(value),
            Self::PerCoordinate(values) => Lanes::PerCoordinate(values.to_tensor(device)),
        }
    }
}

impl From<Lanes> for StateValues {
    fn from(lanes: Lanes) -> Self {
        match lanes {
            Lanes::Uniform(value) => Self::Uniform(value),
            Lanes::PerCoordinate(values) => Self::PerCoordinate(DeviceArray::from_tensor(values)),
        }
    }
}
