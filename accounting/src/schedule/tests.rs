use super::*;
use crate::ErrorKind;
use crate::{Delta, Event, NoiseMultiplier, Rdp, SamplingRate, Stage, Stages, TrainingLength};

fn schedule(text: &str) -> NoiseSchedule {
    text.parse().unwrap()
}

/// Returns the table of whole epochs.
fn epochs(text: &str, initial: f64, q: f64, epochs: f64) -> Result<Stages> {
    let (initial, rate) = (NoiseMultiplier(initial), SamplingRate(q));
    let steps = TrainingLength::Epochs(epochs).steps(rate)?;
    Stages::from_schedules(&schedule(text), &ClipSchedule::constant(), initial, rate, steps)
}

#[test]
fn the_published_sums_require_rates_on_the_variance() {
    // At sampling rate 1 an epoch is one step.
    let sum = |text: &str| -> f64 {
        let stages = epochs(text, 1.0, 1.0, 100.0).unwrap();
        let term = |stage: &Stage| stage.steps as f64 / stage.noise_multiplier.powi(2);
        stages.as_slice().iter().map(term).sum()
    };
    for (text, expected, tolerance) in [
        ("constant", 100.0, 1e-12),
        ("linear:0.99", 171.467_903_616_473_68, 1e-9),
        ("time:0.01", 149.5, 1e-9),
        ("step:0.99:10", 104.670_081_768_661_79, 1e-9),
        ("exp:0.1", 209_425.440_015_310_95, 1e-6),
    ] {
        assert!((sum(text) - expected).abs() < tolerance, "{text}: {}", sum(text));
    }
    // A rate that acts on the multiplier itself gives 320 instead of 171.
    let wrong = sum("linear:0.9801");
    assert!((wrong - 171.47).abs() > 100.0, "{wrong}");
}

#[test]
fn factors_follow_their_formulas() {
    let moment = |epoch| SchedulePosition { epoch, fraction: 0.25 };
    let noise = |text: &str, epoch| schedule(text).factor(moment(epoch));
    let clip = |text: &str, epoch| text.parse::<ClipSchedule>().unwrap().factor(moment(epoch));
    for text in ["constant", "linear:0.9", "time:0.5", "step:0.9:3", "exp:0.1", "piecewise:3x1"] {
        assert_eq!((noise(text, 0), clip(text, 0)), (1.0, 1.0), "{text}");
    }
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
    // Rates act on the variance of the noise, and on the bound itself.
    for (text, epoch, on_bound) in [
        ("linear:0.81", 3, 0.81f64.powi(3)),
        ("linear:1.21", 2, 1.21f64.powi(2)),
        ("time:0.5", 6, 0.25),
        ("step:0.81:10", 9, 1.0),
        ("step:0.81:10", 10, 0.81),
        ("exp:0.2", 5, (-1f64).exp()),
    ] {
        close(clip(text, epoch), on_bound);
        close(noise(text, epoch), on_bound.sqrt());
    }
    // Ratios and the factors of phases act on either as they are.
    close(noise("decay:0.5", 7), 0.5f64.powf(0.25));
    assert_eq!(noise("decay:0.5", 7), clip("decay:0.5", 7));
    for (epoch, factor) in [1.5, 1.5, 0.5, 0.5, 0.5, 0.5].into_iter().enumerate() {
        assert_eq!(noise("piecewise:2x1.5,3x0.5", epoch as u64), factor);
        assert_eq!(clip("piecewise:2x1.5,3x0.5", epoch as u64), factor);
    }
}

#[test]
fn composing_epochs_instead_of_steps_is_rejected() {
    // The RDP epsilon of 938 steps in each of 100 epochs is 4.1201 (independent quadrature).
    // Counting one release per epoch would give a far smaller value. The steps are given, because
    // a run of 100 epochs at this rate has 93,750.
    let events = |text: &str| -> Vec<Event> {
        let event = |stage: &Stage| Event::poisson(64.0 / 6e4, stage.noise_multiplier, 938);
        let by_epoch = epochs(text, 1.0, 1.0, 100.0).unwrap();
        (0..100).map(|epoch| event(&by_epoch.at(epoch))).collect()
    };
    for (text, expected) in [("linear:0.99", 4.120_141_925), ("step:0.99:10", 1.930_275_981)] {
        let epsilon = Rdp::default().epsilon(&events(text), Delta(1e-5)).unwrap().epsilon;
        assert!((epsilon / expected - 1.0).abs() < 1e-4, "{text}: {epsilon}");
    }
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
        "decay:0.5",
        "piecewise:10x1,5x0.8",
    ] {
        assert_eq!(schedule(text).to_string(), text);
        let json = serde_json::to_string(&schedule(text)).unwrap();
        assert_eq!(serde_json::from_str::<NoiseSchedule>(&json).unwrap(), schedule(text));
        let clip: ClipSchedule = text.parse().unwrap();
        assert_eq!((clip.to_string(), serde_json::to_string(&clip).unwrap()), (text.into(), json));
    }
    assert_eq!(schedule("decay:0.5"), NoiseSchedule::decay(0.5));
    assert_eq!(schedule("piecewise:10x1,5x0.8"), NoiseSchedule::piecewise([(10, 1.0), (5, 0.8)]));
    assert_eq!(
        serde_json::to_string(&schedule("step:0.99:10")).unwrap(),
        r#"{"kind":"step","rate":0.99,"every":10}"#
    );
}

#[test]
fn invalid_schedules_are_rejected_with_examples() {
    for text in [
        "",
        "linear",
        "linear:",
        "linear:a",
        "linear:1:2",
        "step:0.9",
        "cosine:1",
        "step:0.9:1.5",
        "decay",
    ] {
        let error = text.parse::<NoiseSchedule>().unwrap_err();
        assert!(error.advice().contains("step:0.99:10"), "{text}: {error}");
    }
    for text in [
        "linear:0",
        "linear:-1",
        "time:NaN",
        "exp:inf",
        "decay:0",
        "step:0.9:0",
        "piecewise:0x1",
        "piecewise:1x0",
    ] {
        let error = text.parse::<NoiseSchedule>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setting, "{text}");
    }
    assert!(NoiseSchedule::piecewise([]).check().is_err());
}

#[test]
fn noise_that_overflows_or_underflows_is_an_error() {
    for text in ["exp:10", "linear:1e-9", "linear:1e9"] {
        let error = epochs(text, 1.0, 0.1, 1000.0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setting);
        assert!(error.to_string().contains("in epoch"), "{error}");
    }
    // Constructed without a check: the table has to reject it.
    let by_hand = NoiseSchedule::step(0.9, 0);
    let (initial, rate) = (NoiseMultiplier(1.0), SamplingRate(0.1));
    assert!(Stages::from_schedules(&by_hand, &ClipSchedule::constant(), initial, rate, 9).is_err());
}
