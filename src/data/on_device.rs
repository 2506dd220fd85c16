//! Examples where a network works on them.

use std::fmt;

use burn::prelude::*;

use super::Examples;
use crate::Result;
use crate::device::memory_budget;

/// Examples for work on a device. Where they lie in memory and take at most a quarter of the
/// device's room, all features are brought there once; otherwise they follow part by part, whenever
/// some are asked for. Cheap to clone.
///
/// ```
/// # fn main() -> epsilab::Result<()> {
/// use epsilab::burn::prelude::Device;
/// use epsilab::{data, nn::models};
/// let data = data::glyphs_with(100, 50, 1)?;
/// let model = models::linear(&data).build()?;
/// let test = data::OnDevice::new(data.test(), &Device::flex())?;  // once
/// let accuracy = model.accuracy_on(&test)?;                       // for as many models as you like
/// # assert_eq!(accuracy, model.accuracy(&data)?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct OnDevice {
    examples: Examples,
    device: Device,
    /// `[examples, features]`, if all are there.
    features: Option<Tensor<2>>,
}

impl OnDevice {
    /// These examples for work on this device.
    ///
    /// # Errors
    /// If what the environment says of the device's memory can't be read.
    pub fn new(examples: &Examples, device: &Device) -> Result<Self> {
        let size: usize = examples.shape().iter().product();
        let bytes = examples.len().saturating_mul(size).saturating_mul(size_of::<f32>());
        let mut placed =
            Self { examples: examples.clone(), device: device.clone(), features: None };
        // The rest is for parameters, activations and gradients.
        if examples.is_in_memory() && !examples.is_empty() && bytes <= memory_budget(device)? / 4 {
            placed.features = Some(placed.bring(examples.features_flat().to_vec()));
        }
        Ok(placed)
    }

    /// The examples, as the host knows them.
    pub fn examples(&self) -> &Examples {
        &self.examples
    }

    /// The device they are for.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Whether all features are on the device.
    pub fn is_whole(&self) -> bool {
        self.features.is_some()
    }

    /// The features of the examples with these numbers on the device, `[ids, features]`; at least
    /// one number. What is there is gathered there: only the numbers go up, and nothing comes down.
    ///
    /// # Errors
    /// As [`Examples::gather`].
    pub(crate) fn rows(&self, ids: &[u32]) -> Result<Tensor<2>> {
        let Some(features) = &self.features else {
            let mut rows = Vec::new();
            self.examples.gather(ids, &mut rows)?;
            return Ok(self.bring(rows));
        };
        // A card doesn't look whether a row is there.
        self.examples.check(ids)?;
        let ids: Vec<i64> = ids.iter().map(|&id| i64::from(id)).collect();
        let n = ids.len();
        Ok(features
            .clone()
            .select(0, Tensor::<1, Int>::from_data(TensorData::new(ids, [n]), &self.device)))
    }

    /// Row-major features of some examples, brought to the device: `[examples, features]`.
    pub(crate) fn bring(&self, rows: Vec<f32>) -> Tensor<2> {
        let size = self.examples.shape().iter().product::<usize>();
        let shape = [rows.len() / size.max(1), size];
        Tensor::from_data(TensorData::new(rows, shape), &self.device)
    }
}

/// `60,000 examples of shape 1x28x28 on a device`, with the device as Burn names it.
impl fmt::Debug for OnDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.is_whole() { "on" } else { "part by part on" };
        write!(f, "{} {how} {:?}", self.examples, self.device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::from_vecs;

    #[test]
    fn rows_come_in_the_order_asked_for_and_strangers_are_refused() {
        let data =
            from_vecs((0..12).map(|x| x as f32).collect(), &[3], vec![0, 1, 0, 1], 2).unwrap();
        let whole = OnDevice::new(data.train(), &Device::flex()).unwrap();
        assert!(whole.is_whole());
        let parts = OnDevice { features: None, ..whole.clone() };
        for placed in [whole, parts] {
            let rows = placed.rows(&[2, 0, 2]).unwrap().into_data().try_into_vec::<f32>().unwrap();
            assert_eq!(rows, [6.0, 7.0, 8.0, 0.0, 1.0, 2.0, 6.0, 7.0, 8.0]);
            let error = placed.rows(&[0, 4]).unwrap_err();
            assert!(error.to_string().starts_with("example number = 4"), "{error}");
        }
        // The memory of a shortened view goes on behind its end.
        let two = OnDevice::new(&data.train().take(2), &Device::flex()).unwrap();
        assert!(two.rows(&[1]).is_ok() && two.rows(&[2]).is_err());
    }
}
