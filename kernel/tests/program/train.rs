//! Tests of the command `train`: its JSON, its plan files, what it refuses and what it charges.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::common::{folder, json, program, run, text};

/// A run of a second: a linear model on a part of the glyphs.
const SMALL: [&str; 8] =
    ["--data", "glyphs", "--train", "400", "--test", "100", "--model", "linear"];
/// Its plan.
const PLAN: [&str; 4] = ["--batch-size", "100", "--steps", "3"];

/// `train` with the small data and plan.
fn train(home: &Path, args: &[&str]) -> Output {
    run(home, &[&["train"], &SMALL[..], &PLAN, args].concat())
}

/// Parses stdout of a command that succeeded: one line of JSON.
#[track_caller]
fn one_line(output: &Output) -> Value {
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(out.lines().count(), 1, "{out}");
    serde_json::from_str(&out).expect("JSON")
}

/// Asserts exit code 1, an error on stderr that contains all of `words`, and nothing on stdout.
#[track_caller]
fn refused(output: &Output, words: &[&str]) {
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.starts_with("error: ") && output.stdout.is_empty(), "{err}");
    for words in words {
        assert!(err.contains(words), "{words}: {err}");
    }
}

/// All entries of all ledgers.
fn charges(home: &Path) -> String {
    let Ok(files) = std::fs::read_dir(home.join("ledger")) else { return String::new() };
    let paths = files.map(|file| file.expect("a file").path());
    let ledgers = paths.filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
    ledgers.map(|path| std::fs::read_to_string(path).expect("a ledger")).collect()
}

#[test]
fn a_private_run_is_one_line_whose_epsilon_is_that_of_the_accountant() {
    let home = folder();
    let args = ["--noise-multiplier", "1.1", "--delta", "1e-4", "--json"];
    let first = train(home.path(), &args);
    let json = one_line(&first);
    let keys = json.as_object().expect("an object").keys().map(String::as_str);
    // So short a run may have learnt nothing.
    let keys: Vec<&str> = keys.filter(|key| *key != "warnings").collect();
    assert_eq!(
        {
            let mut keys = keys;
            keys.sort_unstable();
            keys
        },
        [
            "accuracy",
            "badge",
            "caveats",
            "delta",
            "epsilon",
            "method",
            "noise_multiplier",
            "run",
            "seconds",
            "steps",
            "trained_parameters"
        ]
    );
    assert!(text(&first.stdout).starts_with(r#"{"method":"dp-sgd","badge":"proved","epsilon":"#));
    assert_eq!((&json["delta"], &json["noise_multiplier"]), (&1e-4.into(), &1.1.into()));
    assert_eq!((&json["steps"], &json["trained_parameters"]), (&3.into(), &7850.into()));
    assert!((0.0..=1.0).contains(&json["accuracy"].as_f64().expect("a number")), "{json}");
    assert!(text(&first.stderr).contains("linear on"), "{}", text(&first.stderr));

    // The number of training examples is about 400.
    let preview = text(&train(home.path(), &[&args[..4], &["--preview"]].concat()).stdout);
    let examples = preview.lines().find(|line| line.contains("training examples"));
    let examples = examples.and_then(|line| line.split_whitespace().last()).expect("a number");
    let rate = (100.0 / examples.parse::<f64>().expect("a number")).to_string();
    let expected = [
        ["epsilon", "--sampling-rate", &rate],
        ["--noise-multiplier", "1.1", "--steps"],
        ["3", "--delta", "1e-4"],
    ];
    let expected = one_line(&run(home.path(), &[&expected.concat()[..], &["--json"]].concat()));
    let (spent, expected) =
        (json["epsilon"].as_f64().unwrap(), expected["epsilon"].as_f64().unwrap());
    assert!((spent - expected).abs() < 1e-9, "{spent} {expected}");

    assert_eq!(charges(home.path()).lines().count(), 2, "planned and spent");

    // The second time the stored run is shown, unless it shall be fresh.
    let again = train(home.path(), &args);
    assert_eq!(one_line(&again)["run"], json["run"]);
    assert_eq!(one_line(&again)["seconds"], json["seconds"]);
    let words = text(&train(home.path(), &args[..4]).stdout);
    assert!(words.contains("shown again") && words.contains("guarantee: proved"), "{words}");
    let fresh = one_line(&train(home.path(), &[&args[..], &["--fresh"]].concat()));
    assert_ne!(fresh["seconds"], json["seconds"]);
    assert_eq!(json["caveats"], Value::Array(Vec::new()));

    // A guarantee that promises nothing says so, in words too.
    let weak = ["--noise-multiplier", "0.05", "--delta", "0.01"];
    let json = one_line(&train(home.path(), &[&weak[..], &["--json"]].concat()));
    let caveats: Vec<&str> =
        json["caveats"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let [epsilon, delta] = caveats[..] else { panic!("{json}") };
    assert!(epsilon.contains("guarantees nothing in practice"), "{json}");
    assert!(delta.starts_with("delta 0.01 is not below 1 / "), "{json}");
    let words = text(&train(home.path(), &weak).stdout);
    assert!(words.contains(&format!("caveat: {epsilon}\ncaveat: {delta}\n")), "{words}");
}

#[test]
fn a_private_selection_is_charged_once_and_found_again() {
    let (home, out) = (folder(), folder());
    let file = out.path().join("plan.json").display().to_string();
    let args = ["--best-of", "3", "--learning-rates", "0.1,1,4", "--epsilon", "2"];
    let preview = train(home.path(), &[&args[..], &["--preview", "--save-plan", &file]].concat());
    let stdout = text(&preview.stdout);
    assert!(stdout.contains("geometric, mean 3") && stdout.contains("3 candidates"), "{stdout}");
    assert_eq!(charges(home.path()), "");
    let output = train(home.path(), &[&args[..], &["--json"]].concat());
    let first = one_line(&output);
    assert_eq!(
        (&first["badge"], &first["seconds"]),
        (&"assumption".into(), &0.0.into()),
        "{first}"
    );
    assert!(first["epsilon"].as_f64().is_some_and(|epsilon| epsilon <= 2.0), "{first}");
    let err = text(&output.stderr);
    let progress = err.lines().filter(|line| !line.starts_with("Warning: "));
    assert!(err.contains("stay secret"), "{err}");
    assert!(!progress.collect::<String>().contains("step"), "{err}");
    let charged = charges(home.path());
    assert_eq!(charged.matches(r#""entry":"planned""#).count(), 1, "{charged}");
    assert_eq!(one_line(&train(home.path(), &[&args[..], &["--json"]].concat())), first);
    let of_file = [&["train"], &SMALL[..], &["--plan", &file, "--json"]].concat();
    assert_eq!(one_line(&run(home.path(), &of_file)), first, "the plan file is the same run");
    assert_eq!(charges(home.path()), charged);
    refused(&train(home.path(), &["--learning-rates", "0.1,1"]), &["--best-of", "cargo lab sweep"]);
    refused(&train(home.path(), &["--best-of", "one"]), &["trials"]);
    let both = ["--best-of", "3", "--clips", "0.1,1", "--clip", "1"];
    refused(&train(home.path(), &both), &["--clips", "--clip"]);
    let every = ["--best-of", "3", "--checkpoint-every", "1"];
    refused(&train(home.path(), &every), &["secret"]);
}

#[test]
fn a_plan_file_trains_the_same_run() {
    let (home, out) = (folder(), folder());
    let file = out.path().join("plan.json").display().to_string();
    let result = out.path().join("result").display().to_string();
    // A calibrated noise multiplier has all digits of a double.
    let args = [
        ["--epsilon", "2"],
        ["--noise-schedule", "linear:0.9"],
        ["--lr-schedule", "cosine"],
        ["--clip-rule", "per-layer"],
        ["--average", "ema"],
        ["--seed", "5"],
    ];
    let args = args.concat();
    let preview = train(home.path(), &[&args[..], &["--preview", "--save-plan", &file]].concat());
    assert!(text(&preview.stdout).contains("noise multiplier"), "{}", text(&preview.stderr));
    assert_eq!((preview.status.code(), charges(home.path()).as_str()), (Some(0), ""));

    let report = one_line(&train(home.path(), &[&args[..], &["--json"]].concat()));
    assert_eq!(report["badge"], "assumption", "a seed is an assumption");
    assert!(report["epsilon"].as_f64().is_some_and(|epsilon| epsilon <= 2.0), "{report}");
    let plan = |more: &[&str]| {
        let args = [&["train"], &SMALL[..], &["--plan", &file], more].concat();
        run(home.path(), &args)
    };
    let read = one_line(&plan(&["--json", "--out", &result]));
    assert_eq!(read, report, "the stored run is found");
    for name in ["model.safetensors", "result.json", "run.svg"] {
        assert!(Path::new(&result).join(name).is_file(), "{name}");
    }

    refused(&plan(&["--epsilon", "3"]), &["--epsilon", "leave out --epsilon"]);
    refused(&plan(&["--freeze", "head"]), &["--freeze"]);
    let other = [&["train"], &SMALL[..2], &["--train", "200", "--model", "linear"], &["--plan"]];
    refused(&run(home.path(), &[&other.concat()[..], &[&file]].concat()), &["training examples"]);

    let edit = |old: &str, new: &str| {
        let text = std::fs::read_to_string(&file).expect("a plan");
        assert!(text.contains(old), "{old}: {text}");
        std::fs::write(&file, text.replacen(old, new, 1)).expect("written");
    };
    let sigma = format!("\"noise_multiplier\": {}", report["noise_multiplier"]);
    edit(&sigma, "\"noise_multiplier\": 0.9");
    let edited = one_line(&plan(&["--json"]));
    assert!(edited["epsilon"].as_f64() > report["epsilon"].as_f64(), "{edited}");
    assert_ne!(edited["run"], report["run"]);
    edit("\"noise_multiplier\": 0.9", "\"noise_multiplier\": -0.9");
    refused(&plan(&["--json"]), &["noise"]);
}

#[test]
fn wrong_options_are_refused_by_name_and_nothing_is_charged() {
    let home = folder();
    let cases: [(&[&str], &[&str]); 16] = [
        (&["--epsilon", "2", "--noise-multiplier", "1"], &["--epsilon and --noise-multiplier"]),
        (&["--epochs", "1"], &["--epochs and --steps", "leave out"]),
        (&["--epsilon", "-1"], &["epsilon", "-1"]),
        (&["--noise-multiplier", "0"], &["noise"]),
        (&["--method", "sgd"], &["--method", "choose from dp-sgd, dp-ssgd"]),
        (&["--method", "non-private", "--clip", "1"], &["--clip", "neither clips"]),
        (&["--method", "dp-sgd", "--mask", "random", "--pre-prune", "0.5"], &["--mask", "dp-ssgd"]),
        (&["--method", "dp-ssgd", "--mask", "random"], &["--mask", "--pre-prune"]),
        (&["--method", "dp-ssgd", "--pre-prune", "1"], &["prune = 1"]),
        (&["--clip-rule", "round"], &["--clip-rule", "auto-s"]),
        (&["--noise-schedule", "linear:x"], &["linear:x", "decay:0.5"]),
        (&["--lr-schedule", "plateau:0.1:10"], &["follows a loss", "accept_no_guarantee"]),
        (&["--freeze", "nothing"], &["freeze = nothing"]),
        (&["--optimizer", "lion"], &["lion", "dp-adam-bc"]),
        (&["--label", "y"], &["--label", "only a table"]),
        (&["--device", "gpu"], &["gpu"]),
    ];
    for (args, words) in cases {
        refused(&train(home.path(), &[args, &["--json"]].concat()), words);
    }
    refused(&run(home.path(), &["train", "--data", "nothing"]), &["glyphs, patterns", ".csv"]);
    assert_eq!(charges(home.path()), "", "nothing is charged");
    let usage = train(home.path(), &["--nothing"]);
    assert_eq!(usage.status.code(), Some(2), "{}", text(&usage.stderr));
}

#[test]
fn runs_without_a_guarantee_are_marked_and_only_trained_coordinates_are_counted() {
    let home = folder();
    let json = |args: &[&str]| one_line(&train(home.path(), &[args, &["--json"]].concat()));
    let plain = json(&["--method", "non-private"]);
    assert_eq!((&plain["badge"], &plain["epsilon"]), (&"none".into(), &Value::Null));
    assert_eq!((&plain["delta"], &plain["noise_multiplier"]), (&Value::Null, &Value::Null));
    let plateau = ["--lr-schedule", "plateau:0.1:10", "--accept-no-guarantee"];
    let plateau = json(&plateau);
    assert_eq!((&plateau["badge"], &plateau["epsilon"]), (&"none".into(), &Value::Null));
    let frozen = json(&["--freeze", "*.bias"]);
    assert_eq!((&frozen["badge"], &frozen["trained_parameters"]), (&"proved".into(), &7840.into()));
    let masked = ["--method", "dp-ssgd", "--mask", "random", "--pre-prune", "0.5", "--drop", "0.5"];
    assert_eq!(json(&masked)["trained_parameters"], 3930);
    assert_eq!(json(&[&masked[..], &["--freeze", "*.bias"]].concat())["trained_parameters"], 3920);
}

#[test]
fn methods_with_settings_of_their_own_take_them_by_name() {
    let home = folder();
    let json = |args: &[&str]| one_line(&train(home.path(), &[args, &["--json"]].concat()));
    // With a seed: three steps with fresh noise differ by chance.
    let auto = ["--method", "auto-dp-sgd", "--noise-multiplier", "1", "--seed", "2"];
    let published = json(&auto);
    assert_eq!((&published["badge"], &published["epsilon"]), (&"none".into(), &Value::Null));
    let number = |value: &Value, key: &str| value[key].as_f64().unwrap_or_else(|| panic!("{key}"));
    assert!(number(&published, "claimed_epsilon") > 0.0 && number(&published, "steps") == 3.0);
    // The thresholds are in the unit of the gradients, and the claim falls with them.
    let half = json(&[&auto[..], &["--gradient-scale", "0.5"]].concat());
    let ratio = |key: &str| number(&half, key) / number(&published, key);
    assert!((0.4..0.6).contains(&ratio("mean_threshold")), "{published} {half}");
    assert!(ratio("claimed_epsilon") < 0.6, "{published} {half}");
    let words = text(&train(home.path(), &auto).stdout);
    assert!(words.contains("no guarantee (the paper claims epsilon"), "{words}");
    let quantile = json(&["--method", "quantile", "--quantile", "0.7", "--rate", "0.5"]);
    assert_eq!(quantile["badge"], "proved");
    assert!(number(&quantile, "epsilon") <= 3.0 && number(&quantile, "mean_threshold") > 0.0);
    assert!(quantile.get("claimed_epsilon").is_none(), "{quantile}");
    let wrong = |args: &[&str], words: &[&str]| refused(&train(home.path(), args), words);
    wrong(
        &["--method", "quantile", "--gradient-scale", "1"],
        &["--gradient-scale = 1", "no such setting"],
    );
    wrong(
        &["--gradient-scale", "1"],
        &["--gradient-scale = 1", "the method dp-sgd has no such setting"],
    );
    wrong(&["--method", "quantile", "--rate", "fast"], &["rate = fast", "not a number"]);
    wrong(&["--method", "auto-dp-sgd", "--epsilon", "1"], &["target", "noise multiplier"]);
    let clipped = [&auto[..], &["--clip-rule", "flat"]].concat();
    wrong(&clipped, &["--clip-rule", "no clip norm"]);
}

#[test]
fn disjoint_batches_release_an_epoch_once_under_the_relation_that_is_named() {
    let home = folder();
    let epsilon = |output: &Output| one_line(output)["epsilon"].as_f64().expect("a number");
    let trained = |relation: &str| {
        let args = ["--noise-multiplier", "1.1", "--delta", "1e-4", "--json"];
        train(home.path(), &[&args[..], &["--disjoint-batches", relation]].concat())
    };
    // Three batches of 100 are less than one epoch of about 400 examples: one Gaussian release, of
    // sensitivity C for an example zeroed out and 2 C for one replaced.
    let gaussian = |sigma: &str| {
        let args = ["epsilon", "--noise-multiplier", sigma, "--steps", "1", "--delta", "1e-4"];
        epsilon(&run(home.path(), &[&args[..], &["--sampling-rate", "1", "--json"]].concat()))
    };
    let relations = [("zero-out", "zero_out_one", "1.1"), ("replace-one", "replace_one", "0.55")];
    for (relation, expected, sigma) in relations {
        let run = trained(relation);
        let (spent, composed) = (epsilon(&run), gaussian(sigma));
        assert_eq!(one_line(&run)["neighbouring"], expected);
        assert!((spent / composed - 1.0).abs() < 1e-3, "{relation}: {spent} {composed}");
    }
    // The ledger's event holds for both relations.
    assert_eq!(charges(home.path()).matches("shuffled_epochs").count(), 4);
    let words = text(&train(home.path(), &["--disjoint-batches", "zero-out"]).stdout);
    assert!(words.contains("delta 1e-5 (zero out one)"), "{words}");
    let add = ["--disjoint-batches", "add-or-remove-one"];
    refused(&train(home.path(), &add), &["--disjoint-batches", "zero-out, replace-one"]);
}

#[test]
fn a_table_of_numbers_is_read_and_split() {
    let home = folder();
    let path = home.path().join("table.csv");
    let rows = (0..200).map(|i| format!("{},{},c{}\n", i % 7, i, i % 2));
    std::fs::write(&path, format!("a,b,label\n{}", rows.collect::<String>())).expect("written");
    let table = path.display().to_string();
    let args = ["train", "--data", &table, "--batch-size", "20", "--steps", "2", "--json"];
    let whole = one_line(&run(home.path(), &args));
    assert_eq!(whole["accuracy"], Value::Null, "there is no test part");
    let split = one_line(&run(home.path(), &[&args[..], &["--split", "0.7"]].concat()));
    assert!(split["accuracy"].is_number(), "{split}");
    let label = run(home.path(), &[&args[..], &["--label", "c"]].concat());
    refused(&label, &["label"]);
}

/// A small CNN, which has stages.
const PAPERNOT: [&str; 8] =
    ["--data", "glyphs", "--train", "400", "--test", "100", "--epsilon", "8"];

#[test]
fn a_run_starts_from_public_data_or_from_a_file() {
    let home = folder();
    let start = ["--pretrain-on", "glyphs", "--pretrain-epochs", "0.01", "--freeze-groups", "2"];
    let out = home.path().join("out");
    let out = out.to_str().expect("a path");
    let args = [&["train"], &PAPERNOT[..], &PLAN, &start, &["--json", "--out", out]].concat();
    // Another device than the one of the environment, for both trainings.
    let run_once = || {
        let mut command = program(home.path());
        command.args(&args).args(["--device", "cpu"]).env("EPSILAB_DEVICE", "cuda");
        command.output().expect("the program starts")
    };
    let first = one_line(&run_once());
    assert_eq!((&first["trained_parameters"], &first["badge"]), (&330.into(), &"proved".into()));
    let charged = charges(home.path());
    assert_eq!(one_line(&run_once()), first);
    assert_eq!(charges(home.path()), charged, "nothing is trained twice");
    // The frozen part is that of the pre-trained model, not an initial one.
    let scratch = [&["train"], &PAPERNOT[..], &PLAN, &["--freeze-groups", "2", "--out"]].concat();
    let other = home.path().join("scratch");
    let done = run(home.path(), &[&scratch[..], &[other.to_str().expect("a path")]].concat());
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let weights = |folder: &Path| {
        let model = epsilab::nn::models::load(folder.join("model.safetensors")).expect("a model");
        model.network().values().remove(0).1
    };
    assert_ne!(weights(Path::new(out)), weights(&other));

    // A prior that is drawn by code keeps its head for digits, and its run needs no assumption.
    let prior = ["--prior", "drawn", "--pretrain-epochs", "0.01", "--device", "cpu", "--json"];
    let of_prior =
        one_line(&run(home.path(), &[&["train"], &PAPERNOT[..], &PLAN, &prior].concat()));
    assert_eq!(of_prior["badge"], "proved");
    assert_eq!(of_prior["trained_parameters"], 26010, "all groups, the prior's head among them");
    assert_ne!(of_prior["run"], first["run"]);
    let both = [&["train"], &PAPERNOT[..], &prior, &["--pretrain-on", "glyphs"]].concat();
    assert_eq!(run(home.path(), &both).status.code(), Some(2));
    let unknown = [&["train"], &PAPERNOT[..], &["--prior", "natural"]].concat();
    refused(&run(home.path(), &unknown), &["natural", "choose drawn"]);

    // A file says that it is of drawn data, which is believed, not known.
    let public = ["--data", "patterns", "--train", "300", "--method", "non-private"];
    let public =
        [&["train"], &public[..], &PLAN, &["--model", "simple_vgg", "--out", out]].concat();
    let trained = run(home.path(), &public);
    assert_eq!(trained.status.code(), Some(0), "{}", text(&trained.stderr));
    let model = Path::new(out).join("model.safetensors");
    let file = ["--pretrained", model.to_str().expect("a path")];
    let same = ["--data", "patterns", "--train", "200", "--test", "50"];
    let same = [&["train"], &same[..], &PLAN, &file].concat();
    refused(&run(home.path(), &same), &["patterns", "trained on the same data"]);
    let args = [&["train"], &PAPERNOT[..], &PLAN, &file].concat();
    refused(&run(home.path(), &args), &["[3, 32, 32]", "[1, 28, 28]"]);
}

/// What was read from nested folders and what was skipped is printed, so that a folder that lacks
/// half of its images is noticed.
#[test]
fn folders_of_images_are_trained_on_with_notices() {
    let home = folder();
    let image = include_bytes!("../../../tests/data/images/colour.jpg");
    for class in ["cat", "dog"] {
        for (part, name) in [("Train", "2021/1.jpg"), ("Train", "2.jpg"), ("Valid", "1.jpg")] {
            let path = home.path().join("pets").join(part).join(class).join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            // What follows the end of the image changes the file, but not the image.
            std::fs::write(path, [&image[..], class.as_bytes(), name.as_bytes()].concat())
                .expect("a file");
        }
    }
    let pets = home.path().join("pets");
    std::fs::write(pets.join("Train/cat/.DS_Store"), []).expect("a file");
    let pets = pets.to_str().expect("a path");
    let args = ["train", "--data", pets, "--image-size", "8", "--model", "linear", "--json"];
    let plan = ["--batch-size", "2", "--steps", "2", "--delta", "0.1"];
    let done = run(home.path(), &[&args[..], &plan].concat());
    assert_eq!(one_line(&done)["accuracy"], 0.5);
    let err = text(&done.stderr);
    for notice in [
        "Read 2 images in folders inside classes: cat/2021 and 1 more.",
        "Skipped: 1 hidden entry (such as .DS_Store, __MACOSX).",
    ] {
        assert!(err.lines().any(|line| line == notice), "{notice}: {err}");
    }
}

/// Weights under the lab's names, in a file that does not say which layers they are of.
#[test]
fn weights_of_a_file_are_read_with_a_layout_and_declared_public() {
    let home = folder();
    let data = epsilab::data::from_vecs(vec![0.0; 784], &[1, 28, 28], vec![0], 4).expect("data");
    let model = epsilab::nn::models::papernot_cnn(&data).seed(1).build().expect("a model");
    let file = home.path().join("weights.safetensors");
    model.save(&file).expect("a file");
    let start = ["--model", "papernot_cnn", "--layout", "own", "--pretrained"];
    let start = [&start[..], &[file.to_str().expect("a path")]].concat();
    let out = home.path().join("out");
    let rest = ["--freeze-groups", "2", "--json", "--out", out.to_str().expect("a path")];
    let args = |public: &[&'static str]| {
        let data = ["--data", "glyphs", "--train", "200", "--test", "50"];
        run(home.path(), &[&["train"], &data[..], &PLAN, &start, &rest, public].concat())
    };
    let done = args(&["--public", "ImageNet-21k"]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let report = text(&done.stderr);
    for words in ["read: 6 tensors with 25,680 values", "left in the file, new head", "9.weight"] {
        assert!(report.contains(words), "{words:?} is not in: {report}");
    }
    let kept = epsilab::nn::models::load(out.join("model.safetensors")).expect("a model");
    assert_eq!(kept.network().values()[0].1, model.network().values()[0].1);
    let declared = one_line(&done).to_string();
    assert!(declared.contains("ImageNet-21k"), "{declared}");
    // Without the declaration, nobody knows what they were trained on.
    let unknown = one_line(&args(&[])).to_string();
    assert!(!unknown.contains("ImageNet-21k"), "{unknown}");
}

#[test]
fn wrong_weights_are_refused_before_anything_is_trained() {
    let home = folder();
    let with = |args: &[&str]| run(home.path(), &[&["train"], &PLAN[..], args].concat());
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/weights/batch_norm.pth");
    let bit = ["--model", "bit_resnet50", "--layout", "timm-resnetv2", "--pretrained", file];
    refused(&with(&[&["--data", "patterns"], &bit[..]].concat()), &["BatchNorm", "mixes"]);
    refused(&with(&["--layout", "own"]), &["--layout", "--pretrained FILE"]);
    refused(&with(&["--public", "ImageNet-21k"]), &["--public", "--pretrained FILE"]);
    refused(&with(&["--pretrained", file, "--layout", "own"]), &["--layout without --model"]);
    let torchvision = ["--layout", "torchvision", "--model", "torchvision_resnet18"];
    let undeclared = [&["--data", "patterns", "--pretrained", file], &torchvision[..]].concat();
    refused(&with(&undeclared), &["without --public", "statistics", "ImageNet-1k"]);
    let declared = [&undeclared[..], &["--public", "ImageNet-1k"]].concat();
    refused(&with(&declared), &["can't be folded", "layer1.0.conv1.weight"]);
    refused(&with(&["--pretrained", file, "--layout", "keras"]), &["choose from timm-resnetv2"]);
    let both = ["--pretrained", file, "--layout", "own", "--pretrain-on", "glyphs"];
    refused(&with(&[&both[..], &["--model", "papernot_cnn"]].concat()), &["has one initial model"]);
}

#[test]
fn a_wrong_start_is_refused_before_anything_is_trained() {
    let home = folder();
    let with = |args: &[&str]| train(home.path(), args);
    let papernot =
        |args: &[&str]| run(home.path(), &[&["train"], &PAPERNOT[..], &PLAN, args].concat());
    refused(&papernot(&["--pretrained", "m", "--pretrain-on", "glyphs"]), &["--pretrained and"]);
    refused(&papernot(&["--pretrained", "nowhere"]), &["nowhere"]);
    refused(&with(&["--pretrained", "m"]), &["--pretrained and --model"]);
    refused(&with(&["--pretrain-epochs", "3"]), &["no effect without --pretrain-on"]);
    refused(&with(&["--pretrain-on", "imagenet"]), &["--pretrain-on", "choose from glyphs"]);
    refused(&with(&["--pretrain-on", "patterns"]), &["[3, 32, 32]", "[1, 28, 28]"]);
    refused(
        &papernot(&["--pretrain-on", "sentences"]),
        &["sentences are texts, and glyphs are not"],
    );
    refused(&with(&["--freeze-groups", "1"]), &["freeze_groups = 1", "no stages"]);
    refused(&with(&["--freeze-groups", "-1"]), &["--freeze-groups"]);
    for epochs in ["-1", "0", "nan", "inf", "1e300"] {
        let args = ["--pretrain-on", "glyphs", "--pretrain-epochs", epochs];
        refused(&with(&args), &["--pretrain-epochs", "at most 10000"]);
        refused(&with(&[&args[..], &["--preview"]].concat()), &["--pretrain-epochs"]);
    }
    // What is wrong with the private run is found before the public one.
    let glyphs = ["--pretrain-on", "glyphs"];
    for wrong in [&["--freeze-groups", "9"], &["--epsilon", "-1"], &["--device", "wgpu:9"]] {
        let args = [&["--model", "papernot_cnn"][..], &PLAN, &glyphs, wrong].concat();
        let data = ["train", "--data", "glyphs", "--train", "400"];
        let done = run(home.path(), &[&data[..], &args].concat());
        assert_eq!(done.status.code(), Some(1), "{wrong:?}: {}", text(&done.stderr));
    }
    let texts = ["train", "--data", "sentences", "--train", "100", "--pretrain-on", "ag_news"];
    refused(&run(home.path(), &texts), &["ag_news"]);
    assert!(!text(&with(&["--preview", "--pretrain-on", "glyphs"]).stdout).is_empty());
    assert_eq!(charges(home.path()), "", "nothing was charged");
}

#[test]
fn a_plan_for_a_population_is_shown_without_data() {
    let home = folder();
    let imagenet = ["train", "--preview", "--population", "1281167", "--batch-size", "65536"];
    let target = ["--epochs", "70", "--epsilon", "10", "--delta", "1e-6"];
    let plan = home.path().join("plan.json").display().to_string();
    let saved = ["--save-plan", &plan];
    let shown = run(home.path(), &[&imagenet[..], &target, &saved].concat());
    assert_eq!(shown.status.code(), Some(0), "{}", text(&shown.stderr));
    let words = text(&shown.stdout);
    for part in ["1,281,167", "1,369 steps", "epsilon at delta 1e-6", "noise multiplier"] {
        assert!(words.contains(part), "{part}: {words}");
    }
    assert!(!words.contains("ledger") && charges(home.path()).is_empty(), "{words}");
    let again = run(home.path(), &[&imagenet[..4], &["--plan", &plan]].concat());
    assert_eq!(text(&again.stdout), words);
    let other = ["train", "--preview", "--population", "9", "--plan", &plan];
    refused(&run(home.path(), &other), &["--population = 9", "1281167"]);
    refused(&run(home.path(), &["train", "--preview", "--population", "-1"]), &["--population"]);
    let snip = ["--method", "dp-ssgd", "--mask", "snip", "--pre-prune", "0.5"];
    refused(&run(home.path(), &[&imagenet[..], &snip].concat()), &["--mask = snip"]);
    for wrong in [&["train", "--population", "9"][..], &[&imagenet[..], &SMALL].concat()] {
        assert_eq!(run(home.path(), wrong).status.code(), Some(2), "{wrong:?}");
    }
    // It is no plan for other data.
    let other_data = ["train", "--data", "glyphs", "--model", "linear", "--plan", &plan];
    refused(&run(home.path(), &other_data), &["sampling rate and epsilon would be wrong"]);
    assert!(charges(home.path()).is_empty());
}

#[test]
fn the_ledger_lists_what_was_spent_and_a_changed_one_is_an_error() {
    let home = folder();
    let ledger = |args: &[&str]| run(home.path(), &[&["ledger"], args].concat());
    assert!(text(&ledger(&[]).stdout).contains("nothing has been spent in this project"));
    one_line(&train(home.path(), &["--noise-multiplier", "1.1", "--delta", "1e-4", "--json"]));
    let shown = ledger(&[]);
    let words = text(&shown.stdout);
    assert_eq!(shown.status.code(), Some(0), "{}", text(&shown.stderr));
    for part in ["DP-SGD on", "closed", "3 steps", "1 ledger was read and its chain verified"] {
        assert!(words.contains(part), "{part:?} is not in\n{words}");
    }
    let json = json(&ledger(&["--json"]));
    let data = &json["data_sets"][0];
    assert_eq!(
        (data["runs"].as_array().map(Vec::len), data["runs_without_privacy"].as_u64()),
        (Some(1), Some(0))
    );
    assert!(data["epsilon"].as_f64().is_some_and(|epsilon| epsilon > 0.0), "{data}");

    let files = std::fs::read_dir(home.path().join("ledger")).expect("a folder");
    let mut files = files.map(|file| file.expect("a file").path());
    let file = files.find(|path| path.extension().is_some_and(|end| end == "jsonl"));
    let file = file.expect("a ledger");
    let entries = std::fs::read_to_string(&file).expect("read");
    std::fs::write(&file, entries.replace("\"steps\":3", "\"steps\":1")).expect("written");
    refused(&ledger(&[]), &["line 1"]);
}
