//! Networks with the clips of backpropagation clipping: all executors against reference values from
//! PyTorch.

use epsilab::engine::{Batch, ClipRule};
use epsilab::nn::{Conv2dSpec, LayerClips, LayerSpec, MaxPool2dSpec, Network, UpstreamNorm};

use crate::compare::distance;
use crate::executors::all;
use crate::golden_networks::{flat, labels, linear};
use crate::support::files::{PER_EXAMPLE, json};

pub fn every_executor_agrees_with_pytorch() {
    let goldens = json(PER_EXAMPLE);
    let case = &goldens["backprop_clip"];
    let specs = [
        LayerSpec::Conv2d(Conv2dSpec { stride: [2, 2], ..conv(1, 3, 3) }),
        LayerSpec::Relu,
        LayerSpec::MaxPool2d(MaxPool2dSpec { kernel: [2, 2], stride: [1, 1] }),
        LayerSpec::Conv2d(conv(3, 4, 2)),
        LayerSpec::Relu,
        LayerSpec::Flatten,
        linear(16, 5, false),
        LayerSpec::Relu,
        linear(5, 3, false),
    ];
    let x = flat(&case["x"]);
    let side = (x.len() as f64 / 4.0).sqrt() as usize;
    let names = ["w1", "w2", "w3", "w4"];
    let mut at = 0;
    let network = Network::build(&[1, side, side], &specs, |_, shape, _| {
        at += 1;
        in_our_layout(&flat(&case["params"][names[at - 1]]), shape)
    })
    .unwrap();
    let clips = LayerClips {
        max_input_norm: case["C_in"].as_f64().unwrap(),
        max_upstream_norm: case["C_g"].as_f64().unwrap(),
        norm: UpstreamNorm::L15,
    };
    let clipped = network.with_backprop_clips(&clips, &[]).unwrap();
    let batch = Batch::new(x, &[1, side, side], labels(case)).unwrap();
    let want = &case["results"]["jacobian"];
    for (name, executor) in all() {
        for sum in [
            executor.unclipped_sum(&clipped, &batch, None).unwrap(),
            executor.clipped_sum(&clipped, &batch, &ClipRule::Backprop(clips)).unwrap(),
        ] {
            for (entry, their) in sum.sum.entries.iter().zip(names) {
                let want = in_our_layout(&flat(&want["sum_grads"][their]), &entry.shape);
                let off = distance(&entry.values, &want, 0.0);
                assert!(off < 1e-5, "{name}: the sum of {their} is off by {off:.1e}");
            }
        }
        let by_layer = executor.clipped_sum(&clipped, &batch, &ClipRule::Backprop(clips)).unwrap();
        for (layer, norms) in by_layer.group_norms.iter().enumerate() {
            let each = want["per_example_layer_norms"].as_array().unwrap();
            let want: Vec<f32> = each.iter().map(|norms| flat(norms)[layer]).collect();
            assert!(distance(norms, &want, 0.0) < 1e-5, "{name}: norms of layer {layer}");
        }
        // Without the clips, or with the other treatment of the input clip, the sums are others.
        let plain = executor.unclipped_sum(&network, &batch, None).unwrap();
        let theirs = in_our_layout(&flat(&want["sum_grads"]["w1"]), &plain.sum.entries[0].shape);
        assert!(distance(&plain.sum.entries[0].values, &theirs, 0.0) > 0.1);
        let detached = flat(&case["results"]["detached"]["sum_grads"]["w1"]);
        let found = executor.unclipped_sum(&clipped, &batch, None).unwrap();
        assert!(distance(&found.sum.entries[0].values, &detached, 0.0) > 1e-2);
    }
}

fn conv(inputs: usize, outputs: usize, kernel: usize) -> Conv2dSpec {
    Conv2dSpec { bias: false, ..Conv2dSpec::new(inputs, outputs, kernel) }
}

/// PyTorch's linear weights are transposed.
fn in_our_layout(theirs: &[f32], shape: &[usize]) -> Vec<f32> {
    match *shape {
        [inputs, outputs] => {
            let at = |k: usize| theirs[k % outputs * inputs + k / outputs];
            (0..inputs * outputs).map(at).collect()
        }
        _ => theirs.to_vec(),
    }
}
