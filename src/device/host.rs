//! Access from the host to the values of a tensor.

use burn::backend::Flex;
use burn::prelude::*;
use burn_flex::FlexTensor;

use crate::{Error, ErrorKind, Result};

/// The values of a tensor on the host, row-major. The tensor must not track gradients.
pub(crate) enum Host {
    /// The memory of a tensor of the CPU backend, shared.
    Flex(FlexTensor),
    /// A copy from another device.
    Copy(Vec<f32>),
}

impl Host {
    /// The tensor's values, shared with it if possible, else copied.
    pub(crate) fn of<const D: usize>(tensor: Tensor<D>) -> Self {
        match Self::shared(tensor.clone()) {
            Some(shared) => shared,
            None => Self::Copy(values(tensor)),
        }
    }

    /// The tensor's own memory. `None` unless it is an `f32` tensor of the CPU backend.
    pub(crate) fn shared<const D: usize>(tensor: Tensor<D>) -> Option<Self> {
        let tensor = tensor.try_into_primitive::<Flex>().ok()?.to_contiguous();
        tensor.as_slice::<f32>().is_some().then_some(Self::Flex(tensor))
    }

    /// The values, row-major.
    pub(crate) fn slice(&self) -> &[f32] {
        match self {
            Self::Flex(tensor) => tensor.as_slice().unwrap_or_default(),
            Self::Copy(values) => values,
        }
    }
}

/// A copy of the tensor's values, row-major.
pub(crate) fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    if tensor.device() != Device::flex() {
        super::host_syncs::count();
    }
    let data = tensor.into_data().convert::<f32>();
    data.try_into_vec().expect("converted to f32 just before")
}

/// As [`values`], for a computation that may have failed on the device: reading reports the
/// failure.
///
/// # Errors
/// `Model` with the device's message.
pub(crate) fn try_values<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f32>> {
    if tensor.device() != Device::flex() {
        super::host_syncs::count();
    }
    let data = tensor.try_into_data().map_err(|error| error.to_string());
    data.and_then(|data| data.convert::<f32>().try_into_vec().map_err(|e| format!("{e:?}")))
        .map_err(|why| {
            let what = "a computation on the device failed";
            Error::new(ErrorKind::Model, what, why)
                .fix("if it ran out of memory, close other programs that use the device")
        })
}
