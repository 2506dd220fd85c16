//! The numbers of a tensor, seen from the host.

use burn::backend::Flex;
use burn::prelude::*;
use burn_flex::FlexTensor;

use crate::{Error, ErrorKind, Result};

/// Row-major numbers of a tensor without autodiff.
pub(crate) enum Host {
    /// The tensor's own memory, on the CPU backend.
    Flex(FlexTensor),
    /// A copy, from any other device.
    Copy(Vec<f32>),
}

impl Host {
    /// The tensor's numbers; shared with it where possible.
    pub(crate) fn of<const D: usize>(tensor: Tensor<D>) -> Self {
        match Self::shared(tensor.clone()) {
            Some(shared) => shared,
            None => Self::Copy(values(tensor)),
        }
    }

    /// The tensor's own memory: only for plain `f32` tensors on the CPU backend.
    pub(crate) fn shared<const D: usize>(tensor: Tensor<D>) -> Option<Self> {
        let tensor = tensor.try_into_primitive::<Flex>().ok()?.to_contiguous();
        tensor.as_slice::<f32>().is_some().then_some(Self::Flex(tensor))
    }

    /// The numbers, row-major.
    pub(crate) fn slice(&self) -> &[f32] {
        match self {
            Self::Flex(tensor) => tensor.as_slice().unwrap_or_default(),
            Self::Copy(values) => values,
        }
    }
}

/// A copy of the tensor's numbers, row-major.
pub(crate) fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    if tensor.device() != Device::flex() {
        super::host_syncs::count();
    }
    let data = tensor.into_data().convert::<f32>();
    data.try_into_vec().expect("converted to f32 just before")
}

/// As [`values`], for work that the device may not have managed: it says so when it is read.
///
/// # Errors
/// What the device says went wrong.
pub(crate) fn read<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f32>> {
    if tensor.device() != Device::flex() {
        super::host_syncs::count();
    }
    let read = tensor.try_into_data().map_err(|error| error.to_string());
    read.and_then(|data| data.convert::<f32>().try_into_vec().map_err(|e| format!("{e:?}")))
        .map_err(|why| {
            let what = "the device could not do what it was told";
            Error::new(ErrorKind::Model, what, why)
                .fix("if its memory was too small, close other programs that use it")
        })
}
