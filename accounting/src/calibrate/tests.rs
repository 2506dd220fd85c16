use std::cell::Cell;

use super::noise::TOLERANCE;
use super::*;
use crate::ErrorKind;
use crate::{Conversion, Rdp};

const DELTA: Delta = Delta(1e-5);

fn find(
    epsilon: f64,
    delta: f64,
    q: f64,
    steps: u64,
    accountant: &dyn Accountant,
) -> Result<CalibratedNoise> {
    noise_multiplier_for(Epsilon(epsilon), Delta(delta), SamplingRate(q), steps, accountant)
}

/// RDP scaled by a factor, with a count of its evaluations. Stands for an expensive accountant.
struct Counting {
    rdp: Rdp,
    /// Factor on the epsilon of RDP. An exact accountant is below RDP.
    factor: f64,
    /// Relative size of a deterministic fluctuation.
    tremble: f64,
    asked: Cell<u32>,
}

impl Counting {
    fn new(factor: f64, tremble: f64) -> Self {
        Self { rdp: Rdp::default(), factor, tremble, asked: Cell::new(0) }
    }
}

impl Accountant for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    fn epsilon(&self, events: &[Event], delta: Delta) -> Result<PrivacyCost> {
        self.asked.set(self.asked.get() + 1);
        let exact = self.rdp.epsilon(events, delta)?.epsilon * self.factor;
        let noise = (exact * 1e9).sin() * self.tremble;
        Ok(PrivacyCost::new(exact * (1.0 + noise), "counting"))
    }

    fn epsilon_floor(&self, delta: Delta) -> Result<f64> {
        self.rdp.epsilon_floor(delta)
    }
}

const TYPICAL: [(f64, f64, u64); 9] = [
    (3.0, 2048.0 / 6e4, 879),
    (1.0, 256.0 / 6e4, 2345),
    (8.0, 0.08192, 875),
    (0.5, 0.01, 10_000),
    (2.0, 1.0, 50),
    (1.0, 64.0 / 6e4, 93_800),
    (10.0, 32.0 / 6e4, 18_750),
    (0.1, 0.02, 500),
    (50.0, 0.2, 1000),
];

#[test]
fn noise_calibration_takes_at_most_twelve_evaluations() {
    let mut all = Vec::new();
    for (epsilon, q, steps) in TYPICAL {
        // Equal to RDP, below it as exact accountants are, far below it, and with numerical
        // fluctuations.
        for (factor, tremble) in [(1.0, 0.0), (0.9, 0.0), (0.6, 0.0), (0.9, 1e-6)] {
            let accountant = Counting::new(factor, tremble);
            let found = find(epsilon, 1e-5, q, steps, &accountant).unwrap();
            let evaluations = accountant.asked.get();
            all.push(evaluations);
            assert!(
                evaluations <= 12,
                "{evaluations} questions for {epsilon} at {q}, {steps}, {factor}"
            );
            assert!(found.epsilon <= epsilon && found.epsilon > epsilon * (1.0 - 1e-3), "{found}");
            assert_eq!(found.accountant, "counting");
        }
    }
    println!("questions: {all:?}");
    // Bisection of a wide bracket takes more than 20.
    assert!(all.iter().sum::<u32>() as f64 / all.len() as f64 <= 8.0, "{all:?}");
}

#[test]
fn other_calibrations_take_few_evaluations() {
    let ask = |what: &str, most: u32, search: &dyn Fn(&dyn Accountant)| {
        let accountant = Counting::new(0.9, 0.0);
        search(&accountant);
        let evaluations = accountant.asked.get();
        println!("{what}: {evaluations}");
        assert!(evaluations <= most, "{what}: {evaluations} questions");
    };
    for (epsilon, q, sigma) in
        [(3.0, 0.01, 1.0), (1.0, 0.001, 0.8), (8.0, 0.1, 2.0), (2.0, 0.01, 1.2)]
    {
        let (target, noise) = (Epsilon(epsilon), NoiseMultiplier(sigma));
        let training = training(SamplingRate(q), noise, 1000);
        ask("steps", 12, &|by| {
            steps_for(target, DELTA, SamplingRate(q), noise, by).unwrap();
        });
        ask("batch at fixed steps", 12, &|by| {
            batch_size_for(target, DELTA, 60_000, TrainingLength::Steps(1000), noise, by).unwrap();
        });
        ask("batch at fixed epochs", 24, &|by| {
            batch_size_for(target, DELTA, 60_000, TrainingLength::Epochs(10.0), noise, by).unwrap();
        });
        ask("delta", 16, &|by| {
            delta_for(target, std::slice::from_ref(&training), by).unwrap();
        });
    }
}

#[test]
fn the_noise_meets_the_target_and_slightly_less_does_not() {
    let rdp = Rdp::default();
    for (epsilon, q, steps) in [
        (0.05, 0.01, 100),
        (1.0, 1.0, 1),
        (3.0, 2048.0 / 6e4, 879),
        (50.0, 0.2, 1000),
        (1e9, 0.5, 9),
    ] {
        let found = find(epsilon, 1e-5, q, steps, &rdp).unwrap();
        let at = |sigma| {
            let event = training(SamplingRate(q), NoiseMultiplier(sigma), steps);
            rdp.epsilon(&[event], DELTA).unwrap().epsilon
        };
        let sigma = found.noise_multiplier.0;
        assert_eq!(found.epsilon, at(sigma));
        assert!(found.epsilon <= epsilon, "{found}");
        assert!(at(sigma * (1.0 - 2.0 * TOLERANCE)) > epsilon, "not the smallest: {found}");
    }
}

#[test]
fn a_fluctuating_accountant_neither_loops_nor_gives_an_unsafe_result() {
    for tremble in [1e-6, 1e-4, 1e-2] {
        for (epsilon, q, steps) in TYPICAL {
            let accountant = Counting::new(0.9, tremble);
            let found = find(epsilon, 1e-5, q, steps, &accountant).unwrap();
            let event = training(SamplingRate(q), found.noise_multiplier, steps);
            let again = accountant.epsilon(&[event], DELTA).unwrap().epsilon;
            assert!(again <= epsilon && again == found.epsilon, "{found}");
            assert!(found.epsilon > epsilon * (1.0 - 5.0 * tremble.max(1e-4)), "{found}");
            assert!(accountant.asked.get() <= 60, "{}", accountant.asked.get());
        }
    }
}

#[test]
fn a_step_function_as_epsilon_is_calibrated() {
    /// Accountant whose epsilon is rounded up to integers, so that it has no slope.
    struct Stairs;
    impl Accountant for Stairs {
        fn name(&self) -> &str {
            "stairs"
        }
        fn epsilon(&self, events: &[Event], delta: Delta) -> Result<PrivacyCost> {
            let exact = Rdp::default().epsilon(events, delta)?.epsilon;
            Ok(PrivacyCost::new(exact.ceil(), "stairs"))
        }
    }
    let found = find(3.5, 1e-5, 0.01, 1000, &Stairs).unwrap();
    let smooth = find(3.0, 1e-5, 0.01, 1000, &Rdp::default()).unwrap();
    assert_eq!(found.epsilon, 3.0);
    let ratio = found.noise_multiplier.0 / smooth.noise_multiplier.0;
    assert!((ratio - 1.0).abs() < 3.0 * TOLERANCE, "{found} {smooth}");
}

#[test]
fn a_target_at_or_below_the_floor_of_a_short_list_is_a_typed_error() {
    let short = Rdp::default().with_orders("opacus_default".parse().unwrap());
    let error = find(0.1, 1e-5, 0.01, 100, &short).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Accounting);
    assert!(error.to_string().contains("0.1029"), "{error}");
    assert!(find(0.1, 1e-5, 0.01, 100, &Rdp::default()).is_ok());
    let few = steps_for(Epsilon(0.1), DELTA, SamplingRate(0.01), NoiseMultiplier(9.0), &short);
    assert_eq!(few.unwrap_err().kind(), ErrorKind::Accounting);
}

#[test]
fn out_of_range_parameters_are_rejected() {
    let rdp = Rdp::default();
    let kind = |result: Result<CalibratedNoise>| result.unwrap_err().kind();
    for (epsilon, delta, q, steps) in [
        (0.0, 1e-5, 0.1, 1),
        (f64::NAN, 1e-5, 0.1, 1),
        (f64::INFINITY, 1e-5, 0.1, 1),
        (1.0, 0.0, 0.1, 1),
        (1.0, 1.0, 0.1, 1),
        (1.0, 1e-5, 0.0, 1),
        (1.0, 1e-5, 1.1, 1),
        (1.0, 1e-5, 0.1, 0),
    ] {
        assert_eq!(kind(find(epsilon, delta, q, steps, &rdp)), ErrorKind::Setting);
        // The same error kind with every accountant: errors of the initial guess are not reported.
        let counting = Counting::new(0.9, 0.0);
        assert_eq!(kind(find(epsilon, delta, q, steps, &counting)), ErrorKind::Setting);
    }
    let (target, q, noise) = (Epsilon(1.0), SamplingRate(0.1), NoiseMultiplier(1.0));
    assert!(steps_for(target, DELTA, SamplingRate(0.0), noise, &rdp).is_err());
    assert!(steps_for(target, DELTA, q, NoiseMultiplier(0.0), &rdp).is_err());
    assert!(delta_for(Epsilon(-1.0), &[], &rdp).is_err());
    for (examples, length) in [
        (0, TrainingLength::Steps(1)),
        (u64::MAX, TrainingLength::Steps(1)),
        (100, TrainingLength::Steps(0)),
        (100, TrainingLength::Epochs(0.0)),
        (100, TrainingLength::Epochs(f64::NAN)),
        (100, TrainingLength::Epochs(f64::INFINITY)),
        (100, TrainingLength::Epochs(1e300)),
    ] {
        let error = batch_size_for(target, DELTA, examples, length, noise, &rdp).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setting, "{examples} {length:?}");
    }
}

#[test]
fn an_error_of_the_accountant_is_passed_on() {
    struct Refuses;
    impl Accountant for Refuses {
        fn name(&self) -> &str {
            "refuses"
        }
        fn epsilon(&self, _: &[Event], _: Delta) -> Result<PrivacyCost> {
            Err(Error::new(ErrorKind::Accounting, "this sampler", "is not for me"))
        }
    }
    let (target, q, noise) = (Epsilon(1.0), SamplingRate(0.1), NoiseMultiplier(1.0));
    for error in [
        find(1.0, 1e-5, 0.1, 1, &Refuses).unwrap_err(),
        steps_for(target, DELTA, q, noise, &Refuses).unwrap_err(),
        delta_for(target, &[], &Refuses).unwrap_err(),
        batch_size_for(target, DELTA, 9, TrainingLength::Epochs(2.0), noise, &Refuses).unwrap_err(),
    ] {
        assert!(error.to_string().contains("is not for me"), "{error}");
    }
}

#[test]
fn another_conversion_gives_another_result() {
    // The initial guess uses the improved conversion, which must not affect the result.
    struct Classic(Rdp);
    impl Accountant for Classic {
        fn name(&self) -> &str {
            "classic"
        }
        fn epsilon(&self, events: &[Event], delta: Delta) -> Result<PrivacyCost> {
            self.0.epsilon(events, delta)
        }
    }
    let rdp = || Rdp::default().with_conversion(Conversion::Classic);
    let guessed = find(3.0, 1e-5, 0.01, 1000, &Classic(rdp())).unwrap();
    let direct = find(3.0, 1e-5, 0.01, 1000, &rdp()).unwrap();
    let ratio = guessed.noise_multiplier.0 / direct.noise_multiplier.0;
    assert!((ratio - 1.0).abs() <= TOLERANCE, "{guessed} {direct}");
    let improved = find(3.0, 1e-5, 0.01, 1000, &Rdp::default()).unwrap();
    assert!(improved.noise_multiplier.0 < 0.98 * direct.noise_multiplier.0);
}

fn beside(
    prior: &[Event],
    epsilon: f64,
    q: f64,
    steps: u64,
    accountant: &dyn Accountant,
) -> Result<f64> {
    let (target, rate) = (Epsilon(epsilon), SamplingRate(q));
    let found = noise_multiplier_given_prior(prior, target, DELTA, rate, steps, accountant)?;
    let sigma = found.noise_multiplier;
    let mut all = prior.to_vec();
    all.push(training(rate, sigma, steps));
    let together = accountant.epsilon(&all, DELTA)?.epsilon;
    assert_eq!(found.epsilon, together, "the epsilon is of everything together");
    assert!(together <= epsilon, "{found}");
    all.pop();
    all.push(training(rate, NoiseMultiplier(sigma.0 * (1.0 - 2.0 * TOLERANCE)), steps));
    assert!(accountant.epsilon(&all, DELTA)?.epsilon > epsilon, "not the smallest: {found}");
    Ok(sigma.0)
}

#[test]
fn noise_given_a_prior_matches_dp_accounting() {
    // Reference: dp_accounting 0.6.0. Composed with a release of multiplier 8 and 300 steps of
    // (0.02, 1.5), 500 steps of (0.01, 1.0) have this epsilon, to 0.3 %.
    let prior = [Event::gaussian(8.0), Event::poisson(0.02, 1.5, 300)];
    let epsilon = 1.752_831_612_984_079_3;
    let pld = crate::Pld::default();
    let sigma = beside(&prior, epsilon, 0.01, 500, &pld).unwrap();
    assert!((sigma - 1.0).abs() < 0.005, "{sigma}");
    // Leaving out the mask gives too little noise.
    let forgotten = beside(&prior[1..], epsilon, 0.01, 500, &pld).unwrap();
    assert!(forgotten < sigma - 0.005, "{forgotten}");
}

#[test]
fn a_larger_prior_needs_more_noise_until_no_budget_is_left() {
    let rdp = Rdp::default();
    let (epsilon, q, steps) = (3.0, 2048.0 / 6e4, 879);
    let alone = find(epsilon, 1e-5, q, steps, &rdp).unwrap().noise_multiplier.0;
    assert_eq!(beside(&[], epsilon, q, steps, &rdp).unwrap(), alone);
    let mut last = alone;
    for release in [50.0, 8.0, 4.0, 2.0, 1.6] {
        let sigma = beside(&[Event::gaussian(release)], epsilon, q, steps, &rdp).unwrap();
        assert!(sigma > last, "{release}: {sigma}");
        last = sigma;
    }
    let error = beside(&[Event::gaussian(1.0)], epsilon, q, steps, &rdp).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Accounting);
    for part in ["cost epsilon 4.7", "is 3 at delta", "nothing is left"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    // At exactly the target nothing is left; slightly above it the training fits.
    let prior = [Event::gaussian(2.0)];
    let cost = rdp.epsilon(&prior, DELTA).unwrap().epsilon;
    assert!(beside(&prior, cost, q, steps, &rdp).is_err());
    assert!(beside(&prior, cost * 1.001, q, steps, &rdp).unwrap() > 10.0);
    let open = [Event::Unaccountable { why: "raw".into() }];
    assert_eq!(beside(&open, 3.0, q, 1, &rdp).unwrap_err().kind(), ErrorKind::Accounting);
    assert_eq!(beside(&prior, 3.0, q, 0, &rdp).unwrap_err().kind(), ErrorKind::Setting);
    assert_eq!(beside(&prior, 3.0, 0.0, 9, &rdp).unwrap_err().kind(), ErrorKind::Setting);
}
