//! The choice between minimal filtering and patches against measured times.

use std::time::Instant;

use super::*;

/// Times of both algorithms are measured in turn; the median counts.
const REPEATS: usize = 9;

/// What the choice may cost over the faster algorithm.
const TOLERANCE: f64 = 1.15;

/// Work of one measurement, in multiplications of the usual algorithm.
const WORK: usize = 60_000_000;

fn spec(channels: usize, out: usize, side: usize) -> ConvSpec {
    ConvSpec {
        input: [channels, side, side],
        out,
        output: [side; 2],
        kernel: [3, 3],
        stride: [1, 1],
        padding: [1, 1],
        dilation: [1, 1],
        groups: 1,
        bias: false,
        activation: Activation::None,
    }
}

/// Seconds of the forward pass, the input gradient and the weight gradient of these images.
fn seconds(layer: &Conv, images: usize, scratch: &mut Scratch) -> f64 {
    let rows = Rows { examples: images, copies: 1 };
    let x: Vec<f32> = (0..images * layer.image_len()).map(|i| (i % 7) as f32 - 3.0).collect();
    let (mut y, mut gx) = (vec![0.0; images * layer.len()], vec![0.0; x.len()]);
    let mut g: Vec<f32> = (0..y.len()).map(|i| (i % 5) as f32 - 2.0).collect();
    let mut sum = vec![0.0; layer.weight_len];
    let start = Instant::now();
    layer.forward(rows, &x, &mut y, &mut [], scratch);
    let ctx = ContextMut { rows, x: &x, y: &y, saved: &mut [], g: &mut g };
    layer.backward(ctx, Some((&mut gx, Store::Replace)), &mut [], scratch);
    let ctx = Context { rows, x: &x, y: &y, saved: &[], g: &g };
    layer.weighted_sum(ctx, None, &mut sum, scratch);
    start.elapsed().as_secs_f64()
}

#[test]
#[ignore = "measures times, so it needs an idle machine; run by .ci/full"]
fn the_chosen_algorithm_is_not_much_slower_than_the_other() {
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let (mut scratch, mut wrong) = (Scratch::default(), Vec::new());
    println!("channels, side: minimal filtering ms, patches ms, chosen");
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
            let spec = spec(channels, out, side);
            let images = (WORK / (side * side * 9 * channels * out)).clamp(2, 64);
            let weight: Vec<f32> = (0..9 * channels * out).map(|i| (i % 11) as f32 - 5.0).collect();
            let mut layers = [
                Conv::choosing(&spec, None, Winograd::possible),
                Conv::choosing(&spec, None, |_, _| None),
            ];
            layers.iter_mut().for_each(|layer| layer.load(&[], &weight));
            if layers[0].filtering.is_none() {
                // A processor without vector instructions has no choice.
                return;
            }
            let mut times = [Vec::new(), Vec::new()];
            for _ in 0..REPEATS {
                for (times, layer) in times.iter_mut().zip(&layers) {
                    times.push(1e3 * seconds(layer, images, &mut scratch));
                }
            }
            let [filtering, patches] = times.each_mut().map(median);
            let filters = Conv::new(&spec, None).filtering.is_some();
            let chosen = if filters { filtering } else { patches };
            let name = if filters { "minimal filtering" } else { "patches" };
            println!("{channels} to {out}, {side}x{side}: {filtering:.2}, {patches:.2}, {name}");
            if chosen > TOLERANCE * filtering.min(patches) {
                wrong.push(format!(
                    "{channels} to {out}, {side}x{side}: {filtering:.2} {patches:.2}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
