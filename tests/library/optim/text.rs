//! What is written to records and read from command lines.

use epsilab::optim::{
    AdamParams, Average, CycleMode, CycledMomentum, LearningRate, Optimizer, WarmUp,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Checks that a value is written as this JSON and read back from it.
#[track_caller]
fn written<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: T, json: &str) {
    assert_eq!(serde_json::to_string(&value).unwrap(), json);
    assert_eq!(serde_json::from_str::<T>(json).unwrap(), value);
}

#[test]
fn optimizers_are_written_as_in_earlier_records() {
    written(Optimizer::default(), r#"{"sgd":{"momentum":0.9}}"#);
    written(Optimizer::Sgd { momentum: 0.0 }, r#"{"sgd":{"momentum":0.0}}"#);
    written(Optimizer::adam(), r#""adam""#);
    written(Optimizer::Nesterov { momentum: 0.9 }, r#"{"nesterov":{"momentum":0.9}}"#);
    written(Optimizer::adamw(), r#""adamw""#);
    written(Optimizer::dp_adam_bc(), r#""dp_adam_bc""#);
    let other = AdamParams { beta2: 0.98, ..AdamParams::ADAM };
    written(Optimizer::Adam(other), r#"{"adam":{"beta1":0.9,"beta2":0.98,"epsilon":1e-8}}"#);
    written(
        Optimizer::DpAdamBc(AdamParams::ADAM),
        r#"{"dp_adam_bc":{"beta1":0.9,"beta2":0.999,"epsilon":1e-8}}"#,
    );
    let error = serde_json::from_str::<Optimizer>(r#""sdg""#).unwrap_err();
    assert!(error.to_string().contains("dp_adam_bc"), "{error}");
}

#[test]
fn schedules_and_averages_are_written_by_kind() {
    written(LearningRate::Constant, r#"{"kind":"constant"}"#);
    let step = LearningRate::Step { every: 30.0, gamma: 0.1 };
    written(step, r#"{"kind":"step","every":30.0,"gamma":0.1}"#);
    written(Average::ema(), r#"{"kind":"ema","decay":0.9999}"#);
    written(Average::Last { steps: 7 }, r#"{"kind":"last","steps":7}"#);
    written(WarmUp::Fraction(0.1), r#"{"fraction":0.1}"#);
    written(WarmUp::Steps(5), r#"{"steps":5}"#);
}

#[test]
fn optimizers_have_a_name_on_the_command_line_and_one_for_reading() {
    let moments = AdamParams { epsilon: 1e-6, ..AdamParams::ADAM };
    for (text, optimizer, shown) in [
        ("sgd", Optimizer::Sgd { momentum: 0.9 }, "SGD, momentum 0.9"),
        ("sgd:0", Optimizer::Sgd { momentum: 0.0 }, "SGD"),
        ("nesterov:0.8", Optimizer::Nesterov { momentum: 0.8 }, "SGD, Nesterov momentum 0.8"),
        ("adam", Optimizer::adam(), "Adam"),
        ("adamw", Optimizer::adamw(), "AdamW"),
        ("dp-adam-bc", Optimizer::dp_adam_bc(), "DP-AdamBC"),
    ] {
        assert_eq!(text.parse::<Optimizer>().unwrap(), optimizer);
        assert_eq!(optimizer.to_string(), shown);
    }
    let shown = Optimizer::Adam(moments).to_string();
    assert_eq!(shown, "Adam, beta (0.9, 0.999), epsilon 1e-6");
    assert_eq!(Optimizer::adamw().default_weight_decay(), 0.01);
    assert_eq!(Optimizer::adam().default_weight_decay(), 0.0);
}

#[test]
fn texts_of_schedules_are_short_and_read_back() {
    let momentum = Some(CycledMomentum { low: 0.8, high: 0.95 });
    let mode = CycleMode::ExpRange { gamma: 0.99 };
    for (text, schedule) in [
        ("constant", LearningRate::Constant),
        ("linear:0.1", LearningRate::Linear { end_factor: 0.1 }),
        ("step:30:0.1", LearningRate::Step { every: 30.0, gamma: 0.1 }),
        (
            "multi-step:2.5,5:0.1",
            LearningRate::MultiStep { milestones: vec![2.5, 5.0], gamma: 0.1 },
        ),
        ("piecewise:10x1,5x0.8", LearningRate::Piecewise { phases: vec![(10, 1.0), (5, 0.8)] }),
        ("cosine", LearningRate::Cosine { end_factor: 0.0 }),
        (
            "cosine-restarts:10:2",
            LearningRate::CosineRestarts { period: 10.0, growth: 2, end_factor: 0.0 },
        ),
        (
            "cyclic:0.1:5:7:exp-range=0.99:momentum=0.8-0.95",
            LearningRate::Cyclic { base_factor: 0.1, up: 5, down: 7, mode, momentum },
        ),
        ("one-cycle:0.3", LearningRate::one_cycle()),
        ("plateau:0.1:10", LearningRate::Plateau { factor: 0.1, patience: 10, threshold: 1e-4 }),
    ] {
        assert_eq!(schedule.to_string(), text);
        assert_eq!(text.parse::<LearningRate>().unwrap(), schedule);
        assert_eq!(schedule.private_input().is_some(), text.starts_with("plateau"));
    }
    // Usual values may be left out.
    for (short, full) in [
        ("one-cycle", "one-cycle:0.3"),
        ("step:30", "step:30:0.1"),
        ("cyclic:0.1:5", "cyclic:0.1:5:5"),
        ("cosine-restarts:10", "cosine-restarts:10:1"),
        (" plateau ", "plateau:0.1:10:threshold=1e-4"),
    ] {
        let [short, full] = [short, full].map(|text| text.parse::<LearningRate>().unwrap());
        assert_eq!(short, full);
    }
    for text in ["0.1", "500", "0"] {
        assert_eq!(text.parse::<WarmUp>().unwrap().to_string(), text);
    }
}
