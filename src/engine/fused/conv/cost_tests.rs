//! The choice between the algorithms of convolutions against measured times.

use std::time::Instant;

use super::algorithm::{self, Method};
use super::*;
use crate::engine::fused::op::{ChunkRows, Context, InputGradient, LargeParameters, Scratch};
use crate::nn::kernels::product::WriteMode;

/// Times of both algorithms are measured in turn; the median counts.
const REPEATS: usize = 9;

/// Largest ratio of the cost of the choice to that of the faster algorithm.
const TOLERANCE: f64 = 1.15;

/// Work of one measurement, in multiplications of the usual algorithm.
const WORK: usize = 60_000_000;

fn spec(channels: usize, out: usize, [kernel, stride, padding]: [usize; 3]) -> Conv2dSpec {
    let (stride, padding) = ([stride; 2], [padding; 2]);
    Conv2dSpec { stride, padding, bias: false, ..Conv2dSpec::new(channels, out, kernel) }
}

fn choosing(
    spec: &Conv2dSpec,
    side: usize,
    filtering: impl Fn(&Im2col, usize) -> Option<Winograd>,
    direct: impl Fn(&Im2col, usize) -> Option<DirectConv>,
) -> Conv {
    Conv::with_selectors(spec, [side; 2], FusedActivation::None, filtering, direct)
}

/// Seconds of a step of this layer: with `input_gradient` the forward pass, the input gradient and
/// the weight gradient summed over images; otherwise the forward pass and the weight gradient of
/// each image, as for norms.
fn seconds(layer: &Conv, images: usize, input_gradient: bool, scratch: &mut Scratch) -> f64 {
    let rows = ChunkRows { examples: images, copies: 1 };
    let x: Vec<f32> =
        (0..images * layer.patches.image_len()).map(|i| (i % 7) as f32 - 3.0).collect();
    let (mut y, mut gx) = (vec![0.0; images * layer.len()], vec![0.0; x.len()]);
    let mut g: Vec<f32> = (0..y.len()).map(|i| (i % 5) as f32 - 2.0).collect();
    let mut sum = vec![0.0; layer.weight_len];
    let start = Instant::now();
    let activation = FusedActivation::None;
    layer.forward(Forward { rows, x: &x, y: &mut y, saved: &mut [], activation, scratch });
    if input_gradient {
        let gx = Some(InputGradient { values: &mut gx, store: WriteMode::Overwrite });
        let (saved, small) = (&mut [], &mut []);
        layer.backward(Backward { rows, x: &x, y: &y, saved, g: &mut g, gx, small, scratch });
        let ctx = Context { rows, x: &x, y: &y, saved: &[], g: &g, weights: None, factors: None };
        layer.weighted_sum(ctx, &mut sum, scratch);
    } else {
        let ctx = Context { rows, x: &x, y: &y, saved: &[], g: &g, weights: None, factors: None };
        for i in 0..images {
            layer.instance_gradient(ctx.example(i), &mut sum, scratch);
        }
    }
    start.elapsed().as_secs_f64()
}

/// Milliseconds of two algorithms for a layer.
fn compare(layers: &mut [Conv; 2], input_gradient: bool) -> [f64; 2] {
    let products = layers[0].multiplications();
    let images = (WORK / products).clamp(2, 64);
    let weight: Vec<f32> = (0..layers[0].weight_len).map(|i| (i % 11) as f32 - 5.0).collect();
    layers.iter_mut().for_each(|layer| layer.load(&[], &weight));
    let (mut times, mut scratch) = ([Vec::new(), Vec::new()], Scratch::default());
    for _ in 0..REPEATS {
        for (times, layer) in times.iter_mut().zip(&*layers) {
            times.push(1e3 * seconds(layer, images, input_gradient, &mut scratch));
        }
    }
    times.each_mut().map(|times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    })
}

/// Prints the times, and adds the layer to `wrong` if its choice costs more than the tolerance.
fn report(
    wrong: &mut Vec<String>,
    name: String,
    [chosen_cost, other_cost]: [f64; 2],
    is_own: bool,
) {
    let chosen = if is_own { chosen_cost } else { other_cost };
    let choice = if is_own { "the former" } else { "the latter" };
    println!("{name}: {chosen_cost:.2}, {other_cost:.2}, {choice}");
    if chosen > TOLERANCE * chosen_cost.min(other_cost) {
        wrong.push(name);
    }
}

#[test]
#[ignore = "measures times, so it needs an idle machine; run by .ci/full"]
fn the_chosen_algorithm_is_not_much_slower_than_the_other() {
    let mut wrong = Vec::new();
    println!("channels, side: minimal filtering ms, otherwise ms, chosen");
    for (channels, out) in [
        (16, 16),
        (16, 64),
        (32, 32),
        (48, 48),
        (64, 64),
        (64, 128),
        (128, 128),
        (256, 256),
        (512, 512),
    ] {
        for side in [4, 8, 16, 32] {
            let spec = spec(channels, out, [3, 1, 1]);
            let mut layers = [
                choosing(&spec, side, Winograd::new_if_supported, |_, _| None),
                choosing(&spec, side, |_, _| None, DirectConv::new_if_faster),
            ];
            if !matches!(layers[0].algorithm.forward, Method::Filtering(_)) {
                // A processor without vector instructions has no choice.
                return;
            }
            let times = compare(&mut layers, true);
            let chosen = Conv::new(&spec, [side; 2], FusedActivation::None).algorithm;
            let filters = matches!(chosen.forward, Method::Filtering(_));
            report(&mut wrong, format!("{channels} to {out}, {side}x{side}"), times, filters);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
#[ignore = "measures times, so it needs an idle machine; run by .ci/full"]
fn the_chosen_algorithm_without_filtering_is_not_much_slower_than_the_other() {
    let mut wrong = Vec::new();
    println!("layer: pixels where they are ms, patches ms, chosen");
    for (channels, out, side, window) in [
        (1, 16, 28, [8, 2, 3]),
        (1, 16, 28, [3, 1, 1]),
        (1, 32, 28, [3, 1, 1]),
        (1, 64, 28, [3, 1, 1]),
        (1, 128, 28, [3, 1, 1]),
        (1, 32, 28, [5, 1, 2]),
        (1, 64, 28, [5, 2, 2]),
        (3, 16, 32, [3, 1, 1]),
        (3, 16, 64, [3, 2, 1]),
        (3, 32, 32, [3, 1, 1]),
        (3, 32, 128, [3, 2, 1]),
        (3, 64, 32, [3, 1, 1]),
        (3, 64, 64, [3, 1, 1]),
        (3, 64, 64, [3, 2, 1]),
        (3, 64, 128, [3, 2, 1]),
        (3, 64, 32, [4, 4, 0]),
        (3, 64, 64, [7, 2, 3]),
        (3, 128, 32, [3, 1, 1]),
        (3, 128, 64, [3, 2, 1]),
        (3, 128, 64, [8, 8, 0]),
        (8, 16, 28, [3, 1, 1]),
        (8, 128, 32, [3, 2, 1]),
        (16, 16, 8, [3, 1, 1]),
        (16, 16, 32, [3, 1, 1]),
        (16, 32, 13, [4, 2, 0]),
        (16, 32, 32, [3, 2, 1]),
        (32, 64, 14, [5, 1, 2]),
        (32, 64, 16, [3, 2, 1]),
        (64, 128, 32, [3, 2, 1]),
        (64, 128, 32, [1, 2, 0]),
        (128, 256, 16, [3, 2, 1]),
        (256, 512, 8, [3, 2, 1]),
    ] {
        let spec = spec(channels, out, window);
        let mut layers = [
            choosing(&spec, side, |_, _| None, DirectConv::new_if_supported),
            choosing(&spec, side, |_, _| None, |_, _| None),
        ];
        if !matches!(layers[0].algorithm.forward, Method::Direct(_)) {
            return;
        }
        // The input gradient of a first layer is not needed, nor does one with a stride differ.
        let gradient = &layers[0].algorithm.gradient;
        let inner = matches!(
            gradient,
            algorithm::InputGradient::TransposedConv { method: Method::Direct(_), .. }
        );
        let inner = inner && channels > 3;
        let times = compare(&mut layers, inner);
        let chosen = choosing(&spec, side, |_, _| None, DirectConv::new_if_faster).algorithm;
        let is_direct = matches!(chosen.forward, Method::Direct(_));
        let [kernel, stride, _] = window;
        let name = format!("{kernel}x{kernel}/{stride}, {channels} to {out}, {side}x{side}");
        report(&mut wrong, name, times, is_direct);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
