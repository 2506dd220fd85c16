//! The sensitivity of layers with clips, in f64, for adversarial inputs and gradients.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::nn::{
    BackpropClippedSpec, Conv2dSpec, LayerClips, LayerSpec, LinearSpec, Network, UpstreamClip,
    UpstreamNorm,
};

/// A linear map of patches: for each output position and group, the indices of its patch in the
/// input (`None` is padding).
struct Patches {
    groups: usize,
    /// `[group][position][patch]`.
    of: Vec<Vec<Vec<Option<usize>>>>,
    inputs: usize,
    /// Output channels per group.
    outputs: usize,
    bias: bool,
}

impl Patches {
    fn of_conv(spec: &Conv2dSpec, [height, width]: [usize; 2], out: [usize; 2]) -> Self {
        let channels = spec.channels_in / spec.groups;
        let at = |position: usize, kernel: usize, axis: usize, size: usize| {
            let at = position * spec.stride[axis] + kernel * spec.dilation[axis];
            at.checked_sub(spec.padding[axis]).filter(|&at| at < size)
        };
        let patch = |group: usize, y: usize, x: usize| {
            let mut patch = Vec::new();
            for channel in group * channels..(group + 1) * channels {
                for i in 0..spec.kernel[0] {
                    for j in 0..spec.kernel[1] {
                        let pixel = at(y, i, 0, height).zip(at(x, j, 1, width));
                        patch.push(pixel.map(|(y, x)| (channel * height + y) * width + x));
                    }
                }
            }
            patch
        };
        let positions = |group| {
            let rows = (0..out[0]).flat_map(|y| (0..out[1]).map(move |x| (y, x)));
            rows.map(|(y, x)| patch(group, y, x)).collect()
        };
        Self {
            groups: spec.groups,
            of: (0..spec.groups).map(positions).collect(),
            inputs: spec.channels_in * height * width,
            outputs: spec.channels_out / spec.groups,
            bias: spec.bias,
        }
    }

    /// A linear layer on every step of a sequence.
    fn of_sequence(spec: &LinearSpec, time: usize) -> Self {
        let step = |t: usize| (0..spec.inputs).map(|i| Some(t * spec.inputs + i)).collect();
        Self {
            groups: 1,
            of: vec![(0..time).map(step).collect()],
            inputs: spec.inputs * time,
            outputs: spec.outputs,
            bias: spec.bias,
        }
    }

    fn positions(&self) -> usize {
        self.of[0].len()
    }

    /// Gradient of weight and bias, `[group][output][patch and 1]`, for an output gradient
    /// `[group][output][position]`.
    fn gradient(&self, x: &[f64], g: &[f64]) -> Vec<f64> {
        let (positions, patch) = (self.positions(), self.of[0][0].len() + 1);
        let mut gradient = vec![0.0; self.groups * self.outputs * patch];
        self.each(|row, group, position| {
            let g = g[row * positions + position];
            let gradient = &mut gradient[row * patch..(row + 1) * patch];
            for (to, from) in gradient.iter_mut().zip(&self.of[group][position]) {
                *to += g * from.map_or(0.0, |from| x[from]);
            }
            gradient[patch - 1] += if self.bias { g } else { 0.0 };
        });
        gradient
    }

    /// The output gradient and the input that are most aligned with a direction of the gradient.
    fn aligned(&self, x: &[f64], g: &[f64], direction: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (positions, patch) = (self.positions(), self.of[0][0].len() + 1);
        let (mut next_g, mut next_x) = (vec![0.0; g.len()], vec![0.0; x.len()]);
        self.each(|row, group, position| {
            let direction = &direction[row * patch..(row + 1) * patch];
            let to = &mut next_g[row * positions + position];
            for (d, from) in direction.iter().zip(&self.of[group][position]) {
                let Some(from) = *from else { continue };
                *to += d * x[from];
                next_x[from] += d * g[row * positions + position];
            }
            *to += if self.bias { direction[patch - 1] } else { 0.0 };
        });
        (next_g, next_x)
    }

    fn each(&self, mut visit: impl FnMut(usize, usize, usize)) {
        for row in 0..self.groups * self.outputs {
            (0..self.positions()).for_each(|position| visit(row, row / self.outputs, position));
        }
    }
}

pub(super) fn norm(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum::<f64>().sqrt()
}

pub(super) fn scaled(values: &[f64], to: f64) -> Vec<f64> {
    let norm = norm(values);
    values.iter().map(|v| if norm > 0.0 { v * to / norm } else { 0.0 }).collect()
}

/// The norm of an output gradient that a clip bounds, `[row][position]`.
pub(super) fn clipped_norm(clip: &UpstreamClip, g: &[f64], positions: usize) -> f64 {
    let UpstreamClip::LinearMap { l15, sqrt_m, .. } = *clip else {
        panic!("a clip of a linear map")
    };
    let sums: Vec<f64> = g.chunks(positions).map(|g| g.iter().map(|v| v.abs()).sum()).collect();
    let l15 = l15.then(|| norm(&sums));
    let l2 = sqrt_m.map(|factor| factor * norm(g));
    l15.into_iter().chain(l2).fold(f64::INFINITY, f64::min)
}

/// The largest ratio of a layer's gradient to its sensitivity that an adversary finds, for inputs
/// and output gradients at the bounds of the clips.
fn worst_ratio(
    patches: &Patches,
    spec: &BackpropClippedSpec,
    clip: &UpstreamClip,
    rng: &mut ChaCha8Rng,
) -> f64 {
    let bound = spec.clip.max_input_norm;
    let value = |rng: &mut ChaCha8Rng| f64::from(rng.next_u32()) / f64::from(u32::MAX) - 0.5;
    let (len, positions) = (patches.groups * patches.outputs, patches.positions());
    let mut worst = 0.0f64;
    for start in 0..4 {
        // Dense, one value, constant, sparse.
        let fill = |n: usize, rng: &mut ChaCha8Rng| -> Vec<f64> {
            let only = rng.next_u32() as usize % n;
            let one = |i: usize, rng: &mut ChaCha8Rng| match start {
                0 => value(rng),
                1 => f64::from(i == only),
                2 => 1.0,
                _ => {
                    if rng.next_u32().is_multiple_of(5) {
                        value(rng)
                    } else {
                        0.0
                    }
                }
            };
            (0..n).map(|i| one(i, rng)).collect()
        };
        let mut x = scaled(&fill(patches.inputs, rng), bound);
        let mut g = fill(len * positions, rng);
        for _ in 0..5 {
            let size = clipped_norm(clip, &g, positions);
            if size > 0.0 {
                g.iter_mut().for_each(|g| *g *= clip.max_norm() / size);
            }
            let gradient = patches.gradient(&x, &g);
            worst = worst.max(norm(&gradient) / spec.sensitivity());
            let (next_g, next_x) = patches.aligned(&x, &g, &gradient);
            g = next_g;
            x = scaled(&next_x, bound);
        }
    }
    worst
}

fn random_layer(rng: &mut ChaCha8Rng) -> (LayerSpec, [usize; 2]) {
    let mut below = |n: u32| (rng.next_u32() % n) as usize;
    if below(8) == 0 {
        let (inputs, outputs, bias) = (1 + below(4), 1 + below(4), below(2) == 0);
        return (LayerSpec::Linear(LinearSpec { inputs, outputs, bias }), [1 + below(6), 0]);
    }
    let groups = 1 + below(2);
    let spec = Conv2dSpec {
        channels_in: groups * (1 + below(2)),
        channels_out: groups * (1 + below(2)),
        kernel: [1 + below(4), 1 + below(4)],
        stride: [1 + below(4), 1 + below(4)],
        padding: [below(3), below(3)],
        dilation: [1 + below(3), 1 + below(3)],
        bias: below(2) == 0,
        groups,
        standardised: None,
    };
    (LayerSpec::Conv2d(spec), [1 + below(8), 1 + below(8)])
}

#[test]
fn no_input_and_no_gradient_exceed_the_sensitivity() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let (mut tried, mut tightest, mut unsound) = (0, [0.0f64; 3], 0.0f64);
    while tried < 3000 {
        let (layer, size) = random_layer(&mut rng);
        let (patches, output) = match &layer {
            LayerSpec::Conv2d(conv) => {
                let Ok(out) = layer.output_shape(&[conv.channels_in, size[0], size[1]]) else {
                    continue;
                };
                let output = vec![1, out[0], out[1], out[2]];
                (Patches::of_conv(conv, size, [out[1], out[2]]), output)
            }
            LayerSpec::Linear(linear) => {
                let output = vec![1, size[0], linear.outputs];
                (Patches::of_sequence(linear, size[0]), output)
            }
            other => panic!("{other:?}"),
        };
        tried += 1;
        let input = [0.1, 1.0, 7.0][tried % 3];
        let norms = [UpstreamNorm::L15, UpstreamNorm::SqrtM, UpstreamNorm::Either];
        for (norm, tightest) in norms.into_iter().zip(&mut tightest) {
            let clip = LayerClips { norm, ..LayerClips::new(input, 0.3) };
            let spec = BackpropClippedSpec { layer: Box::new(layer.clone()), clip };
            let upstream = spec.upstream_clip(&output);
            let ratio = worst_ratio(&patches, &spec, &upstream, &mut rng);
            assert!(ratio <= 1.0 + 1e-6, "{layer:?} on {size:?}, {norm:?}: {ratio}");
            *tightest = tightest.max(ratio);
            // The L2 norm without the number of patches.
            if let UpstreamClip::LinearMap { max_norm, .. } = upstream {
                let plain = UpstreamClip::LinearMap { max_norm, l15: false, sqrt_m: Some(1.0) };
                unsound = unsound.max(worst_ratio(&patches, &spec, &plain, &mut rng));
            }
        }
    }
    // Every norm is reached, and the plain L2 norm is not a bound.
    assert!(tightest.iter().all(|&ratio| ratio > 0.999), "{tightest:?}");
    assert!(unsound > 2.0, "{unsound}");
}

#[test]
fn inputs_that_are_not_finite_or_huge_stay_below_the_clip() {
    let rows = [[3.0, 4.0], [f32::NAN, 1.0], [1.0, f32::INFINITY], [2e38, 1e38], [0.0, 0.0]];
    let linear = LayerSpec::Linear(LinearSpec { inputs: 2, outputs: 2, bias: false });
    for bound in [1e-12, 1e-6, 0.1, 2.0, 1e12] {
        // The identity shows the clipped input.
        let network =
            Network::build(&[2], std::slice::from_ref(&linear), |_, _, _| vec![1.0, 0.0, 0.0, 1.0]);
        let clips = LayerClips::new(bound, 1.0);
        let network = network.unwrap().with_backprop_clips(&clips, &[]).unwrap();
        let values = crate::device::host::tensor_to_vec(network.logits(rows.concat(), rows.len()));
        for (row, found) in rows.iter().zip(values.chunks(2)) {
            let norm = f64::from(found[0]).hypot(f64::from(found[1]));
            assert!(norm <= bound * (1.0 + 1e-6), "{row:?}: {norm} of {bound}");
            let long = f64::from(row[0]).hypot(f64::from(row[1]));
            if long.is_finite() && bound / long > 1e-37 {
                assert!((norm - long.min(bound)).abs() <= 1e-5 * long.min(bound))
            } else {
                assert_eq!(found, [0.0, 0.0], "{row:?} {bound}")
            }
        }
    }
}

#[test]
fn a_bias_in_quadrature_is_no_bound() {
    // A clip at the norm without the bias, whose sensitivity adds the bias in quadrature.
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let conv = Conv2dSpec { padding: [1, 1], ..Conv2dSpec::new(1, 1, 2) };
    let patches = Patches::of_conv(&conv, [6, 6], [7, 7]);
    let norm = UpstreamNorm::SqrtM;
    let clip = LayerClips { norm, ..LayerClips::new(0.5, 1.0) };
    let spec = BackpropClippedSpec { layer: Box::new(LayerSpec::Conv2d(conv)), clip };
    let right = worst_ratio(&patches, &spec, &spec.upstream_clip(&[1, 1, 7, 7]), &mut rng);
    let wrong = UpstreamClip::LinearMap { max_norm: 1.0, l15: false, sqrt_m: Some(2.0) };
    let wrong = worst_ratio(&patches, &spec, &wrong, &mut rng);
    assert!(right <= 1.0 + 1e-6 && wrong > 2.0, "{right} {wrong}");
}
