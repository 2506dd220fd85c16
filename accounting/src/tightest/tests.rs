use super::*;
use crate::{ClipSchedule, NoiseMultiplier};

const DELTA: Delta = Delta(1e-5);

fn stages(schedule: &str, sigma: f64, q: f64, steps: u64) -> Stages {
    let (noise, clip) = (schedule.parse().unwrap(), ClipSchedule::decay(0.5));
    Stages::from_schedules(&noise, &clip, NoiseMultiplier(sigma), SamplingRate(q), steps).unwrap()
}

/// Computes the epsilons at these steps, checked against single calls.
fn curve(prior: &[Event], stages: &Stages, q: f64, at: &[u64]) -> Vec<f64> {
    let tightest = TightestAccountant::new();
    let found = tightest.epsilons_after(prior, stages, SamplingRate(q), at, DELTA).unwrap();
    assert_eq!(found.len(), at.len());
    assert!(found.windows(2).all(|pair| pair[0].epsilon <= pair[1].epsilon), "{found:?}");
    for (&steps, found) in at.iter().zip(&found) {
        let events = [prior, &[stages.event(SamplingRate(q), steps)]].concat();
        let alone = tightest.epsilon(&events, DELTA).unwrap();
        assert!(found.epsilon >= alone.lower_bound.unwrap_or(0.0), "{steps}: {found} {alone}");
        assert!(found.epsilon <= alone.epsilon * 1.002, "{steps}: {found} {alone}");
        if steps == at[at.len() - 1] {
            assert_eq!(*found, alone, "the last is the whole");
        }
    }
    found.into_iter().map(|spent| spent.epsilon).collect()
}

#[test]
fn a_curve_is_that_of_single_calls() {
    let constant = curve(&[], &stages("constant", 1.0, 0.01, 1000), 0.01, &[0, 1, 500, 500, 1000]);
    assert_eq!(constant[0], 0.0);
    assert!(constant[1] > 0.0 && constant[2] == constant[3], "{constant:?}");
    // Beyond the end nothing more is released.
    let beyond = curve(&[], &stages("constant", 1.0, 0.01, 1000), 0.01, &[1000, 2000]);
    assert_eq!(beyond, [constant[4]; 2]);
    let falling = curve(&[], &stages("decay:0.5", 1.2, 0.01, 300), 0.01, &[3, 150, 290, 300]);
    let rising = curve(&[], &stages("decay:2", 0.6, 0.01, 300), 0.01, &[3, 150, 290, 300]);
    assert!(rising[1] > 1.5 * falling[1], "early steps with less noise cost more");
}

#[test]
fn earlier_releases_are_part_of_every_point() {
    let (stages, at) = (stages("step:0.8:1", 1.5, 0.02, 200), [0, 1, 120, 200]);
    let mask = [Event::gaussian(4.0)];
    let (with, without) = (curve(&mask, &stages, 0.02, &at), curve(&[], &stages, 0.02, &at));
    assert!(with.iter().zip(&without).all(|(with, without)| with > &(1.02 * without)));
    let exact = Gdp::default().epsilon(&mask, DELTA).unwrap().epsilon;
    assert_eq!(with[0], exact);
    // Without a guarantee for an earlier release there is none for any point.
    let raw = [Event::Unaccountable { why: "raw".into() }];
    let refused = TightestAccountant::new()
        .epsilons_after(&raw, &stages, SamplingRate(0.02), &at, DELTA)
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Accounting);
}

#[test]
fn a_curve_without_sampling_is_exact_and_that_of_little_noise_is_from_rdp() {
    let at = [0, 3, 10];
    let exact = curve(&[], &stages("linear:0.9", 20.0, 1.0, 10), 1.0, &at);
    for (&steps, epsilon) in at.iter().zip(exact) {
        let event = stages("linear:0.9", 20.0, 1.0, 10).event(SamplingRate(1.0), steps);
        assert_eq!(Gdp::default().epsilon(&[event], DELTA).unwrap().epsilon, epsilon);
    }
    let loud = curve(&[], &stages("constant", 0.01, 0.1, 10), 0.1, &at);
    assert!(loud[1] > 100.0 && loud[2] > loud[1], "{loud:?}");
}

#[test]
fn lists_of_steps_that_decrease_are_rejected() {
    let (tightest, stages) = (TightestAccountant::new(), stages("constant", 1.0, 0.1, 10));
    let ask = |at: &[u64], q: f64, delta: f64| {
        tightest.epsilons_after(&[], &stages, SamplingRate(q), at, Delta(delta))
    };
    assert_eq!(ask(&[5, 4], 0.1, 1e-5).unwrap_err().kind(), ErrorKind::Setting);
    assert!(ask(&[5], 0.0, 1e-5).is_err() && ask(&[5], 0.1, 0.0).is_err());
    assert!(ask(&[], 0.1, 1e-5).unwrap().is_empty());
}
