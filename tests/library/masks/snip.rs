//! SNIP and DP-SNIP on whole data sets: charges, releases and agreement of masks.

use super::*;
use epsilab::data::ImageOptions;
use epsilab::engine::{AutoExecutor, Batch, ClipRule, CoordinateWeights, Executor, Gradients};
use epsilab::lab::open_ledger;
use epsilab::mask::{DpSnip, Mask, PrivacyStatus, RandomMask, Saliency, Snip};
use epsilab::privacy::{EntryContent, Ledger};
use std::fs;

use crate::support::process;

const DELTA: Delta = Delta(1e-5);

fn ledger(data: &Dataset) -> Result<Ledger> {
    open_ledger(&home().join("ledger").join(format!("{}.jsonl", data.origin())))
}

fn scores(mask: &Mask) -> Vec<f64> {
    let saliency = mask.saliency().expect("a mask made from scores");
    saliency.tensors().iter().flat_map(|tensor| tensor.values.clone()).collect()
}

#[test]
fn a_released_mask_is_charged_and_names_its_ledger_entry() -> Result<()> {
    let data = glyphs(200, 41);
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let method = DpSnip::keep(0.3).epsilon_delta(Epsilon(0.5), DELTA);
    let mask = method.mask(&model, &data)?;
    let [PrivacyStatus::Released { event, data: origin, run, assumed: None }] =
        &mask.origin().privacy[..]
    else {
        panic!("{mask}")
    };
    assert_eq!(origin, data.origin());
    assert_eq!(ledger(&data)?.runs()?, [(run.clone(), event.clone())]);
    let entries = ledger(&data)?.entries()?;
    assert!(matches!(&entries[0].content, EntryContent::Planned { .. }));
    assert_eq!(entries[0].note, format!("DP-SNIP mask on {}", data.name()));
    let cost =
        privacy::TightestAccountant::default().epsilon(&ledger(&data)?.events()?, DELTA)?.epsilon;
    assert!(cost <= 0.5 && cost > 0.499, "{cost}");

    // Another rate from the same release costs nothing; another call is another release.
    let half = mask.saliency().unwrap().keep(0.5)?;
    assert_eq!(half.origin().privacy, mask.origin().privacy);
    assert_eq!(mask.intersect(&half)?.kept_count(), mask.kept_count());
    assert_eq!(ledger(&data)?.events()?.len(), 1);
    let again = method.mask(&model, &data)?;
    assert_eq!(ledger(&data)?.events()?.len(), 2);
    assert_ne!(scores(&mask), scores(&again), "two releases must not share their noise");
    assert!(mask.to_string().contains("released privately"), "{mask}");
    Ok(())
}

#[test]
fn a_seed_repeats_a_release_and_no_other() -> Result<()> {
    let data = glyphs(100, 42);
    let model = models::mlp(&data, &[16]).seed(1).build()?;
    let method = DpSnip::keep(0.5).noise_multiplier(30.0).seed(3);
    let mask = method.mask(&model, &data)?;
    assert_eq!(scores(&mask), scores(&method.mask(&model, &data)?));
    assert!(ledger(&data)?.entries()?[0].note.ends_with(", study mode"));
    assert_eq!(ledger(&data)?.events()?.len(), 1, "the same release is charged once");
    // The noise dominates, so releases with the same noise have nearly equal scores.
    let similarity = |other: &Mask| {
        let (a, b) = (scores(&mask), scores(other));
        let product = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
        product(&a, &b) / (product(&a, &a) * product(&b, &b)).sqrt()
    };
    // For independent noise, the cosine similarity of absolute values is 2/π.
    assert!(similarity(&mask) > 0.999);
    let unseeded = models::mlp(&data, &[16]);
    let limited = data.limit(90, 10);
    assert_ne!(limited.hash(), data.hash());
    for (why, other) in [
        ("seed", method.seed(4).mask(&model, &data)?),
        ("noise", method.noise_multiplier(31.0).mask(&model, &data)?),
        ("clip", method.clip(0.19).mask(&model, &data)?),
        ("data", method.mask(&model, &limited)?),
        ("model", method.mask(&unseeded.clone().seed(2).build()?, &data)?),
    ] {
        assert!(similarity(&other) < 0.7, "another {why}: {}", similarity(&other));
    }
    // Unseeded models have equal fingerprints, but their releases have independent noise.
    let [a, b] = [unseeded.clone().build()?, unseeded.build()?];
    let [a, b] = [method.mask(&a, &data)?, method.mask(&b, &data)?];
    let (a, b) = (scores(&a), scores(&b));
    let close = a.iter().zip(&b).filter(|(a, b)| (*a - *b).abs() < 0.1 * a.abs()).count();
    assert!(close < a.len() / 5, "{close} of {}", a.len());
    Ok(())
}

#[test]
fn a_release_beyond_the_budget_is_refused() -> Result<()> {
    if process::alone(this_test!()) {
        return Ok(());
    }
    let data = glyphs(100, 43);
    let model = models::mlp(&data, &[8]).seed(1).build()?;
    lab::budget(&data, Epsilon(1.0), DELTA)?;
    let method = DpSnip::keep(0.3).epsilon_delta(Epsilon(0.7), DELTA);
    method.mask(&model, &data)?;
    let error = method.mask(&model, &data).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ledger, "{error}");
    assert_eq!(ledger(&data)?.events()?.len(), 1);
    // Invalid settings are refused before anything is charged.
    let other = glyphs(100, 44);
    let wrong = data::from_vecs(vec![0.5; 8], &[4], vec![0, 1], 2)?;
    assert!(DpSnip::keep(0.3).mask(&model, &other).is_err(), "a budget fraction needs a run");
    assert!(method.mask(&model, &wrong).is_err());
    assert!(method.clip(0.0).mask(&model, &other).is_err());
    for data in [&other, &wrong] {
        assert!(ledger(data)?.entries()?.is_empty());
    }
    Ok(())
}

#[test]
fn a_mask_of_files_that_broke_is_charged_and_made_of_the_others() -> Result<()> {
    home();
    let root = tempfile::tempdir().expect("a temporary folder");
    for part in ["train", "test"] {
        for (class, value) in [("dark", 10), ("light", 180)] {
            let folder = root.path().join(part).join(class);
            fs::create_dir_all(&folder).expect("a folder");
            (0..5).for_each(|i| {
                fs::write(folder.join(format!("{i}.png")), flat(value + i)).expect("an image")
            });
        }
    }
    let data = data::image_folder(root.path(), &ImageOptions::size(4).grey())?;
    let model = models::mlp(&data, &[8]).seed(1).build()?;
    let method = DpSnip::keep(0.5).noise_multiplier(10.0);
    method.mask(&model, &data)?;
    let (snip, whole) = (Snip::keep(0.5), Snip::keep(0.5).saliency(&model, data.train())?);
    let dark = data.in_memory()?.train().take(5);
    fs::remove_dir_all(root.path().join("train/light")).expect("removed");
    method.mask(&model, &data)?;
    assert_eq!(ledger(&data)?.events()?, vec![Event::gaussian(10.0); 2]);
    // Without noise it can be seen: scores are means over all 10 examples.
    let (broken, dark) = (snip.saliency(&model, data.train())?, snip.saliency(&model, &dark)?);
    let values = |saliency: &Saliency| -> Vec<f64> {
        saliency.tensors().iter().flat_map(|scores| scores.values.clone()).collect()
    };
    let (broken, dark, whole) = (values(&broken), values(&dark), values(&whole));
    assert!(broken.iter().zip(&dark).all(|(a, b)| (a - b / 2.0).abs() <= 1e-6 * b), "the others");
    assert_ne!(broken, whole);
    Ok(())
}

/// A PNG image of a single grey value.
fn flat(value: u8) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, 4, 4);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().expect("a header");
    writer.write_image_data(&[value; 16]).expect("pixels");
    drop(writer);
    out
}

#[test]
fn snip_is_marked_as_not_private() -> Result<()> {
    let data = glyphs(100, 45);
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let mask = Snip::prune(0.7).mask(&model, &data)?;
    assert!(matches!(&mask.origin().privacy[..], [PrivacyStatus::NotPrivate(_)]), "{mask}");
    assert_eq!(mask, Snip::prune(0.7).mask(&model, &data)?);
    // The Jaccard index with a random mask is that of independent masks, 0.3 / 1.7.
    let random = RandomMask::prune(0.7).seed(1).mask(&model)?;
    assert!((mask.jaccard(&random)? - 0.3 / 1.7).abs() < 0.02);
    // With almost no noise and clipping, DP-SNIP agrees with SNIP.
    let close = DpSnip::prune(0.7).clip(10.0).noise_multiplier(1e-7).mask(&model, &data)?;
    assert!(close.jaccard(&mask)? > 0.999, "{}", close.jaccard(&mask)?);
    Ok(())
}

/// The norms of per-example sensitivities, in ascending order.
fn norms(model: &Model, examples: &Examples) -> Result<Vec<f32>> {
    let network = model.network();
    let mut squares = Gradients::zeros_like(network);
    for (entry, (_, values)) in squares.entries.iter_mut().zip(network.values()) {
        if entry.shape.len() >= 2 {
            entry.values = values.iter().map(|v| v * v).collect();
        }
    }
    let squares = CoordinateWeights::new(network, squares)?;
    let indices: Vec<u32> = (0..examples.len() as u32).collect();
    let (batch, rule) = (Batch::from_examples(examples, &indices)?, ClipRule::unclipped());
    let sum = AutoExecutor::default().weighted_sum(network, &batch, &rule, Some(&squares))?;
    let mut norms = sum.norms.to_vec();
    norms.sort_by(f32::total_cmp);
    Ok(norms)
}

#[test]
fn the_default_clip_is_just_above_the_typical_norm() -> Result<()> {
    let data = glyphs(500, 46);
    let norms = norms(&models::papernot_cnn(&data).seed(1).build()?, data.train())?;
    let quantile = |p: f64| norms[((norms.len() - 1) as f64 * p) as usize];
    println!(
        "norms: 5 % {:.3}, median {:.3}, 95 % {:.3}",
        quantile(0.05),
        quantile(0.5),
        quantile(0.95)
    );
    assert!(DpSnip::keep(0.3).to_string().ends_with("clip 0.2"));
    assert!(quantile(0.5) < 0.2 && 0.2 < 2.0 * quantile(0.5) && quantile(0.95) < 0.3);
    Ok(())
}
