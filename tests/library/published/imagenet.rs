//! "Toward Training at ImageNet Scale with Differential Privacy".

use epsilab::methods::{DpSgd, Plan, recipes};
use epsilab::privacy::{Delta, Epsilon, Event, NoiseMultiplier, OrderList, Pld, Rdp};
use epsilab::privacy::{SamplingRate, noise_multiplier_for};

use super::row::{Claim, Row, Section, formula, renyi, tight, training};

const PAPER: &str = "Toward Training at ImageNet Scale with Differential Privacy";
const DELTA: f64 = 1e-6;

/// The recipe at this noise multiplier of each of 8 replicas.
fn with_noise(sigma_of_a_replica: f64) -> DpSgd {
    let sigma = NoiseMultiplier(sigma_of_a_replica).for_replicas(8).0;
    recipes::imagenet_from_scratch().method().noise_multiplier(sigma)
}

/// The plan of a method for ImageNet.
fn plan(method: &DpSgd) -> Plan {
    let population = recipes::imagenet_from_scratch().population();
    method.plan_for(&population).expect("settings in range")
}

/// The smallest plan of Table 5, scaled to a batch that is so many times as large.
fn scaled(times: f64) -> Event {
    let smallest = recipes::imagenet_from_scratch().plan().expect("settings in range");
    smallest.scale(times).expect("a batch below the size of the data").plan().event()
}

pub fn sections() -> Vec<Section> {
    vec![table_4(), figure_1(), table_5(), table_9(), appendix_h(), figure_2(), figure_7()]
}

fn table_4() -> Section {
    let mut rows = Vec::new();
    for (sigma, printed, known, known_tight) in [
        (0.2, "4.6", 4.53957, 3.63247),
        (0.15, "13.2", 13.09015, 11.19856),
        (0.1, "71", 70.8, 56.28993),
    ] {
        let event = [plan(&with_noise(sigma)).event()];
        let setting = |length| format!("noise multiplier √8 · {sigma}, {length}");
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
        let event = [plan(&with_noise(sigma)).event()];
        let claim = Claim::Number { printed, within: 0.07 };
        let ours = renyi("tf_legacy", &event, DELTA);
        let setting = format!("noise multiplier √8 · {sigma}, their accountant");
        rows.push(Row::new(setting, claim, ours).check(known, 1e-3));
    }
    Section {
        id: "imagenet-table-4",
        paper: PAPER,
        title: "Table 4: eight noise levels, batch 1024, 10 epochs",
        method: "The plans of `recipes::imagenet_from_scratch()`: N = 1,281,167, delta = 1e-6, \
                 12,512 Poisson steps. Their accountant: Rényi, older TensorFlow Privacy orders. \
                 Tight bounds for the three lowest epsilons.",
        note: "The printed noise multipliers (0.56, 0.42, 0.28, 0.028 and so on) are rounded; they \
               are the sums of eight replicas' noises, √8 · 0.2 and so on. The printed epsilons \
               are about 1 % larger than those of ten epochs: see Figure 1.",
        rows,
    }
}

/// Number of steps that gives the printed digits of Table 4 and Figure 1.
const STEPS_OF_FIGURE_1: u64 = 13_000;

fn figure_1() -> Section {
    let row = |(sigma, printed, known): (f64, &'static str, f64)| {
        let event = plan(&with_noise(sigma).steps(STEPS_OF_FIGURE_1)).event();
        let claim = Claim::Number { printed, within: 2e-3 };
        let setting = format!("noise multiplier √8 · {sigma}, their accountant");
        Row::new(setting, claim, renyi("tf_legacy", &[event], DELTA)).check(known, 1e-4)
    };
    let rows = [
        (0.2, "4.57", 4.566_255),
        (0.15, "13.2", 13.217_852),
        (0.1, "71.5", 71.481_529),
        (0.01, "9.7e6", 9_692_735.1),
    ];
    Section {
        id: "imagenet-figure-1",
        paper: PAPER,
        title: "Figure 1 and Table 8: the epsilons that are kept over epochs; 13.2 of Table 4",
        method: "As Table 4, with 13,000 steps.",
        note: "12,979 to 13,012 steps give all printed digits of Figure 1 and of three values of \
               Table 4; ten epochs, which are 12,512 steps, give none of Figure 1. The paper \
               mentions ten epochs only. Ten passes over the 1,331,167 training and validation \
               images together would be 13,000 steps; we do not know whether that is the reason.",
        rows: rows.map(row).into(),
    }
}

fn table_5() -> Section {
    let row = |(times, printed, known): (f64, &'static str, f64)| {
        let claim = Claim::Number { printed, within: 0.02 };
        let ours = renyi("tf_legacy", &[scaled(times)], DELTA);
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
        method: "The plan of `recipes::imagenet_from_scratch()`, scaled by `plan.scale(k)`: 12,512 \
                 steps each; noise multiplier √8 · 0.001 per 1024 examples; Rényi, older \
                 TensorFlow Privacy orders.",
        note: "The smallest order of that list, 1.25, gives all four values. They are valid, but \
               far from tight: [imagenet-scaling](imagenet-scaling.md) has 53,440 in place of \
               3.5e6. Neither gives meaningful privacy.",
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
        let method = with_noise(0.001 * thousands).batch_size(1024 * thousands as usize);
        let event = [plan(&method.epochs(epochs)).event()];
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
        let recipe = recipes::cifar10_vgg();
        let method = recipe.method().noise_multiplier(sigma);
        let plan = method.plan_for(&recipe.population()).expect("settings in range");
        let event = [plan.event()];
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
        method: "The plans of `recipes::cifar10_vgg()`: q = 0.01, 10,000 steps, delta = 1e-5. \
                 Their accountant: Rényi, the orders of Opacus.",
        note: "The paper truncates its values instead of rounding them.",
        rows,
    }
}

fn figure_2() -> Section {
    let mut rows: Vec<Row> = Vec::new();
    for times in [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0] {
        let before = rows.last().and_then(|row| row.ours.as_ref().ok()).map(|ours| ours.value);
        // Table 5 prints the first value, of other orders.
        let first = Claim::Guarantee { printed: "9.8e8" };
        let claim = before.map_or(first, |below| Claim::Decreases { below });
        let ours = renyi("production", &[scaled(times)], DELTA);
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
    let recipe = recipes::imagenet_dp();
    let plan = recipe.plan().expect("a target within reach");
    let (rate, steps) = (plan.sampling_rate(), plan.steps());
    let rdp = Rdp::default().with_orders(OrderList::tf_legacy());
    let solved = noise_multiplier_for(Epsilon(10.0), Delta(DELTA), SamplingRate(rate), steps, &rdp)
        .expect("ten is within reach");
    let sigma = solved.noise_multiplier.0;
    let claim = Claim::Number { printed: "10", within: 1e-4 };
    let setting = format!("noise multiplier solved for the claim: {sigma:.4}, their accountant");
    let mut rows = vec![Row::new(setting, claim, formula(solved.epsilon, "rdp"))];

    let events = [training(rate, sigma, steps)];
    let deltas: Vec<Delta> = (3..=10).rev().map(|power| Delta(10f64.powi(-power))).collect();
    let curve = Pld::default().epsilons_at(&events, &deltas);
    let mut before: Option<f64> = None;
    for (i, delta) in deltas.iter().enumerate() {
        // If the curve fails, every row reports the reason.
        let ours = match &curve {
            Ok(spent) => Ok(spent[i].clone().into()),
            Err(_) => tight(&events, delta.0),
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
