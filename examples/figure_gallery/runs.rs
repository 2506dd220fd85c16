//! Figures of training runs, on generated data.

use super::Chapter;
use epsilab::prelude::*;

pub const CHAPTER: Chapter = Chapter {
    title: "Training runs",
    source: include_str!("runs.rs"),
    figures: &[
        ("run", run),
        ("gradient_norms", gradient_norms),
        ("gradient_norm_histogram", gradient_norm_histogram),
        ("clipped_fractions", clipped_fractions),
    ],
};

/// Loss, accuracy and epsilon of a run; it is drawn live while the run trains. The loss has no
/// noise, so it is marked as not covered by the guarantee.
fn run() -> Result<()> {
    let digits = data::glyphs_with(2_000, 500, 1)?;
    let model = models::mlp(&digits, &[32]).seed(1).build()?;
    let method = DpSgd::new()
        .target(Epsilon(3.0), Delta(1e-5))
        .clip(0.5)
        .learning_rate(0.25)
        .batch_size(100)
        .epochs(6.0)
        .seed(1);
    method.train(&model, &digits)?.show();
    Ok(())
}

/// Norms of single examples' gradients along runs that measure them.
fn gradient_norms() -> Result<()> {
    let digits = data::glyphs_with(1_000, 100, 1)?;
    let model = models::mlp(&digits, &[32]).seed(1).build()?;
    let method = DpSgd::new().noise_multiplier(1.0).batch_size(50).epochs(3.0).seed(1);
    let flat = method.clone().clip(1.0).train(&model, &digits)?;
    let auto_s = method.clip_rule(ClipRule::auto_s(1.0)).train(&model, &digits)?;
    figures::gradient_norms(&[("flat clipping", &flat), ("AUTO-S", &auto_s)])?.show();
    Ok(())
}

/// Norms of single examples' gradients before clipping. Interactive: a slider moves the clip norm.
fn gradient_norm_histogram() -> Result<()> {
    let digits = data::glyphs_with(1_000, 100, 1)?;
    let model = models::mlp(&digits, &[32]).seed(1).build()?;
    lab::gradient_norms(&model, digits.train())?.with_clip(2.0).show();
    Ok(())
}

/// How many examples the clips of backpropagation clipping scale down.
fn clipped_fractions() -> Result<()> {
    let digits = data::glyphs_with(1_000, 100, 1)?;
    let model = models::papernot_cnn(&digits).seed(1).build()?;
    let method = BackpropClip::new()
        .input_clip(1.0)
        .gradient_clip(0.01)
        .target(Epsilon(3.0), Delta(1e-4))
        .batch_size(100)
        .epochs(1.0)
        .seed(1);
    method.train(&model, &digits)?.clipped_fractions(&digits)?.show();
    Ok(())
}
