//! Tests of files of experiments.

use clap::{Args, Command, FromArgMatches};

use super::super::options::CaseArgs;
use super::*;

fn parse(text: &str) -> Experiments {
    Experiments::parse(text).expect(text)
}

/// Parses the options of a command line.
fn typed(words: &[&str]) -> std::result::Result<Options, clap::Error> {
    let command = CaseArgs::augment_args(Command::new("sweep").no_binary_name(true));
    CaseArgs::from_arg_matches(&command.try_get_matches_from(words)?).map(|args| args.0)
}

fn runs(experiments: &Experiments) -> usize {
    experiments.0.iter().map(Experiment::runs).sum()
}

const TWO: &str = r#"{"about": "a test", "experiments": [
    {"name": "a", "seeds": 2, "options": {"data": "glyphs", "batch-size": 64}, "cases": [
        {"method": "dp-sgd", "epsilon": [1, 2], "clip": [0.1, 1]},
        {"method": "auto-dp-sgd", "noise-multiplier": 1, "gradient-scale": [1, 0.5]}]},
    {"name": "b", "title": "the other"}]}"#;

#[test]
fn lists_vary_and_cases_are_named_by_what_differs() {
    let both = parse(TWO).checked().expect("fine");
    let first = &both.0[0];
    assert_eq!((first.cases.len(), first.seeds, runs(&both)), (6, 2, 13));
    let varied = first.varied_options();
    assert_eq!(varied, ["method", "gradient-scale", "clip", "epsilon", "noise-multiplier"]);
    let labels: Vec<String> = first.cases.iter().map(|case| first.label(case)).collect();
    assert_eq!(labels[1], "method dp-sgd, clip 0.1, epsilon 2");
    assert_eq!(labels[5], "method auto-dp-sgd, gradient-scale 0.5, noise-multiplier 1");
    // Cases that lack an option are told apart by it only if they have the same method.
    assert_eq!(first.labels(), ["gradient-scale", "clip"]);
    let selection = r#"{"experiments": [{"name": "s", "cases": [
        {"epsilon": 2}, {"epsilon": 2, "best-of": 3, "learning-rates": "0.5,1"}]}]}"#;
    assert_eq!(parse(selection).0[0].labels(), ["best-of", "learning-rates"]);
    let list = both.list();
    assert!(list.contains("the other") && list.contains("13 runs"), "{list}");
    // Equal cases are one.
    let given = typed(&["--epsilon", "3", "--clip=1"]).expect("options");
    let replaced = parse(TWO).with_options(&given).expect("fine");
    // The noise multiplier is replaced too, as epsilon excludes it.
    let labels: Vec<String> =
        replaced.0[0].cases.iter().map(|case| replaced.0[0].label(case)).collect();
    assert_eq!(labels[0], "method dp-sgd");
    assert_eq!(replaced.0[0].cases.len(), 3);
    let only = parse(TWO).only(&["b".into()]).expect("there").with_seeds(Some(5));
    assert_eq!(runs(&only.expect("fine")), 5);
    // Lists of the command line make further cases.
    let given = typed(&["--epochs", "1,2"]).expect("options");
    assert_eq!(runs(&parse(TWO).with_options(&given).expect("fine")), 26);
}

#[test]
fn errors_of_a_file_have_their_position() {
    for (text, words) in [
        ("[]", "invalid"),
        (r#"{"experiments": []}"#, "no experiments"),
        (r#"{"experiments": [{"name": "a", "epochs": 1}]}"#, "`epochs`"),
        (r#"{"experiments": [{"name": "a"}, {"name": "a"}]}"#, "two experiments"),
        (r#"{"experiments": [{"name": "a", "options": {"clip": []}}]}"#, "`a`: `clip`"),
        (r#"{"experiments": [{"name": "a", "options": {"seed": 1}}]}"#, "`seeds`"),
        (r#"{"experiments": [{"name": "a", "options": {"rounds": 3}}]}"#, "`rounds`"),
        (r#"{"experiments": [{"name": "a", "cases": [{"epoch": 3}]}]}"#, "mean epochs"),
        (r#"{"experiments": [{"name": "a", "options": {"lr": 1, "learning_rate": 2}}]}"#, "twice"),
        (r#"{"experiments": [{"name": "a", "options": {"epsilon": false}}]}"#, "`epsilon`"),
    ] {
        let why = Experiments::parse(text).err().expect(text);
        assert!(why.contains(words), "{text}: {why}");
    }
    for (options, words) in [
        (r#"{"epsilon": 1, "noise-multiplier": 1}"#, "--epsilon and --noise-multiplier"),
        (r#"{"clip": "much"}"#, "clip = much"),
        (r#"{"model": "vgg"}"#, "papernot_cnn"),
    ] {
        let text = format!(r#"{{"experiments": [{{"name": "e1", "options": {options}}}]}}"#);
        let error = parse(&text).checked().map(drop).expect_err(options);
        let message = format!("{error} {}", error.advice());
        assert!(message.contains(words) && message.contains("e1"), "{options}: {message}");
    }
    assert!(parse(TWO).only(&["c".into()]).is_err_and(|e| e.advice().contains("a, b")));
    assert!(parse(TWO).with_seeds(Some(0)).is_err());
    assert!(parse(TWO).with_seeds(Some(u64::MAX)).is_err());
    for wrong in [&["epochs"][..], &["--epochs"], &["--seed=1"], &["--rounds", "3"]] {
        assert!(typed(wrong).is_err(), "{wrong:?}");
    }
    // What may be given several times to one run is collected; a schedule may have commas.
    let words = ["--freeze", "stem", "--freeze=*.bias", "--augment", "--lr-schedule"];
    let given = typed(&[&words[..], &["multi-step:30,60:0.1"]].concat()).expect("options");
    let with = parse(TWO).with_options(&given).expect("fine");
    let case = &with.0[1].cases[0];
    assert_eq!(case.get("freeze").as_deref(), Some("stem *.bias"));
    assert_eq!(case.get("augment").as_deref(), Some("true"));
    assert_eq!(case.get("learning-rate-schedule").as_deref(), Some("multi-step:30,60:0.1"));
    assert_eq!(with.0[1].cases.len(), 1);
}

/// Epsilons and accuracies of a paper, in an experiment with two groups.
const OF_A_PAPER: &str = r#"{"experiments": [
    {"name": "p", "options": {"data": "images", "batch-size": 64, "epochs": 2},
     "paper": {"examples": 1000, "orders": "tf_legacy"},
     "cases": [
        {"noise-multiplier": 1, "learning-rate": [1, 2], "paper": {"epsilon": 6.7e4}},
        {"noise-multiplier": 2, "learning-rate": [1, 2], "paper": {"accuracy %": 57.2}},
        {"noise-multiplier": 3, "model": ["linear", "mlp"], "clip": [1, 2]}]}]}"#;

#[test]
fn a_paper_is_compared_with_the_same_work_only() {
    let papers = |given: &[&str]| {
        let with = parse(OF_A_PAPER).with_options(&typed(given).expect("options")).expect("fine");
        with.0[0].cases.iter().map(|case| case.paper.clone()).collect::<Vec<_>>()
    };
    let all = papers(&[]);
    assert_eq!((all[0].examples, all[0].orders.as_deref()), (Some(1000), Some("tf_legacy")));
    assert_eq!(
        (all[0].epsilon, all[1].epsilon, all[2].accuracy),
        (Some(6.7e4), Some(6.7e4), Some(57.2))
    );
    assert!(!all[4].has_results());
    for same in [&["--data", "mine"][..], &["--device=cpu"]] {
        assert!(papers(same)[0].has_results(), "{same:?}");
    }
    let other = papers(&["--epochs", "1"]);
    assert!(other.iter().all(|paper| !paper.has_results() && paper.examples == Some(1000)));
    assert!(papers(&["--train", "100"]).iter().all(|paper| paper.examples.is_none()));
    assert!(all[0].on(1000).has_results() && !all[0].on(999).has_results());
}

#[test]
fn cases_of_equal_cost_are_one_in_a_preview() {
    let costs = parse(OF_A_PAPER).0[0].cost_experiment();
    let noise: Vec<_> = costs.cases.iter().map(|case| case.get("noise-multiplier")).collect();
    assert_eq!(noise.iter().flatten().collect::<Vec<_>>(), ["1", "2", "3"]);
    assert_eq!((costs.cases[0].paper.epsilon, costs.cases[1].paper.accuracy), (Some(6.7e4), None));
    assert_eq!(costs.varied_options(), ["noise-multiplier"]);
}

#[test]
fn invalid_results_of_a_paper_are_refused() {
    for (paper, words) in [
        (r#"{"accuracy": 1}"#, "`accuracy`"),
        (r#"{"epsilon": -1}"#, "below 0"),
        (r#"{"epsilon": "much"}"#, "`paper`"),
        ("3", "`paper`"),
    ] {
        let of_all = format!(r#"{{"experiments": [{{"name": "e", "paper": {paper}}}]}}"#);
        let of_one =
            format!(r#"{{"experiments": [{{"name": "e", "cases": [{{"paper": {paper}}}]}}]}}"#);
        for text in [of_all, of_one] {
            let why = Experiments::parse(&text).err().expect(&text);
            assert!(why.contains(words) && why.contains("`e`"), "{text}: {why}");
        }
    }
}
