use super::*;
use crate::data::{glyphs_with, sentences_with};
use crate::engine::{Executor, ReferenceExecutor};
use crate::layers;
use crate::nn::{
    BackpropClippedSpec, Conv2dSpec, EmbeddingSpec, Flatten, LinearSpec, LstmSpec, MeanOverTime,
    Relu, map_layers,
};

/// Two linear layers without bias on two features, `[inputs, outputs]`.
const WEIGHTS: [[[f64; 2]; 2]; 2] = [[[1.5, -0.5], [-1.5, 1.5]], [[1.0, -1.5], [1.0, 1.5]]];
const EXAMPLES: [[f64; 2]; 4] = [[0.3, 0.4], [2.0, 0.0], [-1.0, 2.0], [0.0, 3.0]];
const LABELS: [usize; 4] = [0, 0, 1, 0];
const CLIPS: [f64; 2] = [1.0, 0.5];

fn by_hand_network() -> (Network, Batch) {
    let linear = || LinearSpec::new(2, 2).without_bias();
    let weights = |path: &str| WEIGHTS[usize::from(path == "1.weight")].concat();
    let fill =
        |path: &str, _: &[usize], _: usize| weights(path).iter().map(|&w| w as f32).collect();
    let layers = layers![linear(), linear()];
    let network = Network::build(&[2], &layers, fill).unwrap();
    let clips = LayerClips::new(CLIPS[0], CLIPS[1]);
    let features = EXAMPLES.concat().iter().map(|&x| x as f32).collect();
    let batch = Batch::new(features, &[2], LABELS.map(|label| label as u32).to_vec()).unwrap();
    (network.with_backprop_clips(&clips, &[]).unwrap(), batch)
}

/// Fractions of clipped inputs and upstream gradients of both layers, by the chain rule.
/// `loss_scale` is 1 for the summed loss; `clips_later` is whether the last layer clips the
/// gradient that reaches the first one.
fn by_hand(loss_scale: f64, clips_later: bool) -> [[f64; 2]; 2] {
    let norm = |v: [f64; 2]| v[0].hypot(v[1]);
    let clip = |v: [f64; 2], max: f64| v.map(|value| value * (max / norm(v)).min(1.0));
    let [first, last] = WEIGHTS;
    let forward = |x: [f64; 2], w: [[f64; 2]; 2]| [0, 1].map(|j| x[0] * w[0][j] + x[1] * w[1][j]);
    let mut counts = [[0; 2]; 2];
    for (x, label) in EXAMPLES.into_iter().zip(LABELS) {
        let hidden = forward(clip(x, CLIPS[0]), first);
        let logits = forward(clip(hidden, CLIPS[0]), last);
        let total: f64 = logits.iter().map(|logit| logit.exp()).sum();
        let upstream_last = [0, 1].map(|class| {
            loss_scale * (logits[class].exp() / total - f64::from(u8::from(class == label)))
        });
        let arriving = if clips_later { clip(upstream_last, CLIPS[1]) } else { upstream_last };
        let back = last.map(|row| row[0] * arriving[0] + row[1] * arriving[1]);
        // The derivative of the clip of the hidden features.
        let (size, along) = (norm(hidden), hidden[0] * back[0] + hidden[1] * back[1]);
        let upstream_first = if size > CLIPS[0] {
            [0, 1].map(|i| (back[i] - hidden[i] * along / size.powi(2)) * CLIPS[0] / size)
        } else {
            back
        };
        let norms = [[x, upstream_first], [hidden, upstream_last]];
        for (counts, norms) in counts.iter_mut().zip(norms) {
            for i in 0..2 {
                counts[i] += usize::from(norm(norms[i]) > CLIPS[i]);
            }
        }
    }
    counts.map(|counts| counts.map(|count| count as f64 / 4.0))
}

fn fractions(shares: &ClippedFractions) -> Vec<[f64; 2]> {
    shares.layers.iter().map(|layer| [layer.inputs.unwrap(), layer.upstream]).collect()
}

#[test]
fn the_shares_are_those_by_hand_and_not_those_of_a_mean_loss() {
    let (network, batch) = by_hand_network();
    let shares = ClippedFractions::measure(&network, &batch).unwrap();
    let expected = [[0.75, 0.25], [0.75, 0.5]];
    assert_eq!(fractions(&shares), expected);
    assert_eq!(by_hand(1.0, true), expected);
    let names: Vec<_> = shares.layers.iter().map(|l| (l.layer.as_str(), l.kind.as_str())).collect();
    assert_eq!((names, shares.examples), (vec![("0", "Linear"), ("1", "Linear")], 4));

    // The first layer receives the gradient that the last one has clipped.
    let unclipped = by_hand(1.0, false);
    assert_eq!((unclipped[0][1], unclipped[1]), (0.5, expected[1]));

    // The mean loss of the published code scales every gradient down before it is clipped.
    let mut tape = ClipTape::new(DropoutTape::new(&batch, &[0, 1, 2, 3]));
    let features = EXAMPLES.concat().iter().map(|&x| x as f32).collect();
    let logits = network.forward(BatchTensor::new(features, 4, &[2], &network.device()), &mut tape);
    let averaged = tape.into_counts(cross_entropy(logits, batch.labels()).mean());
    assert_eq!(averaged, [[3, 0], [3, 0]]);
    assert_eq!(by_hand(0.25, true), [[0.75, 0.0], [0.75, 0.0]]);
}

/// The network with an upstream clip of `layer` that clips nothing.
fn without_upstream_clip(network: &Network, layer: usize) -> Network {
    let mut layers = 0..;
    let specs = map_layers(network.specs(), &mut |spec| match spec {
        LayerSpec::BackpropClipped(clipped) if layers.next() == Some(layer) => {
            let clip = LayerClips { max_upstream_norm: 1e6, ..clipped.clip };
            LayerSpec::BackpropClipped(BackpropClippedSpec { clip, ..clipped.clone() })
        }
        spec => spec.clone(),
    });
    let mut values = network.values().into_iter();
    let mut next = |_: &_| values.next().unwrap().1;
    Network::build_from_specs(network.input_shape(), &specs, &mut next).unwrap()
}

/// An example is clipped by a layer if and only if the gradient of that layer is another one
/// without the clip, as the reference executor computes it.
fn check_each_example(network: &Network, batches: &[Batch]) -> Vec<LayerClippedFractions> {
    let of_layers = network.layer_of_parameters();
    let gradient = |network: &Network, batch: &Batch, layer: usize| -> Vec<f32> {
        let sum = ReferenceExecutor.unclipped_sum(network, batch, None).unwrap().sum;
        let layer_entries =
            sum.entries.iter().zip(&of_layers).filter(|(_, entry_layer)| **entry_layer == layer);
        layer_entries.flat_map(|(entry, _)| entry.values.to_vec()).collect()
    };
    let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|v| v * v).sum::<f32>().sqrt();
    let mut shares = Vec::new();
    for layer in 0..network.clipped_layers().len() {
        let without = without_upstream_clip(network, layer);
        for batch in batches {
            let found = ClippedFractions::measure(network, batch).unwrap().layers.remove(layer);
            let (clipped, free) =
                (gradient(network, batch, layer), gradient(&without, batch, layer));
            let apart = norm(&mut clipped.iter().zip(&free).map(|(a, b)| a - b));
            let is_clipped = apart > 1e-4 * norm(&mut free.iter().copied());
            assert_eq!(found.upstream, f64::from(u8::from(is_clipped)), "{found:?}");
            shares.push(found);
        }
    }
    shares
}

#[test]
fn every_kind_of_layer_is_clipped_where_its_gradient_changes() {
    let images = glyphs_with(6, 0, 1).unwrap();
    let singles = |data: &crate::data::Dataset| -> Vec<Batch> {
        (0..6).map(|i| Batch::from_examples(data.train(), &[i]).unwrap()).collect()
    };
    let fill = |_: &str, shape: &[usize], fan_in: usize| -> Vec<f32> {
        let scale = 1.0 / (fan_in as f32).sqrt();
        (0..shape.iter().product()).map(|i: usize| scale * ((i * i + 1) as f32).sin()).collect()
    };
    let conv =
        layers![Conv2dSpec::new(1, 3, 5).stride(3), Relu, Flatten, LinearSpec::new(3 * 8 * 8, 10)];
    let conv = Network::build(&[1, 28, 28], &conv, fill).unwrap();
    let conv = conv.with_backprop_clips(&LayerClips::new(2.0, 0.95), &[]).unwrap();
    let shares = check_each_example(&conv, &singles(&images));
    let clipped = |kind: &str, shares: &[LayerClippedFractions]| {
        shares.iter().filter(|s| s.kind == kind).map(|s| s.upstream).sum::<f64>()
    };
    let counts = ["Conv2d", "Linear"].map(|kind| clipped(kind, &shares));
    assert!(counts.iter().all(|&count| count > 0.0), "{counts:?}");
    assert!(counts.iter().sum::<f64>() < 12.0, "{counts:?}");

    let texts = sentences_with(6, 0, 1).unwrap();
    let (vocabulary, classes) = (4_000, texts.classes());
    let lstm = layers![
        EmbeddingSpec::new(vocabulary, 4),
        LstmSpec::new(4, 3).bidirectional(),
        MeanOverTime,
        LinearSpec::new(6, classes)
    ];
    let lstm = Network::build(texts.train().shape(), &lstm, fill).unwrap();
    let lstm = lstm.with_backprop_clips(&LayerClips::new(2.0, 0.3), &[]).unwrap();
    let shares = check_each_example(&lstm, &singles(&texts));
    assert!(shares.iter().all(|s| s.inputs.is_none() == (s.kind == "Embedding")));
    let counts = ["Embedding", "Lstm", "Linear"].map(|kind| clipped(kind, &shares));
    assert!(counts.iter().any(|&count| count > 0.0), "{counts:?}");
    assert!(counts.iter().any(|&count| count < 6.0), "{counts:?}");
}

#[test]
fn the_shares_do_not_depend_on_chunks_and_copies() {
    let data = glyphs_with(300, 0, 2).unwrap();
    // Half of the inputs are clipped.
    let norm = |i: usize| data.train().features(i).iter().map(|x| x * x).sum::<f32>().sqrt();
    let mut norms: Vec<f32> = (0..300).map(norm).collect();
    norms.sort_by(f32::total_cmp);
    let clips = LayerClips::new(f64::from(norms[149] + norms[150]) / 2.0, 0.9);
    let layers = layers![Flatten, LinearSpec::new(28 * 28, 10)];
    let fill = |_: &str, shape: &[usize], _: usize| -> Vec<f32> {
        (0..shape.iter().product()).map(|i: usize| 0.3 * ((i * i) as f32).sin()).collect()
    };
    let network = Network::build(&[1, 28, 28], &layers, fill).unwrap();
    let network = network.with_backprop_clips(&clips, &[]).unwrap();
    let measure = |ids: std::ops::Range<u32>| {
        let ids: Vec<u32> = ids.collect();
        let shares =
            ClippedFractions::measure(&network, &Batch::from_examples(data.train(), &ids).unwrap())
                .unwrap();
        (fractions(&shares)[0], ids.len() as f64)
    };
    let ([all, first, last], n) = ([measure(0..300), measure(0..70), measure(70..300)], 300.0);
    for i in 0..2 {
        assert!(all.0[i] > 0.02 && all.0[i] < 0.98, "{all:?}");
        let parts = (first.0[i] * first.1 + last.0[i] * last.1) / n;
        assert!((all.0[i] - parts).abs() < 1e-9, "{all:?} {first:?} {last:?}");
    }

    // Two equal copies of an example are two rows of the same norms.
    let (network, batch) = by_hand_network();
    let twice = EXAMPLES.map(|x| [x, x].concat()).concat().iter().map(|&x| x as f32).collect();
    let twice = Batch::with_copies(twice, &[2], batch.labels().to_vec(), 2).unwrap();
    let [once, twice] =
        [&batch, &twice].map(|batch| ClippedFractions::measure(&network, batch).unwrap());
    assert_eq!(once, twice);
}

#[test]
fn networks_without_clips_and_empty_batches_are_refused() {
    let (network, batch) = by_hand_network();
    let layers = layers![LinearSpec::new(2, 2)];
    let plain = Network::build(&[2], &layers, |_, shape, _| vec![0.5; shape.iter().product()]);
    let error = ClippedFractions::measure(&plain.unwrap(), &batch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Model);
    assert!(error.advice().contains("BackpropClip"), "{error}");
    let empty = Batch::new(vec![], &[2], vec![]).unwrap();
    let unreadable = Batch::new(vec![f32::NAN, 1.0], &[2], vec![0]).unwrap();
    for batch in [empty, unreadable] {
        let error = ClippedFractions::measure(&network, &batch).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setting, "{error}");
    }
    let wide = Batch::new(vec![0.0; 3], &[3], vec![0]).unwrap();
    assert!(ClippedFractions::measure(&network, &wide).is_err());

    // What is not finite is left out, and an overflowing input is zero behind its clip.
    let rows = vec![f32::INFINITY, 0.0, 3e38, 3e38, 0.1, 0.1, 0.1, 0.1];
    let batch = Batch::new(rows, &[2], vec![0; 4]).unwrap();
    let shares = ClippedFractions::measure(&network, &batch).unwrap();
    assert_eq!((shares.examples, shares.layers[0].inputs), (3, Some(1.0 / 3.0)));
}
