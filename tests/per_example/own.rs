//! Modules of the user's own.

use epsilab::burn::module::{Module, ModuleMapper, Param};
use epsilab::burn::{self, prelude::*};
use epsilab::data::{self, Dataset};
use epsilab::engine::{Batch, ClipRule, Oracle, PerExample};
use epsilab::nn::{
    Conv2d, Conv2dSpec, Embedding, EmbeddingSpec, Forward, GlobalAvgPool, Linear, LinearSpec, Lstm,
    LstmSpec, MeanOverTime, Model, Tanh, Tape, Value,
};

use epsilab::prelude::{Delta, DpSgd, Epsilon};
use epsilab::privacy::Ledger;
use epsilab::train::{Silent, fit};

use super::{apart, both, distance, for_own};

fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + 3) % 1009) as f32 / 500.0 - 1.0).collect()
}

fn data(shape: &[usize], features: impl Fn(f32) -> f32) -> Dataset {
    let size: usize = shape.iter().product();
    let features = numbers(6 * size).into_iter().map(features).collect();
    data::from_vecs(features, shape, vec![0, 1, 2, 0, 1, 2], 3).unwrap()
}

fn linear(inputs: usize, outputs: usize, seed: u64) -> Linear {
    Linear::new(LinearSpec { inputs, outputs, bias: true }, seed).unwrap()
}

/// One convolution and one linear map, each used twice.
#[derive(Module, Debug)]
struct Tied {
    conv: Conv2d,
    map: Linear,
    head: Linear,
}

impl Forward for Tied {
    fn forward(&self, x: Value, tape: &mut dyn Tape) -> Tensor<2> {
        let x = Tanh.forward(self.conv.forward(x, tape), tape);
        let x = GlobalAvgPool.forward(self.conv.forward(x, tape));
        let x = Tanh.forward(self.map.forward(x, tape), tape);
        let x = Tanh.forward(self.map.forward(x, tape), tape);
        self.head.forward(x, tape).flat()
    }
}

/// One table for two sums over the same text, and one memory read twice.
#[derive(Module, Debug)]
struct Texts {
    table: Embedding,
    memory: Lstm,
    head: Linear,
}

impl Forward for Texts {
    fn forward(&self, x: Value, tape: &mut dyn Tape) -> Tensor<2> {
        let other = Value::Flat((x.clone().flat().neg() + 5.0).clamp(0.0, 5.0));
        let once = self.memory.forward(self.table.forward(x, tape), tape);
        let twice = self.memory.forward(once, tape);
        let bag = MeanOverTime.forward(self.table.forward(other, tape)).flat();
        let sum = MeanOverTime.forward(twice).flat() + bag;
        self.head.forward(Value::Flat(sum), tape).flat()
    }
}

fn check(model: &Model, data: &Dataset, ghosts: usize) {
    let batch = Batch::of(data.train(), &[0, 1, 2, 3, 4, 5]).unwrap();
    for (name, executor) in for_own() {
        let (fast, slow) = both(&*executor, model.network(), &batch, None);
        let norms = distance(&fast.norms, &slow.norms, 0.0);
        assert!(norms < 1e-5, "{name}: norms are off by {norms:.1e}");
        assert!(apart(&fast.sum, &slow.sum) < 1e-5, "{name}");
        let how = executor.how(model.network());
        assert_eq!(how.iter().filter(|how| **how == "ghost").count(), ghosts, "{name}: {how:?}");
    }
    let proof = model.prove(data).unwrap();
    assert!(proof.holds(), "{proof}");
}

#[test]
fn parameters_that_are_used_twice_have_their_gradients_added_before_the_norm() {
    let module = Tied {
        conv: Conv2d::new(Conv2dSpec { padding: [1, 1], ..Conv2dSpec::new(2, 2, 3) }, 1).unwrap(),
        map: linear(2, 2, 2),
        head: linear(2, 3, 3),
    };
    let images = data(&[2, 4, 5], |v| v);
    check(&Model::custom("tied", module, &images).unwrap(), &images, 2);

    let spec = EmbeddingSpec { vocabulary: 6, features: 3 };
    let lstm = LstmSpec { inputs: 3, hidden: 3, bidirectional: false };
    let module = Texts {
        table: Embedding::new(spec, 1).unwrap(),
        memory: Lstm::new(lstm, 2).unwrap(),
        head: linear(3, 3, 3),
    };
    let texts = data(&[4], |v| (2.0 * v + 2.0).floor());
    check(&Model::custom("texts", module, &texts).unwrap(), &texts, 2);
}

/// Puts the steps of all sequences below one another before a linear map.
#[derive(Module, Debug)]
struct Rows {
    map: Linear,
    head: Linear,
}

impl Forward for Rows {
    fn forward(&self, x: Value, tape: &mut dyn Tape) -> Tensor<2> {
        let x = x.sequence();
        let [n, time, features] = x.dims();
        let rows = Value::Flat(x.reshape([n * time, features]));
        let rows = self.map.forward(rows, tape).flat();
        let [_, outputs] = rows.dims();
        let x = Value::Sequence(rows.reshape([n, time, outputs]));
        self.head.forward(MeanOverTime.forward(x), tape).flat()
    }
}

#[test]
fn rows_that_belong_to_no_single_example_are_refused() {
    let module = Rows { map: linear(2, 4, 1), head: linear(4, 3, 2) };
    let sequences = data(&[5, 2], |v| v);
    let model = Model::custom("rows", module, &sequences).unwrap();
    let batch = Batch::of(sequences.train(), &[0, 1, 2]).unwrap();
    let rule = ClipRule::flat(1.0);
    assert!(Oracle.clipped_sum(model.network(), &batch, &rule).is_ok());
    for (name, executor) in for_own() {
        let error = executor.clipped_sum(model.network(), &batch, &rule).unwrap_err().to_string();
        assert!(
            error.contains("one example") && error.contains("first dimension"),
            "{name}: {error}"
        );
    }
}

/// Adds the mean over the batch to every example; with a last layer of zeros nobody sees it.
#[derive(Module, Debug)]
struct Mixing {
    head: Linear,
}

impl Forward for Mixing {
    fn forward(&self, x: Value, tape: &mut dyn Tape) -> Tensor<2> {
        let x = x.flat();
        let mean = x.clone().mean_dim(0);
        self.head.forward(Value::Flat(x + mean), tape).flat()
    }
}

/// Fills every parameter with one number.
struct Fill(f32);

impl ModuleMapper for Fill {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|tensor| tensor.zeros_like() + self.0)
    }
}

/// A module is looked at with the parameters it has; what they hide at first is seen before
/// anything is spent on it.
#[test]
fn a_module_is_looked_at_again_before_anything_is_spent() {
    let data = data(&[4], |x| x);
    let module = Mixing { head: linear(4, 3, 1) };
    assert!(Model::custom("mixing", module.clone(), &data).is_err());
    let hidden = Model::custom("mixing", module.map(&mut Fill(0.0)), &data).unwrap();
    let network = hidden.network().clone().map(&mut Fill(0.5));
    let seen = hidden.with_network(network);
    let plan = DpSgd::new().target(Epsilon(8.0), Delta(1e-3)).batch_size(2).epochs(1);
    let plan = plan.plan(&data).unwrap();
    let ledger = Ledger::in_memory();
    let error = fit("mixing", &plan, &seen, &data, &ledger, &mut Silent).unwrap_err();
    assert!(error.to_string().contains("change with the other examples"), "{error}");
    assert!(ledger.entries().unwrap().is_empty(), "nothing is charged");
    assert!(fit("mixing", &plan, &hidden, &data, &ledger, &mut Silent).is_ok());
}
