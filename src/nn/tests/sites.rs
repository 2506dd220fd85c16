//! Per-example gradients computed from the recorded sites equal those of autodiff.

use std::collections::HashMap;

use burn::module::{ModuleVisitor, Param, ParamId};
use burn::prelude::*;

use super::super::loss::cross_entropy;
use super::layers::{assert_near, scattered};
use super::*;
use crate::device::host::tensor_to_vec;
use crate::engine::tap;
use crate::layers;

/// Records the sites of a forward pass, each with its input and the index of its output gradient.
#[derive(Default)]
struct Recorder {
    records: Vec<(ParameterSite, BatchTensor, usize)>,
    anchors: Vec<Tensor<1>>,
}

impl Tape for Recorder {
    fn clip_upstream(&mut self, y: BatchTensor, _: &crate::nn::UpstreamClip) -> BatchTensor {
        y
    }

    fn record_layer(
        &mut self,
        site: ParameterSite,
        input: &BatchTensor,
        output: BatchTensor,
    ) -> BatchTensor {
        let device = input.device().without_autodiff();
        let anchor = Tensor::<1>::zeros([1], &device).autodiff().require_grad();
        let output = output.map(
            |y| tap(y.autodiff(), &anchor),
            |y| tap(y.autodiff(), &anchor),
            |y| tap(y.autodiff(), &anchor),
        );
        self.records.push((site, input.detach(), self.anchors.len()));
        self.anchors.push(anchor);
        output
    }

    fn layer_call_count(&self) -> usize {
        self.anchors.len()
    }

    fn record_summed_layer(&mut self, call: usize, site: ParameterSite, input: BatchTensor) {
        self.records.push((site, input, call));
    }
}

/// Parameter gradients of one example, computed from the recorded linear maps, normalisation
/// layers and embeddings.
fn from_sites(network: &Network, x: BatchTensor, label: u32) -> HashMap<ParamId, Vec<f32>> {
    let mut recorder = Recorder::default();
    let loss = cross_entropy(network.forward(x, &mut recorder), &[label]);
    let mut grads = loss.sum().backward();
    let output_gradient =
        |anchor: &Tensor<1>| tensor_to_vec(anchor.grad_remove(&mut grads).unwrap());
    let gradients: Vec<Vec<f32>> = recorder.anchors.iter().map(output_gradient).collect();
    let mut by_id: HashMap<ParamId, Vec<f32>> = HashMap::new();
    for (site, input, call) in recorder.records {
        let (dims, gradient) = (input.dims(), &gradients[call]);
        let input = tensor_to_vec(input.into_flat());
        let mut add = |id: ParamId, values: Vec<f32>| {
            let sum = by_id.entry(id).or_insert_with(|| vec![0.0; values.len()]);
            sum.iter_mut().zip(values).for_each(|(sum, v)| *sum += v);
        };
        match site {
            ParameterSite::Linear { weight, bias } => {
                let steps = if dims.len() == 3 { dims[1] } else { 1 };
                let (inputs, outputs) = (input.len() / steps, gradient.len() / steps);
                let mut weight_gradient = vec![0.0; inputs * outputs];
                let mut bias_gradient = vec![0.0; outputs];
                for t in 0..steps {
                    for o in 0..outputs {
                        let g = gradient[t * outputs + o];
                        bias_gradient[o] += g;
                        for i in 0..inputs {
                            weight_gradient[i * outputs + o] += input[t * inputs + i] * g;
                        }
                    }
                }
                add(weight, weight_gradient);
                bias.into_iter().for_each(|bias| add(bias, bias_gradient.clone()));
            }
            ParameterSite::Affine { gamma, beta } => {
                let channels = if dims.len() == 4 { dims[1] } else { dims[dims.len() - 1] };
                let pixels = if dims.len() == 4 { dims[2] * dims[3] } else { 1 };
                let (mut scale, mut shift) = (vec![0.0; channels], vec![0.0; channels]);
                for (k, (x, g)) in input.iter().zip(gradient).enumerate() {
                    scale[k / pixels % channels] += x * g;
                    shift[k / pixels % channels] += g;
                }
                add(gamma, scale);
                beta.into_iter().for_each(|beta| add(beta, shift.clone()));
            }
            ParameterSite::Embedding { weight } => {
                let parameter = network.parameters().into_iter().find(|p| p.id == weight).unwrap();
                let (mut table, width) = (vec![0.0; parameter.len()], parameter.shape[1]);
                for (token, g) in input.iter().zip(gradient.chunks_exact(width)) {
                    let row = &mut table[*token as usize * width..][..width];
                    row.iter_mut().zip(g).for_each(|(sum, g)| *sum += g);
                }
                add(weight, table);
            }
            ParameterSite::Conv2d { .. } => unreachable!("not in these networks"),
        }
    }
    by_id
}

fn by_autodiff(network: &Network, x: BatchTensor, label: u32) -> Vec<(ParamId, Vec<f32>)> {
    struct Read<'a>(&'a burn::tensor::Gradients, Vec<(ParamId, Vec<f32>)>);
    impl ModuleVisitor for Read<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let gradient = param.val().grad(self.0).expect("every parameter is used");
            self.1.push((param.id, tensor_to_vec(gradient)));
        }
    }
    let tracked = network.tracked();
    let grads = cross_entropy(tracked.forward(x, &mut NoTape), &[label]).sum().backward();
    let mut read = Read(&grads, Vec::new());
    burn::module::Module::visit(&tracked, &mut read);
    read.1
}

fn check(shape: &[usize], specs: &[LayerSpec], features: Vec<f32>) {
    let mut start = 0;
    let network = Network::build(shape, specs, |_, shape, _| {
        start += 17;
        scattered(shape.iter().product(), start)
    })
    .unwrap();
    let x = BatchTensor::new(features, 1, shape, &Device::flex());
    let want = by_autodiff(&network, x.clone(), 1);
    assert_eq!(want.iter().map(|(id, _)| *id).collect::<Vec<_>>(), network.trainable_ids());
    let got = from_sites(&network, x, 1);
    assert_eq!(got.len(), want.len(), "every parameter has a site");
    let paths = network.paths();
    for ((id, want), path) in want.iter().zip(paths) {
        assert!(want.iter().any(|g| *g != 0.0), "{path} has no gradient to compare");
        println!("{path}");
        assert_near(&got[id], want, 1e-4);
    }
}

#[test]
fn gradients_of_a_text_network_follow_from_its_sites() {
    let specs = layers![
        EmbeddingSpec::new(6, 3),
        LstmSpec::new(3, 4).bidirectional(),
        LayerNormSpec::new(8),
        LinearSpec::new(8, 5),
        Tanh,
        LstmSpec::new(5, 2),
        MeanOverTime,
        LinearSpec::new(2, 3),
    ];
    check(&[5], &specs, vec![4.0, 0.0, 4.0, 2.0, 5.0]);
}

#[test]
fn gradients_of_normalisation_layers_follow_from_their_sites() {
    let inner = layers![GroupNormSpec::new(2, 4), Selu];
    let specs = layers![
        GroupSpec::new("stem", layers![GroupNormSpec::new(1, 4), Tanh]),
        ResidualSpec::new(inner.clone()).shortcut(layers![GroupNormSpec::new(4, 4)]),
        GlobalAvgPool,
        LayerNormSpec::new(4),
        LinearSpec::new(4, 3).without_bias(),
    ];
    check(&[4, 3, 2], &specs, scattered(24, 5));
}

#[test]
fn a_convolution_records_its_weight_standardisation() {
    let rule = Standardisation { gain: true, guard: VarianceGuard::AtLeast(1e-4) };
    let spec = Conv2dSpec::new(2, 4, 3).stride(2).padding(2).dilation(2).groups(2);
    let layer = Conv2d::new(spec.standardised(rule), 3).unwrap();
    let mut recorder = Recorder::default();
    let x = BatchTensor::new(scattered(2 * 2 * 49, 1), 2, &[2, 7, 7], &Device::flex());
    let y = layer.forward(x, &mut recorder);
    assert_eq!(y.dims(), [2, 4, 4, 4]);
    let (site, input, _) = &recorder.records[0];
    assert_eq!(input.dims(), [2, 2, 7, 7]);
    let gain = layer.gain.as_ref().unwrap().id;
    let bias = layer.inner.bias.as_ref().unwrap().id;
    assert_eq!(site.parameter_ids(), [layer.inner.weight.id, bias, gain]);
    let ParameterSite::Conv2d {
        window,
        groups: 2,
        standardised: Some((recorded, raw, Some(_))),
        ..
    } = site
    else {
        panic!("{site:?}")
    };
    assert_eq!((window.dilation, window.output()), ([2, 2], Some([4, 4])));
    assert_eq!(*recorded, rule);
    assert_eq!(tensor_to_vec(raw.clone()), tensor_to_vec(layer.inner.weight.val()));
}
