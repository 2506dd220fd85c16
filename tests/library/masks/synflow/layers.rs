//! Synflow for each kind of layer, compared with plain loops.

use super::*;

/// A convolution with |w| by its definition, with zero padding: `[channels, rows, columns]`.
fn plain_conv(x: &[f64], size: [usize; 2], w: &[f64], spec: &Conv2dSpec) -> Vec<f64> {
    let [rows, columns] = spec.geometry(size).output().unwrap();
    let (inputs, outputs) = (spec.channels_in / spec.groups, spec.channels_out / spec.groups);
    let [height, width] = spec.kernel;
    let mut y = Vec::new();
    for out in 0..spec.channels_out {
        for position in 0..rows * columns {
            let mut value = 0.0;
            for k in 0..inputs * height * width {
                let (channel, k_y, k_x) = (k / (height * width), k / width % height, k % width);
                let row = position / columns * spec.stride[0] + k_y * spec.dilation[0];
                let column = position % columns * spec.stride[1] + k_x * spec.dilation[1];
                let (row, column) =
                    (row.wrapping_sub(spec.padding[0]), column.wrapping_sub(spec.padding[1]));
                if row < size[0] && column < size[1] {
                    let channel = out / outputs * inputs + channel;
                    let weight = w[out * inputs * height * width + k].abs();
                    value += weight * x[(channel * size[0] + row) * size[1] + column];
                }
            }
            y.push(value);
        }
    }
    y
}

/// Pooling over square windows with `reduce`.
fn plain_pool(
    x: &[f64],
    [height, width]: [usize; 2],
    [side, step]: [usize; 2],
    reduce: fn(&[f64]) -> f64,
) -> Vec<f64> {
    let mut y = Vec::new();
    for map in x.chunks(height * width) {
        for top in (0..=height - side).step_by(step) {
            for left in (0..=width - side).step_by(step) {
                let window: Vec<f64> = (0..side * side)
                    .map(|k| map[(top + k / side) * width + left + k % side])
                    .collect();
                y.push(reduce(&window));
            }
        }
    }
    y
}

fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

fn weights(model: &Model, path: &str) -> Vec<f64> {
    let values = model.network().values();
    let (_, values) = values.into_iter().find(|(p, _)| p.path == path).unwrap();
    values.into_iter().map(f64::from).collect()
}

/// The sum of the outputs of a linear layer with |w| and without bias.
fn plain_sum(x: &[f64], w: &[f64]) -> f64 {
    let rows = w.chunks(w.len() / x.len());
    x.iter().zip(rows).map(|(x, row)| x * row.iter().map(|w| w.abs()).sum::<f64>()).sum()
}

#[test]
fn convolutions_of_every_kind_agree_with_plain_loops() {
    let base = Conv2dSpec::new(4, 6, 3);
    let specs = [
        base.clone(),
        base.clone().padding(1).stride(2),
        base.clone().groups(2).padding(1),
        base.clone().dilation(2).padding(2),
        Conv2dSpec { kernel: [1, 4], stride: [3, 1], padding: [0, 2], ..base.clone() },
        Conv2dSpec { kernel: [5, 2], dilation: [1, 3], padding: [4, 1], ..base.clone() },
        Conv2dSpec::new(4, 6, 1),
        Conv2dSpec::new(4, 6, 1).stride(2).groups(2),
        Conv2dSpec::new(4, 8, 3).groups(4).stride(2).dilation(2).padding(3),
        // Some kernel positions only see padding.
        Conv2dSpec { kernel: [3, 3], stride: [1, 9], padding: [7, 8], ..base },
    ];
    for spec in specs {
        let size = [7, 6];
        let [rows, columns] = spec.geometry(size).output().unwrap();
        let features = spec.channels_out * rows * columns;
        let layers = layers![spec.clone(), Flatten, LinearSpec::new(features, 3)];
        let model = model(&[4, 7, 6], 3, layers);
        let (conv, head) = (weights(&model, "0.weight"), weights(&model, "2.weight"));
        let sum = |conv: &[f64]| plain_sum(&plain_conv(&[1.0; 168], size, conv, &spec), &head);
        let whole = sum(&conv);
        assert!(is_close(whole, objective(&model)), "{spec:?}");
        for (i, score) in scores(&Synflow::saliency(&model).unwrap(), "0.weight").iter().enumerate()
        {
            let mut without = conv.clone();
            without[i] = 0.0;
            let lost = whole - sum(&without);
            assert!((score - lost).abs() < 1e-11 * whole, "{spec:?} {i}: {score} {lost}");
        }
    }
}

/// A convolution that pads by itself, and one behind a layer that pads.
#[test]
fn zero_padding_is_that_of_a_convolution() {
    let own = Conv2dSpec::new(4, 6, 3);
    let one = Conv2dSpec { padding: [2, 1], ..own.clone() };
    let pad = ZeroPad2dSpec { before: [2, 1], after: [2, 1] };
    let end = || layers![GlobalAvgPool, LinearSpec::new(6, 3)];
    let within = model(&[4, 7, 6], 3, [layers![one], end()].concat());
    let before = model(&[4, 7, 6], 3, [layers![pad, own], end()].concat());
    let before = changed(&before, |path, values| match path {
        "1.weight" => *values = floats(&within, "0.weight"),
        "3.weight" => *values = floats(&within, "2.weight"),
        _ => {}
    });
    let (a, b) = (Synflow::saliency(&within).unwrap(), Synflow::saliency(&before).unwrap());
    assert_close(scores(&a, "0.weight"), scores(&b, "1.weight"));
    assert_close(scores(&a, "2.weight"), scores(&b, "3.weight"));
    // On one side only: a convolution of ones with a row and two columns of zeros behind them.
    let (pad, conv) = (ZeroPad2dSpec { before: [0, 0], after: [1, 2] }, Conv2dSpec::new(4, 6, 3));
    let [rows, columns] = [6, 6];
    let layers = layers![pad, conv.clone(), Flatten, LinearSpec::new(6 * rows * columns, 3)];
    let one_sided = model(&[4, 7, 6], 3, layers);
    let ones = (0..4 * 8 * 8).map(|i| if i / 8 % 8 < 7 && i % 8 < 6 { 1.0 } else { 0.0 });
    let y = plain_conv(&ones.collect::<Vec<_>>(), [8, 8], &weights(&one_sided, "1.weight"), &conv);
    assert!(is_close(plain_sum(&y, &weights(&one_sided, "3.weight")), objective(&one_sided)));
}

#[test]
fn max_pooling_is_replaced_by_average_pooling() {
    let conv = Conv2dSpec::new(2, 3, 3).padding(1).without_bias();
    let net = |pool: LayerSpec| {
        let head = LinearSpec::new(27, 4).without_bias();
        model(&[2, 8, 8], 4, layers![conv.clone(), Tanh, pool, Flatten, head])
    };
    let max = net(MaxPool2dSpec { kernel: [3, 3], stride: [2, 2] }.into());
    let average = net(AvgPool2dSpec { kernel: [3, 3], stride: [2, 2] }.into());
    let saliency = Synflow::saliency(&max).unwrap();
    assert_eq!(saliency.tensors(), Synflow::saliency(&average).unwrap().tensors());
    // Plain loops with either kind of pooling.
    let (first, head) = (weights(&max, "0.weight"), weights(&max, "4.weight"));
    let plain = |reduce: fn(&[f64]) -> f64| {
        let sum = |w: &[f64]| {
            let y = plain_conv(&[1.0; 128], [8, 8], w, &conv);
            plain_sum(&plain_pool(&y, [8, 8], [3, 2], reduce), &head)
        };
        let whole = sum(&first);
        let without = |i: usize| {
            let mut less = first.clone();
            less[i] *= 1.0 - 1e-6;
            (whole - sum(&less)) * 1e6
        };
        (0..first.len()).map(without).collect::<Vec<f64>>()
    };
    let largest = |x: &[f64]| x.iter().fold(0.0f64, |a, &b| a.max(b));
    let difference = |other: Vec<f64>| -> f64 {
        let pairs = scores(&saliency, "0.weight").iter().zip(other);
        pairs.map(|(a, b)| (a - b).abs() / a).fold(0.0, f64::max)
    };
    assert!(difference(plain(mean)) < 1e-6);
    assert!(difference(plain(largest)) > 0.1, "max pooling gives the same scores");
}

#[test]
fn signs_and_biases_do_not_change_the_scores() {
    let layers = layers![
        Conv2dSpec::new(1, 3, 3),
        GroupNormSpec::new(1, 3),
        Relu,
        GlobalAvgPool,
        LinearSpec::new(3, 4)
    ];
    let model = model(&[1, 6, 6], 4, layers);
    let other = changed(&model, |path, values| {
        values.iter_mut().step_by(2).for_each(|value| *value = -*value);
        if path.ends_with("bias") || path.ends_with("beta") {
            values.fill(-100.0);
        }
    });
    let (a, b) = (Synflow::saliency(&model).unwrap(), Synflow::saliency(&other).unwrap());
    assert_eq!(a.tensors(), b.tensors());
    let (a, b) =
        (Synflow::keep(0.3).mask(&model).unwrap(), Synflow::keep(0.3).mask(&other).unwrap());
    assert_eq!(a.jaccard(&b).unwrap(), 1.0);
}

#[test]
fn normalisation_only_multiplies_by_gamma() {
    let conv = || Conv2dSpec::new(2, 4, 3);
    let head = || layers![GlobalAvgPool, LinearSpec::new(4, 3)];
    let without = model(&[2, 5, 5], 3, [layers![conv()], head()].concat());
    let with = [layers![conv(), GroupNormSpec::new(4, 4)], head()].concat();
    let with = model(&[2, 5, 5], 3, with);
    let copy = |gamma: [f32; 4]| {
        changed(&with, |path, values| match path {
            "1.gamma" => *values = gamma.to_vec(),
            "0.weight" => *values = floats(&without, "0.weight"),
            "3.weight" => *values = floats(&without, "2.weight"),
            _ => {}
        })
    };
    let plain = Synflow::saliency(&without).unwrap();
    let ones = Synflow::saliency(&copy([1.0; 4])).unwrap();
    assert_eq!(scores(&plain, "0.weight"), scores(&ones, "0.weight"));
    assert_eq!(scores(&plain, "2.weight"), scores(&ones, "3.weight"));
    // The flow of each channel is multiplied by |γ|. Evaluating the normalisation on a constant map
    // would give zeros for any γ.
    let factors = Synflow::saliency(&copy([1.0, -2.0, 0.5, 4.0])).unwrap();
    let channels =
        scores(&plain, "0.weight").chunks(18).zip(scores(&factors, "0.weight").chunks(18));
    for ((a, b), factor) in channels.zip([1.0, 2.0, 0.5, 4.0]) {
        assert_close(&a.iter().map(|score| factor * score).collect::<Vec<_>>(), b);
    }
}

fn floats(model: &Model, path: &str) -> Vec<f32> {
    weights(model, path).into_iter().map(|w| w as f32).collect()
}

#[test]
fn weight_standardisation_only_multiplies_by_the_gain() {
    let rule = |gain| Standardisation { gain, guard: VarianceGuard::AtLeast(1e-4) };
    let net = |conv: Conv2dSpec| {
        model(&[2, 5, 5], 3, layers![conv, GlobalAvgPool, LinearSpec::new(4, 3)])
    };
    let plain = net(Conv2dSpec::new(2, 4, 3));
    let bare = net(Conv2dSpec::new(2, 4, 3).standardised(rule(false)));
    let with_gain = changed(
        &net(Conv2dSpec::new(2, 4, 3).standardised(rule(true))),
        |path, values| match path {
            "0.gain" => *values = vec![-3.0; 4],
            "0.weight" => *values = floats(&plain, "0.weight"),
            "2.weight" => *values = floats(&plain, "2.weight"),
            _ => {}
        },
    );
    let of = |model: &Model| Synflow::saliency(model).unwrap();
    assert_eq!(of(&plain).tensors(), of(&bare).tensors());
    let thrice: Vec<f64> = scores(&of(&plain), "0.weight").iter().map(|s| 3.0 * s).collect();
    assert_close(&thrice, scores(&of(&with_gain), "0.weight"));
    // The centred absolute weights of a channel sum to 0, so nothing would flow.
    let mut centred = weights(&plain, "0.weight");
    for channel in centred.chunks_mut(18) {
        let mean = mean(&channel.iter().map(|w| w.abs()).collect::<Vec<_>>());
        channel.iter_mut().for_each(|w| *w = w.abs() - mean);
        let flow: f64 = channel.iter().sum();
        assert!(flow.abs() < 1e-12);
    }
}
