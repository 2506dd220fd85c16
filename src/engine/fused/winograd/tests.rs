use super::*;
use crate::engine::fused::tests::{convolution, random};
use crate::nn::Window;

struct Case {
    plan: Winograd,
    images: Vec<f32>,
    weight: Vec<f32>,
    gradients: Vec<f32>,
}

fn geometry(size: [usize; 2], padding: [usize; 2], channels: usize) -> Im2col {
    let (kernel, stride, dilation) = ([3, 3], [1, 1], [1, 1]);
    Im2col::channels_last(&Window { channels, size, kernel, stride, padding, dilation })
}

/// `None` on a processor without vector instructions.
fn case(n: usize, size: [usize; 2], padding: [usize; 2], channels: [usize; 2]) -> Option<Case> {
    let plan = Winograd::new_if_supported(&geometry(size, padding, channels[0]), channels[1])?;
    let positions = plan.output[0] * plan.output[1];
    Some(Case {
        plan,
        images: random(n * plan.image_len(), 1),
        weight: random(9 * plan.input * plan.out, 2),
        gradients: random(n * positions * plan.out, 3),
    })
}

/// All products of the convolution: pixel, weight and output position.
fn each_product(case: &Case, mut visit: impl FnMut(usize, usize, usize)) {
    let Winograd { size, output, padding, input, out } = case.plan;
    for image in 0..case.images.len() / case.plan.image_len() {
        for position in 0..output[0] * output[1] {
            for tap in 0..9 {
                let y = (position / output[1] + tap / 3).wrapping_sub(padding[0]);
                let x = (position % output[1] + tap % 3).wrapping_sub(padding[1]);
                if y >= size[0] || x >= size[1] {
                    continue;
                }
                for i in 0..input {
                    for o in 0..out {
                        let pixel = ((image * size[0] + y) * size[1] + x) * input + i;
                        let weight = (tap * input + i) * out + o;
                        visit(pixel, weight, (image * output[0] * output[1] + position) * out + o);
                    }
                }
            }
        }
    }
}

fn assert_near(found: &[f32], wanted: &[f64]) {
    let largest = wanted.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    for (found, wanted) in found.iter().zip(wanted) {
        assert!((f64::from(*found) - wanted).abs() < 4e-6 * largest, "{found} for {wanted}");
    }
}

fn cases() -> impl Iterator<Item = Case> {
    let unit = f32_lanes();
    let shapes = [
        (2, [4, 4], [1, 1], [unit, unit]),
        (1, [5, 7], [1, 1], [2 * unit, 3 * unit]),
        (3, [6, 3], [0, 0], [unit, 2 * unit]),
        (2, [3, 4], [2, 1], [3 * unit, unit]),
        // More tiles than a block.
        (3, [16, 13], [1, 1], [unit, unit]),
    ];
    shapes.into_iter().filter_map(|(n, size, padding, channels)| case(n, size, padding, channels))
}

#[test]
fn convolutions_and_their_gradients_are_those_of_direct_sums() {
    for case in cases() {
        let Case { plan, images, weight, gradients } = &case;
        let (mut y, mut gx, mut gw) =
            (vec![0.0f64; gradients.len()], vec![0.0f64; images.len()], vec![0.0f64; weight.len()]);
        each_product(&case, |pixel, w, at| {
            let [x, weight, g] = [images[pixel], weight[w], gradients[at]].map(f64::from);
            y[at] += x * weight;
            gx[pixel] += g * weight;
            gw[w] += g * x;
        });
        let (mut filter, mut rotated, mut scratch) = (Vec::new(), Vec::new(), Vec::new());
        plan.transform_filter(weight, &mut filter);
        let mut found = vec![f32::NAN; gradients.len()];
        plan.convolve(convolution(images, &filter, &mut found, WriteMode::Overwrite, &mut scratch));
        assert_near(&found, &y);
        plan.convolve(convolution(
            images,
            &filter,
            &mut found,
            WriteMode::Accumulate,
            &mut scratch,
        ));
        assert_near(&found, &y.iter().map(|y| 2.0 * y).collect::<Vec<_>>());

        let back = geometry(plan.output, plan.padding.map(|p| 2 - p), plan.out);
        let back = Winograd::new_if_supported(&back, plan.input).expect("as the convolution");
        back.rotate_filter(&filter, &mut rotated);
        let mut found = vec![f32::NAN; images.len()];
        back.convolve(convolution(
            gradients,
            &rotated,
            &mut found,
            WriteMode::Overwrite,
            &mut scratch,
        ));
        assert_near(&found, &gx);

        let mut found = vec![f32::NAN; weight.len()];
        plan.weight_gradient(convolution(
            images,
            gradients,
            &mut found,
            WriteMode::Overwrite,
            &mut scratch,
        ));
        assert_near(&found, &gw);
        plan.weight_gradient(convolution(
            images,
            gradients,
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
    for case in cases() {
        let Case { plan, weight, gradients, .. } = &case;
        let (mut filter, mut scratch) = (Vec::new(), Vec::new());
        plan.transform_filter(weight, &mut filter);
        let mut images = case.images.clone();
        let (n, len) = (images.len() / plan.image_len(), plan.image_len());
        // Whatever is in the others.
        images[..(n - 1) * len].fill(f32::NAN);
        let mut all = vec![0.0; gradients.len()];
        plan.convolve(convolution(&images, &filter, &mut all, WriteMode::Overwrite, &mut scratch));
        let last = all.len() / n * (n - 1);
        let mut alone = vec![0.0; all.len() - last];
        plan.convolve(convolution(
            &images[(n - 1) * len..],
            &filter,
            &mut alone,
            WriteMode::Overwrite,
            &mut scratch,
        ));
        assert!(alone.iter().all(|y| y.is_finite()));
        assert_eq!(alone, all[last..]);
    }
}

#[test]
fn other_convolutions_and_those_with_few_channels_are_left_to_patches() {
    let unit = f32_lanes();
    let base = geometry([8, 8], [1, 1], 8 * unit);
    assert_eq!(Winograd::new_if_supported(&base, unit).is_some(), unit > 1);
    assert!(
        Winograd::new_if_faster(&geometry([8, 8], [1, 1], unit), unit).is_none(),
        "too few channels"
    );
    for other in [
        Im2col { stride: [2, 2], output: [4, 4], ..base },
        Im2col { dilation: [2, 2], output: [6, 6], ..base },
        Im2col { kernel: [1, 1], padding: [0, 0], ..base },
        Im2col { group_channels: 4 * unit, ..base },
    ] {
        assert!(Winograd::new_if_supported(&other, 8 * unit).is_none(), "{other:?}");
    }
    assert!(Winograd::new_if_supported(&base, unit + 1).is_none(), "whole vectors only");
    if unit > 1 {
        assert!(Winograd::new_if_faster(&geometry([8, 8], [1, 1], 48), 48).is_some());
    }
}
