use burn::module::{Param, ParamId};
use burn::tensor::activation::tanh;

use super::*;
use crate::engine::Oracle;
use crate::nn::{LayerSpec, LinearSpec, Parameter, Site, Tape, Value};

fn linear(inputs: usize, outputs: usize) -> LayerSpec {
    LayerSpec::Linear(LinearSpec { inputs, outputs, bias: true })
}

fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + 3) % 1009) as f32 / 500.0 - 1.0).collect()
}

#[test]
fn a_huge_input_with_a_tiny_gradient_is_clipped_all_the_same() {
    // One feature of 1e19 and logits of 53 and 0: the gradient by the second logit is about
    // 1e-23, its square is 0 in f32, but their product, the example's share, is not.
    let network = Network::build(&[1], &[linear(1, 2)], |path, _, _| {
        if path.ends_with("weight") { vec![5.3e-18, 0.0] } else { vec![0.0, 0.0] }
    })
    .unwrap();
    let batch = Batch::new(vec![1e19], &[1], vec![0]).unwrap();
    let share = |clip, weights: Option<&Weights>| {
        let rule = ClipRule::flat(clip);
        Taps::default().weighted_sum(&network, &batch, &rule, weights).unwrap().sum.l2_norm()
    };
    let mut mask = Gradients::zeros_like(&network);
    mask.entries[0].values = vec![0.0, 1.0];
    let mask = Weights::new(&network, mask).unwrap();
    for weights in [None, Some(&mask)] {
        assert!(share(1.0, weights) > 1e-5, "the example has something to clip");
        assert!(share(1e-6, weights) <= 1e-6 * (1.0 + 1e-4), "{:e}", share(1e-6, weights));
    }
}

#[test]
fn instances_beyond_the_squares_of_f32_have_their_norms() {
    // Two linear layers of a sequence of two steps: instances of about 1e25, and of 1e-25.
    let specs = [linear(1, 2)];
    let network = Network::build(&[1], &specs, |_, shape, _| numbers(shape.iter().product()));
    let network = network.unwrap();
    for scale in [1e-25f32, 1e25] {
        // Two copies make the layer instantiate. Huge features would saturate the loss: the
        // weight is made as small as they are large.
        let network = Network::build(&[1], &specs, |path, _, _| {
            if path.ends_with("weight") { vec![0.3 / scale, -0.2 / scale] } else { vec![0.0; 2] }
        });
        let network = network.unwrap_or_else(|_| panic!("a network"));
        let batch = Batch::with_copies(vec![scale, 0.5 * scale], &[1], vec![0], 2).unwrap();
        let mut mask = Gradients::zeros_like(&network);
        mask.entries[0].values = vec![1.0, 1.0];
        let mask = Weights::new(&network, mask).unwrap();
        let rule = ClipRule::flat(f64::from(scale) / 100.0);
        let fast = Taps::default().weighted_sum(&network, &batch, &rule, Some(&mask)).unwrap();
        let slow = Oracle.weighted_sum(&network, &batch, &rule, Some(&mask)).unwrap();
        assert!(
            (fast.norms[0] / slow.norms[0] - 1.0).abs() < 1e-5,
            "{:?} {:?}",
            fast.norms,
            slow.norms
        );
        let length = fast.sum.entries[0].values.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>();
        assert!((length.sqrt() / (f64::from(scale) / 100.0) - 1.0).abs() < 1e-5);
    }
    assert_eq!(network.parameters().len(), 2);
}

/// x -> tanh(x W + b) -> tanh(. W + b) -> . V: one map used twice.
struct Tied {
    weight: Param<Tensor<2>>,
    bias: Param<Tensor<1>>,
    last: Param<Tensor<2>>,
}

impl Tied {
    fn forward(&self, x: Value, tape: &mut dyn Tape) -> Tensor<2> {
        let mut x = x.flat();
        for _ in 0..2 {
            let y = x.clone().matmul(self.weight.val()) + self.bias.val().unsqueeze();
            let site = Site::Linear { weight: self.weight.id, bias: Some(self.bias.id) };
            x = tanh(tape.layer(site, &Value::Flat(x), Value::Flat(y)).flat());
        }
        let y = x.clone().matmul(self.last.val());
        let site = Site::Linear { weight: self.last.id, bias: None };
        tape.layer(site, &Value::Flat(x), Value::Flat(y)).flat()
    }
}

#[test]
fn gradients_of_tied_parameters_add_up_before_the_norm() {
    let device = Device::flex();
    let tensor = |shape: [usize; 2]| {
        Tensor::<2>::from_data(TensorData::new(numbers(shape[0] * shape[1]), shape), &device)
    };
    let bias = Tensor::<1>::from_data(numbers(4).as_slice(), &device);
    let tied = Tied {
        weight: Param::initialized(ParamId::new(), tensor([4, 4])),
        bias: Param::initialized(ParamId::new(), bias),
        last: Param::initialized(ParamId::new(), tensor([4, 3])),
    };
    let parameter = |path: &str, id, shape: &[usize]| Parameter {
        path: path.to_owned(),
        id,
        shape: shape.to_vec(),
    };
    let forward = |x: Value, tape: &mut dyn Tape| tied.forward(x, tape);
    let subject = Subject {
        forward: &forward,
        parameters: vec![
            parameter("weight", tied.weight.id, &[4, 4]),
            parameter("bias", tied.bias.id, &[4]),
            parameter("last", tied.last.id, &[4, 3]),
        ],
        device: device.clone(),
    };
    assert_eq!(subject.probe(&[4]).how, ["instantiated", "instantiated", "ghost"]);
    // The same map without ties: its gradients by the two copies have to be added.
    let specs = [linear(4, 4), LayerSpec::Tanh, linear(4, 4), LayerSpec::Tanh, linear(4, 3)];
    let untied = Network::build(&[4], &specs, |path, shape, _| {
        let zero = path == "4.bias";
        numbers(shape.iter().product()).into_iter().map(|v| if zero { 0.0 } else { v }).collect()
    });
    let untied = untied.unwrap();
    let rule = ClipRule::flat(0.7);
    let (mut want, mut apart) = (vec![vec![0f64; 16], vec![0.0; 4], vec![0.0; 12]], 0.0f64);
    let batch = Batch::new(numbers(20), &[4], vec![0, 1, 2, 0, 1]).unwrap();
    let got = Taps::default().with_chunk(2).sum_of(&subject, &batch, &rule, None).unwrap();
    for i in 0..5 {
        let one = Batch::new(batch.features(i).to_vec(), &[4], vec![batch.label(i)]).unwrap();
        let all = Oracle.clipped_sum(&untied, &one, &ClipRule::unclipped()).unwrap();
        let entry = |path: &str| &all.sum.get(path).unwrap().values;
        let add = |a: &str, b: &str| -> Vec<f64> {
            entry(a).iter().zip(entry(b)).map(|(&x, &y)| f64::from(x) + f64::from(y)).collect()
        };
        let last = entry("4.weight").iter().map(|&v| f64::from(v)).collect();
        let gradient = [add("0.weight", "2.weight"), add("0.bias", "2.bias"), last];
        let norm = gradient.iter().flatten().map(|v| v * v).sum::<f64>().sqrt();
        assert!((f64::from(got.norms[i]) / norm - 1.0).abs() < 1e-5, "{} {norm}", got.norms[i]);
        apart = apart.max((f64::from(all.norms[0]) / norm - 1.0).abs());
        for (want, gradient) in want.iter_mut().zip(&gradient) {
            let factor = f64::from(rule.factor(norm as f32));
            want.iter_mut().zip(gradient).for_each(|(w, g)| *w += factor * g);
        }
    }
    assert!(apart > 1e-2, "norms of untied gradients are others: the test is about something");
    for (entry, want) in got.sum.entries.iter().zip(&want) {
        for (a, b) in entry.values.iter().zip(want) {
            assert!((f64::from(*a) - b).abs() < 1e-5, "{}: {a} {b}", entry.path);
        }
    }
}
