//! States that are listed and restored, and what is refused.

use epsilab::device::DeviceArray;
use epsilab::optim::{
    AdamParams, Average, AverageState, LearningRate, LearningRateScheduler, Optimizer,
    OptimizerState, StateValues, StepSettings, WarmUp,
};
use epsilab::prelude::{Error, ErrorKind};

use super::{Path, bits, gradients, network, weights};

const STD: [f64; 4] = [0.3; 4];

fn optimizers() -> [Optimizer; 6] {
    [
        Optimizer::Sgd { momentum: 0.0 },
        Optimizer::Sgd { momentum: 0.9 },
        Optimizer::Nesterov { momentum: 0.9 },
        Optimizer::adam(),
        Optimizer::adamw(),
        Optimizer::dp_adam_bc(),
    ]
}

/// Values as a file would keep them: no tensors, only numbers.
fn written(values: Vec<(String, StateValues)>) -> Vec<(String, StateValues)> {
    let copied = values.into_iter().map(|(name, values)| match values {
        StateValues::PerCoordinate(array) => {
            (name, StateValues::PerCoordinate(DeviceArray::from(array.to_vec())))
        }
        same => (name, same),
    });
    copied.collect()
}

#[test]
fn a_restored_optimizer_takes_the_same_steps_bit_for_bit() {
    for optimizer in optimizers() {
        for path in Path::ALL {
            let run = |steps: std::ops::Range<u64>, mut state: OptimizerState, mut network| {
                for number in steps {
                    let step = StepSettings { noise_std: Some(&STD), ..StepSettings::new(0.03) };
                    network = path.step(&mut state, &network, number, step);
                }
                (state, network)
            };
            let (_, straight) = run(0..20, optimizer.init(), network());
            let (state, halfway) = run(0..9, optimizer.init(), network());
            let values = written(state.named_arrays());
            let names: Vec<_> = values.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names.is_empty(), optimizer == Optimizer::Sgd { momentum: 0.0 });
            let restored = optimizer.init().with_named_arrays(values.clone()).unwrap();
            assert_eq!(written(restored.named_arrays()), values);
            let (_, network) = run(9..20, restored, halfway.clone());
            assert_eq!(bits(&network), bits(&straight), "{optimizer} {path:?}");
            // A state that was lost is told.
            let (_, network) = run(9..20, optimizer.init(), halfway);
            assert_eq!(bits(&network) != bits(&straight), !names.is_empty(), "{optimizer}");
        }
    }
}

#[test]
fn state_has_one_array_per_tensor_and_moment() {
    let mut state = Optimizer::adam().init();
    assert!(state.named_arrays().is_empty());
    Path::Host.step(&mut state, &network(), 0, StepSettings::new(0.1));
    let values = state.named_arrays();
    let names: Vec<_> = values.iter().take(4).map(|(name, _)| name.as_str()).collect();
    let expected = ["first_moment", "second_moment", "first_weight", "second_weight"];
    assert_eq!(names, expected.map(|name| format!("0.weight.{name}")));
    assert_eq!(values.len(), 16);
    // Coordinates that are always updated together share their weights.
    assert!(matches!(values[2].1, StateValues::Uniform(weight) if (weight - 0.1).abs() < 1e-15));
    assert!(matches!(&values[0].1, StateValues::PerCoordinate(array) if array.len() == 6));
}

#[test]
fn restored_averages_continue_bit_for_bit() {
    for average in [Average::ema(), Average::Uniform, Average::Last { steps: 4 }] {
        let mut optimizer = Optimizer::default().init();
        let mut networks = vec![network()];
        for number in 0..12 {
            let next = Path::Host.step(
                &mut optimizer,
                &networks[number],
                number as u64,
                StepSettings::new(0.1),
            );
            networks.push(next);
        }
        for stop in [1, 3, 7] {
            let mut straight = AverageState::new(average, &networks[0]).unwrap();
            networks[1..].iter().for_each(|network| straight.observe(network).unwrap());
            let mut state = AverageState::new(average, &networks[0]).unwrap();
            networks[1..stop].iter().for_each(|network| state.observe(network).unwrap());
            let fresh = AverageState::new(average, &networks[5]).unwrap();
            let mut restored = fresh.with_named_arrays(written(state.named_arrays())).unwrap();
            assert_eq!(bits(&restored.network()), bits(&state.network()));
            networks[stop..].iter().for_each(|network| restored.observe(network).unwrap());
            assert_eq!(restored.steps(), 12);
            assert_eq!(bits(&restored.network()), bits(&straight.network()), "{average} {stop}");
            assert_ne!(bits(&restored.network()), bits(&networks[12]), "{average}");
        }
    }
}

#[test]
fn the_mean_of_the_last_steps_forgets_the_others() {
    let mut state = AverageState::new(Average::Last { steps: 2 }, &network()).unwrap();
    assert_eq!(bits(&state.network()), bits(&network()));
    let mut optimizer = Optimizer::default().init();
    let mut networks = Vec::new();
    let mut last = network();
    for number in 0..5 {
        last = Path::Host.step(&mut optimizer, &last, number, StepSettings::new(0.1));
        state.observe(&last).unwrap();
        networks.push(super::parameters(&last));
        let mean = super::parameters(&state.network());
        let earlier = &networks[networks.len().saturating_sub(2)];
        let pairs = mean.iter().zip(earlier.iter().zip(&networks[number as usize]));
        let far = pairs.map(|(mean, (a, b))| (mean - (a + b) / 2.0).abs()).fold(0.0, f32::max);
        assert!(far < 1e-6, "{number}: {far}");
    }
}

#[test]
fn states_of_another_rule_network_or_average_are_refused() {
    let step = StepSettings::new(0.1);
    let mut adam = Optimizer::adam().init();
    adam.step(&network(), &gradients(0), &step).unwrap();
    let model = |error: Error| assert_eq!(error.kind(), ErrorKind::Model, "{error}");
    let mut other = Optimizer::default().init().with_named_arrays(adam.named_arrays()).unwrap();
    model(other.step(&network(), &gradients(0), &step).unwrap_err());
    let mut values = adam.named_arrays();
    values[0].1 = StateValues::PerCoordinate(vec![0.0; 5].into());
    let mut other = Optimizer::adam().init().with_named_arrays(values).unwrap();
    model(other.step(&network(), &gradients(0), &step).unwrap_err());
    let nameless = vec![("velocity".to_owned(), StateValues::Uniform(0.0))];
    assert!(Optimizer::default().init().with_named_arrays(nameless).is_err());
    let mut fewer = gradients(0);
    fewer.entries.pop();
    model(Optimizer::default().init().step(&network(), &fewer, &step).unwrap_err());

    let ema = AverageState::new(Average::ema(), &network()).unwrap();
    let two = AverageState::new(Average::Last { steps: 2 }, &network()).unwrap();
    let mut observed = two.clone();
    (0..2).for_each(|_| observed.observe(&network()).unwrap());
    assert!(two.clone().with_named_arrays(observed.named_arrays()).is_ok());
    for wrong in [
        observed.named_arrays(),
        ema.named_arrays()[1..].to_vec(),
        ema.named_arrays()[..4].to_vec(),
    ] {
        let error = ema.clone().with_named_arrays(wrong).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CorruptData, "{error}");
    }
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let refused = |name: &str, result: Result<(), Error>| {
        let error = result.expect_err(name);
        assert_eq!(error.kind(), ErrorKind::Setting, "{error}");
        assert!(error.what().starts_with(name), "{error}");
        assert!(!error.advice().is_empty(), "{error}");
    };
    let adam = |beta1, beta2, epsilon| Optimizer::Adam(AdamParams { beta1, beta2, epsilon });
    refused("momentum", Optimizer::Sgd { momentum: 1.0 }.check());
    refused("momentum", Optimizer::Sgd { momentum: f64::NAN }.check());
    refused("momentum", Optimizer::Nesterov { momentum: 0.0 }.check());
    refused("beta1", adam(1.0, 0.999, 1e-8).check());
    refused("beta2", adam(0.9, -0.1, 1e-8).check());
    refused("epsilon", adam(0.9, 0.999, 0.0).check());
    let run = |optimizer: OptimizerState, step: StepSettings<'_>| {
        optimizer.clone().step(&network(), &gradients(0), &step).map(|_| ())
    };
    let sgd = || Optimizer::default().init();
    refused("learning_rate", run(sgd(), StepSettings::new(f64::NAN)));
    refused("weight_decay", run(sgd().with_weight_decay(-0.1), StepSettings::new(0.1)));
    refused("momentum", run(sgd(), StepSettings { momentum: Some(1.0), ..StepSettings::new(0.1) }));
    refused(
        "noise_std",
        run(sgd(), StepSettings { noise_std: Some(&[0.1; 3]), ..StepSettings::new(0.1) }),
    );
    refused(
        "noise_std",
        run(sgd(), StepSettings { noise_std: Some(&[-0.1; 4]), ..StepSettings::new(0.1) }),
    );
    refused("decay", Average::Ema { decay: 1.0 }.check());
    refused("steps", Average::Last { steps: 0 }.check());
    let rates = |schedule: &str, warm_up: Option<&str>, peak, steps, per_epoch| {
        let warm_up = warm_up.map(|text| text.parse::<WarmUp>()).transpose()?;
        LearningRateScheduler::new(&schedule.parse()?, warm_up, peak, steps, per_epoch).map(|_| ())
    };
    assert!(rates("cosine", Some("0.5"), 1.0, 10, 2.5).is_ok());
    refused("learning_rate", rates("cosine", None, 0.0, 10, 2.5));
    refused("steps", rates("cosine", None, 1.0, 0, 2.5));
    refused("steps_per_epoch", rates("cosine", None, 1.0, 10, f64::INFINITY));
    refused("warm_up", rates("cosine", Some("10"), 1.0, 10, 2.5));
    refused("warm_up", rates("cosine", Some("1.5"), 1.0, 10, 2.5));
    refused("milestones", rates("multi-step:60,30", None, 1.0, 10, 2.5));
    refused("phases", rates("piecewise:0x1,5x2", None, 1.0, 10, 2.5));
    refused("factor", rates("piecewise:3x-1", None, 1.0, 10, 2.5));
    refused("gamma", rates("exponential:-1", None, 1.0, 10, 2.5));
    refused("every", rates("step:0", None, 1.0, 10, 2.5));
    refused("rise", rates("one-cycle:1.1", None, 1.0, 10, 2.5));
    refused("momentum", rates("one-cycle:momentum=0.95-0.85", None, 1.0, 10, 2.5));
    refused("factor", rates("plateau:1", None, 1.0, 10, 2.5));
    for wrong in ["", "cosin", "step", "step:a", "cosine:0:0", "one-cycle:linar", "cyclic:0.1"] {
        let error = wrong.parse::<LearningRate>().unwrap_err();
        assert!(error.advice().contains("cosine-restarts") && error.advice().contains("plateau"));
    }
    for wrong in ["", "sdg", "adam:0.9", "sgd:x"] {
        let error = wrong.parse::<Optimizer>().unwrap_err();
        assert!(error.advice().contains("dp-adam-bc"), "{error}");
    }
    assert!("emma".parse::<Average>().unwrap_err().advice().contains("last:100"));
}

#[test]
fn weight_decay_is_decoupled_and_stays_off_biases_and_untouched_coordinates() {
    let mask = weights(|i| i % 3 != 0);
    let zero = epsilab::engine::Gradients::zeros_like(&network());
    for optimizer in optimizers() {
        for gradient in [zero.clone(), super::on_device(&zero)] {
            let mut state = optimizer.init().with_weight_decay(0.5);
            let step = StepSettings { update_mask: Some(&mask), ..StepSettings::new(0.1) };
            let after = state.step(&network(), &gradient, &step).unwrap();
            let (before, after) = (super::parameters(&network()), super::parameters(&after));
            for (i, (before, after)) in before.into_iter().zip(after).enumerate() {
                // Tensors of 6, 2, 4 and 2 parameters: the second and fourth are biases.
                let is_weight = i < 6 || (8..12).contains(&i);
                let expected = if is_weight && i % 3 != 0 { before * 0.95 } else { before };
                assert!((after - expected).abs() < 1e-7, "{optimizer} {i}: {before} {after}");
            }
        }
    }
}
