//! User modules with tied parameters.

use epsilab::burn::module::Module;
use epsilab::burn::{self, prelude::*};
use epsilab::data::{self, Dataset};
use epsilab::nn::{
    BatchTensor, Conv2d, Conv2dSpec, Embedding, EmbeddingSpec, Forward, GlobalAvgPool, Linear,
    LinearSpec, Lstm, LstmSpec, MeanOverTime, Model, Tanh, Tape,
};

fn values(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + 3) % 1009) as f32 / 500.0 - 1.0).collect()
}

/// A data set of six examples in three classes, with features mapped by a function.
pub fn data(shape: &[usize], features: impl Fn(f32) -> f32) -> Dataset {
    let size: usize = shape.iter().product();
    let features = values(6 * size).into_iter().map(features).collect();
    data::from_vecs(features, shape, vec![0, 1, 2, 0, 1, 2], 3).unwrap()
}

/// A linear layer with bias.
pub fn linear(inputs: usize, outputs: usize, seed: u64) -> Linear {
    Linear::new(LinearSpec { inputs, outputs, bias: true }, seed).unwrap()
}

/// One convolution and one linear layer, each applied twice.
#[derive(Module, Debug)]
struct Tied {
    conv: Conv2d,
    map: Linear,
    head: Linear,
}

impl Forward for Tied {
    fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> Tensor<2> {
        let x = Tanh.forward(self.conv.forward(x, tape), tape);
        let x = GlobalAvgPool.forward(self.conv.forward(x, tape));
        let x = Tanh.forward(self.map.forward(x, tape), tape);
        let x = Tanh.forward(self.map.forward(x, tape), tape);
        self.head.forward(x, tape).into_flat()
    }
}

/// One embedding table for two inputs and one LSTM, each applied twice.
#[derive(Module, Debug)]
struct Texts {
    table: Embedding,
    memory: Lstm,
    head: Linear,
}

impl Forward for Texts {
    fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> Tensor<2> {
        let other = BatchTensor::Flat((x.clone().into_flat().neg() + 5.0).clamp(0.0, 5.0));
        let once = self.memory.forward(self.table.forward(x, tape), tape);
        let twice = self.memory.forward(once, tape);
        let bag = MeanOverTime.forward(self.table.forward(other, tape)).into_flat();
        let sum = MeanOverTime.forward(twice).into_flat() + bag;
        self.head.forward(BatchTensor::Flat(sum), tape).into_flat()
    }
}

/// A model that applies its convolution and linear layer twice, and images for it.
pub fn tied() -> (Model, Dataset) {
    let module = Tied {
        conv: Conv2d::new(Conv2dSpec { padding: [1, 1], ..Conv2dSpec::new(2, 2, 3) }, 1).unwrap(),
        map: linear(2, 2, 2),
        head: linear(2, 3, 3),
    };
    let images = data(&[2, 4, 5], |v| v);
    (Model::custom("tied", module, &images).unwrap(), images)
}

/// A model that applies its embedding and LSTM twice, and token sequences for it.
pub fn texts() -> (Model, Dataset) {
    let spec = EmbeddingSpec { vocabulary: 6, features: 3 };
    let lstm = LstmSpec { inputs: 3, hidden: 3, bidirectional: false };
    let module = Texts {
        table: Embedding::new(spec, 1).unwrap(),
        memory: Lstm::new(lstm, 2).unwrap(),
        head: linear(3, 3, 3),
    };
    let texts = data(&[4], |v| (2.0 * v + 2.0).floor());
    (Model::custom("texts", module, &texts).unwrap(), texts)
}
