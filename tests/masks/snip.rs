//! SNIP and DP-SNIP on whole data sets.

use super::*;
use epsilab::engine::{Batch, Best, ClipRule, Gradients, PerExample, Weights};

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
    let batch = Batch::of(examples, &ids)?;
    let rule = ClipRule::unclipped();
    let mut norms = Best::default().weighted_sum(network, &batch, &rule, Some(&squares))?.norms;
    norms.sort_by(f32::total_cmp);
    Ok(norms)
}

#[test]
fn measure() -> Result<()> {
    let print = |name: &str, model: &Model, examples: &Examples| -> Result<()> {
        let norms = norms(model, examples)?;
        let at = |q: f64| norms[((norms.len() - 1) as f64 * q) as usize];
        println!(
            "{name}: 5% {:.3} median {:.3} 95% {:.3} max {:.3}",
            at(0.05),
            at(0.5),
            at(0.95),
            at(1.0)
        );
        Ok(())
    };
    let data = glyphs(2000, 1);
    for seed in 1..4 {
        print("glyphs papernot", &models::papernot_cnn(&data).seed(seed).build()?, data.train())?;
    }
    print("glyphs mlp 64", &models::mlp(&data, &[64]).seed(1).build()?, data.train())?;
    let Some(folder) = shared("datasets/mnist") else { return Ok(()) };
    let data = data::mnist_in(folder)?.limit(10_000, 100);
    for seed in 1..4 {
        print("mnist papernot", &models::papernot_cnn(&data).seed(seed).build()?, data.train())?;
    }
    print("mnist mlp 64", &models::mlp(&data, &[64]).seed(1).build()?, data.train())?;
    let delta = Delta(1e-5);
    for n in [10_000, 60_000] {
        let data = data::mnist_in(shared("datasets/mnist").unwrap())?.limit(n, 100);
        for seed in [1, 2] {
            let model = models::papernot_cnn(&data).seed(seed).build()?;
            let open = epsilab::mask::Snip::prune(0.7).mask(&model, &data)?;
            let random = epsilab::mask::RandomMask::prune(0.7).seed(1).mask(&model)?;
            println!("n {n} seed {seed} random {:.3}", open.jaccard(&random)?);
            for clip in [0.03, 0.1, 0.2, 0.3, 0.5, 1.0, 3.0] {
                let mut line = format!("clip {clip}:");
                for epsilon in [0.1, 0.3, 1.0, 3.0, 10.0] {
                    let mask = epsilab::mask::DpSnip::prune(0.7)
                        .clip(clip)
                        .seed(5)
                        .epsilon_delta(Epsilon(epsilon), delta)
                        .mask(&model, &data)?;
                    line += &format!(" {:.3}", open.jaccard(&mask)?);
                }
                let mask = epsilab::mask::DpSnip::prune(0.7)
                    .clip(clip)
                    .seed(5)
                    .noise_multiplier(1e-6)
                    .mask(&model, &data)?;
                println!("{line} inf {:.3}", open.jaccard(&mask)?);
            }
        }
    }
    Ok(())
}
