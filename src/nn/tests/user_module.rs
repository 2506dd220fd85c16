//! Modules of the user's own.

use burn::module::{Module, Param};
use burn::nn as burns;
use burn::optim::SgdConfig;
use burn::prelude::*;

use super::super::loss::cross_entropy;
use super::super::module_trace::{ModuleTrace, Subject};
use super::super::user_module::UserModule;
use super::*;
use crate::engine;
use crate::engine::Gradients;

/// A memory and a convolution side by side; tied to nothing in the zoo.
#[derive(Module, Debug)]
struct Mine {
    blocks: Vec<Conv2d>,
    norm: GroupNorm,
    head: Linear,
}

impl Mine {
    fn new() -> Self {
        let conv = |from, seed| Conv2d::new(Conv2dSpec::new(from, 4, 3).padding(1), seed).unwrap();
        Self {
            blocks: vec![conv(1, 1), conv(4, 2)],
            norm: GroupNorm::new(GroupNormSpec::new(2, 4), 3).unwrap(),
            head: Linear::new(LinearSpec::new(4, 3), 4).unwrap(),
        }
    }
}

impl Forward for Mine {
    fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> Tensor<2> {
        let x = self.blocks[0].forward(x, tape);
        let y = self.blocks[1].forward(Tanh.forward(x, tape), tape);
        let y = GlobalAvgPool.forward(self.norm.forward(y, tape));
        self.head.forward(y, tape).into_flat()
    }
}

fn data() -> Dataset {
    images(6, &[1, 5, 5], 3)
}

#[test]
fn a_module_of_ones_own_has_paths_shapes_and_a_table() {
    let model = Model::custom("mine", Mine::new(), &data()).unwrap();
    let paths = model.network().paths();
    assert_eq!(
        paths,
        [
            "blocks.0.weight",
            "blocks.0.bias",
            "blocks.1.weight",
            "blocks.1.bias",
            "norm.gamma",
            "norm.beta",
            "head.weight",
            "head.bias"
        ]
    );
    assert_eq!(model.num_parameters(), 4 * 9 + 4 + 4 * 4 * 9 + 4 + 8 + 15);
    let lines = model.layers();
    assert_eq!(lines.len(), 4);
    assert_eq!((lines[1].name.as_str(), lines[1].kind), ("blocks.1", "Conv2d"));
    assert_eq!((lines[2].output_shape.as_slice(), lines[2].parameters), ([4, 5, 5].as_slice(), 8));
    assert!(model.validate().is_ok());
    assert_eq!(model.predict(&data()).unwrap().len(), 6);
}

#[test]
fn a_user_module_computes_and_learns_like_the_same_list_of_layers() {
    let module = Mine::new();
    let conv = |from| Conv2dSpec::new(from, 4, 3).padding(1);
    let specs = crate::layers![
        conv(1),
        Tanh,
        conv(4),
        GroupNormSpec::new(2, 4),
        GlobalAvgPool,
        LinearSpec::new(4, 3)
    ];
    let model = Model::custom("mine", module, &data()).unwrap();
    let mut numbers = model.network().values().into_iter().map(|(_, values)| values);
    let listed = Network::build(&[1, 5, 5], &specs, |_, _, _| numbers.next().unwrap()).unwrap();
    let features = data().train().features_flat().to_vec();
    let logits = crate::device::host::tensor_to_vec(model.network().logits(features.clone(), 6));
    assert_eq!(logits, crate::device::host::tensor_to_vec(listed.logits(features.clone(), 6)));

    // One plain step of each: gradients by autodiff on tracked parameters.
    let labels = data().train().labels().to_vec();
    let stepped = |network: &Network| {
        let x = BatchTensor::new(features.clone(), 6, &[1, 5, 5], &network.device());
        let tracked = network.tracked();
        let grads = cross_entropy(tracked.forward(x, &mut NoTape), &labels).sum().backward();
        let mut gradient = Gradients::zeros_like(network);
        let found = burn::optim::GradientsParams::from_grads(grads, &tracked);
        for entry in &mut gradient.entries {
            entry.values = match entry.shape.len() {
                1 => crate::device::host::tensor_to_vec(found.get::<1>(entry.id).unwrap()),
                2 => crate::device::host::tensor_to_vec(found.get::<2>(entry.id).unwrap()),
                _ => crate::device::host::tensor_to_vec(found.get::<4>(entry.id).unwrap()),
            }
            .into();
        }
        engine::optimizer_step(&mut SgdConfig::new().init(), 0.1, network, &gradient)
    };
    let (updated, listed) = (stepped(model.network()), stepped(&listed));
    assert_eq!(updated.trainable_ids(), model.network().trainable_ids());
    let numbers = |network: &Network| -> Vec<f32> {
        network.values().into_iter().flat_map(|(_, values)| values).collect()
    };
    assert_eq!(numbers(&updated), numbers(&listed));
    assert_ne!(numbers(&updated), numbers(model.network()), "the step moved the parameters");
    let trained = model.with_network(updated);
    assert_ne!(trained.fingerprint(), model.fingerprint());
    assert_eq!(trained.predict(&data()).unwrap().len(), 6);
}

#[test]
fn its_parameters_are_saved_and_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.safetensors");
    let model = Model::custom("mine", Mine::new(), &data()).unwrap();
    model.save(&path).unwrap();
    let (_, text) = kind(models::load(&path));
    assert!(text.contains("load_parameters"), "{text}");
    let mut other = Mine::new();
    other.head = Linear::new(LinearSpec::new(4, 3), 99).unwrap();
    let other = Model::custom("mine", other, &data()).unwrap();
    assert_ne!(other.fingerprint(), model.fingerprint());
    let back = other.load_parameters(&path).unwrap();
    assert_eq!(back.fingerprint(), model.fingerprint());
    assert_eq!(back.network().trainable_ids(), other.network().trainable_ids());
    let other_model = models::linear(&data()).seed(1).build().unwrap();
    let (_, text) = kind(other_model.load_parameters(&path));
    assert!(text.contains("1.weight is missing"), "{text}");
}

/// Everything that can't be trained privately, in one module.
#[derive(Module, Debug)]
struct Wrong {
    conv: burns::conv::Conv2d,
    batch: burns::BatchNorm,
    prelu: burns::PRelu,
    free: Param<Tensor<1>>,
    idle: Linear,
    head: Linear,
    again: Linear,
}

impl Forward for Wrong {
    fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> Tensor<2> {
        let x = self.batch.forward(self.conv.forward(x.into_image()));
        let x = self.prelu.forward(x) * self.free.val().reshape([1, 1, 1, 1]);
        // The mean of the batch: every example sees every other.
        let x = x.clone() - x.mean_dim(0);
        let x = Tensor::cat(vec![x.clone(), x], 0).narrow(0, 0, 2);
        let _ = self.again.forward(GlobalAvgPool.forward(BatchTensor::Image(x.clone())), tape);
        self.head.forward(GlobalAvgPool.forward(BatchTensor::Image(x)), tape).into_flat()
    }
}

#[test]
fn everything_in_the_way_of_private_training_is_named_at_once() {
    let device = Device::flex();
    let head = Linear::new(LinearSpec::new(2, 3), 1).unwrap();
    let wrong = Wrong {
        conv: burns::conv::Conv2dConfig::new([1, 2], [3, 3]).init(&device),
        batch: burns::BatchNormConfig::new(2).init(&device),
        prelu: burns::PReluConfig::new().init(&device),
        free: Param::from_data([2.0], &device),
        idle: Linear::new(LinearSpec::new(2, 3), 2).unwrap(),
        again: head.clone(),
        head,
    };
    let (kind_, text) = kind(Model::custom("wrong", wrong, &data()));
    assert_eq!(kind_, ErrorKind::Model);
    for problem in [
        "8 problems",
        "conv: Burn's own Conv2d: use the lab's, nn::Conv2d",
        "batch: BatchNorm mixes the examples of a batch: use GroupNorm",
        "prelu: Burn's PRelu has no counterpart",
        "free: a parameter that no layer of the lab reports",
        "idle: a layer whose forward pass is never called",
        "again.weight: the same parameter as head.weight",
        "again.bias: the same parameter as head.bias",
        "change with the other examples",
    ] {
        assert!(text.contains(problem), "{problem:?} is not in:\n{text}");
    }
}

/// Looks at the other examples of the batch, by layers that are fine each for itself.
#[derive(Module, Debug)]
struct Mixes {
    head: Linear,
    mix: bool,
}

impl Forward for Mixes {
    fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> Tensor<2> {
        let x = x.into_flat();
        let x = if self.mix { x.clone() - x.mean_dim(0) } else { x };
        self.head.forward(BatchTensor::Flat(x), tape).into_flat()
    }
}

#[test]
fn examples_that_see_each_other_are_found_out() {
    let module = |mix| Mixes { head: Linear::new(LinearSpec::new(25, 3), 1).unwrap(), mix };
    assert!(Model::custom("apart", module(false), &data()).is_ok());
    let (_, text) = kind(Model::custom("mixed", module(true), &data()));
    assert!(text.contains("change with the other examples"), "{text}");
}

/// Dependences on other examples that constant features don't show.
#[derive(Module, Debug)]
struct Hidden {
    norm: LayerNorm,
    body: Linear,
    head: Linear,
    #[module(skip)]
    how: How,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    /// None.
    Apart,
    /// The mean of the batch is taken off.
    Mean,
    /// Mean of the batch, taken off the gradient only.
    Gradient,
    /// The sum of the batch, by way of its size alone.
    Size,
    /// Another example's row is added.
    Neighbour,
    /// A layer reads the mean of the batch, and its output cancels: logits and output gradients are
    /// unchanged, but the gradient of its weight is not.
    Input,
    /// A map that was added to a layer's output reads the mean of the batch.
    SharedInput,
}

impl Hidden {
    fn new(how: How) -> Self {
        Self {
            norm: LayerNorm::new(LayerNormSpec::new(25), 1).unwrap(),
            body: Linear::new(LinearSpec::new(25, 6), 2).unwrap(),
            head: Linear::new(LinearSpec::new(6, 3), 3).unwrap(),
            how,
        }
    }
}

impl Forward for Hidden {
    fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> Tensor<2> {
        let raw = x.into_flat();
        let mean = |x: &Tensor<2>| x.clone().mean_dim(0).repeat_dim(0, x.dims()[0]);
        // Constant features are all zero behind a layer norm.
        let x = self.norm.forward(BatchTensor::Flat(raw.clone()), tape).into_flat();
        let read = if self.how == How::Input { mean(&raw) } else { x.clone() };
        let y = self.body.forward(BatchTensor::Flat(read), tape).into_flat();
        if self.how == How::SharedInput {
            let site = ParameterSite::Linear { weight: self.body.inner.weight.id, bias: None };
            tape.record_summed_layer(
                tape.layer_call_count().saturating_sub(1),
                site,
                BatchTensor::Flat(mean(&raw)),
            );
        }
        let y = match self.how {
            How::Apart | How::SharedInput => y,
            How::Mean => y.clone() - mean(&y),
            How::Gradient => y.clone() + (mean(&y) - mean(&y).detach()),
            How::Size => y.clone() / y.dims()[0] as f64,
            How::Neighbour => y.clone() + y.flip([0]),
            How::Input => x.narrow(1, 0, 6) + (y.clone() - y.detach()),
        };
        self.head.forward(BatchTensor::Flat(y), tape).into_flat()
    }
}

#[test]
fn examples_that_see_each_other_behind_a_layer_norm_are_found_out() {
    let model = |how| Model::custom("hidden", Hidden::new(how), &data());
    assert!(model(How::Apart).is_ok());
    let expected = [
        (How::Mean, "the logits of an example change with the other examples"),
        (How::Gradient, "the gradient of an example changes with the other examples"),
        (How::Size, "change with the size of the batch"),
        (How::Neighbour, "the logits of an example change with the other examples"),
        (How::Input, "the input of a layer changes with the other examples"),
        (How::SharedInput, "the input of a layer changes with the other examples"),
    ];
    for (how, expected) in expected {
        let (kind_, text) = kind(model(how));
        assert_eq!(kind_, ErrorKind::Model);
        assert!(text.contains(expected), "{how:?}: {text}");
        assert!(text.contains("compute each row of the batch independently"), "{text}");
    }
}

#[test]
fn inputs_of_the_batch_show_neither_in_logits_nor_in_output_gradients() {
    for how in [How::Input, How::SharedInput] {
        let module = super::super::parameters::untracked(Hidden::new(how));
        let user_module = UserModule(std::sync::Arc::new(module));
        let subject = Subject { module: &user_module, shape: &[1, 5, 5], device: &Device::flex() };
        let run = |examples| ModuleTrace::record(subject, examples, 1.0).unwrap();
        let (one, other) = (run(&[0, 1, 2]), run(&[0, 4, 5]));
        assert_eq!(one.logits[0], other.logits[0], "{how:?}");
        assert_eq!(one.gradients[0], other.gradients[0], "{how:?}");
        assert_ne!(one.inputs[0], other.inputs[0], "{how:?}");
    }
}

/// Module with the parameters of another one, but not the same computation.
#[derive(Module, Debug)]
struct Variant {
    body: Linear,
    head: Linear,
    drop: Dropout,
    bent: bool,
    detached: bool,
}

impl Forward for Variant {
    fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> Tensor<2> {
        let x = BatchTensor::Flat(x.into_flat());
        let y = self.drop.forward(self.body.forward(x, tape), tape).into_flat();
        let y = if self.bent { y.tanh() } else { y };
        let y = if self.detached { y.detach() } else { y };
        self.head.forward(BatchTensor::Flat(y), tape).into_flat()
    }
}

#[test]
fn modules_that_compute_something_else_have_other_fingerprints() {
    let module = || Variant {
        body: Linear::new(LinearSpec::new(25, 6), 1).unwrap(),
        head: Linear::new(LinearSpec::new(6, 3), 2).unwrap(),
        drop: Dropout::new(0.1).unwrap(),
        bent: false,
        detached: false,
    };
    let name = |module| Model::custom("variant", module, &data()).unwrap().fingerprint();
    assert_eq!(name(module()), name(module()), "the same module is the same run");
    let others = [
        Variant { bent: true, ..module() },
        Variant { detached: true, ..module() },
        Variant { drop: Dropout::new(0.5).unwrap(), ..module() },
    ];
    for other in others {
        let what = format!("{other:?}");
        assert_ne!(name(other), name(module()), "{what}");
    }
}

/// Random in one of several ways, none of them with parameters.
#[derive(Module, Debug)]
struct Random {
    body: Linear,
    drop: Option<burns::Dropout>,
    ours: Option<Dropout>,
    noise: Vec<burns::GaussianNoise>,
    own: bool,
    head: Linear,
}

impl Forward for Random {
    fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> Tensor<2> {
        let mut x = self.body.forward(x, tape).into_flat();
        if let Some(drop) = &self.drop {
            x = drop.forward(x);
        }
        if let Some(drop) = &self.ours {
            x = drop.forward(BatchTensor::Flat(x), tape).into_flat();
        }
        for noise in &self.noise {
            x = noise.forward(x);
        }
        if self.own {
            x = x.clone() + x.random_like(burn::tensor::Distribution::Normal(0.0, 1.0));
        }
        self.head.forward(BatchTensor::Flat(x), tape).into_flat()
    }
}

#[test]
fn randomness_outside_the_batchs_masks_is_refused() {
    let module = || Random {
        body: Linear::new(LinearSpec::new(25, 8), 1).unwrap(),
        drop: None,
        ours: None,
        noise: Vec::new(),
        own: false,
        head: Linear::new(LinearSpec::new(8, 3), 2).unwrap(),
    };
    let refused = |module: Random| kind(Model::custom("random", module, &data())).1;
    assert!(Model::custom("plain", module(), &data()).is_ok());
    let ours = Random { ours: Some(Dropout::new(0.5).unwrap()), ..module() };
    assert!(Model::custom("ours", ours, &data()).is_ok());

    // So rarely that no trial would notice: found by what it is.
    let drop = Some(burns::DropoutConfig::new(1e-9).init());
    let text = refused(Random { drop, ..module() });
    assert!(text.contains("1 problem") && text.contains("drop: Burn's Dropout"), "{text}");
    assert!(text.contains("nn::Dropout"), "{text}");
    let text =
        refused(Random { noise: vec![burns::GaussianNoiseConfig::new(0.1).init()], ..module() });
    for part in ["2 problems", "noise.0: Burn's GaussianNoise", "from one pass to the next"] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    let text = refused(Random { own: true, ..module() });
    assert!(text.contains("1 problem") && text.contains("from one pass to the next"), "{text}");
}

#[test]
fn a_module_that_fails_or_has_the_wrong_size_is_an_error_and_no_panic() {
    let head = |inputs, outputs| Linear::new(LinearSpec::new(inputs, outputs), 1).unwrap();
    let (_, text) = kind(Model::custom("narrow", Mixes { head: head(24, 3), mix: false }, &data()));
    assert!(text.contains("[1, 5, 5]"), "{text}");
    let (_, text) = kind(Model::custom("two", Mixes { head: head(25, 2), mix: false }, &data()));
    assert!(text.contains("[2, 3]") && text.contains("3 classes"), "{text}");
}
