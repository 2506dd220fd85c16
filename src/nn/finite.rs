//! Search for parameters that are NaN or infinite.

use burn::tensor::DType;

use super::{Network, Parameter};
use crate::Result;
use crate::device::{host, kernels};

impl Network {
    /// Returns the first parameter with a NaN or infinite value, if there is one.
    ///
    /// The check runs on the device of the network and copies one flag per row to the host.
    ///
    /// # Errors
    /// If the device reports a failure, which may be that of an earlier operation.
    pub(crate) fn first_non_finite(&self) -> Result<Option<Parameter>> {
        let parameters = self.parameters();
        // One flag per row of each parameter, so that the rows of a long one are checked in
        // parallel.
        let flags = self.tensors().into_iter().zip(&parameters).map(|(values, parameter)| {
            let rows = if parameter.shape.len() < 2 { 1 } else { parameter.shape[0] };
            let values = values.cast(DType::F32).reshape([rows, parameter.len() / rows.max(1)]);
            kernels::finite_rows(values)
        });
        let flags = host::try_tensors_to_vecs(flags.collect())?;
        let first =
            flags.iter().position(|tensor_flags| tensor_flags.iter().any(|&flag| flag != 1.0));
        Ok(first.map(|index| parameters[index].clone()))
    }
}

#[cfg(test)]
mod tests {
    use crate::data::patterns_with;
    use crate::nn::models;

    #[test]
    fn a_non_finite_first_or_last_value_of_each_parameter_is_found() {
        let data = patterns_with(2, 0, 1).unwrap();
        let model = models::stevens_mnist_cnn(&data).seed(1).build().unwrap();
        let network = model.network();
        assert_eq!(network.first_non_finite().unwrap(), None);
        for (parameter, values) in network.values() {
            for (at, value) in [(0, f32::NAN), (values.len() - 1, f32::NEG_INFINITY)] {
                let mut broken = values.clone();
                broken[at] = value;
                let filled =
                    network.with_values(|path| (path == parameter.path).then(|| broken.clone()));
                assert_eq!(filled.first_non_finite().unwrap(), Some(parameter.clone()));
            }
        }
    }
}
