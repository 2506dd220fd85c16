//! [`DeviceArray`]: an array of floats on the host, on a device, or on both.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

use burn::prelude::*;

use super::host;

/// A flat array of `f32` values, `[len]`, on the host, on a device, or on both. Tensors are stored
/// row-major.
///
/// An array on a device is copied to the host when it is first dereferenced as a slice. The copy is
/// kept. Unless the device is the CPU, it counts as one of
/// [`host_sync_count`](super::host_sync_count).
///
/// Cloning shares the values on the device and copies the values on the host.
#[derive(Clone, Default)]
pub struct DeviceArray {
    len: usize,
    host: OnceLock<Vec<f32>>,
    device: Option<Tensor<1>>,
}

impl DeviceArray {
    /// Creates an array on the device of this tensor, which must not track gradients.
    pub fn from_tensor(tensor: Tensor<1>) -> Self {
        Self { len: tensor.dims()[0], host: OnceLock::new(), device: Some(tensor) }
    }

    /// Returns the number of values. Never copies them.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the array is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the device of the values, if they are on one.
    pub fn device(&self) -> Option<Device> {
        self.device.as_ref().map(Tensor::device)
    }

    /// Returns whether the values are on the host, so that dereferencing does not copy them.
    pub(crate) fn is_on_host(&self) -> bool {
        self.device.is_none() || self.host.get().is_some()
    }

    /// Returns the values as a tensor on this device, shared if they are there already, else
    /// copied.
    pub fn to_tensor(&self, device: &Device) -> Tensor<1> {
        match &self.device {
            Some(tensor) if tensor.device() == *device => tensor.clone(),
            _ => Tensor::from_data(TensorData::new(self.to_vec(), [self.len]), device),
        }
    }

    /// Copies several arrays to the host. Arrays on the same device are copied at once.
    pub(crate) fn to_vecs(arrays: &[Self]) -> Vec<Vec<f32>> {
        let only_on_device = |array: &&Self| array.host.get().is_none() && array.len > 0;
        let tensors: Vec<_> =
            arrays.iter().filter(only_on_device).filter_map(|a| a.device.clone()).collect();
        let device = tensors.first().map(Tensor::device);
        if tensors.iter().any(|tensor| Some(tensor.device()) != device) {
            return arrays.iter().map(|array| array.to_vec()).collect();
        }
        let mut copied = host::tensors_to_vecs(tensors).into_iter();
        let mut next = |array: &Self| {
            if only_on_device(&array) { copied.next().unwrap_or_default() } else { array.to_vec() }
        };
        arrays.iter().map(&mut next).collect()
    }

    /// Adds a copy of the values on this device.
    pub(crate) fn on(mut self, device: &Device) -> Self {
        self.device = Some(self.to_tensor(device));
        self
    }
}

/// The values as a slice. Copies them to the host if they are not there yet.
impl Deref for DeviceArray {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        self.host.get_or_init(|| self.device.clone().map(host::tensor_to_vec).unwrap_or_default())
    }
}

/// The values as a mutable slice on the host. The copy on the device is dropped.
impl DerefMut for DeviceArray {
    fn deref_mut(&mut self) -> &mut [f32] {
        // Not `self.deref()`, which would dereference the reference.
        let _ = Self::deref(self);
        self.device = None;
        self.host.get_mut().map_or(&mut [], |values| values)
    }
}

impl From<Vec<f32>> for DeviceArray {
    fn from(values: Vec<f32>) -> Self {
        Self { len: values.len(), host: OnceLock::from(values), device: None }
    }
}

impl FromIterator<f32> for DeviceArray {
    fn from_iter<I: IntoIterator<Item = f32>>(values: I) -> Self {
        values.into_iter().collect::<Vec<_>>().into()
    }
}

impl<'a> IntoIterator for &'a DeviceArray {
    type Item = &'a f32;
    type IntoIter = std::slice::Iter<'a, f32>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut DeviceArray {
    type Item = &'a mut f32;
    type IntoIter = std::slice::IterMut<'a, f32>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl PartialEq for DeviceArray {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: AsRef<[f32]>> PartialEq<T> for DeviceArray {
    fn eq(&self, other: &T) -> bool {
        **self == *other.as_ref()
    }
}

impl fmt::Debug for DeviceArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.get() {
            Some(values) => fmt::Debug::fmt(values, f),
            None => write!(f, "{} values on a device", self.len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_on_a_device_can_be_changed_on_the_host() {
        let on_device = || {
            let array = DeviceArray::from(vec![1.0, 2.0, 3.0]);
            DeviceArray::from_tensor(array.to_tensor(&Device::flex()))
        };
        let mut array = on_device();
        array[1] = 5.0;
        assert_eq!(array, [1.0, 5.0, 3.0]);
        assert!(array.device().is_none(), "the copy on the device is out of date");
        let mut array = on_device();
        array.iter_mut().for_each(|value| *value += 1.0);
        assert_eq!(array, [2.0, 3.0, 4.0]);
    }
}
