use super::*;
use crate::data;
use crate::engine::{Bound, ClipGroups, ClippedSum, CoordinateWeights, TapExecutor};
use crate::nn::models;

/// Computes the right sum and then applies the given error to it.
struct Wrong(fn(&mut ClippedSum, &ClipGroups, &Batch));

impl Executor for Wrong {
    fn weighted_sum(
        &self,
        network: &Network,
        batch: &Batch,
        bound: &dyn Bound,
        weights: Option<&CoordinateWeights>,
    ) -> Result<ClippedSum> {
        let mut right = TapExecutor::default().weighted_sum(network, batch, bound, weights)?;
        (self.0)(&mut right, &bound.groups(network)?, batch);
        Ok(right)
    }
}

fn digits() -> Dataset {
    let features = (0..12 * 144).map(|i| ((i * 7919 + 3) % 1009) as f32 / 500.0 - 1.0).collect();
    data::from_vecs(features, &[1, 12, 12], (0..12).map(|i| i % 3).collect(), 3).unwrap()
}

#[test]
fn the_training_executor_agrees() {
    let data = digits();
    let model = models::mlp(&data, &[5]).seed(1).build().unwrap();
    let proof = model.check_gradients(&data).unwrap();
    assert!(proof.passed(), "{proof}");
    assert_eq!((proof.examples, proof.parameters.len()), (8, 4));
    assert_eq!(proof.parameters[0].norm_method, "ghost");
    let text = proof.to_string();
    assert!(text.contains("1.weight") && text.contains("[144, 5]") && !text.contains("DIFFERS"));
}

#[test]
fn wrong_executors_are_detected() {
    let data = digits();
    let model = models::mlp(&data, &[5]).seed(1).build().unwrap();
    let batch = Batch::from_examples(data.train(), &[0, 1, 2, 3, 4, 5, 6, 7]).unwrap();
    let wrong: [(&str, Wrong); 5] = [
        (
            "a bias off by a thousandth",
            Wrong(|sum, _, _| {
                sum.sum.entries[1].values.iter_mut().for_each(|v| *v *= 1.001);
            }),
        ),
        (
            "a mean instead of a sum",
            Wrong(|sum, _, batch| {
                sum.sum.scale(1.0 / batch.len() as f64);
            }),
        ),
        (
            "clipped twice",
            Wrong(|sum, groups, _| {
                let factor = groups.clip_function(0).factor(sum.sum.l2_norm() as f32);
                sum.sum.scale(f64::from(factor));
            }),
        ),
        (
            "norms off by a hundredth",
            Wrong(|sum, _, _| {
                sum.norms.iter_mut().for_each(|norm| *norm *= 1.01);
            }),
        ),
        ("an example excluded", Wrong(|sum, _, _| sum.norms[0] = f32::NAN)),
    ];
    for (name, executor) in wrong {
        let proof = check_gradients(&executor, model.network(), &batch).unwrap();
        assert!(!proof.passed(), "{name}: {proof}");
        assert!(proof.to_string().contains("DIFFERS"), "{name}");
    }
    assert!(check_gradients(&TapExecutor::default(), model.network(), &batch).unwrap().passed());
}

#[test]
fn an_empty_or_non_finite_batch_is_an_error() {
    let model = models::linear(&digits()).seed(1).build().unwrap();
    let batch =
        |features: Vec<f32>, n: usize| Batch::new(features, &[1, 12, 12], vec![0; n]).unwrap();
    assert!(
        check_gradients(&TapExecutor::default(), model.network(), &batch(Vec::new(), 0)).is_err()
    );
    let error =
        check_gradients(&TapExecutor::default(), model.network(), &batch(vec![f32::NAN; 144], 1));
    assert!(error.unwrap_err().to_string().contains("finite"));
}
