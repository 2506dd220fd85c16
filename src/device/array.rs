//! DeviceArray that live on the host, on a device, or on both.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

use burn::prelude::*;

use super::host;

/// Row-major numbers. Made on a device they stay there until somebody looks at them as a slice:
/// that copies them to the host once, and counts as one of [`host_syncs`](super::host_syncs). Cheap to clone
/// on a device; a copy on the host.
#[derive(Clone, Default)]
pub struct DeviceArray {
    len: usize,
    host: OnceLock<Vec<f32>>,
    device: Option<Tensor<1>>,
}

impl DeviceArray {
    /// DeviceArray on the device of this tensor, without autodiff.
    pub fn of(tensor: Tensor<1>) -> Self {
        Self { len: tensor.dims()[0], host: OnceLock::new(), device: Some(tensor) }
    }

    /// How many there are. Does not look at them.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The device they were made on, if it is not the host.
    pub fn device(&self) -> Option<Device> {
        self.device.as_ref().map(Tensor::device)
    }

    /// Whether they are on the host, so that a look at them costs nothing.
    pub fn is_on_host(&self) -> bool {
        self.device.is_none() || self.host.get().is_some()
    }

    /// The numbers as a tensor on this device: shared if they are there already, copied otherwise.
    pub fn tensor(&self, device: &Device) -> Tensor<1> {
        match &self.device {
            Some(tensor) if tensor.device() == *device => tensor.clone(),
            _ => Tensor::from_data(TensorData::new(self.to_vec(), [self.len]), device),
        }
    }

    /// Several lots on the host. Those that lie on one device are copied in one go.
    pub fn all(lots: &[Self]) -> Vec<Vec<f32>> {
        let away = |lot: &&Self| lot.host.get().is_none() && lot.len > 0;
        let tensors: Vec<_> = lots.iter().filter(away).filter_map(|l| l.device.clone()).collect();
        let Some(first) = tensors.first() else { return lots.iter().map(|l| l.to_vec()).collect() };
        if tensors.iter().any(|tensor| tensor.device() != first.device()) {
            return lots.iter().map(|lot| lot.to_vec()).collect();
        }
        let copied = host::values(Tensor::cat(tensors, 0));
        let mut rest = &copied[..];
        let mut next = |lot: &Self| {
            if !away(&lot) {
                return lot.to_vec();
            }
            let (these, others) = rest.split_at(lot.len);
            rest = others;
            these.to_vec()
        };
        lots.iter().map(&mut next).collect()
    }

    /// The same numbers on the host and on this device.
    pub fn on(mut self, device: &Device) -> Self {
        self.device = Some(self.tensor(device));
        self
    }
}

/// A look at the numbers: copies them to the host if they are not there yet.
impl Deref for DeviceArray {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        self.host.get_or_init(|| self.device.clone().map(host::values).unwrap_or_default())
    }
}

/// Changes them on the host; from then on they live there.
impl DerefMut for DeviceArray {
    fn deref_mut(&mut self) -> &mut [f32] {
        let _ = self.deref();
        self.device = None;
        self.host.get_mut().map_or(&mut [], |numbers| numbers)
    }
}

impl From<Vec<f32>> for DeviceArray {
    fn from(numbers: Vec<f32>) -> Self {
        Self { len: numbers.len(), host: OnceLock::from(numbers), device: None }
    }
}

impl FromIterator<f32> for DeviceArray {
    fn from_iter<I: IntoIterator<Item = f32>>(numbers: I) -> Self {
        numbers.into_iter().collect::<Vec<_>>().into()
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
            Some(numbers) => fmt::Debug::fmt(numbers, f),
            None => write!(f, "{} numbers on a device", self.len),
        }
    }
}
