//! Examples on the device of a network.

use std::fmt;

use burn::prelude::*;

use super::Examples;
use crate::Result;
use crate::device::memory_budget;

/// Examples whose features are used on a device. If they are in memory and take at most a quarter
/// of the device's memory budget, all features are uploaded once; otherwise each request uploads
/// its own. Cheap to clone.
///
/// ```
/// # fn main() -> epsilab::Result<()> {
/// use epsilab::burn::prelude::Device;
/// use epsilab::{data, nn::models};
/// let data = data::glyphs_with(100, 50, 1)?;
/// let model = models::linear(&data).build()?;
/// let test = data::DeviceExamples::new(data.test(), &Device::flex())?;  // once
/// let accuracy = model.accuracy_on(&test)?;                       // for any number of models
/// # assert_eq!(accuracy, model.accuracy(&data)?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct DeviceExamples {
    examples: Examples,
    device: Device,
    /// All features, `[examples, features]`, if they were uploaded.
    features: Option<Tensor<2>>,
}

impl DeviceExamples {
    /// Creates the view of these examples on this device.
    ///
    /// # Errors
    /// If the environment variable for the memory budget can't be parsed.
    pub fn new(examples: &Examples, device: &Device) -> Result<Self> {
        let size: usize = examples.shape().iter().product();
        let bytes = examples.len().saturating_mul(size).saturating_mul(size_of::<f32>());
        let mut placed =
            Self { examples: examples.clone(), device: device.clone(), features: None };
        // The remaining memory is for parameters, activations and gradients.
        if examples.is_in_memory() && !examples.is_empty() && bytes <= memory_budget(device)? / 4 {
            placed.features = Some(placed.upload(examples.features_flat().to_vec()));
        }
        Ok(placed)
    }

    /// Returns the examples on the host.
    pub(crate) fn examples(&self) -> &Examples {
        &self.examples
    }

    /// Returns the device.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Returns whether all features were uploaded.
    pub fn is_uploaded(&self) -> bool {
        self.features.is_some()
    }

    /// Returns the features of the examples with these indices on the device, `[ids, features]`;
    /// at least one index. Uploaded features are gathered on the device; nothing is copied to the
    /// host.
    ///
    /// # Errors
    /// As [`Examples::gather`].
    pub(crate) fn gather_rows(&self, ids: &[u32]) -> Result<Tensor<2>> {
        let Some(features) = &self.features else {
            let mut rows = Vec::new();
            self.examples.gather(ids, &mut rows)?;
            return Ok(self.upload(rows));
        };
        // A GPU does not check indices.
        self.examples.check(ids)?;
        let ids: Vec<i64> = ids.iter().map(|&id| i64::from(id)).collect();
        let n = ids.len();
        Ok(features
            .clone()
            .select(0, Tensor::<1, Int>::from_data(TensorData::new(ids, [n]), &self.device)))
    }

    /// Uploads row-major features of some examples: `[examples, features]`.
    pub(crate) fn upload(&self, rows: Vec<f32>) -> Tensor<2> {
        let size = self.examples.shape().iter().product::<usize>();
        let shape = [rows.len() / size.max(1), size];
        Tensor::from_data(TensorData::new(rows, shape), &self.device)
    }
}

/// Formats the examples as `60,000 examples of shape 1x28x28 on …`, with Burn's name of the
/// device.
impl fmt::Debug for DeviceExamples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.is_uploaded() { "on" } else { "part by part on" };
        write!(f, "{} {how} {:?}", self.examples, self.device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::from_vecs;

    #[test]
    fn rows_have_the_requested_order_and_unknown_ones_are_refused() {
        let data =
            from_vecs((0..12).map(|x| x as f32).collect(), &[3], vec![0, 1, 0, 1], 2).unwrap();
        let whole = DeviceExamples::new(data.train(), &Device::flex()).unwrap();
        assert!(whole.is_uploaded());
        let parts = DeviceExamples { features: None, ..whole.clone() };
        for placed in [whole, parts] {
            let rows =
                placed.gather_rows(&[2, 0, 2]).unwrap().into_data().try_into_vec::<f32>().unwrap();
            assert_eq!(rows, [6.0, 7.0, 8.0, 0.0, 1.0, 2.0, 6.0, 7.0, 8.0]);
            let error = placed.gather_rows(&[0, 4]).unwrap_err();
            assert!(error.to_string().starts_with("example number = 4"), "{error}");
        }
        // The memory of a shortened view extends beyond its end.
        let two = DeviceExamples::new(&data.train().take(2), &Device::flex()).unwrap();
        assert!(two.gather_rows(&[1]).is_ok() && two.gather_rows(&[2]).is_err());
    }
}
