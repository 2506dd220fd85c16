//! Figures of masks and of gradient dropping.

use super::Chapter;
use epsilab::prelude::*;

pub const CHAPTER: Chapter = Chapter {
    title: "Masks and sparsity",
    source: include_str!("masks.rs"),
    figures: &[
        ("saliency", saliency),
        ("kept", kept),
        ("tiles", tiles),
        ("overlap", overlap),
        ("overlap_over_epsilon", overlap_over_epsilon),
        ("selection_log", selection_log),
        ("signal_and_noise", signal_and_noise),
    ],
};

/// Scores of all weights and what a mask keeps. Interactive: a slider moves the threshold.
fn saliency() -> Result<()> {
    let digits = data::glyphs_with(2, 0, 1)?;
    let model = models::papernot_cnn(&digits).seed(1).build()?;
    Synflow::keep(0.3).mask(&model)?.show();
    Ok(())
}

/// What a mask keeps in each tensor.
fn kept() -> Result<()> {
    let digits = data::glyphs_with(2, 0, 1)?;
    let model = models::papernot_cnn(&digits).seed(1).build()?;
    figures::kept(&Synflow::keep(0.3).mask(&model)?).show();
    Ok(())
}

/// The weights that a mask keeps, at their places.
fn tiles() -> Result<()> {
    let digits = data::glyphs_with(2, 0, 1)?;
    let model = models::papernot_cnn(&digits).seed(1).build()?;
    figures::tiles(&Synflow::keep(0.3).mask(&model)?, &model)?.show();
    Ok(())
}

/// How much masks agree, beside the agreement by chance.
fn overlap() -> Result<()> {
    let digits = data::glyphs_with(200, 0, 1)?;
    let model = models::papernot_cnn(&digits).seed(1).build()?;
    figures::overlap(&[
        ("random", RandomMask::keep(0.3).seed(1).mask(&model)?),
        ("magnitude", MagnitudeMask::keep(0.3).mask(&model)?),
        ("Synflow", Synflow::keep(0.3).mask(&model)?),
        ("SNIP", Snip::keep(0.3).mask(&model, &digits)?),
    ])?
    .show();
    Ok(())
}

/// How much of SNIP's mask a private release finds, over the epsilon that it costs.
fn overlap_over_epsilon() -> Result<()> {
    let digits = data::glyphs_with(1_000, 0, 1)?;
    let model = models::papernot_cnn(&digits).seed(1).build()?;
    let snip = Snip::keep(0.3).mask(&model, &digits)?;
    let mut points = Vec::new();
    for epsilon in [0.3, 1.0, 3.0, 10.0] {
        let private = DpSnip::keep(0.3).epsilon_delta(Epsilon(epsilon), Delta(1e-5)).seed(1);
        points.push((epsilon, private.mask(&model, &digits)?.jaccard(&snip)?));
    }
    figures::overlap_over_epsilon(&points, figures::chance_overlap(0.3, 0.3)).show();
    Ok(())
}

/// Which coordinates the steps of a run selected.
fn selection_log() -> Result<()> {
    let digits = data::glyphs_with(1_000, 100, 1)?;
    let model = models::mlp(&digits, &[32]).seed(1).build()?;
    let method = DpSsgd::new()
        .noise_multiplier(1.0)
        .drop_gradients(Dropping::magnitude(0.5))
        .batch_size(50)
        .epochs(2.0)
        .seed(1);
    method.train(&model, &digits)?.selections()?.show();
    Ok(())
}

/// Norms of the clipped gradient and of its noise, with all coordinates and with selected ones.
fn signal_and_noise() -> Result<()> {
    let digits = data::glyphs_with(1_000, 0, 1)?;
    let model = models::papernot_cnn(&digits).seed(1).build()?;
    let method = DpSsgd::new()
        .noise_multiplier(1.0)
        .pre_prune(Synflow::keep(0.5))
        .drop_gradients(Dropping::random(0.5))
        .batch_size(100)
        .epochs(1.0)
        .seed(1);
    method.signal_and_noise(&model, &digits)?.show();
    Ok(())
}
