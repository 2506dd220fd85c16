use super::*;
use crate::ErrorKind;
use crate::privacy::{Delta, Rdp};

fn schedule(text: &str) -> NoiseSchedule {
    text.parse().unwrap()
}

#[test]
fn the_published_sums_require_rates_on_the_variance() {
    for (text, expected, tolerance) in [
        ("constant", 100.0, 1e-12),
        ("linear:0.99", 171.467_903_616_473_68, 1e-9),
        ("time:0.01", 149.5, 1e-9),
        ("step:0.99:10", 104.670_081_768_661_79, 1e-9),
        ("exp:0.1", 209_425.440_015_310_95, 1e-6),
    ] {
        let sum = schedule(text).sum_of_inverse_variances(100).unwrap();
        assert!((sum - expected).abs() < tolerance, "{text}: {sum}");
    }
    // A rate that acts on the multiplier itself gives 320 instead of 171.
    let wrong = schedule("linear:0.9801").sum_of_inverse_variances(100).unwrap();
    assert!((wrong - 171.47).abs() > 100.0, "{wrong}");
}

#[test]
fn multipliers_follow_their_formulas() {
    let at =
        |text: &str, epoch| schedule(text).noise_multiplier(NoiseMultiplier(2.0), epoch).unwrap().0;
    for text in ["constant", "linear:0.9", "time:0.5", "step:0.9:3", "exp:0.1", "piecewise:3x1"] {
        assert_eq!(at(text, 0), 2.0, "{text}");
    }
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
    close(at("linear:0.81", 3), 2.0 * 0.9f64.powi(3));
    close(at("linear:1.21", 2), 2.0 * 1.21);
    close(at("time:0.5", 6), 1.0);
    close(at("step:0.81:10", 9), 2.0);
    close(at("step:0.81:10", 10), 1.8);
    close(at("exp:0.2", 5), 2.0 * (-0.5f64).exp());
    let phases = "piecewise:2x1.5,3x0.5";
    let all: Vec<f64> = (0..7).map(|epoch| at(phases, epoch)).collect();
    for (ours, expected) in all.iter().zip([3.0, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0]) {
        close(*ours, expected);
    }
}

#[test]
fn an_epoch_is_one_event_with_one_step_per_batch() {
    let rate = SamplingRate(256.0 / 60_000.0);
    let events = schedule("linear:0.99").events(NoiseMultiplier(1.0), rate, 3).unwrap();
    assert_eq!(events.len(), 3);
    for (epoch, event) in events.iter().enumerate() {
        let Event::PoissonGaussian { sampling_rate, noise_multiplier, steps } = event else {
            panic!("{event}");
        };
        assert_eq!((*sampling_rate, *steps), (rate.0, 235));
        assert!((noise_multiplier - 0.99f64.powf(0.5 * epoch as f64)).abs() < 1e-15);
    }
    // 60000 / 64 = 937.5. Rates 1 / n must give exactly n steps, although 1 / q is rounded.
    let steps = |q| schedule("constant").events(NoiseMultiplier(1.0), SamplingRate(q), 1).unwrap();
    assert_eq!(steps(64.0 / 60_000.0)[0].releases(), 938);
    for batches in 1..5000 {
        assert_eq!(steps(1.0 / batches as f64)[0].releases(), batches);
    }
}

#[test]
fn composing_epochs_instead_of_steps_is_rejected() {
    // The RDP epsilon of the whole schedule is 4.1201 (independent quadrature). Counting one
    // release per epoch instead of 938 would give a far smaller value.
    let rate = SamplingRate(64.0 / 60_000.0);
    let events = schedule("linear:0.99").events(NoiseMultiplier(1.0), rate, 100).unwrap();
    let epsilon = Rdp::default().epsilon(&events, Delta(1e-5)).unwrap().epsilon;
    assert!((epsilon / 4.120_141_925 - 1.0).abs() < 1e-4, "{epsilon}");
    let step = schedule("step:0.99:10").events(NoiseMultiplier(1.0), rate, 100).unwrap();
    let epsilon = Rdp::default().epsilon(&step, Delta(1e-5)).unwrap().epsilon;
    assert!((epsilon / 1.930_275_981 - 1.0).abs() < 1e-4, "{epsilon}");
}

#[test]
fn schedules_round_trip_through_text_and_json() {
    for text in [
        "constant",
        "linear:0.99",
        "time:0.01",
        "step:0.99:10",
        "exp:0.1",
        "exp:1e-7",
        "piecewise:10x1,5x0.8",
    ] {
        assert_eq!(schedule(text).to_string(), text);
        let json = serde_json::to_string(&schedule(text)).unwrap();
        assert_eq!(serde_json::from_str::<NoiseSchedule>(&json).unwrap(), schedule(text));
    }
    assert_eq!(
        serde_json::to_string(&schedule("step:0.99:10")).unwrap(),
        r#"{"kind":"step","rate":0.99,"every":10}"#
    );
}

#[test]
fn invalid_schedules_are_rejected_with_examples() {
    for text in
        ["", "linear", "linear:", "linear:a", "linear:1:2", "step:0.9", "cosine:1", "step:0.9:1.5"]
    {
        let error = text.parse::<NoiseSchedule>().unwrap_err();
        assert!(error.advice().contains("step:0.99:10"), "{text}: {error}");
    }
    for text in [
        "linear:0",
        "linear:-1",
        "time:NaN",
        "exp:inf",
        "step:0.9:0",
        "piecewise:0x1",
        "piecewise:1x0",
    ] {
        let error = text.parse::<NoiseSchedule>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setting, "{text}");
    }
    assert!(NoiseSchedule::Piecewise { phases: vec![] }.check().is_err());
}

#[test]
fn noise_that_overflows_or_underflows_is_an_error() {
    let rate = SamplingRate(0.1);
    for text in ["exp:10", "linear:1e-9", "linear:1e9"] {
        let error = schedule(text).events(NoiseMultiplier(1.0), rate, 1000).unwrap_err();
        assert!(error.to_string().contains("in epoch"), "{error}");
    }
    assert!(schedule("exp:10").sum_of_inverse_variances(1000).is_err());
    assert!(schedule("constant").events(NoiseMultiplier(1.0), rate, u64::MAX).is_err());
    assert!(schedule("constant").events(NoiseMultiplier(1.0), SamplingRate(1e-300), 1).is_err());
    assert!(schedule("constant").events(NoiseMultiplier(0.0), rate, 1).is_err());
    // Constructed without a check: the method itself has to reject it.
    let by_hand = NoiseSchedule::Step { rate: 0.9, every: 0 };
    assert!(by_hand.noise_multiplier(NoiseMultiplier(1.0), 5).is_err());
}
