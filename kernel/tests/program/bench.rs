//! Tests of the command `bench`.

use std::process::Output;

use serde_json::Value;

use crate::common::processes::{children, is_alive, threads};
use crate::common::{json, program, run, scratch, text, wait_for, wait_until};

fn bench(args: &[&str]) -> Output {
    run(scratch(), &[&["bench"], args].concat())
}

const SMALL: [&str; 8] =
    ["--models", "papernot_cnn", "--batch", "8", "--steps", "3", "--warmup", "1"];

#[test]
fn measurements_as_json_are_consistent() {
    let output = bench(&[&SMALL[..], &["--threads", "1", "--json"]].concat());
    let all = json(&output);
    let figures = &all.as_array().expect("a list")[0];
    assert_eq!(all.as_array().map(Vec::len), Some(1));
    let number = |name: &str| figures[name].as_f64().unwrap_or_else(|| panic!("{name}: {figures}"));
    assert_eq!(figures["model"], "papernot_cnn");
    assert_eq!(figures["device"], "cpu");
    assert_eq!((number("batch"), number("threads"), number("steps")), (8.0, 1.0, 3.0));
    assert!(figures.get("masked_s").is_none(), "only if asked for: {figures}");
    assert_eq!(number("parameters"), 26_010.0);
    for mode in ["private", "nonprivate"] {
        let [min, median, max] =
            ["min_s", "s", "max_s"].map(|which| number(&format!("{mode}_{which}")));
        assert!(0.0 < min && min <= median && median <= max, "{figures}");
    }
    assert!((number("ratio") - number("private_s") / number("nonprivate_s")).abs() < 1e-9);
    assert!((number("examples_per_s") - 8.0 / number("private_s")).abs() < 1e-6);
    for loss in ["loss", "nonprivate_loss"] {
        assert!((0.5..6.0).contains(&number(loss)), "{figures}");
    }
    // 4 batches of 8 images and the parameters.
    assert!((number("held_mb") - (4.0 * 8.0 * 784.0 + 26_010.0) * 4.0 / 1048576.0).abs() < 1e-9);
    if cfg!(target_os = "linux") {
        assert!(number("peak_mb") > 0.0 && number("nonprivate_peak_mb") > 0.0, "{figures}");
        assert!(number("private_cpu_s") > 0.0 && number("nonprivate_cpu_s") > 0.0, "{figures}");
    }
}

#[test]
fn masked_steps_are_listed_with_full_ones() {
    let output = bench(&[&SMALL[..], &["--threads", "1", "--masked", "0.5", "--json"]].concat());
    let all = json(&output);
    let number = |name: &str| all[0][name].as_f64().unwrap_or_else(|| panic!("{name}: {all}"));
    assert_eq!(number("masked_rate"), 0.5);
    for what in ["masked", "drop_random", "drop_smallest"] {
        let ratio = number(&format!("{what}_s")) / number("private_s");
        assert!(ratio > 0.0 && (number(&format!("{what}_ratio")) - ratio).abs() < 1e-9, "{all}");
    }
}

#[test]
fn clip_rules_and_frozen_parameters_are_variants_of_the_private_step() {
    let variants = ["--clip-rule", "auto-s,per-layer", "--train-only", "9", "--json"];
    let output = bench(&[&SMALL[..], &["--threads", "1"], &variants].concat());
    let all = json(&output);
    for what in ["auto_s", "per_layer", "train_only"] {
        let number = |name: &str| all[0][name].as_f64().unwrap_or_else(|| panic!("{name}: {all}"));
        let ratio = number(&format!("{what}_s")) / number("private_s");
        assert!(ratio > 0.0 && (number(&format!("{what}_ratio")) - ratio).abs() < 1e-9, "{all}");
    }
    assert!(all[0]["masked_rate"].is_null() && all[0].get("masked_s").is_none(), "{all}");
    let unknown = bench(&[&SMALL[..], &["--train-only", "nothing"]].concat());
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text(&unknown.stderr).contains("no parameter has this path"), "{unknown:?}");
}

#[test]
fn the_roofline_has_every_layer_and_its_limit() {
    let args = ["--models", "simple_vgg", "--batch", "32", "--steps", "2", "--threads", "1"];
    let output = bench(&[&args[..], &["--roofline", "--json"]].concat());
    let all = json(&output);
    let number = |layer: &Value, name: &str| {
        layer[name].as_f64().unwrap_or_else(|| panic!("{name}: {layer}"))
    };
    let model = &all[0];
    let layers = model["layers"].as_array().expect("layers");
    let sum = |name: &str| layers.iter().map(|layer| number(layer, name)).sum::<f64>();
    assert!((sum("limit_ms") - number(model, "limit_ms")).abs() < 1e-6, "{model}");
    // The limit is 0.3 to 0.6 of the step. Other load during one of the two measurements changes
    // that by a factor of a few; a wrong unit would change it by a thousand.
    let taken = sum("forward_ms") + sum("backward_ms") + sum("norms_ms") + sum("sums_ms");
    let whole = number(model, "private_ms");
    for time in [taken, whole, number(model, "nonprivate_ms")] {
        let share = number(model, "limit_ms") / time;
        assert!((0.01..30.0).contains(&share), "{model}");
    }
    // On one thread nothing overlaps.
    let after = number(model, "noise_and_update_ms");
    assert!(after > 0.0 && taken + after <= whole + 1e-6, "{model}");
    assert!(layers.iter().any(|layer| layer["what"].as_str().unwrap_or("").contains("conv 3x3")));

    let text_of = |more: &[&str]| text(&bench(&[&args[..], more].concat()).stdout);
    let table = text_of(&["--roofline"]);
    for row in ["layer ", "0: conv 3x3, 3 to 32", "all layers", "waiting", "noise, update"] {
        assert!(table.lines().any(|line| line.starts_with(row)), "{row}: {table}");
    }
    assert!(table.contains("simple_vgg, batch 32, 1 thread: private step"), "{table}");

    for more in [["--masked", "0.5"], ["--executor", "tap"]] {
        let refused = bench(&[&["--roofline"], &more[..]].concat());
        assert_eq!(refused.status.code(), Some(2), "{more:?}");
    }
    let refused = bench(&["--roofline", "--device", "cuda"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stdout.is_empty());
}

#[test]
fn the_default_output_is_a_table() {
    let output = bench(&[&SMALL[..], &["--executor", "tap", "--masked", "0.25"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let out = text(&output.stdout);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0].split_whitespace().last(), Some("smallest"), "{out}");
    assert_eq!(lines[0].len(), lines[1].len(), "{out}");
    assert!(out.contains("25 % of each weight tensor left out"), "{out}");
    assert!(lines[0].starts_with("model") && lines[0].contains("private ms"), "{out}");
    assert!(lines[1].starts_with("papernot_cnn") && lines[1].contains(" 8 "), "{out}");
    assert!(out.contains("Medians of 3 steps in turn after 1"), "{out}");
}

#[test]
fn invalid_settings_are_refused_at_once() {
    for (args, words) in [
        (&["--models", "papernot_cnn,alexnet"][..], "--models = alexnet"),
        (&["--models", ""], "choose from papernot_cnn"),
        (&["--threads", "0"], "--threads = 0"),
        (&["--threads", "100000"], "--threads = 100000"),
        (&["--batch", "0"], "--batch = 0"),
        (&["--batch", "9999999999"], "--batch = 9999999999"),
        (&["--steps", "0"], "--steps = 0"),
        (&["--masked", "1"], "--masked = 1"),
        (&["--masked", "nan"], "--masked = NaN"),
        (&["--clip-rule", "auto-s,none"], "clip_rule = none"),
        (&["--device", "gpu"], "unknown device"),
    ] {
        let output = bench(args);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {err}");
        assert!(err.starts_with("error: ") && err.contains(words), "{args:?}: {err}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
    assert_eq!(bench(&["--threads", "many"]).status.code(), Some(2));
    let help = bench(&["--help"]);
    assert!(help.status.success() && text(&help.stdout).contains("--models"));
    assert!(!text(&help.stdout).contains("--measure"), "hidden options stay hidden");
}

#[test]
fn a_missing_gpu_is_an_error_and_not_a_measurement() {
    // No machine has that many GPUs.
    for (device, words) in [("cuda:4096", "cuda:4096 can't be used"), ("cuda:-1", "unknown device")]
    {
        for more in [&[][..], &["--json"], &["--check"], &["--measure", "private"]] {
            let output = bench(&[&SMALL[..], &["--device", device], more].concat());
            let err = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{device} {more:?}: {err}");
            assert!(err.starts_with("error: ") && err.contains(words), "{more:?}: {err}");
            assert!(err.contains("cpu") && !err.contains("panicked"), "{err}");
            assert!(output.stdout.is_empty(), "{device} {more:?}");
        }
    }
    #[cfg(not(feature = "cuda"))]
    {
        let err = text(&bench(&["--device", "cuda"]).stderr);
        assert!(err.contains("built without CUDA") && err.contains("--features cuda"), "{err}");
    }
}

#[test]
fn without_a_gpu_checks_compare_the_executors_of_the_cpu() {
    let output = bench(&["--models", "papernot_cnn", "--check", "--json"]);
    let all = json(&output);
    let all = all.as_array().expect("a list");
    assert!(all.iter().all(|one| one["ok"] == true && one["device"] == "cpu"), "{all:?}");
    for what in ["norms", "masked sum", "noise", "released by dp-ssgd"] {
        assert!(all.iter().any(|one| one["what"] == what), "{what}");
    }
    assert_eq!(bench(&["--check", "--masked", "0.5"]).status.code(), Some(2));
}

#[cfg(target_os = "linux")]
#[test]
fn measuring_ends_with_the_command() {
    let args = ["bench", "--models", "papernot_cnn", "--steps", "1000000", "--json"];
    let mut command = program(scratch()).args(args).spawn().expect("it starts");
    let child = wait_for("a measuring process", || children(command.id()).pop());
    // Its threads come after the setting that ends it with the command.
    wait_until("it measures", || threads(child) > 1);
    command.kill().expect("killed");
    command.wait().expect("gone");
    wait_until("the measuring process ends", || !is_alive(child));
}
