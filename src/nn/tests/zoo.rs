//! The built-in models.

use super::super::layers::parameter_specs;
use super::layers::assert_near;
use super::*;

fn count<F: ModelFamily>(builder: ModelBuilder<F>) -> usize {
    let specs = builder.layers().unwrap();
    parameter_specs(&specs).iter().map(|spec| spec.shape.iter().product::<usize>()).sum()
}

fn cifar() -> Dataset {
    images(2, &[3, 32, 32], 10)
}

#[test]
fn simple_vgg_has_the_published_size() {
    let model = models::simple_vgg(&cifar(), &[32, 64, 128], 2).seed(1).build().unwrap();
    assert_eq!(model.num_parameters(), 550_570);
    let kinds: Vec<&str> = model.layers().iter().map(|layer| layer.kind).collect();
    assert_eq!(kinds[..5], ["Conv2d", "Tanh", "Conv2d", "Tanh", "MaxPool2d"]);
    assert_eq!(kinds.len(), 15 + 4);
    let (_, text) = kind(models::simple_vgg(&cifar(), &[8; 6], 1).seed(1).build());
    assert!(text.contains("fewer groups"), "{text}");
}

/// Number of parameters from the paper's definition, independent of the builder.
fn wide_resnet_size(depth: usize, width: usize) -> usize {
    let (mut total, mut from) = (3 * 16 * 9, 16);
    for base in [16, 32, 64] {
        let to = base * width;
        for block in 0..(depth - 4) / 6 {
            let from = if block == 0 { from } else { to };
            total += 2 * from + 9 * from * to + 2 * to + 9 * to * to;
            total += if from == to { 0 } else { from * to };
        }
        from = to;
    }
    total + 2 * from + from * 10 + 10
}

#[test]
fn wide_resnets_have_the_published_size() {
    assert_eq!(wide_resnet_size(16, 4), 2_748_890);
    assert_eq!(count(models::wide_resnet(&cifar(), 16, 4)), 2_748_890);
    assert_eq!(count(models::wide_resnet(&cifar(), 28, 10)), wide_resnet_size(28, 10));
    let plain = parameter_specs(&models::wide_resnet(&cifar(), 16, 4).layers().unwrap());
    let full = models::wide_resnet(&cifar(), 16, 4).gain(true).conv_bias(true);
    // A gain and a bias for every output channel of a convolution.
    let channels: usize =
        plain.iter().filter(|spec| spec.shape.len() == 4).map(|spec| spec.shape[0]).sum();
    assert_eq!(count(full), 2_748_890 + 2 * channels);
    assert!(models::wide_resnet(&cifar(), 17, 4).seed(1).build().is_err());
}

/// The sizes are those of the networks that the weights were published for: counted in timm, and
/// in a network of haiku.
#[test]
fn networks_with_public_weights_have_the_published_size() {
    let imagenet = images(2, &[3, 224, 224], 1000);
    assert_eq!(count(models::bit_resnet50(&imagenet)), 25_549_352);
    assert_eq!(count(models::bit_resnet(&imagenet, &[3, 4, 23, 3], 1)), 44_541_480);
    let name = |blocks: &[usize], width| {
        let model = models::bit_resnet(&cifar(), blocks, width).base_channels(32).seed(1);
        model.build().unwrap().name().to_owned()
    };
    assert_eq!([name(&[3, 4, 6, 3], 1), name(&[1], 3)], ["bit_resnet50x1", "bit_resnet5x3"]);
    let published =
        |depth, width| count(models::wide_resnet(&cifar(), depth, width).as_published());
    assert_eq!(
        [published(16, 4), published(28, 10), published(40, 4)],
        [2_753_818, 36_500_378, 8_961_306]
    );
    for (blocks, width) in [(&[][..], 1), (&[0, 1], 1), (&[1; 9], 1), (&[1], 0), (&[1], usize::MAX)]
    {
        let (kind, text) = kind(models::bit_resnet(&cifar(), blocks, width).seed(1).build());
        assert!(kind == ErrorKind::Model && text.contains("base channels"), "{text}");
    }
}

#[test]
fn networks_with_public_weights_are_saved_and_read() {
    let data = images(2, &[3, 9, 12], 4);
    let path = tempfile::tempdir().unwrap().keep().join("model.safetensors");
    let zoo = [
        models::bit_resnet(&data, &[1, 2], 1).base_channels(8).norm_groups(4).seed(1).build(),
        models::wide_resnet(&data, 10, 1).as_published().seed(1).build(),
    ];
    for model in zoo.map(Result::unwrap) {
        model.save(&path).unwrap();
        let read = models::load(&path).unwrap();
        assert_eq!(read.fingerprint(), model.fingerprint());
        assert_eq!(
            read.loss(data.train()).unwrap().to_bits(),
            model.loss(data.train()).unwrap().to_bits()
        );
    }
}

#[test]
fn a_wide_resnet_has_named_groups_and_nested_paths() {
    let model = models::wide_resnet(&cifar(), 10, 1).seed(1).build().unwrap();
    let paths = model.network().paths();
    assert_eq!(paths[0], "stem.0.weight");
    for path in [
        "group1.0.body.0.gamma",
        "group1.0.body.2.weight",
        "group2.0.beta",
        "group2.2.body.0.weight",
        "group2.2.body.3.weight",
        "group2.2.shortcut.0.weight",
        "head.0.gamma",
        "head.3.bias",
    ] {
        assert!(paths.iter().any(|found| found == path), "{path} is not in {paths:?}");
    }
    let rows = model.layers();
    assert_eq!(rows.iter().map(|row| row.parameters).sum::<usize>(), model.num_parameters());
    for parameter in model.network().parameters() {
        let row = rows.iter().find(|row| {
            parameter
                .path
                .strip_prefix(&row.name)
                .is_some_and(|rest| rest.matches('.').count() == 1)
        });
        assert!(row.is_some(), "{} has no row", parameter.path);
    }
    let table = model.summary().to_string();
    assert!(table.contains("\ngroup2.2.shortcut.0  Conv2d "), "{table}");
    assert!(table.contains("\nhead.2               GlobalAvgPool"), "{table}");
}

#[test]
fn a_wide_resnet_matches_its_definition_in_burn_operations() {
    use burn::prelude::*;
    use burn::tensor::activation::relu;
    use burn::tensor::module::conv2d;
    use burn::tensor::ops::ConvOptions;

    let data = images(2, &[3, 8, 8], 10);
    let model = models::wide_resnet(&data, 10, 2).seed(3).build().unwrap();
    let values: std::collections::HashMap<String, (Vec<usize>, Vec<f32>)> = model
        .network()
        .values()
        .into_iter()
        .map(|(parameter, values)| (parameter.path, (parameter.shape, values)))
        .collect();
    fn get<const D: usize>(
        all: &std::collections::HashMap<String, (Vec<usize>, Vec<f32>)>,
        path: &str,
    ) -> Tensor<D> {
        let (shape, values) = &all[path];
        Tensor::from_data(TensorData::new(values.clone(), shape.clone()), &Device::flex())
    }
    let conv = |x: Tensor<4>, path: &str, step: usize| {
        let w = get::<4>(&values, &format!("{path}.weight"));
        let [out, inner, side, _] = w.dims();
        let flat = w.reshape([out, inner * side * side]);
        let (variance, mean) = flat.clone().var_mean_bias(1);
        let scale = (variance * (inner * side * side) as f64 + 1e-4).sqrt().recip();
        let w = ((flat - mean) * scale).reshape([out, inner, side, side]);
        conv2d(x, w, None, ConvOptions::new([step; 2], [side / 2; 2], [1; 2], 1))
    };
    let norm = |x: Tensor<4>, path: &str| {
        let channels = x.dims()[1];
        let mut norm = burn::nn::GroupNormConfig::new(16, channels).init(&Device::flex());
        let param = |name: &str| {
            Some(burn::module::Param::from_tensor(get::<1>(&values, &format!("{path}.{name}"))))
        };
        norm.gamma = param("gamma");
        norm.beta = param("beta");
        relu(norm.forward(x))
    };
    let features = data.train().features_flat().to_vec();
    let x = BatchTensor::new(features.clone(), 2, &[3, 8, 8], &Device::flex()).into_image();
    let mut x = conv(x, "stem.0", 1);
    for (group, step) in [("group1", 1), ("group2", 2), ("group3", 2)] {
        let h = norm(x, &format!("{group}.0"));
        let shortcut = conv(h.clone(), &format!("{group}.2.shortcut.0"), step);
        let h = conv(h, &format!("{group}.2.body.0"), step);
        let h = norm(h, &format!("{group}.2.body.1"));
        x = conv(h, &format!("{group}.2.body.3"), 1) + shortcut;
    }
    let h = norm(x, "head.0").flatten::<3>(2, 3).mean_dim(2).flatten::<2>(1, 2);
    let logits =
        h.matmul(get::<2>(&values, "head.3.weight")) + get::<1>(&values, "head.3.bias").unsqueeze();
    assert_near(
        &crate::device::host::tensor_to_vec(model.network().logits(features, 2)),
        &crate::device::host::tensor_to_vec(logits),
        1e-4,
    );
}

#[test]
fn resnets_have_the_published_sizes_up_to_normalisation() {
    // The published sizes, less the parameters of batch normalisation, plus those of group
    // normalisation in ResNet v2: one before each convolution of a block and one at the end.
    let imagenet = images(2, &[3, 64, 64], 1000);
    let size = |builder: ModelBuilder<models::Resnet>| count(builder.stem(models::Stem::ImageNet));
    assert_eq!(size(models::resnet18(&imagenet)), 11_689_512 - 9_600 + 7_808);
    assert_eq!(size(models::resnet50(&imagenet)), 25_557_032 - 53_120 + 45_440);
    let small = 11_687_720 - (7 * 7 - 3 * 3) * 3 * 64 - 990 * 513;
    assert_eq!(count(models::resnet18(&cifar())), small);
    let (_, text) =
        kind(models::resnet18(&images(2, &[3, 8, 8], 10)).stem(models::Stem::ImageNet).build());
    assert!(text.contains("Stem::Cifar"), "{text}");
}

#[test]
fn the_groups_of_a_resnet_halve_the_image() {
    let model = models::resnet18(&images(2, &[3, 16, 16], 4)).seed(1).build().unwrap();
    let shape = |name: &str| {
        let rows = model.layers();
        rows.into_iter().find(|row| row.name == name).unwrap().output_shape
    };
    assert_eq!(shape("stem.0"), [64, 16, 16]);
    assert_eq!(shape("group1.1"), [64, 16, 16]);
    assert_eq!(shape("group4.3"), [512, 2, 2]);
    assert_eq!(model.predict(&images(2, &[3, 16, 16], 4)).unwrap().len(), 2);
}

fn tokens(ids: Vec<f32>) -> Dataset {
    let labels = (0..ids.len() / 5).map(|i| (i % 4) as u32).collect();
    data::from_vecs(ids, &[5], labels, 4).unwrap()
}

#[test]
fn bilstm_has_the_published_size_and_refuses_other_features() {
    let data = tokens(vec![3.0, 1.0, 4.0, 1.0, 5.0]);
    assert_eq!(count(models::bilstm(&data, 20_000, 64, 64)), 1_347_076);
    let model = models::bilstm(&data, 6, 3, 4).seed(1).build().unwrap();
    assert_eq!(model.predict(&data).unwrap().len(), 1);
    let (_, text) = kind(model.predict(&tokens(vec![3.0, 1.0, 6.0, 1.0, 5.0])));
    assert!(text.contains("token 6") && text.contains("0 to 5"), "{text}");
    assert!(kind(model.predict(&tokens(vec![0.5; 5]))).1.contains("token 0.5"));
    let (_, text) = kind(models::bilstm(&cifar(), 6, 3, 4).build());
    assert!(text.contains("token ids"), "{text}");
}

#[test]
fn selu_models_are_initialised_from_the_lecun_normal() {
    let data = images(2, &[400], 3);
    let model = models::mlp(&data, &[300]).activation(Activation::Selu).seed(1).build().unwrap();
    let values = model.network().values();
    let weights = &values[0].1;
    let mean = weights.iter().map(|&w| f64::from(w)).sum::<f64>() / weights.len() as f64;
    let square = weights.iter().map(|&w| f64::from(w).powi(2)).sum::<f64>() / weights.len() as f64;
    // 120,000 draws: the standard errors are 1.5e-4 and 1.0e-5.
    assert!(mean.abs() < 6e-4 && (square - 1.0 / 400.0).abs() < 5e-5, "{mean} {square}");
    let beyond = weights.iter().filter(|w| w.abs() > 0.1).count() as f64 / weights.len() as f64;
    assert!((beyond - 0.0455).abs() < 0.003, "beyond two deviations: {beyond}");
    assert!(values[1].1.iter().all(|&b| b == 0.0));
}

#[test]
fn sequential_models_are_built_and_checked() {
    let data = images(4, &[1, 6, 6], 3);
    let specs = crate::layers![
        Conv2dSpec::new(1, 4, 3).padding(1),
        GroupNormSpec::new(2, 4),
        Relu,
        ResidualSpec::new(crate::layers![
            Conv2dSpec::new(4, 4, 3).padding(1),
            DropoutSpec::new(0.1)
        ]),
        GlobalAvgPool,
        LinearSpec::new(4, 3),
    ];
    let model = models::sequential(&data, specs.clone()).seed(1).build().unwrap();
    assert_eq!(model.network().specs(), specs);
    assert_eq!(model.predict(&data).unwrap().len(), 4);
    let (_, text) = kind(models::sequential(&images(4, &[1, 6, 6], 5), specs).build());
    assert!(text.contains("3 outputs") && text.contains("5 classes"), "{text}");
    assert!(kind(models::sequential(&data, vec![]).build()).1.contains("no layers"));
}

#[test]
fn saved_nested_models_are_loaded_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let image_data = images(3, &[3, 8, 8], 10);
    let wide = models::wide_resnet(&image_data, 10, 1).gain(true).conv_bias(true);
    let text = tokens(vec![3.0, 1.0, 4.0, 1.0, 5.0]);
    for (model, data) in [
        (wide.seed(1).build().unwrap(), &image_data),
        (models::bilstm(&text, 6, 3, 4).seed(2).build().unwrap(), &text),
    ] {
        model.save(&path).unwrap();
        let back = models::load(&path).unwrap();
        assert_eq!(back.fingerprint(), model.fingerprint());
        assert_eq!(back.network().specs(), model.network().specs());
        assert_eq!(back.predict(data).unwrap(), model.predict(data).unwrap());
    }
}

#[test]
fn convolutions_of_file_format_1_are_read() {
    let spec: LayerSpec = serde_json::from_str(
        r#"{"kind":"conv2d","channels_in":1,"channels_out":2,"kernel":[3,3],"stride":[1,1],
            "padding":[0,0],"bias":true}"#,
    )
    .unwrap();
    assert_eq!(spec, Conv2dSpec::new(1, 2, 3).into());
}
