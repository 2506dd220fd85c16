//! "Backpropagation Clipping for Deep Learning with Differential Privacy", De et al. 2022, and
//! "Pre-Pruning and Gradient-Dropping Improve Differentially Private Image Classification".

use epsilab::Result;
use epsilab::privacy::{Accountant, Delta, Event, NeighbouringRelation, TightestAccountant};

use super::row::{Claim, Ours, Row, Section, formula, renyi, tight, training};

const DELTA: f64 = 1e-5;

pub fn sections() -> Vec<Section> {
    vec![zero_concentrated(), as_coded(), de(), de_tight(), as_printed()]
}

const BACKPROPAGATION: &str =
    "Backpropagation Clipping for Deep Learning with Differential Privacy";

/// Data set, claimed epsilon (Table 1), rho of the whole training, epochs (Figure 2). The text
/// gives no noise; rho is solved for the epsilon.
const CLAIMS: [(&str, &str, f64, u64); 3] = [
    ("MNIST", "0.07", 1.06e-4, 25),
    ("Fashion-MNIST", "0.87", 0.0158, 40),
    ("CIFAR-10", "3.64", 0.2496, 100),
];
const BATCH: f64 = 4096.0;

fn zero_concentrated() -> Section {
    let row = |(data, printed, rho, epochs): (&str, &'static str, f64, u64)| {
        let epsilon = rho + 2.0 * (rho * (1.0 / DELTA).ln()).sqrt();
        let claim = Claim::Number { printed, within: 0.005 };
        let setting = format!("{data}, {epochs} epochs, rho = {rho}");
        Row::new(setting, claim, formula(epsilon, "zCDP"))
    };
    Section {
        id: "backpropagation-zcdp",
        paper: BACKPROPAGATION,
        title: "The accounting as intended",
        method: "Disjoint batches, so one release per epoch; epsilon = rho + 2 √(rho ln(1/delta)), \
                 delta = 1e-5. The text gives no noise: rho is solved for the published epsilon.",
        note: "The rows show which rho the paper spends, with the sensitivity that it assumes. \
               They check nothing but the conversion.",
        rows: CLAIMS.map(row).into(),
    }
}

/// Disjoint batches: zeroing out an example changes one release per epoch. Exact.
fn epochs_of(noise_multiplier: f64, epochs: u64) -> Result<Ours> {
    let event = [Event::ShuffledEpochs { noise_multiplier, epochs }];
    let spent = TightestAccountant::with_neighbouring(NeighbouringRelation::ZeroOutOne)
        .epsilon(&event, Delta(DELTA))?;
    // Gaussian mechanisms compose exactly, so the value is both an upper and a lower bound.
    let exact = (spent.accountant == "gdp").then_some(spent.epsilon);
    Ok(Ours { lower_bound: spent.lower_bound.or(exact), ..Ours::from(spent) })
}

fn as_coded() -> Section {
    let mut rows = Vec::new();
    for (data, printed, rho, epochs) in CLAIMS {
        // rho = epochs / (2 sigma²) for the assumed sensitivity; the real one is 4096 times as
        // large.
        let sigma = (epochs as f64 / (2.0 * rho)).sqrt() / BATCH;
        let row = Row::new(
            format!("{data}, {epochs} epochs, the worst example"),
            Claim::Guarantee { printed },
            epochs_of(sigma, epochs),
        );
        rows.push(if data == "MNIST" { row.check(2033.0, 1e-3) } else { row });
    }
    // A persistently misclassified example has a gradient of norm √2 / B at the last layer, whereas
    // the noise is calibrated for 0.01 / B. Four layers share rho.
    let (_, printed, rho, epochs) = CLAIMS[0];
    let of_one_layer = (4.0 * epochs as f64 / (2.0 * rho)).sqrt();
    let sigma = of_one_layer / (2f64.sqrt() / 0.01);
    rows.push(
        Row::new(
            "MNIST, 25 epochs, one misclassified example, last layer alone",
            Claim::Guarantee { printed },
            epochs_of(sigma, epochs),
        )
        .check(4.5, 0.01),
    );
    Section {
        id: "backpropagation-as-coded",
        paper: BACKPROPAGATION,
        title: "The accounting as coded",
        method: "The same noise with the sensitivity of the code that produced the results: exact \
                 Gaussian composition, one example zeroed out, delta = 1e-5.",
        note: "The loss was averaged over the batch of 4096 before gradients were clipped, and the \
               sensitivity was divided by 4096 again: the noise is 4096 times too small. The \
               authors' repository says that this invalidates the original results.",
        rows,
    }
}

const DE: &str = "Unlocking High-Accuracy Differentially Private Image Classification through \
                  Scale (De et al. 2022)";
const DE_RATE: f64 = 4096.0 / 50_000.0;

/// Noise multiplier, steps, claimed epsilon, reference value.
const RUNS: [(f64, u64, &str, f64); 5] = [
    (10.0, 875, "1", 0.99),
    (6.0, 1125, "2", 2.00),
    (5.0, 1593, "3", 2.99),
    (4.0, 1687, "4", 4.00),
    (3.0, 1843, "6", 5.95),
];

fn de() -> Section {
    let row = |(sigma, steps, printed, known): (f64, u64, &'static str, f64)| {
        let claim = Claim::Number { printed, within: 0.015 };
        let ours = renyi("tf_legacy", &[training(DE_RATE, sigma, steps)], DELTA);
        Row::new(format!("noise multiplier {sigma}, {steps} steps"), claim, ours).check(known, 6e-3)
    };
    Section {
        id: "de-renyi",
        paper: DE,
        title: "WRN-16-4 on CIFAR-10, the baseline of Pre-Pruning and Gradient-Dropping",
        method: "N = 50,000, B = 4096, delta = 1e-5, Rényi, older TensorFlow Privacy orders.",
        note: "Correct and slightly conservative. Dropping gradients by a rule that does not \
               depend on the data changes nothing here: rate, noise and steps stay the same.",
        rows: RUNS.map(row).into(),
    }
}

fn de_tight() -> Section {
    let row = |(sigma, steps, printed, _): (f64, u64, &'static str, f64)| {
        let ours = tight(&[training(DE_RATE, sigma, steps)], DELTA);
        let setting = format!("noise multiplier {sigma}, {steps} steps");
        Row::new(setting, Claim::Guarantee { printed }, ours)
    };
    Section {
        id: "de-tight",
        paper: DE,
        title: "The same runs, tight",
        method: "Privacy loss distributions.",
        note: "The guarantees hold with a margin: the same epsilon allows less noise.",
        rows: RUNS.map(row).into(),
    }
}

fn as_printed() -> Section {
    let (sigma, steps, printed, _) = RUNS[0];
    let event = [training(DE_RATE, sigma / 2.0, steps)];
    let rows = vec![
        Row::new(
            "their accountant",
            Claim::Number { printed: "1", within: 0.02 },
            renyi("tf_legacy", &event, DELTA),
        )
        .check(2.14, 5e-3),
        Row::new("tight", Claim::Guarantee { printed }, tight(&event, DELTA)).check(1.96878, 5e-3),
    ];
    Section {
        id: "pruning-as-printed",
        paper: "Pre-Pruning and Gradient-Dropping Improve Differentially Private Image \
                Classification",
        title: "Algorithm 1 as printed: clip the average, not each gradient",
        method: "Two averages in a ball of radius C differ by up to 2 C, so the noise multiplier \
                 is halved: 5 instead of 10, 875 steps.",
        note: "Equations (3) and (4) of the paper clip each gradient and give the claimed epsilon; \
               the algorithm as printed does not.",
        rows,
    }
}
