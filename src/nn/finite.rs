//! Whether a network's parameters are numbers still.

use burn::module::{Module, ModuleVisitor, Param};
use burn::prelude::*;
use burn::tensor::DType;

use super::{Network, Parameter};
use crate::Result;
use crate::device::{host, kernels};

impl Network {
    /// The first parameter that holds an infinity or what is not a number. Looked for where the
    /// network is, in one small read.
    ///
    /// # Errors
    /// If the device has failed before.
    pub(crate) fn not_finite(&self) -> Result<Option<Parameter>> {
        /// A flag for each row of each parameter: long ones are looked at by many at once.
        struct Flags(Vec<Tensor<1>>);
        impl ModuleVisitor for Flags {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                let values = param.val().cast(DType::F32);
                let length = values.shape().num_elements();
                let rows = if D < 2 { 1 } else { values.dims()[0] };
                let rows = values.reshape([rows, length / rows.max(1)]);
                self.0.push(kernels::finite_rows(rows));
            }
        }
        let mut flags = Flags(Vec::new());
        self.visit(&mut flags);
        let rows = flags.0.iter().map(|flags| flags.dims()[0]).collect::<Vec<_>>();
        let flags = host::try_values(Tensor::cat(flags.0, 0))?;
        let mut flags = &flags[..];
        let mut is_finite = rows.into_iter().map(|rows| {
            let (these, others) = flags.split_at(rows);
            flags = others;
            these.iter().all(|&flag| flag == 1.0)
        });
        let strange = is_finite.position(|finite| !finite);
        Ok(strange.and_then(|strange| self.parameters().into_iter().nth(strange)))
    }
}

#[cfg(test)]
mod tests {
    use crate::data::patterns_with;
    use crate::nn::models;

    #[test]
    fn the_parameter_that_is_not_finite_is_named_wherever_it_breaks() {
        let data = patterns_with(2, 0, 1).unwrap();
        let model = models::stevens_cifar_cnn(&data).seed(1).build().unwrap();
        let network = model.network();
        assert_eq!(network.not_finite().unwrap(), None);
        for (parameter, values) in network.values() {
            for (at, strange) in [(0, f32::NAN), (values.len() - 1, f32::NEG_INFINITY)] {
                let mut broken = values.clone();
                broken[at] = strange;
                let filled =
                    network.filled(|path| (path == parameter.path).then(|| broken.clone()));
                assert_eq!(filled.not_finite().unwrap(), Some(parameter.clone()));
            }
        }
    }
}
