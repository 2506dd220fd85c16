//! How much of SNIP's mask a private release finds, against the epsilon it costs.
//!
//! `cargo run --example mask_quality -- OUT.svg` on MNIST if its files are here, else on glyphs.
//! It makes 30 noisy releases, charged to the ledger of the data like any other: for a look around
//! set `EPSILAB_HOME` to an empty folder first.

use epsilab::prelude::*;

const KEEP: f64 = 0.3;
const SEEDS: u64 = 5;

fn main() -> Result<()> {
    let data = data::mnist_or_glyphs()?;
    let model = models::papernot_cnn(&data).seed(7).build()?;
    let snip = Snip::keep(KEEP).mask(&model, &data)?;
    let chance = figures::chance_overlap(KEEP, KEEP);
    println!("{}: Jaccard overlap with SNIP, {} kept, chance {chance:.3}", data.name(), KEEP);
    let mut points = Vec::new();
    for epsilon in [0.03, 0.1, 0.3, 1.0, 3.0, 10.0] {
        let mut overlaps = Vec::new();
        for seed in 0..SEEDS {
            let recipe = DpSnip::keep(KEEP).epsilon_delta(Epsilon(epsilon), Delta(1e-5));
            overlaps.push(recipe.seed(seed).mask(&model, &data)?.jaccard(&snip)?);
        }
        let mean = overlaps.iter().sum::<f64>() / SEEDS as f64;
        let spread = overlaps.iter().map(|o| (o - mean).powi(2)).sum::<f64>() / (SEEDS - 1) as f64;
        println!("epsilon {epsilon:5}: {mean:.3} (standard deviation {:.3})", spread.sqrt());
        points.push((epsilon, mean));
    }
    let figure = figures::overlap_over_epsilon(&points, chance);
    match std::env::args().nth(1) {
        Some(path) => std::fs::write(&path, figure.svg())
            .map_err(|e| Error::io(format!("writing {path}"), &e))?,
        None => figure.show(),
    }
    let random = RandomMask::keep(KEEP).seed(1).mask(&model)?;
    let masks = [
        ("random".to_owned(), random),
        ("magnitude".to_owned(), MagnitudeMask::keep(KEEP).mask(&model)?),
        ("Synflow".to_owned(), Synflow::keep(KEEP).mask(&model)?),
        ("SNIP".to_owned(), snip),
    ];
    println!("{}", figures::overlap(&masks)?);
    Ok(())
}
