//! Comparison of each layer with Burn's layer or with its formula.

use burn::module::{Module, Param};
use burn::nn as burn_nn;
use burn::nn::PaddingConfig2d;
use burn::prelude::*;

use super::*;
use crate::device::DeviceArray;
use crate::device::host::tensor_to_vec;
use crate::layers;

/// `n` deterministic, scattered values between -1 and 1.
pub(super) fn scattered(n: usize, start: usize) -> Vec<f32> {
    let value = |i: usize| ((i + start) * 7919 % 1009) as f32 / 504.5 - 1.0;
    (0..n).map(value).collect()
}

fn tensor<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    let values = scattered(shape.iter().product(), 3);
    Tensor::from_data(TensorData::new(values, shape), &Device::flex())
}

#[track_caller]
pub(super) fn assert_near(a: &[f32], b: &[f32], bound: f32) {
    assert_eq!(a.len(), b.len());
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert!((a - b).abs() <= bound * (1.0 + b.abs()), "value {i}: {a} and {b}");
    }
}

/// Output of `f`, and the input gradient of the sum of the output's cubes.
fn output_and_gradient<const D: usize, const E: usize>(
    shape: [usize; D],
    f: impl Fn(Tensor<D>) -> Tensor<E>,
) -> (Vec<f32>, Vec<f32>) {
    let x = tensor(shape).autodiff().require_grad();
    let y = f(x.clone());
    let grads = (y.clone() * y.clone() * y.clone()).sum().backward();
    (tensor_to_vec(y.inner()), tensor_to_vec(x.grad(&grads).expect("the input is tracked")))
}

#[track_caller]
fn assert_outputs_near(a: (Vec<f32>, Vec<f32>), b: (Vec<f32>, Vec<f32>)) {
    assert_near(&a.0, &b.0, 1e-5);
    assert_near(&a.1, &b.1, 1e-4);
}

fn scattered_param(n: usize) -> Param<Tensor<1>> {
    Param::from_data(TensorData::new(scattered(n, 50), [n]), &Device::flex())
}

#[test]
fn group_norm_matches_burn() {
    let mut inner = burn_nn::GroupNormConfig::new(2, 6).with_epsilon(1e-3).init(&Device::flex());
    inner.gamma = Some(scattered_param(6));
    inner.beta = Some(scattered_param(6));
    let layer = GroupNorm::try_from(inner.clone()).unwrap();
    let shape = [3, 6, 4, 5];
    assert_outputs_near(
        output_and_gradient(shape, |x| {
            layer.forward(BatchTensor::Image(x), &mut NoTape).into_image()
        }),
        output_and_gradient(shape, |x| inner.forward(x)),
    );
}

#[test]
fn layer_norm_matches_burn_on_features_and_sequences() {
    let mut inner = burn_nn::LayerNormConfig::new(7).with_epsilon(1e-3).init(&Device::flex());
    inner.gamma = scattered_param(7);
    inner.beta = Some(scattered_param(7));
    let layer = LayerNorm::from_burn(inner.clone(), 1e-3).unwrap();
    assert_outputs_near(
        output_and_gradient([3, 7], |x| {
            layer.forward(BatchTensor::Flat(x), &mut NoTape).into_flat()
        }),
        output_and_gradient([3, 7], |x| inner.forward(x)),
    );
    assert_outputs_near(
        output_and_gradient([3, 4, 7], |x| {
            layer.forward(BatchTensor::Sequence(x), &mut NoTape).into_sequence()
        }),
        output_and_gradient([3, 4, 7], |x| inner.forward(x)),
    );
}

#[test]
fn a_forward_or_bidirectional_lstm_matches_burn() {
    let one = burn_nn::LstmConfig::new(3, 4, true).init(&Device::flex());
    let layer = Lstm::try_from(one.clone()).unwrap();
    assert_outputs_near(
        output_and_gradient([2, 5, 3], |x| {
            layer.forward(BatchTensor::Sequence(x), &mut NoTape).into_sequence()
        }),
        output_and_gradient([2, 5, 3], |x| one.forward(x, None).0),
    );
    let both = burn_nn::BiLstmConfig::new(3, 4, true).init(&Device::flex());
    let layer = Lstm::try_from(both.clone()).unwrap();
    assert_outputs_near(
        output_and_gradient([2, 5, 3], |x| {
            layer.forward(BatchTensor::Sequence(x), &mut NoTape).into_sequence()
        }),
        output_and_gradient([2, 5, 3], |x| both.forward(x, None).0),
    );
}

#[test]
fn an_lstm_lists_the_parameters_of_its_gates() {
    let lstm = Lstm::new(LstmSpec::new(3, 4).bidirectional(), 1).unwrap();
    assert_eq!(lstm.num_params(), 2 * 4 * (3 * 4 + 4 + 4 * 4 + 4));
    let names: Vec<String> = LayerSpec::from(LstmSpec::new(3, 4).bidirectional())
        .parameters()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names[0], "forward.input_gate.input_transform.weight");
    assert_eq!(names[4], "forward.forget_gate.input_transform.weight");
    assert_eq!(names[11], "forward.cell_gate.hidden_transform.bias");
    assert_eq!(names[31], "reverse.output_gate.hidden_transform.bias");
}

#[test]
fn an_embedding_matches_burn_and_clamps_ids_to_the_vocabulary() {
    let inner = burn_nn::EmbeddingConfig::new(5, 3).init(&Device::flex());
    let layer = Embedding::from(inner.clone());
    let read = |ids: [f32; 4]| {
        let ids = Tensor::<2>::from_data([ids], &Device::flex());
        tensor_to_vec(layer.forward(BatchTensor::Flat(ids), &mut NoTape).into_sequence())
    };
    let ids = Tensor::<2, Int>::from_data([[4, 0, 4, 2]], &Device::flex());
    assert_eq!(read([4.0, 0.0, 4.0, 2.0]), tensor_to_vec(inner.forward(ids)));
    assert_eq!(read([99.0, -3.0, 4.5, f32::NAN])[..9], read([4.0, 0.0, 4.0, 0.0])[..9]);
}

#[test]
fn grouped_and_dilated_convolutions_match_burn() {
    for (groups, dilation, padding) in [(2, 1, 1), (1, 2, 3), (2, 3, 2)] {
        let inner = burn_nn::conv::Conv2dConfig::new([4, 6], [3, 3])
            .with_groups(groups)
            .with_dilation([dilation; 2])
            .with_padding(PaddingConfig2d::Explicit(padding, padding, padding, padding))
            .init(&Device::flex());
        let layer = Conv2d::try_from(inner.clone()).unwrap();
        assert_outputs_near(
            output_and_gradient([2, 4, 9, 8], |x| {
                layer.forward(BatchTensor::Image(x), &mut NoTape).into_image()
            }),
            output_and_gradient([2, 4, 9, 8], |x| inner.forward(x)),
        );
    }
}

#[test]
fn same_padding_is_converted_for_odd_kernels_only() {
    let config =
        burn_nn::conv::Conv2dConfig::new([2, 3], [3, 5]).with_padding(PaddingConfig2d::Same);
    let inner = config.init(&Device::flex());
    let layer = Conv2d::try_from(inner.clone()).unwrap();
    assert_eq!(layer.spec().padding, [1, 2]);
    let x = tensor([1, 2, 6, 7]);
    let y = layer.forward(BatchTensor::Image(x.clone()), &mut NoTape).into_image();
    assert_near(&tensor_to_vec(y), &tensor_to_vec(inner.forward(x)), 1e-5);
    let even = burn_nn::conv::Conv2dConfig::new([2, 3], [2, 2]).with_padding(PaddingConfig2d::Same);
    let (_, text) = kind(Conv2d::try_from(even.init(&Device::flex())));
    assert!(text.contains("padding Same") && text.contains("Explicit"), "{text}");
}

#[test]
fn zero_padding_puts_the_image_among_zeros() {
    let spec = ZeroPad2dSpec { before: [1, 0], after: [2, 3] };
    let layer = ZeroPad2d::new(spec).unwrap();
    let (image, gradient) =
        output_and_gradient([2, 3, 4, 5], |x| layer.forward(BatchTensor::Image(x)).into_image());
    let x = scattered(2 * 3 * 4 * 5, 3);
    assert_eq!(LayerSpec::from(spec).output_shape(&[3, 4, 5]).unwrap(), [3, 7, 8]);
    let mut padded = vec![0.0; 2 * 3 * 7 * 8];
    for (row, values) in x.chunks(5).enumerate() {
        let start = (row / 4 * 7 + 1 + row % 4) * 8;
        padded[start..start + 5].copy_from_slice(values);
    }
    assert_eq!(image, padded);
    let cubes: Vec<f32> = x.iter().map(|x| 3.0 * x * x).collect();
    assert_near(&gradient, &cubes, 1e-6);
    // Nothing is added.
    let none = ZeroPad2d::new(ZeroPad2dSpec::new(0)).unwrap();
    assert_eq!(
        tensor_to_vec(none.forward(BatchTensor::Image(tensor([2, 3, 4, 5]))).into_image()),
        x
    );
    for spec in [
        ZeroPad2dSpec { before: [0, usize::MAX], after: [0, 0] },
        ZeroPad2dSpec { before: [0, 0], after: [1 << 40, 0] },
    ] {
        let (kind, text) = kind(ZeroPad2d::new(spec));
        assert!(kind == ErrorKind::Model && text.contains("zero padding by"), "{text}");
    }
    let huge = LayerSpec::from(ZeroPad2dSpec::new(1)).output_shape(&[1, usize::MAX, 2]);
    assert!(huge.is_err());
    assert!(LayerSpec::from(ZeroPad2dSpec::new(1)).output_shape(&[5]).is_err());
}

#[test]
fn weight_standardisation_matches_its_formula() {
    let raw = scattered(2 * 3 * 2 * 2, 11);
    let gain = [1.5f64, -0.25];
    let weight =
        Tensor::<4>::from_data(TensorData::new(raw.clone(), [2, 3, 2, 2]), &Device::flex());
    let gains = Tensor::<1>::from_data(gain, &Device::flex());
    let guards = [
        VarianceGuard::Add(1e-4),
        VarianceGuard::AtLeast(1e-4),
        VarianceGuard::AtLeast(100.0),
        VarianceGuard::Unscaled(0.1),
    ];
    for guard in guards {
        let rule = Standardisation { gain: true, guard };
        let got = tensor_to_vec(rule.apply(weight.clone(), Some(gains.clone())));
        for channel in 0..2 {
            let w: Vec<f64> =
                raw[channel * 12..(channel + 1) * 12].iter().map(|&w| f64::from(w)).collect();
            let mean = w.iter().sum::<f64>() / 12.0;
            let variance = w.iter().map(|w| (w - mean).powi(2)).sum::<f64>() / 12.0;
            let guarded_variance = match guard {
                VarianceGuard::Add(e) => variance * 12.0 + e,
                VarianceGuard::AtLeast(e) => (variance * 12.0).max(e),
                VarianceGuard::Unscaled(e) => variance + e,
            };
            let want: Vec<f32> = w
                .iter()
                .map(|w| (gain[channel] * (w - mean) / guarded_variance.sqrt()) as f32)
                .collect();
            assert_near(&got[channel * 12..(channel + 1) * 12], &want, 1e-6);
        }
    }
}

#[test]
fn a_constant_channel_is_standardised_to_zeros() {
    let rule = Standardisation { gain: false, guard: VarianceGuard::AtLeast(1e-4) };
    let constant = Tensor::<4>::full([1, 2, 3, 3], 0.7, &Device::flex());
    let used = tensor_to_vec(rule.apply(constant, None));
    assert!(used.iter().all(|w| w.abs() < 1e-4), "{used:?}");
}

#[test]
fn selu_matches_its_formula_and_has_finite_gradients() {
    let x = Tensor::<2>::from_data([[-200.0, -1.0, 0.0, 2.0, 200.0]], &Device::flex());
    let x = x.autodiff().require_grad();
    let y = Selu.forward(BatchTensor::Flat(x.clone())).into_flat();
    let grads = y.clone().sum().backward();
    let (scale, alpha) = (1.050_701_f32, 1.673_263_2_f32);
    let bottom = -scale * alpha;
    let want = [bottom, bottom * (1.0 - (-1f32).exp()), 0.0, 2.0 * scale, 200.0 * scale];
    assert_near(&tensor_to_vec(y.inner()), &want, 1e-6);
    let slope = tensor_to_vec(x.grad(&grads).unwrap());
    assert_near(&slope[3..], &[scale, scale], 1e-6);
    assert_near(&slope[..2], &[0.0, scale * alpha * (-1f32).exp()], 1e-6);
}

#[test]
fn dropout_applies_the_mask_of_the_tape_and_no_mask_in_prediction() {
    struct Mask;
    impl Tape for Mask {
        fn clip_upstream(&mut self, y: BatchTensor, _: &crate::nn::UpstreamClip) -> BatchTensor {
            y
        }

        fn dropout_mask(&mut self, rate: f64, shape: &[usize]) -> Option<DeviceArray> {
            assert_eq!((rate, shape), (0.25, [2, 3].as_slice()));
            Some(vec![0.0, 4.0, 0.0, 1.0, 0.0, 2.0].into())
        }
    }
    let layer = Dropout::new(0.25).unwrap();
    let x = || BatchTensor::Flat(Tensor::from_data([[1., 2., 3.], [4., 5., 6.]], &Device::flex()));
    assert_eq!(
        tensor_to_vec(layer.forward(x(), &mut NoTape).into_flat()),
        [1., 2., 3., 4., 5., 6.]
    );
    assert_eq!(tensor_to_vec(layer.forward(x(), &mut Mask).into_flat()), [0., 8., 0., 4., 0., 12.]);
    for wrong in [1.0, -0.1, f64::NAN] {
        assert!(Dropout::new(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_residual_block_adds_body_and_shortcut() {
    let one = |gain: f32| {
        let mut layer = Conv2d::new(Conv2dSpec::new(1, 1, 1).without_bias(), 1).unwrap();
        let weight = Tensor::from_data(TensorData::new(vec![gain], [1, 1, 1, 1]), &Device::flex());
        layer.inner.weight = Param::initialized(layer.inner.weight.id, weight);
        Layer::Conv2d(layer)
    };
    let x = || BatchTensor::Image(Tensor::from_data([[[[1.0, -2.0]]]], &Device::flex()));
    let identity = Residual { body: vec![one(3.0)], shortcut: vec![] };
    assert_eq!(tensor_to_vec(identity.forward(x(), &mut NoTape).into_image()), [4.0, -8.0]);
    let projected = Residual { body: vec![one(3.0)], shortcut: vec![one(0.5)] };
    assert_eq!(tensor_to_vec(projected.forward(x(), &mut NoTape).into_image()), [3.5, -7.0]);
}

#[test]
fn mean_over_time_averages_the_steps() {
    let x = Tensor::<3>::from_data([[[1.0, 10.0], [3.0, 30.0]]], &Device::flex());
    assert_eq!(
        tensor_to_vec(MeanOverTime.forward(BatchTensor::Sequence(x)).into_flat()),
        [2.0, 20.0]
    );
}

#[test]
fn a_converted_max_pool_keeps_its_padding() {
    let padding = PaddingConfig2d::Explicit(1, 1, 1, 1);
    let inner = burn_nn::pool::MaxPool2dConfig::new([2, 2]).with_padding(padding).init();
    let layer = MaxPool2d::from(inner.clone());
    let x = tensor([1, 2, 5, 5]);
    let y = tensor_to_vec(layer.forward(BatchTensor::Image(x.clone()), &NoTape).into_image());
    assert_eq!(y, tensor_to_vec(inner.forward(x)));
}

#[derive(Module, Debug)]
struct BurnModel {
    fc: burn_nn::Linear,
}

#[derive(Module, Debug)]
struct ConvertedModel {
    fc: Linear,
}

#[test]
fn records_of_a_burn_model_are_loaded_before_conversion() {
    let fresh = || BurnModel { fc: burn_nn::LinearConfig::new(5, 3).init(&Device::flex()) };
    let stored = fresh();
    let weight = |layer: &burn_nn::Linear| tensor_to_vec(layer.weight.val());
    let record = || stored.clone().into_record();
    let loaded = fresh().load_record(record());
    let layer = ConvertedModel { fc: loaded.fc.into() };
    assert_eq!(weight(&layer.fc.inner), weight(&stored.fc));
    assert_ne!(weight(&fresh().fc), weight(&stored.fc));
    // The paths of the converted model differ.
    assert!(ConvertedModel { fc: fresh().fc.into() }.try_load_record(record()).is_err());
}

#[test]
fn unsupported_options_of_burn_layers_are_named_in_the_error() {
    let device = Device::flex();
    let one_sided = burn_nn::conv::Conv2dConfig::new([1, 1], [3, 3])
        .with_padding(PaddingConfig2d::Explicit(1, 0, 0, 1))
        .init(&device);
    assert!(kind(Conv2d::try_from(one_sided)).1.contains("Explicit(1, 0, 0, 1)"));
    let plain = burn_nn::GroupNormConfig::new(1, 2).with_affine(false).init(&device);
    assert!(kind(GroupNorm::try_from(plain)).1.contains("affine = false"));
    let config = || burn_nn::LstmConfig::new(2, 2, true);
    for (config, option) in [
        (config().with_batch_first(false), "batch_first"),
        (config().with_reverse(true), "BiLstm"),
        (config().with_clip(Some(1.0)), "clipped"),
        (config().with_input_forget(true), "coupled"),
        (config().with_gate_activation(burn_nn::activation::ActivationConfig::Tanh), "sigmoid"),
    ] {
        let (_, text) = kind(Lstm::try_from(config.init(&device)));
        assert!(text.contains(option), "{text}");
    }
    let norm = burn_nn::LayerNormConfig::new(2).init(&device);
    assert!(kind(LayerNorm::from_burn(norm, 0.0)).1.contains("epsilon = 0"));
}

#[test]
fn settings_out_of_range_are_refused() {
    let refused = |spec: LayerSpec, input: &[usize], word: &str| {
        let (_, text) = kind(spec.output_shape(input));
        assert!(text.contains(word), "{text}");
    };
    let conv = Conv2dSpec::new(4, 6, 3);
    refused(conv.clone().groups(4).into(), &[4, 5, 5], "4 equal groups");
    refused(conv.clone().dilation(0).into(), &[4, 5, 5], "dilation = 0");
    refused(conv.clone().dilation(3).into(), &[4, 5, 5], "does not fit");
    let rule = Standardisation { gain: true, guard: VarianceGuard::Add(0.0) };
    refused(conv.standardised(rule).into(), &[4, 5, 5], "guard = 0");
    refused(Conv2dSpec::new(1 << 20, 1 << 20, 1 << 20).into(), &[1 << 20, 9, 9], "at most");
    refused(GroupNormSpec::new(3, 4).into(), &[4, 5, 5], "3 equal groups");
    refused(GroupNormSpec::new(2, 4).into(), &[6, 5, 5], "expects 4");
    refused(GroupNormSpec::new(2, 4).into(), &[4], "images");
    let invalid = GroupNormSpec { epsilon: f64::NAN, ..GroupNormSpec::new(2, 4) };
    refused(invalid.into(), &[4, 5, 5], "epsilon = NaN");
    refused(LayerNormSpec::new(4).into(), &[5], "[time, 4]");
    refused(DropoutSpec::new(1.0).into(), &[5], "rate = 1");
    refused(EmbeddingSpec::new(9, 4).into(), &[5, 3], "token ids");
    refused(LstmSpec::new(3, 4).into(), &[5, 2], "expects 3");
    refused(LstmSpec::new(3, 4).into(), &[5], "sequences");
    refused(MeanOverTime.into(), &[5], "sequences");
    let body = layers![Conv2dSpec::new(1, 2, 1)];
    refused(ResidualSpec::new(body.clone()).into(), &[1, 3, 3], "can't be added");
    refused(GroupSpec::new("7", body.clone()).into(), &[1, 3, 3], "named");
    refused(GroupSpec::new("a.b", body.clone()).into(), &[1, 3, 3], "named");
    refused(GroupSpec::new("", body.clone()).into(), &[1, 3, 3], "named");
    let twice = layers![
        GroupSpec::new("a", layers![Tanh]),
        GroupSpec::new("a", layers![Tanh]),
        Flatten,
        LinearSpec::new(3, 2)
    ];
    assert!(
        kind(Network::build(&[3], &twice, |_, s, _| vec![0.; s.iter().product()]))
            .1
            .contains("two groups")
    );
}
