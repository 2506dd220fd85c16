//! The schedules, settings and epsilons that "Auto DP-SGD" prints, and our bounds for them.

use epsilab::Result;
use epsilab::privacy::Event;

use super::super::row::{Ours, renyi, tight, training};

pub const DELTA: f64 = 1e-5;

/// The noise schedules, with the parameters that reproduce the published epsilons.
#[derive(Clone, Copy)]
pub enum Decay {
    Constant,
    Linear,
    Time,
    Step,
    Exponential,
}

impl Decay {
    pub fn name(self) -> &'static str {
        match self {
            Decay::Constant => "constant",
            Decay::Linear => "linear",
            Decay::Time => "time",
            Decay::Step => "step",
            Decay::Exponential => "exponential",
        }
    }

    /// sigma_e² / sigma_0².
    pub fn variance(self, epoch: u32) -> f64 {
        match self {
            Decay::Constant => 1.0,
            Decay::Linear => 0.99f64.powi(epoch as i32),
            Decay::Time => 1.0 / (1.0 + 0.01 * f64::from(epoch)),
            Decay::Step => 0.99f64.powi((epoch / 10) as i32),
            Decay::Exponential => (-0.1 * f64::from(epoch)).exp(),
        }
    }
}

/// The epsilons that the paper aims at with constant noise.
pub const TARGETS: [&str; 4] = ["1", "2", "5", "10"];

pub struct Data {
    pub name: &'static str,
    pub examples: u64,
    pub batch: u64,
    pub epochs: u32,
    /// The noise multipliers for epsilon = 1, 2, 5 and 10, first column of Tables 3 to 6.
    pub sigmas: [f64; 4],
    /// The clip norm of the adaptive baseline, section 5.
    pub clip: f64,
    /// The epsilons of the adaptive baseline, Tables 3 to 6.
    pub adaptive: [&'static str; 4],
    /// The epsilons of the linear, time, step and exponential schedules, Tables 13 to 16.
    pub scheduled: [[&'static str; 4]; 4],
}

pub const MNIST: Data = Data {
    name: "MNIST",
    examples: 60_000,
    batch: 64,
    epochs: 100,
    sigmas: [1.4929, 0.9584, 0.6630, 0.5517],
    clip: 50.0,
    adaptive: ["9.52", "16.86", "25.44", "32.32"],
    scheduled: [
        ["1.00", "1.49", "0.85", "0.81"],
        ["0.98", "0.84", "0.72", "0.67"],
        ["0.50", "0.68", "0.52", "0.51"],
        ["22.85", "34.20", "26.65", "27.18"],
    ],
};
pub const CIFAR_10: Data = Data {
    name: "CIFAR-10",
    examples: 50_000,
    batch: 64,
    epochs: 100,
    sigmas: [1.6082, 1.0134, 0.6848, 0.5649],
    clip: 10.0,
    adaptive: ["1.87", "3.04", "4.62", "5.71"],
    scheduled: [
        ["0.72", "1.03", "1.44", "1.72"],
        ["0.73", "0.96", "1.28", "1.43"],
        ["0.50", "0.72", "1.00", "1.19"],
        ["30.25", "50.65", "81.79", "105.06"],
    ],
};
pub const CIFAR_100: Data = Data {
    name: "CIFAR-100",
    clip: 20.0,
    adaptive: ["3.89", "6.43", "10.03", "12.56"],
    scheduled: [
        ["2.57", "3.77", "5.29", "6.26"],
        ["2.62", "3.50", "4.57", "5.26"],
        ["1.70", "2.49", "3.47", "4.10"],
        ["95.94", "300.35", "520.24", "687.61"],
    ],
    ..CIFAR_10
};
pub const AG_NEWS: Data = Data {
    name: "AG News",
    examples: 120_000,
    batch: 256,
    epochs: 40,
    sigmas: [1.3768, 0.9169, 0.6585, 0.5468],
    clip: 10.0,
    adaptive: ["3.78", "5.87", "8.51", "10.53"],
    scheduled: [
        ["2.73", "4.13", "5.61", "6.73"],
        ["2.69", "3.64", "4.86", "5.76"],
        ["2.04", "3.01", "4.13", "4.91"],
        ["247.63", "457.32", "800.33", "1087.63"],
    ],
};
pub const ALL: [&Data; 4] = [&MNIST, &CIFAR_10, &CIFAR_100, &AG_NEWS];

impl Data {
    pub fn rate(&self) -> f64 {
        self.batch as f64 / self.examples as f64
    }

    /// The whole training: every step of every epoch.
    fn training(&self, decay: Decay, sigma: f64) -> Vec<Event> {
        let steps = self.examples.div_ceil(self.batch);
        (0..self.epochs)
            .map(|epoch| training(self.rate(), sigma * decay.variance(epoch).sqrt(), steps))
            .collect()
    }

    /// Both bounds on the epsilon of [`training`](Self::training).
    pub fn bounds(&self, decay: Decay, sigma: f64) -> Result<Ours> {
        let events = self.training(decay, sigma);
        let last = sigma * decay.variance(self.epochs - 1).sqrt();
        if last > 0.05 {
            return tight(&events, DELTA);
        }
        // The last epochs have almost no noise: Rényi for the upper bound (its smallest order is
        // best, and the value is not meaningful), one step for the lower bound.
        renyi("1.01,1.1,1.25,1.5,2", &events, DELTA).map(|ours| {
            let lower_bound = Some(lower_bound_from_one_step(self.rate(), last));
            Ours { lower_bound, ..ours }
        })
    }
}

/// A lower bound on epsilon from one step. Outputs above 1 have probability at least q / 2 with the
/// example and at most exp(-1 / (2 sigma²)) / 2 without it. So at epsilon = 1 / (2 sigma²) + ln(q /
/// 2) delta must be at least q / 4.
fn lower_bound_from_one_step(rate: f64, sigma: f64) -> f64 {
    assert!(rate / 4.0 > DELTA, "the bound needs a delta below q / 4");
    1.0 / (2.0 * sigma * sigma) + (rate / 2.0).ln()
}
