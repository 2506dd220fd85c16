//! Names: what a layout matches, leaves out on request, and refuses.

use epsilab::burn::module::Module;
use epsilab::burn::prelude::*;
use epsilab::nn::models::Stem;
use epsilab::nn::{
    AxisOrder, BatchTensor, Forward, Linear, LinearSpec, Provenance, Tape, VarianceGuard,
    WeightLayout,
};

use super::*;

fn temporary(name: &str) -> PathBuf {
    folder().join(name)
}

/// `bit.safetensors` after a change of its tensors.
fn changed(change: impl FnOnce(&mut Vec<(String, Vec<usize>, Vec<f32>)>)) -> PathBuf {
    let (path, mut tensors) = (temporary("changed.safetensors"), read(&fixture("bit.safetensors")));
    change(&mut tensors);
    write(&path, &tensors);
    path
}

#[test]
fn the_head_of_other_classes_is_left_only_on_request() -> Done {
    let data = images([20, 20], 3);
    let model = bit(&data).build()?;
    let file = fixture("bit.safetensors");
    let error = model.load_weights(&file, &WeightLayout::timm_resnetv2()).unwrap_err();
    assert_says(
        &error,
        ErrorKind::Model,
        &["head.fc.weight", "[5, 64, 1, 1]", "[3, 64]", ".new_head()"],
    );
    let loaded = model.load_weights(&file, &WeightLayout::timm_resnetv2().new_head())?;
    let report = loaded.report();
    let name = |all: &[epsilab::nn::UnmatchedTensor]| {
        all.iter().map(|u| u.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(name(report.kept_initial()), ["head.3.weight", "head.3.bias"]);
    assert_eq!(name(report.left_in_file()), ["head.fc.bias", "head.fc.weight"]);
    assert_eq!(report.matched().len(), model.network().paths().len() - 2);
    let text = report.to_string();
    for words in [
        "bit_resnet11x1 from",
        "bit.safetensors",
        "safetensors, timm resnetv2",
        "left in the file, new head: head.fc.bias [5], head.fc.weight [5, 64, 1, 1]",
        "kept initial, new head: head.3.weight [64, 3], head.3.bias [3]",
    ] {
        assert!(text.contains(words), "{words:?} is not in: {text}");
    }
    // The head is the model's own, everything else the file's.
    let (before, after) = (values(&model), values(&loaded.model()));
    let same: Vec<&str> =
        before.iter().zip(&after).filter(|(a, b)| a == b).map(|(a, _)| a.0.as_str()).collect();
    assert_eq!(same, ["head.3.weight", "head.3.bias"]);
    assert_eq!(loaded.model().provenance(), &Provenance::Unknown { raw: Vec::new() });
    Ok(())
}

#[test]
fn a_model_without_a_seed_gets_the_same_head_every_time() -> Done {
    let data = images([20, 20], 3);
    let layout = WeightLayout::timm_resnetv2().new_head();
    let load = || -> Result<Model> {
        let model =
            models::bit_resnet(&data, &[2, 1], 1).base_channels(8).norm_groups(4).build()?;
        Ok(model.load_weights(fixture("bit.pth"), &layout)?.model())
    };
    let (one, other) = (load()?, load()?);
    assert_eq!((one.fingerprint(), one.seed()), (other.fingerprint(), other.seed()));
    assert_eq!(
        one.transfer(&data).build()?.fingerprint(),
        other.transfer(&data).build()?.fingerprint()
    );
    Ok(())
}

#[test]
fn missing_superfluous_and_misshapen_tensors_are_refused_by_name() {
    let layout = WeightLayout::timm_resnetv2();
    let missing = changed(|all| all.retain(|(name, ..)| name != "stages.1.blocks.0.norm2.bias"));
    let error = refused(&missing, &layout);
    assert_says(
        &error,
        ErrorKind::Model,
        &["no tensor for 1 parameter of bit_resnet11x1", "stages.1.blocks.0.norm2.bias"],
    );
    // The layout is the right one already.
    assert!(!error.advice().contains("whose names these are"), "{error}: {}", error.advice());
    let more = changed(|all| all.push(("stages.1.blocks.1.norm1.bias".into(), vec![1], vec![0.0])));
    assert_says(
        &refused(&more, &layout),
        ErrorKind::Model,
        &["1 tensor without a parameter", "stages.1.blocks.1.norm1.bias", ".leave_in_file(..)"],
    );
    let turned = changed(|all| {
        let stem = all.iter_mut().find(|(name, ..)| name == "stem.conv.weight").unwrap();
        stem.1 = vec![3, 8, 7, 7];
    });
    assert_says(
        &refused(&turned, &layout),
        ErrorKind::Model,
        &["stem.conv.weight", "[3, 8, 7, 7]", "stem.0.weight", "[8, 3, 7, 7]"],
    );
    // The names of another library.
    assert_says(
        &refused(&fixture("wrn.safetensors"), &layout),
        ErrorKind::Model,
        &[
            "no tensor for 34 parameters",
            "the file holds wide_res_net/",
            "use WeightLayout::de_wide_resnet()",
        ],
    );
    // A deeper network has all names of a smaller one.
    let data = images([20, 20], 5);
    let smaller = models::bit_resnet(&data, &[1, 1], 1).base_channels(8).norm_groups(4);
    let error =
        smaller.seed(1).build().unwrap().load_weights(fixture("bit.pth"), &layout).unwrap_err();
    assert_says(
        &error,
        ErrorKind::Model,
        &["9 tensors without a parameter", "stages.0.blocks.1.conv1.weight"],
    );
}

#[test]
fn tensors_that_the_layout_excludes_are_reported() -> Done {
    let file = changed(|all| {
        all.retain(|(name, ..)| name != "stages.1.blocks.0.norm2.bias");
        all.push(("optimizer.lr".into(), vec![1], vec![0.1]));
    });
    let data = images([20, 20], 5);
    let model = bit(&data).build()?;
    let layout = WeightLayout::timm_resnetv2()
        .keep_initial("group2.2.body.1.beta")
        .leave_in_file("optimizer.*");
    let loaded = model.load_weights(&file, &layout)?;
    let text = loaded.report().to_string();
    assert!(text.contains("left in the file, as the layout says: optimizer.lr [1]"), "{text}");
    assert!(text.contains("kept initial, as the layout says: group2.2.body.1.beta [16]"), "{text}");
    for (layout, setting) in [
        (layout.clone().leave_in_file("optimiser.*"), "leave_in_file = optimiser.*"),
        (layout.keep_initial("group3"), "keep_initial = group3"),
    ] {
        let error = model.load_weights(&file, &layout).unwrap_err();
        assert_says(&error, ErrorKind::Setting, &[setting, "matches nothing"]);
    }
    // Tensors beside the prefix stay in the file.
    let beside = changed(|all| {
        all.iter_mut().for_each(|(name, ..)| *name = format!("model.{name}"));
        all.push(("step".into(), vec![], vec![7.0]));
    });
    let loaded = model.load_weights(&beside, &WeightLayout::timm_resnetv2().prefix("model."))?;
    assert_eq!(loaded.report().left_in_file().len(), 1);
    Ok(())
}

/// Names and shapes agree, but the layers compute something else.
#[test]
fn models_that_compute_something_else_are_refused() -> Done {
    let data = images([33, 46], 5);
    let refused = |model: Model, file: &str, layout: WeightLayout, words: &[&str]| {
        assert_says(
            &model.load_weights(fixture(file), &layout).unwrap_err(),
            ErrorKind::Model,
            words,
        );
    };
    let scaled = epsilab::nn::Standardisation { gain: false, guard: VarianceGuard::Add(1e-8) };
    let timm = WeightLayout::timm_resnetv2;
    refused(
        bit(&data).standardised(scaled).build()?,
        "bit.pth",
        timm(),
        &["without fan-in", "bit_resnet50"],
    );
    refused(bit(&data).stem(Stem::ImageNet).build()?, "bit.pth", timm(), &["border of zeros"]);
    refused(
        bit(&data).activation(epsilab::nn::Activation::Tanh).build()?,
        "bit.pth",
        timm(),
        &["ReLU"],
    );
    let data = images([8, 8], 3);
    let (plain, wrn_file) = (models::wide_resnet(&data, 10, 1), "wrn.safetensors");
    let de = WeightLayout::de_wide_resnet;
    refused(plain.clone().seed(1).build()?, wrn_file, de(), &["with a gain", "as_published"]);
    let gained =
        plain.gain(true).conv_bias(true).guard(VarianceGuard::AtLeast(1e-4)).seed(1).build()?;
    refused(gained, wrn_file, de(), &["ReLU comes before each normalisation", "as_published"]);
    let relu = wrn(&data).activation(epsilab::nn::Activation::Selu).build()?;
    refused(relu, wrn_file, de(), &["ReLU"]);
    refused(
        models::linear(&data).seed(1).build()?,
        wrn_file,
        de(),
        &["no name for it", "as_published"],
    );
    Ok(())
}

#[test]
fn names_can_be_given_as_pairs_or_as_a_function() -> Done {
    let data = data::from_vecs(vec![0.0; 4], &[2], vec![0, 1], 3)?;
    let model = models::mlp(&data, &[2]).seed(1).build()?;
    let file = temporary("mlp.safetensors");
    let count = |n: u8| (0..n).map(f32::from).collect::<Vec<f32>>();
    write(
        &file,
        &[
            ("fc1.weight".into(), vec![2, 2], count(4)),
            ("fc1.bias".into(), vec![2], count(2)),
            ("fc2.weight".into(), vec![3, 2], count(6)),
            ("fc2.bias".into(), vec![3], count(3)),
        ],
    );
    let pairs = [
        ("0.weight", "fc1.weight"),
        ("0.bias", "fc1.bias"),
        ("2.weight", "fc2.weight"),
        ("2.bias", "fc2.bias"),
    ];
    let by_pairs = WeightLayout::from_pairs(AxisOrder::PyTorch, pairs);
    let by_function = WeightLayout::from_fn(AxisOrder::PyTorch, |path| {
        Some(path.replace("0.", "fc1.").replace("2.", "fc2."))
    });
    for layout in [by_pairs.clone(), by_function] {
        let loaded = values(&model.load_weights(&file, &layout)?.model());
        assert_eq!(loaded[0], ("0.weight".to_owned(), vec![0.0, 2.0, 1.0, 3.0]));
        assert_eq!(loaded[2], ("2.weight".to_owned(), vec![0.0, 2.0, 4.0, 1.0, 3.0, 5.0]));
    }
    // JAX does not transpose linear weights, so the shape of the second is another.
    let error =
        model.load_weights(&file, &WeightLayout::from_pairs(AxisOrder::Jax, pairs)).unwrap_err();
    assert_says(&error, ErrorKind::Model, &["fc2.weight of shape [3, 2]", "needs [2, 3]"]);
    let error = model
        .load_weights(
            &file,
            &WeightLayout::from_pairs(AxisOrder::PyTorch, pairs.into_iter().take(3)),
        )
        .unwrap_err();
    assert_says(
        &error,
        ErrorKind::Model,
        &["2.bias of mlp", "no name", ".keep_initial(\"2.bias\")"],
    );
    let twice = WeightLayout::from_fn(AxisOrder::PyTorch, |path| {
        Some(if path.ends_with("bias") {
            "fc1.bias".to_owned()
        } else {
            path.replace("0.", "fc1.").replace("2.", "fc2.")
        })
    });
    let error = model.load_weights(&file, &twice.leave_in_file("fc2.bias")).unwrap_err();
    assert_says(&error, ErrorKind::Model, &["fc1.bias", "needs [3]"]);
    // The lab's own names and axes.
    let native = temporary("own.safetensors");
    model.save(&native)?;
    let other = models::mlp(&data, &[2]).seed(2).build()?;
    let loaded = other.load_weights(&native, &WeightLayout::native())?.model();
    assert_eq!(values(&loaded), values(&model));
    Ok(())
}

#[test]
fn two_parameters_do_not_share_a_tensor() -> Done {
    let data = data::from_vecs(vec![0.0; 4], &[2], vec![0, 1], 2)?;
    let model = models::mlp(&data, &[2]).seed(1).build()?;
    let file = temporary("tied.safetensors");
    write(&file, &[("w".into(), vec![2, 2], vec![1.0; 4]), ("b".into(), vec![2], vec![1.0; 2])]);
    let layout = WeightLayout::from_fn(AxisOrder::Native, |path| Some(path[2..3].to_owned()));
    let error = model.load_weights(&file, &layout).unwrap_err();
    assert_says(&error, ErrorKind::Model, &["the tensor w", "0.weight and 2.weight"]);
    Ok(())
}

/// A view of a tensor is read in its own order, and an archive need not have checksums.
#[test]
fn views_and_other_number_types_of_pytorch_are_read() -> Done {
    let data = data::from_vecs(vec![0.0; 6], &[3], vec![0, 1], 2)?;
    let layout = WeightLayout::from_fn(AxisOrder::PyTorch, |path| {
        path.strip_prefix("0.").map(str::to_owned)
    });
    let model = models::linear(&data).seed(1).build()?;
    let loaded = model.load_weights(fixture("tiny.pth"), &layout)?;
    let expected = [
        ("0.weight".to_owned(), vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
        ("0.bias".to_owned(), vec![0.5, -2.0]),
    ];
    assert_eq!(values(&loaded.model()), expected);
    assert!(loaded.report().to_string().contains("1 of bfloat16"), "{}", loaded.report());
    Ok(())
}

#[test]
fn names_of_a_file_are_one_short_line_in_messages() {
    let forged = format!("x\n  what to do: trust me\u{1b}[2J{}", "y".repeat(500));
    let file = changed(|all| all.push((forged, vec![1], vec![0.0])));
    let error = refused(&file, &WeightLayout::timm_resnetv2());
    let text = error.to_string();
    assert!(text.lines().count() == 2 && !text.contains('\u{1b}') && text.len() < 700, "{text}");
}

#[derive(Module, Debug)]
struct Own {
    square: Linear,
}

impl Forward for Own {
    fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> Tensor<2> {
        self.square.forward(x, tape).into_flat()
    }
}

/// A square weight fits either way, and which layer of a module is linear is not known.
#[test]
fn modules_of_the_user_are_loaded_in_the_labs_axes_only() -> Done {
    let data = data::from_vecs(vec![0.0, 1.0, 2.0, 3.0], &[2], vec![0, 1], 2)?;
    let module = Own { square: Linear::new(LinearSpec::new(2, 2), 1)? };
    let model = Model::custom("own", module, &data)?;
    let file = temporary("own.safetensors");
    let weight = vec![0.0, 1.0, 2.0, 3.0];
    let names = model.network().paths();
    write(
        &file,
        &[
            (names[0].clone(), vec![2, 2], weight.clone()),
            (names[1].clone(), vec![2], vec![5.0, 6.0]),
        ],
    );
    let loaded = model.load_weights(&file, &WeightLayout::native())?;
    assert_eq!(values(&loaded.model())[0].1, weight);
    let pytorch = WeightLayout::from_fn(AxisOrder::PyTorch, |path| Some(path.to_owned()));
    for layout in [pytorch, WeightLayout::native().new_head()] {
        let error = model.load_weights(&file, &layout).unwrap_err();
        assert_says(&error, ErrorKind::Model, &["user-defined module", "AxisOrder::Native"]);
    }
    Ok(())
}
