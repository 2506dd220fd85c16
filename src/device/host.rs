//! Access from the host to the values of a tensor.

use burn::backend::Flex;
use burn::prelude::*;
use burn::tensor::{DType, Transaction};
use burn_flex::FlexTensor;

use super::device_error;
use crate::Result;

/// The values of a tensor on the host, row-major. The tensor must not track gradients.
pub(crate) enum HostValues {
    /// The memory of a tensor of the CPU backend, shared.
    Flex(FlexTensor),
    /// Values copied from another device.
    Copy(Vec<f32>),
}

impl HostValues {
    /// Returns the tensor's values, shared with it if possible, else copied.
    pub(crate) fn from_tensor<const D: usize>(tensor: Tensor<D>) -> Self {
        Self::try_shared(tensor.clone()).unwrap_or_else(|| Self::Copy(tensor_to_vec(tensor)))
    }

    /// Returns the tensor's own memory, or a copy if it is not contiguous. `None` unless it is an
    /// `f32` tensor of the CPU backend.
    pub(crate) fn try_shared<const D: usize>(tensor: Tensor<D>) -> Option<Self> {
        let tensor = tensor.try_into_primitive::<Flex>().ok()?.to_contiguous();
        tensor.as_slice::<f32>().is_some().then_some(Self::Flex(tensor))
    }

    /// Returns the values, row-major.
    pub(crate) fn slice(&self) -> &[f32] {
        match self {
            Self::Flex(tensor) => tensor.as_slice().unwrap_or_default(),
            Self::Copy(values) => values,
        }
    }
}

/// Copies the tensor's values to the host, row-major.
pub(crate) fn tensor_to_vec<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    if tensor.device() != Device::flex() {
        super::host_syncs::record_host_sync();
    }
    let data = tensor.into_data().convert::<f32>();
    data.try_into_vec().expect("converted to f32 just before")
}

/// Copies the values of several tensors as [`try_tensors_to_vecs`] does, with a panic where the
/// device fails, as in [`tensor_to_vec`].
pub(crate) fn tensors_to_vecs(tensors: Vec<Tensor<1>>) -> Vec<Vec<f32>> {
    try_tensors_to_vecs(tensors).unwrap_or_else(|error| panic!("{}", error.what()))
}

/// Copies the values of several tensors to the host at once, each row-major.
///
/// Each tensor is read by itself: a concatenation could hide the failure of one of them.
///
/// # Errors
/// `Device` with the device's message if one of them could not be computed.
pub(crate) fn try_tensors_to_vecs(tensors: Vec<Tensor<1>>) -> Result<Vec<Vec<f32>>> {
    if tensors.is_empty() {
        return Ok(Vec::new());
    }
    if tensors.iter().any(|tensor| tensor.device() != Device::flex()) {
        super::host_syncs::record_host_sync();
    }
    let floats = tensors.into_iter().map(|tensor| tensor.cast(DType::F32));
    let read = floats.fold(Transaction::default(), Transaction::register).try_execute();
    let data = read.map_err(|error| device_error(&"the device", &error.to_string()))?;
    let values = data.into_iter().map(|data| data.try_into_vec().map_err(|e| format!("{e:?}")));
    values.collect::<std::result::Result<_, _>>().map_err(|e| device_error(&"the device", &e))
}
