//! A user-defined network, trained privately: `cargo run --example own_model`, a few seconds.
//!
//! Any Burn module made of the lab's layers can be trained. Here two convolutions process an image
//! in parallel, one with a small and one with a large receptive field, which a list of layers can't
//! express.

use epsilab::burn::nn::LinearConfig;
use epsilab::burn::{self, module::Module, prelude::*};
use epsilab::nn::{
    BatchTensor, Conv2d, Conv2dSpec, Dropout, Forward, GlobalAvgPool, GroupNorm, GroupNormSpec,
    Linear, Relu, Tape,
};
use epsilab::prelude::*;

#[derive(Module, Debug)]
struct TwoFields {
    near: Conv2d,
    far: Conv2d,
    norm: GroupNorm,
    join: Conv2d,
    dropout: Dropout,
    head: Linear,
}

impl TwoFields {
    fn new(classes: usize) -> Result<Self> {
        let near = Conv2dSpec::new(1, 8, 3).stride(2).padding(1);
        let far = Conv2dSpec::new(1, 8, 3).stride(2).padding(3).dilation(3);
        Ok(Self {
            near: Conv2d::new(near, 1)?,
            far: Conv2d::new(far, 2)?,
            norm: GroupNorm::new(GroupNormSpec::new(4, 16), 3)?,
            join: Conv2d::new(Conv2dSpec::new(16, 32, 3).stride(2).padding(1), 4)?,
            dropout: Dropout::new(0.1)?,
            // Burn's own layers become the lab's.
            head: LinearConfig::new(32, classes).init(&Device::flex()).into(),
        })
    }
}

impl Forward for TwoFields {
    fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> Tensor<2> {
        let near = self.near.forward(x.clone(), tape).into_image();
        let far = self.far.forward(x, tape).into_image();
        let both = BatchTensor::Image(Tensor::cat(vec![near, far], 1));
        let both = Relu.forward(self.norm.forward(both, tape));
        let joined = Relu.forward(self.join.forward(both, tape));
        let features = self.dropout.forward(GlobalAvgPool.forward(joined), tape);
        self.head.forward(features, tape).into_flat()
    }
}

fn main() -> Result<()> {
    // Drawn by code: nothing to download.
    let data = data::glyphs()?.limit(lab::by_profile(2_000, 8_000, 20_000), 1_000);
    // Refuses, with the reasons, what can't be trained privately.
    let model = Model::custom("two_fields", TwoFields::new(data.classes())?, &data)?;
    println!("{}\n", model.summary());
    // The clipped gradients beside one plain backward pass per example, on this very data.
    let proof = model.check_gradients(&data)?;
    println!("{proof}\n");
    assert!(proof.passed());
    let run = DpSgd::new()
        .target(Epsilon(8.0), Delta(1e-5))
        .clip(0.5)
        .learning_rate(2.0)
        .batch_size(256)
        .epochs(lab::by_profile(1.0, 15.0, 40.0))
        .train(&model, &data)?;
    println!("{run}\n\n{}", run.statement());
    Ok(())
}
