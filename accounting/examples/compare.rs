//! Epsilon of one training run by every accountant, and the noise for a target.
//!
//! `cargo run -p epsilab-accounting --example compare`

use epsilab_accounting::digits::RoundedUp;
use epsilab_accounting::{
    Delta, Epsilon, Event, NeighbouringRelation, Result, SamplingRate, TightestAccountant,
    compare_accountants, noise_multiplier_for,
};

fn main() -> Result<()> {
    let (rate, steps, delta) = (0.01, 1000, Delta(1e-5));
    let training = Event::poisson(rate, 1.0, steps);
    println!("{training}, delta {delta}");
    for answer in compare_accountants(&[training], delta, NeighbouringRelation::AddOrRemoveOne) {
        match answer.cost {
            Ok(spent) => println!("{:>10}  {}", answer.accountant, RoundedUp(spent.epsilon)),
            Err(error) => println!("{:>10}  {}", answer.accountant, error.why()),
        }
    }
    let tightest = TightestAccountant::new();
    let noise = noise_multiplier_for(Epsilon(3.0), delta, SamplingRate(rate), steps, &tightest)?;
    println!("noise multiplier for epsilon 3: {}", RoundedUp(noise.noise_multiplier.0));
    Ok(())
}
