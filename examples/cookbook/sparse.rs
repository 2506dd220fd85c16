use super::Chapter;
use epsilab::prelude::*;

pub const CHAPTER: Chapter = Chapter {
    title: "Masks and gradient dropping",
    source: include_str!("sparse.rs"),
    answers: &[
        ("... train with a mask and gradient dropping?", "sparse"),
        ("... see saliencies and what a mask keeps?", "saliencies"),
        ("... choose a mask by private data?", "private_mask"),
        ("... compare two masks?", "overlap"),
        ("... see which coordinates were trained?", "log"),
    ],
};

/// Clipping and noise are those of the coordinates that are left.
fn sparse(model: Model, data: Dataset) -> Result<()> {
    let mask = Synflow::keep(0.3).mask(&model)?; // data-free: costs nothing
    let method = DpSsgd::new().target(Epsilon(3.0), Delta(1e-5)).clip(0.1).epochs(5);
    let run = method.pre_prune(&mask).drop_gradients(Dropping::random(0.5)).train(&model, &data)?;
    println!("{run}");
    Ok(())
}

/// A slider moves the threshold in JupyterLab and VS Code.
fn saliencies(model: Model) -> Result<()> {
    let mask = Synflow::keep(0.3).mask(&model)?;
    mask.show();
    figures::kept(&mask).show();
    figures::tiles(&mask, &model)?.show();
    Ok(())
}

/// DP-SNIP: one noisy release, charged to the ledger before it is made.
fn private_mask(model: Model, data: Dataset) -> Result<()> {
    let mask = DpSnip::keep(0.3).epsilon_delta(Epsilon(0.5), Delta(1e-6)).mask(&model, &data)?;
    mask.show();
    Ok(())
}

/// The overlap that two random masks of these sizes would have stands beside it.
fn overlap(model: Model) -> Result<()> {
    let synflow = Synflow::keep(0.3).mask(&model)?;
    let random = RandomMask::keep(0.3).seed(1).mask(&model)?;
    figures::overlap(&[("Synflow", &synflow), ("random", &random)])?.show();
    Ok(())
}

/// Recorded by every run that drops gradients.
fn log(run: Run) -> Result<()> {
    run.selections()?.show();
    Ok(())
}
