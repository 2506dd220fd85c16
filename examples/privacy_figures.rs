//! The figures about privacy as files: `cargo run --example privacy_figures -- a-folder`.
//!
//! Nothing is trained and no data is read: everything follows from the settings of a run.

use epsilab::prelude::*;
use epsilab::privacy::SamplingRate;
use std::path::{Path, PathBuf};

fn main() -> Result<()> {
    let folder = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("figures"), PathBuf::from);
    write(&folder, "", Vec::new())?;
    let (examples, delta) = (60_000, Delta(1e-5));
    let noise = NoiseMultiplier(1.0);
    let sampling_rate = 0.01;
    let training = [Event::PoissonGaussian { sampling_rate, noise_multiplier: 1.0, steps: 1000 }];
    let releases = [Event::Gaussian { noise_multiplier: 4.0, count: 10 }];

    let figures = [
        ("epsilon_vs_delta", figures::epsilon_vs_delta(&training)?),
        ("epsilon_vs_delta_unsampled", figures::epsilon_vs_delta(&releases)?),
        ("epsilon_over_steps", figures::epsilon_over_steps(&training[0], delta)?),
        (
            "epsilon_over_noise",
            figures::epsilon_over_noise(SamplingRate(sampling_rate), 1000, delta)?,
        ),
        (
            "epsilon_over_batch_size",
            figures::epsilon_over_batch_size(examples, 10.0, noise, delta)?,
        ),
        ("epsilon_over_epochs", figures::epsilon_over_epochs(examples, 600, 30.0, noise, delta)?),
        // ImageNet's size, as in the second of the papers that found the law.
        (
            "scaling_law",
            figures::scaling_law(1_281_167, 1024, NoiseMultiplier(0.56), 12_512, Delta(1e-6))?,
        ),
        ("trade_off", figures::trade_off(&training)?),
    ];
    for (name, chart) in figures {
        println!("{chart}\n");
        write(&folder, &format!("{name}.svg"), chart.svg().into_bytes())?;
        write(&folder, &format!("{name}.png"), chart.png())?;
    }
    println!("{}\n", figures::accountant_comparison(&training, delta)?);
    println!("{}", privacy::attack_bounds(&training, delta)?);
    Ok(())
}

/// Writes a file into the folder; without a name only makes the folder.
fn write(folder: &Path, name: &str, bytes: Vec<u8>) -> Result<()> {
    let path = folder.join(name);
    match name {
        "" => std::fs::create_dir_all(folder),
        _ => std::fs::write(&path, bytes),
    }
    .map_err(|error| Error::io(format!("writing {}", path.display()), &error))
}
