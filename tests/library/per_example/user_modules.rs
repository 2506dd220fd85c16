//! User modules.

use epsilab::burn::module::{Module, ModuleMapper, Param};
use epsilab::burn::{self, prelude::*};
use epsilab::data::Dataset;
use epsilab::engine::{Batch, ClipRule, Executor, ReferenceExecutor};
use epsilab::nn::{BatchTensor, Forward, Linear, MeanOverTime, Model, Tape};

use epsilab::prelude::{Delta, DpSgd, Epsilon};
use epsilab::privacy::Ledger;
use epsilab::train::{NoopObserver, fit};

use super::modules::{data, linear, texts, tied};
use super::{clipped_and_reference, distance, for_user_modules, relative_difference};

fn assert_agrees(model: &Model, data: &Dataset, ghosts: usize) {
    let batch = Batch::from_examples(data.train(), &[0, 1, 2, 3, 4, 5]).unwrap();
    for (name, executor) in for_user_modules() {
        let (fast, slow) = clipped_and_reference(&*executor, model.network(), &batch, None);
        let norms = distance(&fast.norms, &slow.norms, 0.0);
        assert!(norms < 1e-5, "{name}: norms are off by {norms:.1e}");
        assert!(relative_difference(&fast.sum, &slow.sum) < 1e-5, "{name}");
        let norm_methods = executor.norm_methods(model.network());
        assert_eq!(
            norm_methods.iter().filter(|method| **method == "ghost").count(),
            ghosts,
            "{name}: {norm_methods:?}"
        );
    }
    let proof = model.check_gradients(data).unwrap();
    assert!(proof.passed(), "{proof}");
}

#[test]
fn gradients_of_tied_parameters_are_summed_before_the_norm() {
    let (model, images) = tied();
    assert_agrees(&model, &images, 2);
    let (model, texts) = texts();
    assert_agrees(&model, &texts, 2);
}

/// Merges batch and time before a linear layer, for inputs with a maximum of at least `threshold`.
#[derive(Module, Debug)]
struct MergedTime {
    map: Linear,
    head: Linear,
    threshold: f64,
}

impl Forward for MergedTime {
    fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> Tensor<2> {
        let x = x.into_sequence();
        if f64::from(x.clone().inner().max().into_scalar::<f32>()) < self.threshold {
            let x = self.map.forward(BatchTensor::Sequence(x), tape);
            return self.head.forward(MeanOverTime.forward(x), tape).into_flat();
        }
        let [n, time, features] = x.dims();
        let rows = BatchTensor::Flat(x.reshape([n * time, features]));
        let rows = self.map.forward(rows, tape).into_flat();
        let [_, outputs] = rows.dims();
        let x = BatchTensor::Sequence(rows.reshape([n, time, outputs]));
        self.head.forward(MeanOverTime.forward(x), tape).into_flat()
    }
}

#[test]
fn layers_that_merge_batch_and_time_are_refused() {
    let module = |threshold| MergedTime { map: linear(2, 4, 1), head: linear(4, 3, 2), threshold };
    let sequences = data(&[5, 2], |v| v);
    let assert_refused = |error: epsilab::Error| {
        let error = error.to_string();
        assert!(error.contains("one example") && error.contains("first dimension"), "{error}");
    };
    assert_refused(Model::custom("rows", module(f64::NEG_INFINITY), &sequences).unwrap_err());
    // Validation on generated examples does not reach the threshold; the executors detect the
    // shapes.
    let model = Model::custom("rows", module(500.0), &sequences).unwrap();
    let batch = Batch::new(vec![1000.0; 30], &[5, 2], vec![0, 1, 2]).unwrap();
    let rule = ClipRule::flat(1.0);
    assert!(ReferenceExecutor.clipped_sum(model.network(), &batch, &rule).is_ok());
    for (_, executor) in for_user_modules() {
        assert_refused(executor.clipped_sum(model.network(), &batch, &rule).unwrap_err());
    }
}

/// Adds the batch mean of the hidden features to every example. With zero weights, hidden features
/// are zero and nothing depends on the batch.
#[derive(Module, Debug)]
struct Mixing {
    body: Linear,
    head: Linear,
}

impl Forward for Mixing {
    fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> Tensor<2> {
        let hidden = self.body.forward(x, tape).into_flat();
        let mean = hidden.clone().mean_dim(0);
        self.head.forward(BatchTensor::Flat(hidden + mean), tape).into_flat()
    }
}

/// Sets every parameter to a constant.
struct Fill(f32);

impl ModuleMapper for Fill {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|tensor| tensor.zeros_like() + self.0)
    }
}

/// Zero weights hide at construction that the module mixes examples. `fit` detects it before it
/// charges the ledger.
#[test]
fn a_module_is_validated_again_before_the_ledger_is_charged() {
    let data = data(&[4], |x| x);
    let module = Mixing { body: linear(4, 4, 1), head: linear(4, 3, 1) };
    assert!(Model::custom("mixing", module.clone(), &data).is_err());
    let hidden = Model::custom("mixing", module.map(&mut Fill(0.0)), &data).unwrap();
    let network = hidden.network().clone().map(&mut Fill(0.5));
    let mixing = hidden.with_network(network);
    let plan = DpSgd::new().target(Epsilon(8.0), Delta(1e-3)).batch_size(2).epochs(1);
    let plan = plan.plan(&data).unwrap();
    let ledger = Ledger::in_memory();
    let error = fit("mixing", &plan, &mixing, &data, &ledger, &mut NoopObserver).unwrap_err();
    assert!(error.to_string().contains("with the other examples"), "{error}");
    assert!(ledger.entries().unwrap().is_empty(), "nothing is charged");
    assert!(fit("mixing", &plan, &hidden, &data, &ledger, &mut NoopObserver).is_ok());
}
