//! Time of Synflow masks of deep networks, in seconds, on all cores.
//!
//! `cargo bench-masks [ROUNDS] [MODEL]`, by default 100 rounds of all models.

use std::time::Instant;

use epsilab::prelude::*;

fn main() -> Result<()> {
    // Cargo adds `--bench`.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let rounds = words.iter().find_map(|word| word.parse().ok()).unwrap_or(100);
    let only = words.iter().find(|word| word.parse::<usize>().is_err());
    let examples = data::from_vecs(vec![0.0; 10 * 3072], &[3, 32, 32], (0..10).collect(), 10)?;
    for (name, model) in [
        ("simple_vgg", models::simple_vgg(&examples, &[32, 64, 128], 2).seed(1).build()?),
        ("wide_resnet_16_4", models::wide_resnet(&examples, 16, 4).seed(1).build()?),
        ("resnet18", models::resnet18(&examples).seed(1).build()?),
        ("resnet50", models::resnet50(&examples).seed(1).build()?),
    ] {
        for rate in [0.9, 0.99] {
            if only.is_some_and(|only| only != name) {
                continue;
            }
            let start = Instant::now();
            let mask = Synflow::prune(rate).rounds(rounds).mask(&model)?;
            let seconds = start.elapsed().as_secs_f64();
            let fingerprint = &mask.fingerprint()[..12];
            println!("{name}, {rate} dropped, {rounds} rounds: {seconds:.2} s, mask {fingerprint}");
        }
    }
    Ok(())
}
