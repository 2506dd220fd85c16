//! The file of experiments.

use std::path::Path;

use epsilab::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::Value;

use super::case::{self, Case, Options};
use super::paper::Paper;

/// What to do about a file that does not hold experiments.
const ADVICE: &str = "see the example in `cargo lab sweep --help`";

/// The experiments of a file.
pub struct Experiments(pub Vec<Experiment>);

/// One experiment: every case is trained with the seeds 0, 1, …
pub struct Experiment {
    pub name: String,
    /// What it shows.
    pub title: String,
    pub seeds: u64,
    pub cases: Vec<Case>,
}

/// An experiment as the file says it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    #[serde(default)]
    title: String,
    #[serde(default = "one")]
    seeds: u64,
    /// Options of all cases.
    #[serde(default)]
    options: Options,
    /// What a paper says of all cases.
    #[serde(default)]
    paper: Value,
    /// Groups of cases, each with further options and with what a paper says of them.
    #[serde(default)]
    cases: Vec<Options>,
}

fn one() -> u64 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFile {
    /// A remark for readers.
    #[serde(default, rename = "about")]
    _about: Value,
    experiments: Vec<Written>,
}

impl Experiments {
    /// Reads a file of experiments.
    ///
    /// # Errors
    /// `Io` if it can't be read, `Setting` if it does not hold experiments.
    pub fn read(path: &Path) -> Result<Self> {
        let what = format!("the experiments {}", path.display());
        let text = std::fs::read_to_string(path)
            .map_err(|e| Error::io(format!("reading {what}"), &e).fix(ADVICE))?;
        Self::parse(&text).map_err(|why| Error::new(ErrorKind::Setting, what, why).fix(ADVICE))
    }

    fn parse(text: &str) -> std::result::Result<Self, String> {
        let file: WrittenFile = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let experiments = file.experiments.into_iter().map(Experiment::of);
        let experiments: Vec<Experiment> = experiments.collect::<std::result::Result<_, _>>()?;
        let names: Vec<&str> = experiments.iter().map(|e| e.name.as_str()).collect();
        match names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
            Some((_, name)) => Err(format!("two experiments are named `{name}`")),
            None if names.is_empty() => Err("it has no experiments".into()),
            None => Ok(Self(experiments)),
        }
    }

    /// Only the experiments with these names, or all if there are none.
    ///
    /// # Errors
    /// `Setting` for an unknown name.
    pub fn only(mut self, names: &[String]) -> Result<Self> {
        let known: Vec<&str> = self.0.iter().map(|e| e.name.as_str()).collect();
        if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(Error::setting("--only", name, "the file has no experiment of this name")
                .fix(format!("choose from {}", known.join(", "))));
        }
        self.0.retain(|e| names.is_empty() || names.contains(&e.name));
        Ok(self)
    }

    /// With this number of seeds, if one is given.
    ///
    /// # Errors
    /// `Setting` for 0 and for more than 10,000, also in the file.
    pub fn with_seeds(mut self, seeds: Option<u64>) -> Result<Self> {
        for experiment in &mut self.0 {
            experiment.seeds = seeds.unwrap_or(experiment.seeds);
            if !(1..=10_000).contains(&experiment.seeds) {
                let why = "it is the number of runs of every case";
                return Err(Error::setting("seeds", experiment.seeds, why).fix("use 1 to 10000"));
            }
        }
        Ok(self)
    }

    /// With `train` options of the command line in place of those of the file.
    ///
    /// # Errors
    /// `Setting` for words that are not `--NAME VALUE`.
    pub fn with_options(mut self, words: &[String]) -> Result<Self> {
        let given = case::options_of(words)?;
        for experiment in &mut self.0 {
            for case in &mut experiment.cases {
                case.replace(&given);
            }
            experiment.remove_equal_cases();
        }
        Ok(self)
    }

    /// Checks all cases as far as that needs no data.
    ///
    /// # Errors
    /// `Setting` for the first case that `train` refuses; the text names it.
    pub fn check(&self) -> Result<()> {
        for experiment in &self.0 {
            for case in &experiment.cases {
                let checked = case.train_args(0).and_then(|args| args.check());
                checked.map_err(|e| {
                    let what = experiment.place(case);
                    let why = e.to_string().lines().next().unwrap_or_default().to_owned();
                    Error::new(e.kind(), what, why).fix(e.advice())
                })?;
            }
        }
        Ok(())
    }

    /// Number of runs.
    pub fn runs(&self) -> usize {
        self.0.iter().map(|e| e.cases.len() * e.seeds as usize).sum()
    }

    /// Names, numbers of runs and titles, a line for each experiment.
    pub fn list(&self) -> String {
        let width = self.0.iter().map(|e| e.name.len()).max().unwrap_or(0);
        let line = |e: &Experiment| {
            let runs = format!("{} x {}", e.cases.len(), e.seeds);
            format!("{:width$}  {runs:>8}  {}", e.name, e.title)
        };
        let lines: Vec<String> = self.0.iter().map(line).collect();
        format!("{}\n{} runs (cases x seeds)", lines.join("\n"), self.runs())
    }
}

impl Experiment {
    fn of(written: Written) -> std::result::Result<Self, String> {
        let Written { name, title, seeds, options, paper, mut cases } = written;
        let of_all = match paper {
            Value::Null => Paper::default(),
            paper => Paper::of(paper).map_err(|why| format!("`{name}`: {why}"))?,
        };
        if cases.is_empty() {
            cases.push(Options::new());
        }
        let mut all = Vec::new();
        for mut group in cases {
            let paper = group.remove("paper").map_or(Ok(Paper::default()), Paper::of);
            let mut base = options.clone();
            case::replace(&mut base, &group);
            let made = paper.and_then(|paper| Ok((paper, case::combinations(&base)?)));
            let (paper, made) = made.map_err(|why| format!("`{name}`: {why}"))?;
            let paper = paper.or(&of_all);
            all.extend(made.into_iter().map(|case| Case { paper: paper.clone(), ..case }));
        }
        let mut experiment = Self { name, title, seeds, cases: all };
        experiment.remove_equal_cases();
        Ok(experiment)
    }

    /// A case that was removed by an equal one would be trained once only anyway.
    fn remove_equal_cases(&mut self) {
        let mut kept: Vec<Case> = Vec::new();
        for case in self.cases.drain(..) {
            if !kept.iter().any(|kept| kept.options == case.options) {
                kept.push(case);
            }
        }
        self.cases = kept;
    }

    /// The experiment with one case for each cost.
    pub fn costs(&self) -> Self {
        let mut cases: Vec<Case> = Vec::new();
        for case in self.cases.iter().map(Case::cost) {
            if !cases.contains(&case) {
                cases.push(case);
            }
        }
        Self { name: self.name.clone(), title: self.title.clone(), seeds: self.seeds, cases }
    }

    /// The options that are not the same in all cases.
    pub fn varied(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for case in &self.cases {
            names.extend(case.options.keys().map(String::as_str));
        }
        names.sort_by_key(|name| (case::rank(name), *name));
        names.dedup();
        let differs = |name: &str| {
            let first = self.cases.first().and_then(|case| case.options.get(name));
            self.cases.iter().any(|case| case.options.get(name) != first)
        };
        names.into_iter().filter(|name| differs(name)).collect()
    }

    /// The experiment and what tells the case from the others, if there are any.
    pub fn place(&self, case: &Case) -> String {
        let (name, label) = (&self.name, self.label(case));
        if label.is_empty() { format!("experiment {name}") } else { format!("{name}, {label}") }
    }

    /// What tells a case from the others of its experiment.
    pub fn label(&self, case: &Case) -> String {
        let said = |name: &str| case.get(name).map(|value| format!("{name} {value}"));
        let parts: Vec<String> = self.varied().into_iter().filter_map(said).collect();
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Experiments {
        Experiments::parse(text).expect(text)
    }

    const TWO: &str = r#"{"about": "a test", "experiments": [
        {"name": "a", "seeds": 2, "options": {"data": "glyphs", "batch-size": 64}, "cases": [
            {"method": "dp-sgd", "epsilon": [1, 2], "clip": [0.1, 1]},
            {"method": "auto-dp-sgd", "noise-multiplier": 1, "set": ["scale=1", "scale=0.5"]}]},
        {"name": "b", "title": "the other"}]}"#;

    #[test]
    fn lists_vary_and_cases_are_named_by_what_differs() {
        let both = parse(TWO);
        both.check().expect("fine");
        let first = &both.0[0];
        assert_eq!((first.cases.len(), first.seeds, both.runs()), (6, 2, 13));
        let varied = first.varied();
        assert_eq!(varied, ["method", "set", "clip", "epsilon", "noise-multiplier"]);
        let labels: Vec<String> = first.cases.iter().map(|case| first.label(case)).collect();
        assert_eq!(labels[1], "method dp-sgd, clip 0.1, epsilon 2");
        assert_eq!(labels[5], "method auto-dp-sgd, set scale=0.5, noise-multiplier 1");
        let list = both.list();
        assert!(list.contains("the other") && list.contains("13 runs"), "{list}");
        // Equal cases are one.
        let words = ["--epsilon", "3", "--clip=1"].map(String::from);
        let replaced = parse(TWO).with_options(&words).expect("fine");
        // The noise multiplier is replaced too, as epsilon excludes it.
        let labels: Vec<String> =
            replaced.0[0].cases.iter().map(|case| replaced.0[0].label(case)).collect();
        assert_eq!(labels[0], "method dp-sgd");
        assert_eq!(replaced.0[0].cases.len(), 3);
        let only = parse(TWO).only(&["b".into()]).expect("there").with_seeds(Some(5));
        assert_eq!(only.expect("fine").runs(), 5);
    }

    #[test]
    fn what_is_wrong_is_refused_with_its_place() {
        for (text, words) in [
            ("[]", "invalid"),
            (r#"{"experiments": []}"#, "no experiments"),
            (r#"{"experiments": [{"name": "a", "epochs": 1}]}"#, "`epochs`"),
            (r#"{"experiments": [{"name": "a"}, {"name": "a"}]}"#, "two experiments"),
            (r#"{"experiments": [{"name": "a", "options": {"clip": []}}]}"#, "`a`: `clip`"),
            (r#"{"experiments": [{"name": "a", "options": {"seed": 1}}]}"#, "`seeds`"),
            (r#"{"experiments": [{"name": "a", "options": {"epsilon": false}}]}"#, "`epsilon`"),
        ] {
            let why = Experiments::parse(text).err().expect(text);
            assert!(why.contains(words), "{text}: {why}");
        }
        for (options, words) in [
            (r#"{"epsilon": 1, "noise-multiplier": 1}"#, "--epsilon and --noise-multiplier"),
            (r#"{"clip": "much"}"#, "--clip"),
            (r#"{"rounds": 3}"#, "--rounds"),
            (r#"{"model": "vgg"}"#, "papernot_cnn"),
        ] {
            let text = format!(r#"{{"experiments": [{{"name": "e1", "options": {options}}}]}}"#);
            let error = parse(&text).check().expect_err(options);
            let said = format!("{error} {}", error.advice());
            assert!(said.contains(words) && said.contains("e1"), "{options}: {said}");
        }
        assert!(parse(TWO).only(&["c".into()]).is_err_and(|e| e.advice().contains("a, b")));
        assert!(parse(TWO).with_seeds(Some(0)).is_err());
        assert!(parse(TWO).with_seeds(Some(u64::MAX)).is_err());
        for wrong in [&["epochs"][..], &["--epochs"], &["--clip", "1", "--clip=2"], &["--seed=1"]] {
            let words: Vec<String> = wrong.iter().map(|&word| word.to_owned()).collect();
            assert!(parse(TWO).with_options(&words).is_err(), "{wrong:?}");
        }
        // What may be given several times is collected.
        let words = ["--set", "scale=1", "--set=x=2", "--augment"].map(String::from);
        let with = parse(TWO).with_options(&words).expect("fine");
        let case = &with.0[1].cases[0];
        assert_eq!(case.get("set").as_deref(), Some("scale=1 x=2"));
        assert_eq!(case.get("augment").as_deref(), Some("true"));
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
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let papers = |given: &[&str]| {
            let with = parse(OF_A_PAPER).with_options(&words(given)).expect("fine");
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
        let costs = parse(OF_A_PAPER).0[0].costs();
        let noise: Vec<_> = costs.cases.iter().map(|case| case.get("noise-multiplier")).collect();
        assert_eq!(noise.iter().flatten().collect::<Vec<_>>(), ["1", "2", "3"]);
        assert_eq!(
            (costs.cases[0].paper.epsilon, costs.cases[1].paper.accuracy),
            (Some(6.7e4), None)
        );
        assert_eq!(costs.varied(), ["noise-multiplier"]);
    }

    #[test]
    fn what_a_paper_cannot_say_is_refused() {
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
}
