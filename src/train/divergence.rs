//! Detection of diverging runs from released parameters.

use burn::tensor::DType;
use std::fmt;

use crate::Result;
use crate::device::{host, kernels};
use crate::nn::Network;
use crate::privacy::digits::RoundedNearest;
use crate::train::Curve;

/// A run counts as diverging once the L2 norm of its parameters exceeds the initial norm, or
/// [`LEAST_INITIAL_NORM`], by this factor. Runs that learn stay below 5 with the default settings;
/// with a learning rate 1000 times too large the first steps exceed 20.
const LIMIT: f64 = 20.0;
/// Norm that stands for smaller initial norms. The few parameters of a linear model of a small
/// table begin near zero and may grow a hundredfold while it learns.
const LEAST_INITIAL_NORM: f64 = 5.0;

/// A run whose parameters have left the range in which training works.
///
/// # Guarantee
/// A function of released parameters and of the initial ones, so it is post-processing. The
/// training loss, which epsilon does not cover, plays no part in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Divergence {
    /// The first recorded step at which the norm was too large.
    pub step: u64,
    /// L2 norm of the parameters at that step over that of the initial parameters, which counts as
    /// 5 if it is smaller.
    pub norm_ratio: f64,
}

impl Curve {
    /// Returns the divergence of the run, judged by the norm of its parameters; `None` if the run
    /// does not diverge.
    pub fn divergence(&self) -> Option<Divergence> {
        self.points.iter().find_map(|point| {
            let norm_ratio = point.norm_ratio.filter(|ratio| *ratio > LIMIT)?;
            Some(Divergence { step: point.step, norm_ratio })
        })
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "training diverges: after step {} the norm of the parameters was {} times its \
             initial value; use a smaller learning rate",
            self.step,
            RoundedNearest(self.norm_ratio)
        )
    }
}

/// Computes the L2 norm of all trainable parameters. Costs one pass over them and one read of a
/// number for each tensor.
///
/// # Errors
/// `Device` if the device has failed before.
pub(super) fn l2_norm(network: &Network) -> Result<f64> {
    let norms = network.tensors().into_iter().map(|values| {
        let length = values.shape().num_elements();
        kernels::row_norms(values.cast(DType::F32).reshape([1, length]), None)
    });
    let norms = host::try_tensors_to_vecs(norms.collect())?;
    Ok(norms.into_iter().flatten().map(|norm| f64::from(norm).powi(2)).sum::<f64>().sqrt())
}

/// Computes the ratio of a norm to the initial one, or to [`LEAST_INITIAL_NORM`] if that is larger.
/// The result is finite, since JSON has no infinity.
pub(super) fn ratio(norm: f64, initial: f64) -> f64 {
    let ratio = norm / initial.max(LEAST_INITIAL_NORM);
    if ratio.is_finite() { ratio } else { f64::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::CurvePoint;

    #[test]
    fn the_norm_is_that_of_all_parameters() {
        let data = crate::data::glyphs_with(2, 0, 1).unwrap();
        let model = crate::nn::models::mlp(&data, &[4]).seed(1).build().unwrap();
        let values = model.network().values();
        let squares: f64 =
            values.iter().flat_map(|(_, values)| values).map(|v| f64::from(*v).powi(2)).sum();
        let norm = l2_norm(model.network()).unwrap();
        assert!((norm / squares.sqrt() - 1.0).abs() < 1e-5, "{norm}");
    }

    #[test]
    fn the_first_point_beyond_the_limit_is_reported() {
        let point = |step, norm_ratio| CurvePoint { step, norm_ratio, ..CurvePoint::default() };
        let curve = |ratios: &[Option<f64>]| Curve {
            points: (1..).zip(ratios).map(|(step, ratio)| point(step, *ratio)).collect(),
        };
        assert_eq!(curve(&[None, Some(1.2), Some(LIMIT)]).divergence(), None);
        let found = curve(&[Some(2.0), Some(45.3), Some(900.0)]).divergence().unwrap();
        assert_eq!((found.step, found.norm_ratio), (2, 45.3));
        assert!(found.to_string().contains("after step 2"), "{found}");
        assert!(found.to_string().contains("45.3 times"), "{found}");
        assert_eq!(
            (ratio(30.0, 0.0), ratio(30.0, 10.0), ratio(f64::INFINITY, 1.0)),
            (6.0, 3.0, f64::MAX)
        );
    }
}
