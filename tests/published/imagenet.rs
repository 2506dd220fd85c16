//! "Toward Training at ImageNet Scale with Differential Privacy".

use epsilab::privacy::{Accountant, Delta, Epsilon, OrderList, Pld, Rdp, SamplingRate};
use epsilab::privacy::{Event, noise_multiplier_for};

use super::row::{Claim, Row, Section, formula, renyi, tight, training};

const PAPER: &str = "Toward Training at ImageNet Scale with Differential Privacy";
const EXAMPLES: f64 = 1_281_167.0;
const DELTA: f64 = 1e-6;

/// Each of 8 replicas adds noise, so the noise on the sum is sqrt(8) times as large.
fn run(thousands: f64, sigma_of_a_replica: f64, epochs: f64) -> Event {
    let batch = 1024.0 * thousands;
    let steps = (epochs * EXAMPLES / batch).ceil() as u64;
    training(batch / EXAMPLES, 8f64.sqrt() * sigma_of_a_replica, steps)
}

pub fn sections() -> Vec<Section> {
    vec![table_4(), table_5(), table_9(), appendix_h(), figure_2(), figure_7()]
}

fn table_4() -> Section {
    let mut rows = Vec::new();
    for (sigma, printed, known, known_tight) in [
        (0.2, "4.6", 4.53957, 3.63247),
        (0.15, "13.2", 13.09015, 11.19856),
        (0.1, "71", 70.8, 56.28993),
    ] {
        let event = [run(1.0, sigma, 10.0)];
        let setting = |by| format!("noise multiplier √8 · {sigma}, {by}");
        let number = Claim::Number { printed, within: 0.02 };
        let ours = renyi("tf_legacy", &event, DELTA);
        rows.push(Row::new(setting("their accountant"), number, ours).check(known, 1e-3));
        let guarantee = Claim::Guarantee { printed };
        let ours = tight(&event, DELTA);
        rows.push(Row::new(setting("tight"), guarantee, ours).check(known_tight, 5e-3));
    }
    // The paper prints these as powers of ten.
    for (sigma, printed, known) in [
        (0.01, "1e7", 9.328_887e6),
        (0.001, "1e9", 9.770_539e8),
        (0.0001, "1e11", 9.774_955e10),
        (0.00001, "1e13", 9.775_000e12),
        (0.000001, "1e15", 9.775_000e14),
    ] {
        let event = [run(1.0, sigma, 10.0)];
        let claim = Claim::Number { printed, within: 0.07 };
        let ours = renyi("tf_legacy", &event, DELTA);
        let setting = format!("noise multiplier √8 · {sigma}, their accountant");
        rows.push(Row::new(setting, claim, ours).check(known, 1e-3));
    }
    Section {
        id: "imagenet-table-4",
        paper: PAPER,
        title: "Table 4: eight noise levels, batch 1024, 10 epochs",
        method: "N = 1,281,167, delta = 1e-6, 12,512 Poisson steps. Their accountant: Rényi, older \
                 TensorFlow Privacy orders. Tight bounds for the three lowest epsilons.",
        note: "The printed noise multipliers (0.56, 0.42, 0.28, 0.028 and so on) are rounded; the \
               sums of eight replicas' noises, √8 · 0.2 and so on, give the printed epsilons.",
        rows,
    }
}

fn table_5() -> Section {
    let row = |(times, printed, known): (f64, &'static str, f64)| {
        // Batch size and noise increase together; the number of steps stays the same.
        let event = Event::PoissonGaussian {
            sampling_rate: 1024.0 * times / EXAMPLES,
            noise_multiplier: 8f64.sqrt() * 0.001 * times,
            steps: 12_512,
        };
        let claim = Claim::Number { printed, within: 0.02 };
        let ours = renyi("tf_legacy", &[event], DELTA);
        Row::new(format!("batch {} k, {} epochs", times, 10.0 * times), claim, ours)
            .check(known, 1e-2)
    };
    let rows = [
        (1.0, "9.8e8", 9.770_539e8),
        (4.0, "6.1e7", 6.07e7),
        (16.0, "3.5e6", 3.545_699e6),
        (64.0, "6.7e4", 66_884.36),
    ];
    Section {
        id: "imagenet-table-5",
        paper: PAPER,
        title: "Table 5: batch size and noise increase together",
        method: "12,512 steps each; noise multiplier √8 · 0.001 per 1024 examples; Rényi, older \
                 TensorFlow Privacy orders.",
        note: "The smallest order of that list, 1.25, gives all four values. The values are \
               correct and give no meaningful privacy.",
        rows: rows.map(row).into(),
    }
}

/// Thousands of examples in a batch, epochs, epsilon of Table 9, reference value.
const TABLE_9: [(f64, f64, &str, f64); 23] = [
    (1.0, 10.0, "9.8e8", 9.770_539e8),
    (4.0, 10.0, "1.5e7", 1.518_363e7),
    (16.0, 10.0, "2.2e5", 2.216_557e5),
    (64.0, 10.0, "1.1e3", 1_099.674),
    (256.0, 10.0, "23", 22.974_179),
    (1024.0, 10.0, "5.6", 5.606_289),
    (1.0, 20.0, "2e9", 1.954_030e9),
    (4.0, 20.0, "3.0e7", 3.036_721e7),
    (16.0, 20.0, "4.4e5", 4.432_586e5),
    (1.0, 40.0, "3.9e9", 3.908_059e9),
    (4.0, 40.0, "6.1e7", 6.073_436e7),
    (16.0, 40.0, "8.9e5", 8.864_644e5),
    (64.0, 40.0, "4.2e3", 4_229.735),
    (256.0, 40.0, "48", 48.233_115),
    (1024.0, 40.0, "11.9", 11.845_669),
    (16.0, 80.0, "1.8e6", 1.772_876e6),
    (16.0, 160.0, "3.5e6", 3.545_699e6),
    (64.0, 160.0, "1.7e4", 16_760.66),
    (256.0, 160.0, "120", 118.858_186),
    (1024.0, 160.0, "28", 27.841_735),
    (64.0, 640.0, "6.7e4", 66_884.36),
    (256.0, 640.0, "326", 326.499_339),
    (1024.0, 640.0, "72.3", 72.290_432),
];

fn table_9() -> Section {
    let row = |(thousands, epochs, printed, known): (f64, f64, &'static str, f64)| {
        let within = if printed == "2e9" { 0.025 } else { 0.02 };
        let event = [run(thousands, 0.001 * thousands, epochs)];
        let ours = renyi("tf_legacy", &event, DELTA);
        let setting = format!("batch {thousands} k, {epochs} epochs");
        Row::new(setting, Claim::Number { printed, within }, ours).check(known, 1e-3)
    };
    Section {
        id: "imagenet-table-9",
        paper: PAPER,
        title: "Table 9: batch sizes and epochs",
        method: "As Table 5, with the number of steps given by the epochs.",
        note: "The value 326 requires the signs of the fractional series: an accountant that drops \
               them reports 537.",
        rows: TABLE_9.map(row).into(),
    }
}

fn appendix_h() -> Section {
    let mut rows = Vec::new();
    for (sigma, printed, known, known_tight) in [
        (0.5, "47.41", 47.415_22, 43.366_50),
        (1.5, "3.45", 3.459, 3.185_64),
        (3.5, "1.20", 1.205_139, 1.103_23),
    ] {
        let event = [training(0.01, sigma, 10_000)];
        let number = Claim::Number { printed, within: 0.01 };
        let ours = renyi("opacus_default", &event, 1e-5);
        let setting = format!("noise multiplier {sigma}, their accountant");
        rows.push(Row::new(setting, number, ours).check(known, 1e-3));
        let ours = tight(&event, 1e-5);
        let setting = format!("noise multiplier {sigma}, tight");
        rows.push(Row::new(setting, Claim::Guarantee { printed }, ours).check(known_tight, 5e-3));
    }
    Section {
        id: "imagenet-appendix-h",
        paper: PAPER,
        title: "Appendix H: CIFAR-10, batch 500, 100 epochs",
        method: "q = 0.01, 10,000 steps, delta = 1e-5. Their accountant: Rényi, the orders of \
                 Opacus.",
        note: "The paper truncates its values instead of rounding them.",
        rows,
    }
}

fn figure_2() -> Section {
    let mut rows: Vec<Row> = Vec::new();
    for times in [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0] {
        let event = training(1024.0 * times / EXAMPLES, 8f64.sqrt() * 0.001 * times, 12_512);
        let before = rows.last().and_then(|row| row.ours.as_ref().ok()).map(|ours| ours.value);
        // Table 5 prints the first value, of other orders.
        let first = Claim::Guarantee { printed: "9.8e8" };
        let claim = before.map_or(first, |below| Claim::Decreases { below });
        let ours = renyi("production", &[event], DELTA);
        rows.push(Row::new(format!("batch {times} k"), claim, ours));
    }
    Section {
        id: "imagenet-figure-2",
        paper: PAPER,
        title: "Figure 2: epsilon decreases with the batch size at fixed noise per example and \
                steps",
        method: "12,512 steps; noise multiplier √8 · 0.001 per 1024 examples; Rényi, production \
                 orders. The first value is that of Table 5.",
        note: "The noise and the signal of the average stay the same, while epsilon decreases by \
               six orders of magnitude. This is the reason for very large batches.",
        rows,
    }
}

fn figure_7() -> Section {
    let rate = 65_536.0 / EXAMPLES;
    let steps = (70.0 * EXAMPLES / 65_536.0).ceil() as u64;
    let rdp = Rdp::default().with_orders(OrderList::tf_legacy());
    let solved = noise_multiplier_for(Epsilon(10.0), Delta(DELTA), SamplingRate(rate), steps, &rdp)
        .expect("ten is within reach");
    let sigma = solved.noise_multiplier.0;
    let claim = Claim::Number { printed: "10", within: 1e-4 };
    let setting = format!("noise multiplier solved for the claim: {sigma:.4}, their accountant");
    let mut rows = vec![Row::new(setting, claim, formula(solved.epsilon, "rdp"))];

    let events = [training(rate, sigma, steps)];
    let deltas: Vec<Delta> = (3..=10).rev().map(|power| Delta(10f64.powi(-power))).collect();
    let curve = Pld::default().curve(&events, &deltas);
    let mut before: Option<f64> = None;
    for (i, delta) in deltas.iter().enumerate() {
        // If the curve fails, every row reports the reason.
        let ours = match &curve {
            Ok(spent) => Ok(spent[i].clone().into()),
            Err(_) => Pld::default().epsilon(&events, *delta).map(Into::into),
        };
        let claim = before.map_or(Claim::None, |below| Claim::Decreases { below });
        before = ours.as_ref().ok().map(|ours: &super::row::Ours| ours.value);
        rows.push(Row::new(format!("delta = {:e}, tight", delta.0), claim, ours));
    }
    Section {
        id: "imagenet-figure-7",
        paper: PAPER,
        title: "Figure 7: epsilon over delta for the best run (batch 65,536, 70 epochs, epsilon \
                10)",
        method: "The noise multiplier is solved for epsilon = 10 at delta = 1e-6 by Rényi \
                 accounting; the curve is the tight one.",
        note: "The curve decreases as in the figure; the tight epsilon of the same noise is below \
               10.",
        rows,
    }
}
