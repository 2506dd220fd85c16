//! SNIP and DP-SNIP on whole data sets: charged, released, compared.

use super::*;
use epsilab::data::ImageOptions;
use epsilab::engine::{AutoExecutor, Batch, ClipRule, Executor, Gradients, Weights};
use epsilab::mask::{DpSnip, Mask, PrivacyStatus, RandomMask, Snip};
use epsilab::privacy::{EntryKind, Ledger};
use std::fs;

const DELTA: Delta = Delta(1e-5);

fn ledger(data: &Dataset) -> Result<Ledger> {
    Ledger::open(&home().join("ledger").join(format!("{}.jsonl", data.origin())))
}

fn scores(mask: &Mask) -> Vec<f64> {
    let saliency = mask.saliency().expect("made by scores");
    saliency.tensors().iter().flat_map(|tensor| tensor.values.clone()).collect()
}

#[test]
fn a_mask_is_charged_and_says_where() -> Result<()> {
    let data = glyphs(200, 41);
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let recipe = DpSnip::keep(0.3).epsilon_delta(Epsilon(0.5), DELTA);
    let mask = recipe.mask(&model, &data)?;
    let [PrivacyStatus::Released { event, data: origin, run, assumed: None }] =
        &mask.origin().privacy[..]
    else {
        panic!("{mask}")
    };
    assert_eq!(origin, data.origin());
    assert_eq!(ledger(&data)?.runs()?, [(run.clone(), event.clone())]);
    let entries = ledger(&data)?.entries()?;
    assert!(matches!(&entries[0].entry, EntryKind::Planned { .. }));
    assert_eq!(entries[0].note, format!("DP-SNIP mask on {}", data.name()));
    let cost = privacy::Headline::default().epsilon(&ledger(&data)?.events()?, DELTA)?.epsilon;
    assert!(cost <= 0.5 && cost > 0.499, "{cost}");

    // Another size from the same release is free; another call is another release.
    let half = mask.saliency().unwrap().keep(0.5)?;
    assert_eq!(half.origin().privacy, mask.origin().privacy);
    assert_eq!(mask.intersect(&half)?.kept(), mask.kept());
    assert_eq!(ledger(&data)?.events()?.len(), 1);
    let again = recipe.mask(&model, &data)?;
    assert_eq!(ledger(&data)?.events()?.len(), 2);
    assert_ne!(scores(&mask), scores(&again), "two releases must not share their noise");
    assert!(mask.to_string().contains("released privately"), "{mask}");
    Ok(())
}

#[test]
fn study_mode_repeats_a_release_and_no_other() -> Result<()> {
    let data = glyphs(100, 42);
    let model = models::mlp(&data, &[16]).seed(1).build()?;
    let recipe = DpSnip::keep(0.5).noise_multiplier(30.0).seed(3);
    let mask = recipe.mask(&model, &data)?;
    assert_eq!(scores(&mask), scores(&recipe.mask(&model, &data)?));
    assert!(ledger(&data)?.entries()?[0].note.ends_with(", study mode"));
    assert_eq!(ledger(&data)?.events()?.len(), 1, "the same release is charged once");
    // With noise this large, releases that shared it would have nearly the same scores.
    let alike = |other: &Mask| {
        let (a, b) = (scores(&mask), scores(other));
        let product = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
        product(&a, &b) / (product(&a, &a) * product(&b, &b)).sqrt()
    };
    // Absolute values of independent noise: 2/pi.
    assert!(alike(&mask) > 0.999);
    let unseeded = models::mlp(&data, &[16]);
    let limited = data.limit(90, 10);
    assert_ne!(limited.hash(), data.hash());
    for (why, other) in [
        ("seed", recipe.seed(4).mask(&model, &data)?),
        ("noise", recipe.noise_multiplier(31.0).mask(&model, &data)?),
        ("clip", recipe.clip(0.19).mask(&model, &data)?),
        ("data", recipe.mask(&model, &limited)?),
        ("model", recipe.mask(&unseeded.clone().seed(2).build()?, &data)?),
    ] {
        assert!(alike(&other) < 0.7, "another {why}: {}", alike(&other));
    }
    // Fresh parameters that nobody chose have equal fingerprints, and still noise of their own.
    let [a, b] = [unseeded.clone().build()?, unseeded.build()?];
    let [a, b] = [recipe.mask(&a, &data)?, recipe.mask(&b, &data)?];
    let (a, b) = (scores(&a), scores(&b));
    let close = a.iter().zip(&b).filter(|(a, b)| (*a - *b).abs() < 0.1 * a.abs()).count();
    assert!(close < a.len() / 5, "{close} of {}", a.len());
    Ok(())
}

#[test]
fn what_the_ledger_refuses_is_not_released() -> Result<()> {
    let data = glyphs(100, 43);
    let model = models::mlp(&data, &[8]).seed(1).build()?;
    lab::budget(&data, Epsilon(1.0), DELTA)?;
    let recipe = DpSnip::keep(0.3).epsilon_delta(Epsilon(0.7), DELTA);
    recipe.mask(&model, &data)?;
    let error = recipe.mask(&model, &data).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ledger, "{error}");
    assert_eq!(ledger(&data)?.events()?.len(), 1);
    // What can't be is refused before it costs anything.
    let other = glyphs(100, 44);
    let wrong = data::from_vecs(vec![0.5; 8], &[4], vec![0, 1], 2)?;
    assert!(DpSnip::keep(0.3).mask(&model, &other).is_err(), "a share needs a run");
    assert!(recipe.mask(&model, &wrong).is_err());
    assert!(recipe.clip(0.0).mask(&model, &other).is_err());
    for data in [&other, &wrong] {
        assert!(ledger(data)?.entries()?.is_empty());
    }
    Ok(())
}

#[test]
fn the_charge_comes_before_the_release_and_stays() -> Result<()> {
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
    let recipe = DpSnip::keep(0.5).noise_multiplier(10.0);
    recipe.mask(&model, &data)?;
    fs::remove_dir_all(root.path().join("train/light")).expect("removed");
    assert!(recipe.mask(&model, &data).is_err());
    assert_eq!(ledger(&data)?.events()?, vec![Event::gaussian(10.0); 2]);
    Ok(())
}

/// A PNG image of one grey.
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
fn plain_snip_says_that_it_is_not_private() -> Result<()> {
    let data = glyphs(100, 45);
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let mask = Snip::prune(0.7).mask(&model, &data)?;
    assert!(matches!(&mask.origin().privacy[..], [PrivacyStatus::NotPrivate(_)]), "{mask}");
    assert_eq!(mask, Snip::prune(0.7).mask(&model, &data)?);
    // Not a matter of chance: far from a random mask, whose overlap is .3 / 1.7.
    let random = RandomMask::prune(0.7).seed(1).mask(&model)?;
    assert!((mask.jaccard(&random)? - 0.3 / 1.7).abs() < 0.02);
    // Nearly without noise and clipping, DP-SNIP is SNIP.
    let close = DpSnip::prune(0.7).clip(10.0).noise_multiplier(1e-7).mask(&model, &data)?;
    assert!(close.jaccard(&mask)? > 0.999, "{}", close.jaccard(&mask)?);
    Ok(())
}

/// The norms of single examples' sensitivities, in ascending order.
fn norms(model: &Model, examples: &Examples) -> Result<Vec<f32>> {
    let network = model.network();
    let mut squares = Gradients::zeros_like(network);
    for (entry, (_, values)) in squares.entries.iter_mut().zip(network.values()) {
        if entry.shape.len() >= 2 {
            entry.values = values.iter().map(|v| v * v).collect();
        }
    }
    let squares = Weights::new(network, squares)?;
    let ids: Vec<u32> = (0..examples.len() as u32).collect();
    let (batch, rule) = (Batch::of(examples, &ids)?, ClipRule::unclipped());
    let all = AutoExecutor::default().weighted_sum(network, &batch, &rule, Some(&squares))?;
    let mut norms = all.norms.to_vec();
    norms.sort_by(f32::total_cmp);
    Ok(norms)
}

#[test]
fn the_usual_clip_is_just_above_the_typical_norm() -> Result<()> {
    let data = glyphs(500, 46);
    let norms = norms(&models::papernot_cnn(&data).seed(1).build()?, data.train())?;
    let at = |share: f64| norms[((norms.len() - 1) as f64 * share) as usize];
    println!("norms: 5 % {:.3}, median {:.3}, 95 % {:.3}", at(0.05), at(0.5), at(0.95));
    assert!(DpSnip::keep(0.3).to_string().ends_with("clip 0.2"));
    assert!(at(0.5) < 0.2 && 0.2 < 2.0 * at(0.5) && at(0.95) < 0.3);
    Ok(())
}

/// Overlap with SNIP's mask at these epsilons and without noise, for one clip norm.
fn overlaps(model: &Model, data: &Dataset, clip: f64) -> Result<Vec<f64>> {
    let open = Snip::prune(0.7).mask(model, data)?;
    let recipe = DpSnip::prune(0.7).clip(clip).seed(5);
    let recipes = [0.1, 0.3, 1.0, 3.0, 10.0].map(|e| recipe.epsilon_delta(Epsilon(e), DELTA));
    let noiseless = recipe.noise_multiplier(1e-6);
    let all = recipes.iter().chain([&noiseless]);
    all.map(|recipe| recipe.mask(model, data)?.jaccard(&open)).collect()
}

#[test]
fn on_mnist_the_mask_comes_closer_to_snip_with_more_epsilon() -> Result<()> {
    let Some(folder) = shared::path("datasets/mnist") else { return Ok(()) };
    home();
    let data = data::mnist_in(folder)?.limit(10_000, 100);
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let chance = 0.3 / 1.7;
    let usual = overlaps(&model, &data, 0.2)?;
    let loose = overlaps(&model, &data, 1.0)?;
    println!(
        "Jaccard with SNIP, epsilon .1 .3 1 3 10 inf: clip .2 {usual:.3?}, clip 1 {loose:.3?}"
    );
    assert!(usual.is_sorted(), "{usual:?}");
    assert!(usual[0] < chance + 0.03, "at epsilon .1 it is chance: {usual:?}");
    assert!(usual[4] > 0.75 && usual[5] > 0.9, "{usual:?}");
    // A clip five times the norms costs a factor of five in noise.
    assert!(loose[5] > 0.99 && (2..5).all(|i| loose[i] < usual[i] - 0.1), "{loose:?}");
    Ok(())
}
