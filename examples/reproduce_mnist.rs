//! MNIST at epsilon = 3: the figures in book/src/evidence/measurements.md.
//!
//! `EPSILAB_DATA=… cargo run --example reproduce_mnist -- [SEEDS] [EPOCHS]`

use epsilab::prelude::*;

fn main() -> Result<()> {
    let mut numbers = std::env::args().skip(1).filter_map(|arg| arg.parse::<u64>().ok());
    let seeds = numbers.next().unwrap_or(3);
    let epochs = numbers.next().unwrap_or(30) as f64;
    let data = data::mnist()?;
    let mut private = Vec::new();
    for seed in 1..=seeds {
        let model = models::papernot_cnn(&data).seed(seed).build()?;
        let run = DpSgd::new()
            .noise_multiplier(1.72)
            .delta(Delta(1e-5))
            .clip(0.1)
            .learning_rate(4.0)
            .batch_size(2048)
            .epochs(epochs)
            .seed(seed)
            .fresh()
            .train(&model, &data)?;
        println!("seed {seed}: {run}, {:.0} s", run.record().seconds);
        private.push(run.accuracy());
    }
    let mean = private.iter().sum::<f64>() / private.len() as f64;
    println!("private, mean of {seeds} seeds: {:.2} %", 100.0 * mean);
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let run = NonPrivate::new().batch_size(256).epochs(5.0).seed(1).fresh().train(&model, &data)?;
    println!("without privacy: {run}, {:.0} s", run.record().seconds);
    Ok(())
}
