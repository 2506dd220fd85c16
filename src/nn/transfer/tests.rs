use crate::data::{self, Dataset};
use crate::layers;
use crate::nn::{Initialisation, LayerClips, Model, Provenance, Relu, models};
use crate::{ErrorKind, Result};

fn images(shape: &[usize], classes: usize) -> Dataset {
    let size: usize = shape.iter().product();
    let features = (0..2 * size).map(|i| (i % 7) as f32 / 7.0).collect();
    data::from_vecs(features, shape, vec![0, 1], classes).unwrap()
}

fn values(model: &Model) -> Vec<(String, Vec<f32>)> {
    model.network().values().into_iter().map(|(p, values)| (p.path, values)).collect()
}

#[test]
fn everything_but_the_head_is_kept() -> Result<()> {
    let (before, after) = (images(&[3, 32, 32], 10), images(&[3, 32, 32], 4));
    let zoo = [
        models::wide_resnet(&before, 10, 1).seed(1).build()?,
        models::resnet18(&before).seed(1).build()?,
        models::simple_vgg(&before, &[4, 8], 1).seed(1).build()?,
    ];
    for model in zoo {
        let moved = model.transfer(&after).seed(2).build()?;
        assert_eq!((moved.classes(), moved.name()), (4, model.name()));
        let (old, new) = (values(&model), values(&moved));
        assert_eq!(old.len(), new.len());
        let (body, head) = new.split_at(new.len() - 2);
        assert_eq!(body, &old[..body.len()], "{model}");
        assert!(head[0].1.len() < old[body.len()].1.len());
        assert!(head.iter().all(|(_, values)| values.iter().any(|v| *v != 0.0)));
        assert_eq!(model.transfer(&after).seed(2).build()?.fingerprint(), moved.fingerprint());
        assert_ne!(model.transfer(&after).seed(3).build()?.fingerprint(), moved.fingerprint());
        let zero = values(&model.transfer(&after).zero_head().build()?);
        assert!(zero[body.len()..].iter().all(|(_, values)| values.iter().all(|v| *v == 0.0)));
    }
    Ok(())
}

#[test]
fn a_network_that_averages_over_the_image_takes_other_sizes() -> Result<()> {
    let model = models::wide_resnet(&images(&[3, 32, 32], 10), 10, 1).seed(1).build()?;
    let smaller = images(&[3, 24, 24], 3);
    let moved = model.transfer(&smaller).build()?;
    assert_eq!(moved.input_shape(), [3, 24, 24]);
    assert!(moved.loss(smaller.train())?.is_finite());
    Ok(())
}

#[test]
fn clips_stay_around_the_new_head() -> Result<()> {
    let (before, after) = (images(&[1, 28, 28], 10), images(&[1, 28, 28], 3));
    let model = models::stevens_mnist_cnn(&before).seed(1).build()?;
    let clipped = model.network().with_backprop_clips(&LayerClips::new(1.0, 0.1), &[])?;
    let moved = model.with_network(clipped).transfer(&after).build()?;
    assert_eq!(moved.network().clipped_layers().len(), 4);
    assert_eq!(moved.network().outputs(), 3);
    Ok(())
}

#[test]
fn data_that_do_not_fit_the_model_are_refused_with_a_reason() -> Result<()> {
    let model = models::papernot_cnn(&images(&[1, 28, 28], 10)).seed(1).build()?;
    let refused = |data: &Dataset, words: &[&str]| {
        let error = model.transfer(data).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Model);
        words.iter().for_each(|word| assert!(error.to_string().contains(word), "{error}"));
    };
    refused(&images(&[3, 28, 28], 10), &["[1, 28, 28]", "[3, 28, 28]"]);
    refused(&images(&[1, 32, 32], 10), &["[1, 32, 32]", "Linear"]);
    let flat = images(&[4], 2);
    let headless = models::sequential(&flat, layers![crate::nn::LinearSpec::new(4, 2), Relu]);
    let error = headless.seed(1).build()?.transfer(&flat).build().unwrap_err();
    assert!(error.to_string().contains("no head to replace"), "{error}");
    Ok(())
}

#[test]
fn provenance_follows_the_data() -> Result<()> {
    let glyphs = data::glyphs_with(40, 0, 3)?;
    let private = images(&[1, 28, 28], 10);
    let other = data::from_vecs(vec![0.25; 2 * 784], &[1, 28, 28], vec![0, 1], 10)?;
    let fresh = models::papernot_cnn(&glyphs).seed(1).build()?;
    let names = |provenance: &Provenance| {
        provenance.public_data().map(|all| all.iter().map(|d| d.to_string()).collect::<Vec<_>>())
    };
    assert_eq!(fresh.transfer(&private).build()?.provenance(), fresh.provenance());
    let on = |model: &Model, data: &Dataset| {
        let trained = model.provenance().after_non_private_training(data);
        model.with_network(model.network().clone()).with_provenance(trained)
    };
    let drawn = on(&fresh, &glyphs);
    assert!(drawn.provenance().is_data_free());
    let declared = on(&drawn, &private.assumed_public());
    assert!(!declared.provenance().is_data_free());
    let both = ["glyphs (drawn by code)", "table (assumed public)"].map(String::from);
    assert_eq!(names(declared.provenance()), Some(both.to_vec()));
    // Training once more on them adds nothing; private data make it unknown for good.
    assert_eq!(on(&declared, &glyphs).provenance(), declared.provenance());
    let unknown = on(&declared, &other);
    assert_eq!(unknown.provenance().public_data(), None);
    assert_eq!(on(&unknown, &glyphs).provenance().public_data(), None);
    // What they were trained on without counting is not forgotten.
    for raw in [&glyphs, &private, &other] {
        assert!(unknown.provenance().was_trained_non_privately_on(raw));
        assert!(
            unknown
                .provenance()
                .after_unattributed_training()
                .was_trained_non_privately_on(&raw.limit(1, 0))
        );
        assert!(!fresh.provenance().was_trained_non_privately_on(raw));
    }
    assert!(!declared.provenance().was_trained_non_privately_on(&other));
    assert_eq!(unknown.assumed_public("ImageNet-21k").provenance().public_data(), None);
    // A copy is not another model.
    for raw in [&declared, &unknown] {
        let copy = raw.with_network(raw.network().clone());
        assert!(copy.provenance().was_trained_non_privately_on(&private));
        assert_eq!(copy.assumed_public("ImageNet-21k").provenance().public_data(), None);
    }
    let unknown = fresh.with_network(fresh.network().clone());
    let named = unknown.assumed_public("ImageNet-21k");
    assert_eq!(names(named.provenance()), Some(vec!["ImageNet-21k (assumed public)".into()]));
    // Parts of public data are public.
    assert!(glyphs.split(0.5, 1)?.limit(10, 5).public().is_some_and(|data| data.drawn_by_code));
    assert!(private.public().is_none());
    // Data that were prepared from private examples are not, whoever drew them.
    assert!(glyphs.prepared_from_private_examples("scaled by a maximum").public().is_none());
    Ok(())
}

#[test]
fn a_file_keeps_the_names_and_proves_nothing() -> Result<()> {
    let glyphs = data::glyphs_with(40, 0, 3)?;
    let model = models::linear(&glyphs).seed(1).initialisation(Initialisation::HeNormal).build()?;
    let path = tempfile::tempdir().unwrap().keep().join("model.safetensors");
    let trained = model.with_provenance(model.provenance().after_non_private_training(&glyphs));
    trained.save(&path)?;
    let read = models::load(&path)?;
    let [data] = read.provenance().public_data().unwrap() else { panic!("{read:?}") };
    assert!(data.name.starts_with("glyphs") && !data.drawn_by_code, "{data}");
    assert_eq!(model.load_parameters(&path)?.provenance(), read.provenance());
    model.save(&path)?;
    assert_eq!(models::load(&path)?.provenance(), &Provenance::UNKNOWN);
    // An empty list claims nothing, and a name is one short line.
    trained.with_provenance(Provenance::Public(Vec::new())).save(&path)?;
    assert_eq!(models::load(&path)?.provenance(), &Provenance::UNKNOWN);
    let forged = format!("x\nguarantee: proved {}", "y".repeat(300));
    let forged = models::load(&path)?.assumed_public(&forged);
    forged.save(&path)?;
    let read = models::load(&path)?;
    let [data] = read.provenance().public_data().unwrap() else { panic!("{read:?}") };
    assert!(data.name.len() == 100 && !data.name.contains('\n'), "{data}");
    assert_eq!(
        models::load(&path)?.assumed_public(" \t").provenance().public_data().unwrap().len(),
        2
    );
    Ok(())
}
