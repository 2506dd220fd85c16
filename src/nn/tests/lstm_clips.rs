//! The sensitivity of an LSTM with clips, in f64, for adversarial parameters, inputs and gradients.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::clips::{clipped_norm, norm, scaled};
use crate::nn::{
    BackpropClippedSpec, LayerClips, LayerSpec, LinearSpec, LstmSpec, UpstreamClip, UpstreamNorm,
};

/// The maps of an LSTM's gates, `[direction][4 hidden][inputs, hidden, 1 and 1]`, and its sizes.
struct Recurrence {
    spec: LstmSpec,
    time: usize,
    maps: Vec<Vec<f64>>,
}

impl Recurrence {
    fn directions(&self) -> usize {
        self.maps.len()
    }

    /// Number of inputs of the map of a step.
    fn row(&self) -> usize {
        self.spec.inputs + self.spec.hidden + 2
    }

    /// The inputs of the maps at all steps, `[direction][time]`: x, hidden state before, 1 and 1.
    fn inputs(&self, x: &[f64]) -> Vec<Vec<Vec<f64>>> {
        let sigmoid = |v: f64| 1.0 / (1.0 + (-v).exp());
        let LstmSpec { inputs, hidden, .. } = self.spec;
        let direction = |(d, map): (usize, &Vec<f64>)| {
            let (mut h, mut c) = (vec![0.0; hidden], vec![0.0; hidden]);
            let mut steps = vec![Vec::new(); self.time];
            for k in 0..self.time {
                let t = if d == 1 { self.time - 1 - k } else { k };
                let mut p = x[t * inputs..(t + 1) * inputs].to_vec();
                p.extend(&h);
                p.extend([1.0, 1.0]);
                let z = |gate: usize| -> f64 {
                    let row = &map[gate * self.row()..(gate + 1) * self.row()];
                    row.iter().zip(&p).map(|(w, p)| w * p).sum()
                };
                for j in 0..hidden {
                    let [i, f, g, o] = [0, 1, 2, 3].map(|gate| z(gate * hidden + j));
                    c[j] = sigmoid(f) * c[j] + sigmoid(i) * g.tanh();
                    h[j] = sigmoid(o) * c[j].tanh();
                }
                steps[t] = p;
            }
            steps
        };
        self.maps.iter().enumerate().map(direction).collect()
    }

    /// Gradient of all parameters for a gradient `[direction][4 hidden][time]` of the
    /// pre-activations.
    fn gradient(&self, inputs: &[Vec<Vec<f64>>], delta: &[f64]) -> Vec<f64> {
        let each = delta.chunks(self.time).enumerate().map(|(row, delta)| {
            let steps = &inputs[row / (4 * self.spec.hidden)];
            let at = |i: usize| delta.iter().zip(steps).map(|(g, p)| g * p[i]).sum::<f64>();
            (0..self.row()).map(at).collect::<Vec<f64>>()
        });
        each.flatten().collect()
    }

    /// The gradient of the pre-activations that is most aligned with a gradient of the parameters.
    fn aligned(&self, inputs: &[Vec<Vec<f64>>], gradient: &[f64]) -> Vec<f64> {
        let each = gradient.chunks(self.row()).enumerate().map(|(row, gradient)| {
            let steps = &inputs[row / (4 * self.spec.hidden)];
            let along = |p: &Vec<f64>| p.iter().zip(gradient).map(|(p, g)| p * g).sum::<f64>();
            steps.iter().map(along).collect::<Vec<f64>>()
        });
        each.flatten().collect()
    }
}

/// The ratio of the largest gradient to the sensitivity that an adversary finds who chooses the
/// parameters, the inputs and the gradient of the pre-activations, under a clip.
fn worst_lstm_ratio(
    lstm: &Recurrence,
    x: &[f64],
    spec: &BackpropClippedSpec,
    clip: &UpstreamClip,
    rng: &mut ChaCha8Rng,
) -> f64 {
    let inputs = lstm.inputs(x);
    let rows = lstm.directions() * 4 * lstm.spec.hidden;
    let mut worst = 0.0f64;
    for start in 0..3 {
        let only = rng.next_u32() as usize % rows;
        let delta = (0..rows * lstm.time).map(|i| match start {
            0 => f64::from(rng.next_u32()) / f64::from(u32::MAX) - 0.5,
            1 => f64::from(i / lstm.time == only),
            _ => 1.0,
        });
        let mut delta: Vec<f64> = delta.collect();
        for _ in 0..4 {
            let size = clipped_norm(clip, &delta, lstm.time);
            if size > 0.0 {
                delta.iter_mut().for_each(|g| *g *= clip.max_norm() / size);
            }
            let gradient = lstm.gradient(&inputs, &delta);
            worst = worst.max(norm(&gradient) / spec.sensitivity());
            delta = lstm.aligned(&inputs, &gradient);
        }
    }
    worst
}

#[test]
fn no_sequence_and_no_gradient_exceed_the_sensitivity_of_an_lstm() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let norms = [UpstreamNorm::L15, UpstreamNorm::SqrtM, UpstreamNorm::Either];
    let (mut tightest, mut by_l2, mut biases) = ([0.0f64; 3], 0.0f64, 0.0f64);
    for tried in 0..400 {
        let mut below = |n: u32| (rng.next_u32() % n) as usize;
        let (inputs, hidden, time) = (1 + below(4), 1 + below(4), 1 + below(9));
        let bidirectional = below(2) == 1;
        let lstm = LstmSpec { inputs, hidden, bidirectional };
        // Large weights and biases saturate the gates, so that the hidden states come close to 1.
        let scale = [0.5, 4.0, 50.0][tried % 3];
        let value = |rng: &mut ChaCha8Rng| f64::from(rng.next_u32()) / f64::from(u32::MAX) - 0.5;
        let row = inputs + hidden + 2;
        let map = |rng: &mut ChaCha8Rng| {
            let each =
                (0..4 * hidden * row).map(|i| match (i % row < inputs + hidden, tried % 2) {
                    (false, 1) => scale,
                    _ => scale * value(rng),
                });
            each.collect()
        };
        let maps = (0..if bidirectional { 2 } else { 1 }).map(|_| map(&mut rng)).collect();
        let lstm = Recurrence { spec: lstm, time, maps };
        let bound = [0.01, 1.0, 7.0][tried / 3 % 3];
        let x: Vec<f64> = (0..time * inputs).map(|_| value(&mut rng)).collect();
        // One long step, or all.
        let x = if rng.next_u32().is_multiple_of(2) {
            scaled(&x, bound)
        } else {
            let mut one = vec![0.0; x.len()];
            one[..inputs].copy_from_slice(&scaled(&x[..inputs], bound));
            one
        };
        for (norm, tightest) in norms.into_iter().zip(&mut tightest) {
            let clip = LayerClips { norm, ..LayerClips::new(bound, 0.3) };
            let layer = Box::new(LayerSpec::Lstm(lstm.spec.clone()));
            let spec = BackpropClippedSpec { layer, clip };
            let upstream = spec.upstream_clip(&[1, time, inputs]);
            let ratio = worst_lstm_ratio(&lstm, &x, &spec, &upstream, &mut rng);
            assert!(ratio <= 1.0 + 1e-6, "{:?}, {time} steps, {norm:?}: {ratio}", lstm.spec);
            *tightest = tightest.max(ratio);
        }
        // Wrong versions: the L2 norm without the number of steps, and one constant input in place
        // of the hidden state and two biases.
        let clip = LayerClips::new(bound, 0.3);
        let layer = |layer| BackpropClippedSpec { layer: Box::new(layer), clip };
        let spec = layer(LayerSpec::Lstm(lstm.spec.clone()));
        let plain = UpstreamClip::LinearMap { max_norm: 0.3, l15: false, sqrt_m: Some(1.0) };
        by_l2 = by_l2.max(worst_lstm_ratio(&lstm, &x, &spec, &plain, &mut rng));
        let linear = LinearSpec { inputs, outputs: 1, bias: true };
        let spec = layer(LayerSpec::Linear(linear));
        let upstream = spec.upstream_clip(&[1, time, inputs]);
        biases = biases.max(worst_lstm_ratio(&lstm, &x, &spec, &upstream, &mut rng));
    }
    assert!(tightest.iter().all(|&ratio| ratio > 0.95), "{tightest:?}");
    assert!(by_l2 > 1.5 && biases > 1.5, "{by_l2} {biases}");
}
