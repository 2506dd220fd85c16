//! Epsilon of one training run by every accountant, and the noise for a target.
//!
//! `cargo run -p epsilab-accounting --example compare`

use epsilab_accounting::digits::Rounded;
use epsilab_accounting::{
    Delta, Epsilon, Event, Headline, Neighbouring, Result, SamplingRate, compare,
    noise_multiplier_for,
};

fn main() -> Result<()> {
    let (rate, steps, delta) = (0.01, 1000, Delta(1e-5));
    let training = Event::poisson(rate, 1.0, steps);
    println!("{training}, delta {delta}");
    for answer in compare(&[training], delta, Neighbouring::AddOrRemoveOne) {
        match answer.spent {
            Ok(spent) => println!("{:>10}  {}", answer.accountant, Rounded(spent.epsilon)),
            Err(error) => println!("{:>10}  {}", answer.accountant, error.why()),
        }
    }
    let headline = Headline::new();
    let noise = noise_multiplier_for(Epsilon(3.0), delta, SamplingRate(rate), steps, &headline)?;
    println!("noise multiplier for epsilon 3: {}", Rounded(noise.noise_multiplier.0));
    Ok(())
}
