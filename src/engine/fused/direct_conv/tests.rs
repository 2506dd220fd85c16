use super::*;
use crate::engine::fused::tests::{convolution, random};
use crate::nn::Window;

fn geometry(
    size: [usize; 2],
    channels: usize,
    [kernel, stride, padding]: [[usize; 2]; 3],
) -> Im2col {
    let dilation = [1, 1];
    Im2col::channels_last(&Window { channels, size, kernel, stride, padding, dilation })
}

/// Convolutions with few and more channels, whose output rows and kernel rows are of many lengths;
/// none on a processor without vector instructions.
fn plans() -> impl Iterator<Item = DirectConv> {
    let unit = f32_lanes();
    let shapes = [
        ([28, 28], 1, [[8, 8], [2, 2], [3, 3]], 16),
        ([32, 32], 3, [[3, 3], [1, 1], [1, 1]], 2 * unit),
        ([9, 7], 2, [[2, 5], [3, 1], [0, 2]], 3 * unit),
        ([5, 13], 4, [[4, 3], [1, 2], [2, 0]], 5 * unit),
        ([4, 30], 1, [[1, 15], [2, 1], [0, 0]], unit),
    ];
    shapes.into_iter().filter_map(|(size, channels, rest, out)| {
        DirectConv::new_if_supported(&geometry(size, channels, rest), out)
    })
}

fn assert_near(found: &[f32], wanted: &[f64]) {
    let largest = wanted.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    for (found, wanted) in found.iter().zip(wanted) {
        assert!((f64::from(*found) - wanted).abs() < 2e-6 * largest, "{found} for {wanted}");
    }
}

#[test]
fn convolutions_and_gradients_are_those_of_patches() {
    for plan in plans() {
        let DirectConv { geometry, out } = plan;
        let (positions, patch) = (geometry.positions(), geometry.patch_len());
        let images = random(3 * plan.image_len(), 1);
        let (kernel, gradients) = (random(patch * out, 2), random(3 * positions * out, 3));
        let mut patches = vec![0.0; 3 * positions * patch];
        for (image, patches) in
            images.chunks(plan.image_len()).zip(patches.chunks_mut(positions * patch))
        {
            geometry.gather(image, patches);
        }
        let (mut y, mut gw) = (vec![0.0f64; gradients.len()], vec![0.0f64; kernel.len()]);
        for (at, patch) in patches.chunks(patch).enumerate() {
            for (k, pixel) in patch.iter().enumerate() {
                for o in 0..out {
                    y[at * out + o] += f64::from(*pixel) * f64::from(kernel[k * out + o]);
                    gw[k * out + o] += f64::from(*pixel) * f64::from(gradients[at * out + o]);
                }
            }
        }
        // Buffers hold what was in them before.
        let mut scratch = vec![f32::NAN; plan.padded_len()];
        let mut found = vec![f32::NAN; y.len()];
        plan.convolve(convolution(
            &images,
            &kernel,
            &mut found,
            WriteMode::Overwrite,
            &mut scratch,
        ));
        assert_near(&found, &y);
        plan.convolve(convolution(
            &images,
            &kernel,
            &mut found,
            WriteMode::Accumulate,
            &mut scratch,
        ));
        assert_near(&found, &y.iter().map(|y| 2.0 * y).collect::<Vec<_>>());
        let mut found = vec![f32::NAN; gw.len()];
        scratch.fill(f32::NAN);
        plan.weight_gradient(convolution(
            &images,
            &gradients,
            &mut found,
            WriteMode::Overwrite,
            &mut scratch,
        ));
        assert_near(&found, &gw);
        plan.weight_gradient(convolution(
            &images,
            &gradients,
            &mut found,
            WriteMode::Accumulate,
            &mut scratch,
        ));
        assert_near(&found, &gw.iter().map(|gw| 2.0 * gw).collect::<Vec<_>>());
    }
}

/// A private sum must not depend on which examples are computed together.
#[test]
fn an_image_is_computed_as_if_it_were_alone() {
    for plan in plans() {
        let len = plan.image_len();
        let mut images = random(2 * len, 1);
        images[..len].fill(f32::NAN);
        let kernel = random(plan.geometry.patch_len() * plan.out, 2);
        let one = plan.geometry.positions() * plan.out;
        let (mut both, mut alone, mut scratch) = (vec![0.0; 2 * one], vec![0.0; one], Vec::new());
        plan.convolve(convolution(&images, &kernel, &mut both, WriteMode::Overwrite, &mut scratch));
        plan.convolve(convolution(
            &images[len..],
            &kernel,
            &mut alone,
            WriteMode::Overwrite,
            &mut scratch,
        ));
        assert!(alone.iter().all(|y| y.is_finite()));
        assert_eq!(alone, both[one..]);
    }
}

#[test]
fn other_convolutions_are_left_to_patches() {
    let unit = f32_lanes();
    let base = geometry([28, 28], 1, [[8, 8], [2, 2], [3, 3]]);
    assert_eq!(DirectConv::new_if_faster(&base, 2 * unit).is_some(), unit > 1);
    assert!(DirectConv::new_if_faster(&base, 2 * unit + 1).is_none(), "whole vectors only");
    for other in [
        Im2col { dilation: [1, 2], ..base },
        Im2col { channels: 2, ..base },
        geometry([28, 28], 2048, [[8, 8], [2, 2], [3, 3]]),
        geometry([28, 28], 16, [[1, 1], [2, 2], [0, 0]]),
        geometry([28, 3], 16, [[3, 3], [1, 1], [1, 1]]),
    ] {
        assert!(DirectConv::new_if_faster(&other, 2 * unit).is_none(), "{other:?}");
    }
}
