//! A network with the weights of another library computes the logits of that library.

use epsilab::burn::prelude::Device;
use epsilab::engine::{Batch, ClipRule, Executor, FusedExecutor, ReferenceExecutor, TapExecutor};
use epsilab::nn::{BatchTensor, NoTape, Standardisation, VarianceGuard, WeightLayout};
use serde_json::Value as Json;

use super::*;

/// Sizes of the images in `logits.json`.
const BIT_SIZES: [[usize; 2]; 2] = [[20, 20], [33, 46]];
const WRN_SIZES: [[usize; 2]; 2] = [[8, 8], [9, 12]];

/// The logits of the other library for images of this size, `[2, classes]`.
fn expected(network: &str, [height, width]: [usize; 2]) -> Vec<f32> {
    let file = std::fs::read_to_string(fixture("logits.json")).unwrap();
    let file: Json = serde_json::from_str(&file).unwrap();
    let rows = file[network][format!("{height}x{width}")].as_array().unwrap().iter();
    let values = rows.flat_map(|row| row.as_array().unwrap());
    values.map(|value| value.as_f64().unwrap() as f32).collect()
}

/// The two images as a batch.
fn batch(data: &Dataset) -> Batch {
    Batch::from_examples(data.train(), &[0, 1]).unwrap()
}

fn logits(model: &Model, data: &Dataset) -> Vec<f32> {
    let batch = batch(data);
    let features = [batch.features(0), batch.features(1)].concat();
    let x = BatchTensor::new(features, 2, data.shape(), &Device::flex());
    model.network().forward(x, &mut NoTape).into_data().try_to_vec().unwrap()
}

/// The largest error relative to 1 + |value|.
fn error(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let each = found.iter().zip(expected);
    each.map(|(a, b)| (a - b).abs() / (1.0 + b.abs())).fold(0.0, f32::max)
}

/// The cross-entropy of each image whose labels are 0 and 1.
fn losses(logits: &[f32]) -> Vec<f32> {
    let each = logits.chunks(logits.len() / 2).enumerate();
    let loss = |(label, row): (usize, &[f32])| {
        let max = row.iter().copied().fold(f32::MIN, f32::max);
        max + row.iter().map(|v| (v - max).exp()).sum::<f32>().ln() - row[label]
    };
    each.map(loss).collect()
}

/// Asserts the logits, and that every executor and the prediction compute the losses of them.
#[track_caller]
fn assert_equal(model: &Model, data: &Dataset, expected: &[f32]) -> Done {
    let off = error(&logits(model, data), expected);
    assert!(off < 1e-4, "{model} on {data}: {off:e}");
    let (network, batch, rule) = (model.network(), batch(data), ClipRule::flat(1.0));
    let all = [
        ("prediction", model.losses(data.train())?),
        ("reference", ReferenceExecutor.clipped_sum(network, &batch, &rule)?.losses.to_vec()),
        ("tap", TapExecutor::default().clipped_sum(network, &batch, &rule)?.losses.to_vec()),
        ("fused", FusedExecutor::default().clipped_sum(network, &batch, &rule)?.losses.to_vec()),
    ];
    for (name, found) in all {
        let off = error(&found, &losses(expected));
        assert!(off < 1e-4, "{name} of {model}: {off:e}");
    }
    Ok(())
}

#[test]
fn a_resnet_of_timm_has_equal_logits_from_every_format() -> Done {
    let plain = WeightLayout::timm_resnetv2();
    let files = [
        ("bit.safetensors", plain.clone()),
        ("bit.pth", plain.clone()),
        ("bit_legacy.pth", plain.prefix("state_dict.")),
    ];
    for size in BIT_SIZES {
        let data = images(size, 5);
        let initial = bit(&data).build()?;
        let expected = expected("bit", size);
        assert!(error(&logits(&initial, &data), &expected) > 0.1);
        for (file, layout) in &files {
            let loaded = initial.load_weights(fixture(file), layout)?;
            assert_equal(&loaded.model(), &data, &expected)?;
            assert_eq!(loaded.report().matched().len(), initial.network().paths().len());
            assert!(loaded.report().left_in_file().is_empty());
            assert!(loaded.report().kept_initial().is_empty());
        }
    }
    Ok(())
}

#[test]
fn the_network_of_de_et_al_has_equal_logits() -> Done {
    for size in WRN_SIZES {
        let data = images(size, 3);
        let initial = wrn(&data).build()?;
        let expected = expected("wrn", size);
        assert!(error(&logits(&initial, &data), &expected) > 0.1);
        let loaded =
            initial.load_weights(fixture("wrn.safetensors"), &WeightLayout::de_wide_resnet())?;
        assert_equal(&loaded.model(), &data, &expected)?;
        let text = loaded.report().to_string();
        assert!(text.contains("of float16, converted to float32"), "{text}");
    }
    Ok(())
}

/// Every difference that the shapes of the parameters do not show changes the logits far more than
/// rounding does.
#[test]
fn another_order_epsilon_or_padding_has_other_logits() -> Done {
    let (size, layout) = (BIT_SIZES[0], WeightLayout::timm_resnetv2());
    let data = images(size, 5);
    let expected = expected("bit", size);
    let off = |model: &Model, path: &Path| -> Result<f32> {
        Ok(error(&logits(&model.load_weights(path, &layout)?.model(), &data), &expected))
    };
    let model = bit(&data).build()?;
    let file = fixture("bit.safetensors");
    assert!(off(&model, &file)? < 1e-4);
    let guard = |e: f64| Standardisation { gain: false, guard: VarianceGuard::Unscaled(e) };
    for e in [1e-6, 1e-10] {
        let off = off(&bit(&data).standardised(guard(e)).build()?, &file)?;
        assert!(off > 1e-2, "with {e} added to the variance: {off:e}");
    }
    let off_groups = off(&bit(&data).norm_groups(2).build()?, &file)?;
    assert!(off_groups > 1e-2, "with other groups: {off_groups:e}");

    // Two tensors of one shape with each other's names.
    let swapped = folder().join("swapped.safetensors");
    let pairs = [
        ("stages.0.blocks.0.conv3.weight", "stages.0.blocks.0.downsample.conv.weight"),
        ("stages.0.blocks.1.norm2.weight", "stages.0.blocks.1.norm3.weight"),
        ("stages.0.blocks.0.norm2.bias", "stages.0.blocks.1.norm2.bias"),
    ];
    for (one, other) in pairs {
        let mut tensors = read(&file);
        for (name, ..) in &mut tensors {
            match name.as_str() {
                name_of if name_of == one => *name = other.to_owned(),
                name_of if name_of == other => *name = one.to_owned(),
                _ => {}
            }
        }
        write(&swapped, &tensors);
        let off = off(&model, &swapped)?;
        assert!(off > 1e-2, "{one} and {other}: {off:e}");
    }
    Ok(())
}

#[test]
fn loaded_networks_can_be_proved_frozen_and_transferred() -> Done {
    let data = images([20, 20], 5);
    let initial = bit(&data).build()?;
    let loaded = initial.load_weights(fixture("bit.pth"), &WeightLayout::timm_resnetv2())?;
    let model = loaded.model().assumed_public("ImageNet-21k");
    let names: Vec<_> =
        model.provenance().public_data().unwrap().iter().map(|d| d.to_string()).collect();
    assert_eq!(names, ["ImageNet-21k (assumed public)"]);
    let moved = model.transfer(&images([24, 24], 2)).build()?;
    assert_eq!((moved.classes(), moved.provenance()), (2, model.provenance()));
    let freezing = epsilab::mask::FreezeConfig { groups: 1, ..Default::default() };
    let frozen = freezing.frozen_flags(model.network())?;
    let paths = model.network().paths();
    let trained = paths.iter().zip(&frozen).filter(|(_, frozen)| !**frozen).map(|(path, _)| path);
    assert!(trained.clone().all(|path| path.starts_with("group2") || path.starts_with("head")));
    assert!(trained.count() > 0 && frozen[0]);
    Ok(())
}

/// The networks of `torchvision_basic.pth` and `torchvision_bottleneck.safetensors`, except for
/// their parameters.
fn torchvision(data: &Dataset) -> Result<[(Model, &'static str, &'static str); 2]> {
    let basic = models::torchvision_resnet18(data).blocks([2, 1, 1, 1]);
    let bottleneck = models::torchvision_resnet50(data).blocks([1, 2, 1, 1]);
    Ok([
        (basic.base_channels(2).seed(1).build()?, "torchvision_basic", "pth"),
        (bottleneck.base_channels(2).seed(1).build()?, "torchvision_bottleneck", "safetensors"),
    ])
}

/// The smaller sides end in groups of one pixel.
#[test]
fn resnets_of_torchvision_with_fixed_statistics_have_equal_logits() -> Done {
    for size in [[32, 32], [45, 38]] {
        let data = images(size, 5);
        for (initial, name, ending) in torchvision(&data)? {
            let expected = expected(name, size);
            assert!(error(&logits(&initial, &data), &expected) > 0.1);
            let file = fixture(&format!("{name}.{ending}"));
            let loaded = initial.load_weights(file, &WeightLayout::torchvision())?;
            assert_equal(&loaded.model(), &data, &expected)?;
            let report = loaded.report();
            assert_eq!(report.matched().len(), initial.network().paths().len());
            assert!(report.left_in_file().is_empty() && report.kept_initial().is_empty());
            // One for each convolution.
            assert_eq!(report.folded_batch_norms(), (report.matched().len() - 2) / 2);
            assert!(report.to_string().contains("weights and biases are trained"), "{report}");
        }
    }
    Ok(())
}

/// The averages of the parameters that a checkpoint also holds are not counted.
#[test]
fn the_report_counts_what_was_folded_into_the_model() -> Done {
    let data = images([32, 32], 5);
    let (model, ..) = torchvision(&data)?.into_iter().nth(1).unwrap();
    let tensors = read_floats(&fixture("torchvision_bottleneck.safetensors"));
    let under = |key: &str| {
        let rename = |(name, shape, values): &(String, Vec<usize>, Vec<f32>)| {
            (format!("{key}.{name}"), shape.clone(), values.clone())
        };
        tensors.iter().map(rename).collect::<Vec<_>>()
    };
    let path = folder().join("averaged.safetensors");
    write(&path, &[under("model"), under("model_ema")].concat());
    let loaded = model.load_weights(&path, &WeightLayout::torchvision())?;
    assert_eq!(loaded.report().folded_batch_norms(), (loaded.report().matched().len() - 2) / 2);
    let off = error(&logits(&loaded.model(), &data), &expected("torchvision_bottleneck", [32, 32]));
    assert!(off < 1e-4, "{off:e}");
    Ok(())
}

/// The floating-point tensors of a safetensors file.
fn read_floats(path: &Path) -> Vec<(String, Vec<usize>, Vec<f32>)> {
    let tensors = read(path).into_iter();
    tensors.filter(|(name, ..)| !name.ends_with("num_batches_tracked")).collect()
}

/// Folding changes no shape that another error would show.
#[test]
fn another_statistic_of_batch_norm_has_other_logits() -> Done {
    let data = images([32, 32], 5);
    let (model, name, _) = torchvision(&data)?.into_iter().nth(1).unwrap();
    let expected = expected(name, [32, 32]);
    let path = folder().join("changed.safetensors");
    for tensor in ["running_mean", "running_var", "weight", "bias"] {
        for layer in ["bn1", "layer2.0.downsample.1", "layer2.1.bn3"] {
            let mut tensors = read_floats(&fixture("torchvision_bottleneck.safetensors"));
            let changed = format!("{layer}.{tensor}");
            let (.., values) = tensors.iter_mut().find(|(name, ..)| *name == changed).unwrap();
            values.iter_mut().for_each(|value| *value = 1.5 * *value + 1e-5);
            write(&path, &tensors);
            let loaded = model.load_weights(&path, &WeightLayout::torchvision())?;
            let off = error(&logits(&loaded.model(), &data), &expected);
            assert!(off > 1e-4, "{changed}: {off:e}");
        }
    }
    Ok(())
}

#[test]
fn other_models_than_those_of_torchvision_are_refused() -> Done {
    let data = images([32, 32], 5);
    let (file, layout) = (fixture("torchvision_basic.pth"), WeightLayout::torchvision());
    let tanh = models::torchvision_resnet18(&data).activation(epsilab::nn::Activation::Tanh);
    let others = [
        (tanh.base_channels(2).seed(1).build()?, "ReLU"),
        (models::resnet18(&data).base_channels(4).norm_groups(2).seed(1).build()?, "normalisation"),
        (bit(&data).build()?, "normalisation"),
        (
            models::simple_vgg(&data, &[4], 1)
                .activation(epsilab::nn::Activation::Relu)
                .seed(1)
                .build()?,
            "stem",
        ),
    ];
    for (model, why) in others {
        assert_says(&model.load_weights(&file, &layout).unwrap_err(), ErrorKind::Model, &[why]);
    }
    // Fewer blocks than the file has.
    let fewer = models::torchvision_resnet18(&data).blocks([1; 4]).base_channels(2).seed(1);
    let error = fewer.build()?.load_weights(&file, &layout).unwrap_err();
    assert_says(&error, ErrorKind::Model, &["4 tensors without a parameter", "layer1.1.conv1"]);
    // Statistics without the rest.
    let error = torchvision(&data)?[0].0.load_weights(fixture("batch_norm.pth"), &layout);
    let words = &["can't be folded", "layer1.0.conv1.weight"];
    assert_says(&error.unwrap_err(), ErrorKind::Model, words);
    Ok(())
}

/// The layers of a private fine-tuning: clipped sums of all executors agree.
#[test]
fn folded_networks_have_per_example_gradients() -> Done {
    let data = images([32, 32], 5);
    for (initial, name, ending) in torchvision(&data)? {
        let file = fixture(&format!("{name}.{ending}"));
        let layout = WeightLayout::torchvision().new_head();
        let model = initial.load_weights(file, &layout)?.model();
        let proof = model.check_gradients(&data)?;
        assert!(proof.passed(), "{name}: {proof}");
        assert!(proof.parameters.iter().any(|parameter| parameter.path == "stem.0.bias"));
    }
    Ok(())
}
