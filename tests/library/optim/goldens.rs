//! PyTorch's sequences.

use std::sync::OnceLock;

use epsilab::optim::{
    AdamParams, Average, AverageState, LearningRate, LearningRateScheduler, Optimizer,
    OptimizerState, StepSettings, WarmUp,
};
use serde_json::Value;

use super::{Path, gradients, network, parameters};

fn goldens() -> &'static Value {
    static GOLDENS: OnceLock<Value> = OnceLock::new();
    GOLDENS.get_or_init(|| {
        serde_json::from_str(include_str!("../../optim/goldens.json")).expect("JSON")
    })
}

fn floats(value: &Value) -> Vec<f64> {
    let values = value.as_array().expect("a list").iter();
    values.map(|value| value.as_f64().unwrap_or(f64::NAN)).collect()
}

/// The largest difference, relative to values above one.
fn difference(ours: &[f32], theirs: &[f64]) -> f64 {
    assert_eq!(ours.len(), theirs.len());
    let pairs = ours.iter().map(|&value| f64::from(value)).zip(theirs);
    pairs.map(|(a, b)| (a - b).abs() / b.abs().max(1.0)).fold(0.0, f64::max)
}

/// The largest difference from a golden sequence of parameters with a rate of 0.05.
fn difference_from(
    case: &str,
    path: Path,
    optimizer: &OptimizerState,
    rates: &LearningRateScheduler,
) -> f64 {
    let shown = floats(&goldens()["shown"]);
    let mut expected = goldens()["optimizers"][case]["parameters"].as_array().unwrap().iter();
    let (mut optimizer, mut network) = (optimizer.clone(), network());
    let mut largest = 0.0;
    for number in 0..40 {
        let rate = rates.at(number);
        let step =
            StepSettings { momentum: rate.momentum, ..StepSettings::new(rate.learning_rate) };
        network = path.step(&mut optimizer, &network, number, step);
        if shown.contains(&(number as f64 + 1.0)) {
            let expected = floats(expected.next().expect("as many as are shown"));
            largest = f64::max(largest, difference(&parameters(&network), &expected));
        }
    }
    assert!(expected.next().is_none());
    largest
}

#[test]
fn every_optimizer_follows_pytorch_on_host_device_and_selected_coordinates() {
    let constant =
        LearningRateScheduler::new(&LearningRate::Constant, None, 0.05, 40, 1.0).unwrap();
    let one_cycle: LearningRate = "one-cycle:momentum=0.85-0.95".parse().unwrap();
    let one_cycle = LearningRateScheduler::new(&one_cycle, None, 0.05, 41, 1.0).unwrap();
    let other = AdamParams { beta1: 0.8, beta2: 0.97, epsilon: 1e-2 };
    let momentum = OptimizerState::new(Optimizer::Sgd { momentum: 0.9 });
    let decayed = |optimizer, decay| OptimizerState::new(optimizer).with_weight_decay(decay);
    let cases = [
        ("sgd", Optimizer::Sgd { momentum: 0.0 }.init(), &constant),
        ("momentum", momentum.clone(), &constant),
        ("nesterov", Optimizer::Nesterov { momentum: 0.8 }.init(), &constant),
        ("momentum, decay 0.1", momentum.clone().with_weight_decay(0.1), &constant),
        ("adam", Optimizer::adam().init(), &constant),
        ("adam, other constants", Optimizer::Adam(other).init(), &constant),
        ("adamw", Optimizer::adamw().init(), &constant),
        ("adamw, decay 0.3", decayed(Optimizer::adam(), 0.3), &constant),
        ("momentum, one cycle", momentum.clone(), &one_cycle),
    ];
    assert_eq!(cases.len(), goldens()["optimizers"].as_object().unwrap().len());
    for (case, optimizer, rates) in &cases {
        for path in Path::ALL {
            let largest = difference_from(case, path, optimizer, rates);
            // Weights of moments are f32 where coordinates are counted one by one.
            let tolerance = if path == Path::Host { 1e-6 } else { 1e-5 };
            assert!(largest < tolerance, "{case} {path:?}: {largest}");
        }
        // Every other optimizer is told from this one.
        for (wrong, optimizer, rates) in cases.iter().filter(|(other, ..)| other != case) {
            let largest = difference_from(case, Path::Host, optimizer, rates);
            assert!(largest > 1e-3, "{wrong} passes for {case}: {largest}");
        }
    }
}

#[test]
fn slightly_wrong_constants_are_detected() {
    let rates = LearningRateScheduler::new(&LearningRate::Constant, None, 0.05, 40, 1.0).unwrap();
    let adam = |change: fn(&mut AdamParams)| {
        let mut moments = AdamParams::ADAM;
        change(&mut moments);
        Optimizer::Adam(moments).init()
    };
    let wrong = [
        ("momentum", Optimizer::Sgd { momentum: 0.899 }.init()),
        ("nesterov", Optimizer::Sgd { momentum: 0.8 }.init()),
        ("adam", adam(|moments| moments.beta1 = 0.899)),
        ("adam", adam(|moments| moments.beta2 = 0.998)),
        ("adam", adam(|moments| moments.epsilon = 1e-3)),
        ("adamw", Optimizer::adamw().init().with_weight_decay(0.011)),
        ("sgd", Optimizer::Sgd { momentum: 0.0 }.init().with_weight_decay(1e-3)),
    ];
    for (case, optimizer) in wrong {
        let largest = difference_from(case, Path::Host, &optimizer, &rates);
        assert!(largest > 1e-5, "{case}: {largest}");
    }
}

#[test]
fn every_schedule_gives_pytorchs_rates_and_momenta() {
    let peak = goldens()["peak"].as_f64().unwrap();
    for (name, case) in goldens()["schedules"].as_object().unwrap() {
        let schedule: LearningRate = name.split(", ").next().unwrap().parse().unwrap();
        assert_eq!(schedule.to_string().parse::<LearningRate>().unwrap(), schedule, "{name}");
        let json = serde_json::to_string(&schedule).unwrap();
        assert_eq!(serde_json::from_str::<LearningRate>(&json).unwrap(), schedule, "{json}");
        let warm_up = case["warm_up"].as_u64().map(WarmUp::Steps);
        let steps_per_epoch = case["steps_per_epoch"].as_f64().unwrap();
        let rates =
            LearningRateScheduler::new(&schedule, warm_up, peak, 100, steps_per_epoch).unwrap();
        let expected = floats(&case["rates"]);
        let momenta = case.get("momenta").map(floats);
        assert_eq!(expected.len(), 100);
        for (step, expected) in expected.into_iter().enumerate() {
            let rate = rates.at(step as u64);
            let far = (rate.learning_rate - expected).abs();
            assert!(far < 1e-10, "{name}, step {step}: {} is not {expected}", rate.learning_rate);
            assert_eq!(rate.momentum.is_some(), momenta.is_some(), "{name}");
            if let (Some(ours), Some(theirs)) = (rate.momentum, &momenta) {
                assert!((ours - theirs[step]).abs() < 1e-10, "{name}, step {step}: {ours}");
            }
        }
    }
}

#[test]
fn a_piecewise_schedule_has_the_factor_of_each_phase_and_then_the_last() {
    let schedule: LearningRate = "piecewise:2x1,1x0.5,3x0.1".parse().unwrap();
    let rates = LearningRateScheduler::new(&schedule, None, 2.0, 20, 2.0).unwrap();
    let found: Vec<f64> = (0..20).map(|step| rates.at(step).learning_rate).collect();
    let expected = [vec![2.0; 4], vec![1.0; 2], vec![0.2; 14]].concat();
    assert_eq!(found, expected);
}

#[test]
fn short_runs_have_rates_between_zero_and_the_peak() {
    let names = goldens()["schedules"].as_object().unwrap().keys();
    let schedules = names.map(|name| name.split(", ").next().unwrap());
    for schedule in schedules.chain(["one-cycle:0", "one-cycle:1", "cosine-restarts:0.3:3"]) {
        for steps in 1..6 {
            for warm_up in 0..steps {
                let schedule = schedule.parse().unwrap();
                let warm_up = Some(WarmUp::Steps(warm_up));
                let rates =
                    LearningRateScheduler::new(&schedule, warm_up, 2.0, steps, 0.7).unwrap();
                for step in 0..steps + 2 {
                    let rate = rates.at(step).learning_rate;
                    assert!((0.0..=2.0).contains(&rate), "{schedule} {steps} {step}: {rate}");
                }
                assert_eq!(rates.at(steps - 1), rates.at(steps + 7));
            }
        }
    }
}

#[test]
fn a_plateau_schedule_reduces_the_rate_when_pytorch_does() {
    let case = &goldens()["plateau"];
    let schedule: LearningRate = case["schedule"].as_str().unwrap().parse().unwrap();
    assert!(schedule.private_input().is_some());
    let mut rates = LearningRateScheduler::new(&schedule, None, 0.5, 100, 1.0).unwrap();
    let losses = floats(&case["losses"]);
    let expected = floats(&case["rates"]);
    assert!(expected.iter().any(|&rate| rate < 0.1), "the rate falls more than twice");
    for (step, (loss, expected)) in losses.into_iter().zip(expected).enumerate() {
        rates.observe(loss);
        // What it remembers is data.
        rates = serde_json::from_str(&serde_json::to_string(&rates).unwrap()).unwrap();
        let rate = rates.at(step as u64).learning_rate;
        assert!((rate - expected).abs() < 1e-12, "loss {step}: {rate} is not {expected}");
    }
}

#[test]
fn averages_follow_pytorch() {
    let shown = floats(&goldens()["shown"]);
    for (name, expected) in goldens()["averages"].as_object().unwrap() {
        let average: Average = name.parse().unwrap();
        let follow = |average: Average| -> Vec<Vec<f32>> {
            let mut state = AverageState::new(average, &network()).unwrap();
            let steps = (0..40).map(|number| {
                state.observe(&with_values(number)).unwrap();
                parameters(&state.network())
            });
            steps.collect()
        };
        let far = |ours: Vec<Vec<f32>>| -> f64 {
            let pairs = shown.iter().zip(expected.as_array().unwrap());
            let far = pairs.map(|(&step, theirs)| {
                let ours: Vec<f32> = ours[step as usize - 1].clone();
                difference(&ours, &floats(theirs))
            });
            far.fold(0.0, f64::max)
        };
        assert!(far(follow(average)) < 1e-6, "{name}: {}", far(follow(average)));
        for wrong in ["ema:0.65", "last:39", "ema:0.6", "uniform"] {
            if wrong != name {
                assert!(far(follow(wrong.parse().unwrap())) > 1e-3, "{wrong} passes for {name}");
            }
        }
    }
}

/// The network whose parameters are the gradients of a step.
fn with_values(number: u64) -> epsilab::nn::Network {
    let mut gradients = gradients(number).entries.into_iter();
    let specs = network().specs().to_vec();
    epsilab::nn::Network::build(&[3], &specs, |_, _, _| gradients.next().unwrap().values.to_vec())
        .unwrap()
}
