//! Tests of the lines under a grid's table, with numbers made up here.

use std::sync::{Arc, OnceLock};

use super::footer::GridPrivacyCost;
use super::result::{CellResult, CellRun, GridResult, Inner, PairedDifference};
use super::{Case, Experiment, Grid, MaskKind, csv, markdown};
use crate::data;
use crate::mask::DroppingRule;
use crate::methods::{DpSgd, DpSsgd, NonPrivate, PrivateSelection};
use crate::nn::models;
use crate::privacy::{
    Accountant, Badge, Delta, Event, PrivacyCost, TightestAccountant, Trials, ledger::LedgerState,
};
use crate::show::format;
use crate::train::LedgerEntryRef;
use crate::{Error, privacy};

fn run(seed: u64, accuracy: f64, epsilon: Option<f64>) -> CellRun {
    CellRun {
        seed,
        id: format!("run{seed}"),
        label: format!("label{seed}"),
        accuracy: Some(accuracy),
        epsilon,
        badge: Badge::Proved,
        claimed_epsilon: None,
        mean_threshold: None,
        seconds_per_epoch: Some(0.5),
        seconds: Some(1.5),
        restored: false,
        charged: LedgerEntryRef { origin: "data".into(), run: format!("run{seed}") },
    }
}

fn cell(drop: f64, epsilon: Option<f64>, accuracies: &[f64]) -> CellResult {
    let runs = accuracies.iter().enumerate().map(|(i, &a)| run(i as u64, a, epsilon));
    CellResult {
        method: if epsilon.is_some() { "dp-ssgd" } else { "non-private" },
        mask: None,
        drop_rule: (drop > 0.0).then_some(DroppingRule::Random),
        pre_prune: 0.0,
        drop,
        labels: Vec::new(),
        epsilon: epsilon.map(|_| 3.0),
        delta: epsilon.map(|_| 1e-5),
        runs: runs.collect(),
        errors: Vec::new(),
    }
}

fn spent(epsilon: f64) -> PrivacyCost {
    PrivacyCost::new(epsilon, "pld")
}

fn result(cells: Vec<CellResult>, seeds: u64) -> Inner {
    let private_runs =
        cells.iter().flat_map(|c| &c.runs).filter(|run| run.epsilon.is_some()).count();
    Inner {
        data: "toys".into(),
        model: "linear".into(),
        test_examples: 1000,
        public_data: false,
        planned_runs: cells.len() * seeds as usize,
        cells,
        seeds,
        interrupted: false,
        privacy_cost: GridPrivacyCost {
            delta: Delta(1e-5),
            runs: private_runs,
            open_attempts: 0,
            own_charges: vec![Event::Gaussian { noise_multiplier: 1.0, count: 1 }; private_runs],
            stated: None,
            own_cost: OnceLock::from(Ok(spent(5.25))),
            other_runs: 0,
            account: LedgerState::default(),
            total_cost: OnceLock::from(Ok(spent(7.5))),
        },
        baseline: None,
        columns: Vec::new(),
    }
}

fn two_cells() -> Inner {
    // Variances 2e-4 and 0, one degree of freedom each: pooled 1e-4.
    result(vec![cell(0.0, Some(2.9), &[0.90, 0.92]), cell(0.5, Some(3.0), &[0.8, 0.8])], 2)
}

fn of(inner: Inner) -> GridResult {
    GridResult(Arc::new(inner))
}

#[test]
fn cells_display_mean_spread_and_the_largest_epsilon() {
    let result = of(two_cells());
    let first = &result.cells()[0];
    assert!((first.mean().unwrap() - 0.91).abs() < 1e-12);
    assert!((first.std().unwrap() - 0.02f64 / 2f64.sqrt()).abs() < 1e-12);
    assert_eq!(first.epsilon_spent(), Some(2.9));
    let open = cell(0.0, None, &[0.9]);
    assert_eq!((open.std(), open.epsilon_spent()), (None, None));
    let json = serde_json::to_value(of(result_of_one()).rows()).unwrap();
    assert!(json[0]["accuracy_std"].is_null(), "{json}");
    assert_eq!(json[0]["accuracy_mean"], 0.5);
    assert_eq!(json[0]["runs"], 1);
}

#[test]
fn differences_to_a_baseline_are_those_of_equal_seeds() {
    let mut other = cell(0.5, Some(3.0), &[0.8, 0.8, 0.86]);
    other.runs.remove(0);
    let cells = vec![cell(0.0, Some(2.9), &[0.1, 0.90, 0.92]), other, cell(0.9, Some(3.0), &[])];
    let result = of(result(cells, 3));
    let columns = result.table().text();
    let result = result.with_baseline(0).unwrap();
    // -0.10 and -0.06 for the seeds 1 and 2; the means of the cases say +0.19.
    let nothing = PairedDifference { mean: -1e-9, deviation: None, seeds: 2 };
    assert_eq!(nothing.to_string(), "+0.00", "a zero without its sign");
    let difference = result.cells()[1].difference(&result.cells()[0]).unwrap();
    assert!((difference.mean + 0.08).abs() < 1e-12 && difference.seeds == 2, "{difference:?}");
    assert!((difference.deviation.unwrap() - 0.04 / 2f64.sqrt()).abs() < 1e-12, "{difference:?}");
    let text = result.table().text();
    assert!(text.contains("minus dp-ssgd, epsilon 3") && text.contains("-8.00 ± 2.83"), "{text}");
    assert!(!columns.contains("minus"), "{columns}");
    let json = serde_json::to_value(result.rows()).unwrap();
    assert_eq!(json[1]["difference"]["seeds"], 2);
    assert!(json[2].get("difference").is_none(), "no run, no difference: {json}");
    assert!(json[0].get("difference").is_none(), "the baseline itself: {json}");
    let error = result.with_baseline(3).unwrap_err();
    assert!(error.to_string().contains("3 cases"), "{error}");
}

#[test]
fn settings_with_several_numbers_have_a_chart_each() {
    let labelled = |clip: &str, rule: &str, accuracy: f64| {
        let labels = [("clip", clip), ("rule", rule)].map(|(name, v)| (name.into(), v.into()));
        CellResult { labels: labels.into(), ..cell(0.0, Some(3.0), &[accuracy, accuracy + 0.02]) }
    };
    let cells = vec![
        labelled("10", "flat", 0.5),
        labelled("0.1", "flat", 0.7),
        labelled("1", "flat", 0.9),
        labelled("1", "auto", 0.8),
    ];
    let figures = of(result(cells.clone(), 2)).figures();
    let [(name, figure)] = figures.as_slice() else { panic!("{figures:?}") };
    assert_eq!(name, "accuracy_over_clip");
    let text = &figure.text;
    assert!(text.contains("Accuracy over clip, linear on toys"), "{text}");
    assert!(text.contains("dp-ssgd, rule flat, epsilon 3"), "{text}");
    let line = text.lines().find(|line| line.contains("rule flat")).unwrap();
    assert!(line.contains("▄█▁") && line.contains("51.0 %"), "by clip norm: {text}");
    assert!(text.contains("clip 10"), "the value at which the legend is read: {text}");
    // With rates, epsilon has heat maps; without, it is a setting like others.
    let at_epsilon = |drop: f64, epsilon: f64| CellResult {
        epsilon: Some(epsilon),
        ..cell(drop, Some(epsilon), &[epsilon / 10.0])
    };
    let names = |cells: Vec<CellResult>| -> Vec<String> {
        of(result(cells, 1)).figures().into_iter().map(|(name, _)| name).collect()
    };
    let cells = vec![at_epsilon(0.0, 1.0), at_epsilon(0.0, 3.0)];
    assert_eq!(names(cells.clone()), ["accuracy_over_epsilon"]);
    let sparse = [at_epsilon(0.5, 1.0), at_epsilon(0.5, 3.0)];
    let names =
        names([cells[0].clone(), sparse[0].clone(), cells[1].clone(), sparse[1].clone()].into());
    assert!(!names.contains(&"accuracy_over_epsilon".into()), "{names:?}");
    assert!(names.contains(&"heat_maps_dp-ssgd".into()), "{names:?}");
}

fn result_of_one() -> Inner {
    result(vec![cell(0.0, Some(3.0), &[0.5])], 1)
}

#[test]
fn the_size_of_noise_is_two_standard_errors_of_a_difference() {
    let result = of(two_cells());
    let threshold = result.noise_threshold().unwrap();
    assert!((threshold - 2.0 * 0.01 * 1.0).abs() < 1e-12, "{threshold}");
    let notes = result.notes().join("\n");
    assert!(notes.contains("Differences below 2.0 points"), "{notes}");
    assert!(notes.contains("2 degrees of freedom") && notes.contains("rough"), "{notes}");
    let odd =
        of(Inner { cells: vec![cell(0.0, None, &[0.9, 0.92])], ..two_cells() }).notes().join("\n");
    assert!(odd.contains("1 degree of freedom)"), "{odd}");
    let notes = of(result_of_one()).notes().join("\n");
    assert!(notes.contains("One seed gives no estimate of noise"), "{notes}");
    assert!(!notes.contains("Differences below"), "{notes}");
}

#[test]
fn each_method_and_epsilon_has_its_own_noise_and_shared_runs_count_once() {
    let named = |mut cell: CellResult, method: &'static str, name: &str| {
        cell.method = method;
        cell.runs.iter_mut().for_each(|run| run.id = format!("{name}{}", run.seed));
        cell
    };
    let dense = |method| named(cell(0.0, Some(3.0), &[0.90, 0.92]), method, "dense");
    let sparse = named(cell(0.5, Some(3.0), &[0.8, 0.8]), "dp-ssgd", "sparse");
    // Whichever comes first: the dense case counts in the map that it is the corner of.
    for cells in [
        vec![dense("dp-ssgd"), sparse.clone(), dense("dp-sgd")],
        vec![dense("dp-sgd"), dense("dp-ssgd"), sparse.clone()],
    ] {
        let result = of(result(cells, 2));
        assert!((result.noise_threshold().unwrap() - 0.02).abs() < 1e-12);
        let notes = result.notes().join("\n");
        assert!(notes.contains("Differences below 2.0 points") && notes.contains("(pooled"));
        assert!(notes.contains("2 degrees of freedom"), "{notes}");
    }
    let open = named(cell(0.0, None, &[0.5, 0.6]), "non-private", "open");
    let several = of(result(vec![dense("dp-ssgd"), sparse, open], 2));
    let notes = several.notes().join("\n");
    assert!(notes.contains("dp-ssgd, epsilon 3: differences below 2.0 points"), "{notes}");
    assert!(notes.contains("non-private: differences below 14 points"), "{notes}");
    assert!((several.noise_threshold().unwrap() - 0.02 * 50f64.sqrt()).abs() < 1e-12);
}

#[test]
fn costs_are_those_of_all_runs_together_and_choosing_is_not_free() {
    let notes = of(two_cells()).notes().join("\n");
    for words in
        ["Private runs: 4 on toys", "epsilon 5.25 at delta", "is not covered", "study mode"]
    {
        assert!(notes.to_lowercase().contains(&words.to_lowercase()), "{words}: {notes}");
    }
    assert!(notes.contains("the epsilon of a single case does not cover this"), "{notes}");
    assert_eq!(of(two_cells()).on_record(), None);
    // What else is on record changes, and the same grid again is to say the same.
    let mut more = two_cells();
    for (others, words) in [(1, "the 1 other private run on"), (2, "the 2 other private runs on")] {
        more.privacy_cost.other_runs = others;
        let text = of(more.clone()).on_record().unwrap();
        assert!(text.contains(words) && text.contains("epsilon 7.5 "), "{text}");
        assert_eq!(of(more.clone()).to_string(), of(two_cells()).to_string());
    }
    // Attempts that gave no run are in the sum, and said to be.
    let mut attempts = two_cells();
    attempts.privacy_cost.own_charges.extend(vec![
        Event::Gaussian {
            noise_multiplier: 1.0,
            count: 1
        };
        2
    ]);
    let notes = of(attempts.clone()).notes().join("\n");
    for words in ["Private runs: 4 on toys, and 2 other attempts", "best of these 4 runs"] {
        assert!(notes.contains(words), "{words}: {notes}");
    }
    assert!(!notes.contains("did not report their steps"), "{notes}");
    attempts.privacy_cost.open_attempts = 1;
    let notes = of(attempts).notes().join("\n");
    assert!(notes.contains("1 of these did not report their steps"), "{notes}");
    let kind = privacy::ErrorKind::Accounting;
    let refusal = privacy::Error::new(kind, "epsilon", "too much of it");
    more.privacy_cost.own_cost = OnceLock::from(Err(refusal));
    let notes = of(more).notes().join("\n");
    assert!(notes.contains("an unknown epsilon") && notes.contains("too much"), "{notes}");
    // One run chooses nothing; a run without privacy is no private run, and said to be none.
    let notes = of(result_of_one()).notes().join("\n");
    assert!(notes.contains("Private runs: 1 on") && !notes.contains("Choosing"), "{notes}");
    assert!(!notes.contains("own epsilon is that"), "one cell's epsilon is: {notes}");
    let notes = of(result(vec![cell(0.0, None, &[0.9, 0.91])], 2)).notes().join("\n");
    assert!(notes.contains("or on data prepared from private examples"), "{notes}");
    assert!(notes.contains("No epsilon covers 2") && !notes.contains("Private runs"), "{notes}");
}

#[test]
fn missing_runs_are_listed() {
    let mut inner = two_cells();
    inner.cells[1].runs.pop();
    inner.cells[1].errors.push("seed 1: the disk\n  what to do: look".into());
    inner.interrupted = true;
    let result = of(inner);
    let notes = result.notes();
    let line = notes.iter().find(|note| note.starts_with("Not trained")).unwrap();
    assert_eq!(line.lines().count(), 1);
    assert!(line.contains("dropped 0.5") && line.contains("the disk"), "{line}");
    let stopped = notes.last().unwrap();
    assert!(stopped.contains("Stopped after 3 of 4 runs"), "{stopped}");
    assert!(result.table().text().contains("1 of 2"));
    assert!(markdown(&[result]).contains("80.00 (1 of 2 runs)"));
}

/// A line for each case of an experiment would say nothing: each has few seeds.
#[test]
fn cells_that_differ_in_labels_only_are_one_pool() {
    let labelled = |clip: &str, accuracies: &[f64]| CellResult {
        labels: vec![("clip".into(), clip.into())],
        ..cell(0.0, Some(2.9), accuracies)
    };
    let cells = vec![labelled("1", &[0.90, 0.92]), labelled("2", &[0.8, 0.8])];
    let result = of(result(cells, 2));
    let notes = result.notes().join("\n");
    assert_eq!(notes.matches("within seed noise").count(), 1, "{notes}");
    assert!(notes.contains("pooled standard deviation 1.0 points, 2 degrees"), "{notes}");
}

#[test]
fn files_hold_every_run_and_every_cell() {
    let results = [of(two_cells()), of(result(vec![cell(0.0, None, &[0.25])], 1))];
    let text = csv(&results).unwrap();
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    assert_eq!(reader.headers().unwrap().len(), 13);
    let lines: Vec<::csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(&lines[2][4], "random");
    // Cases that share a run share its label; its name is nowhere.
    assert_eq!((&lines[3][8], &lines[3][9], &lines[3][12]), ("1", "0.8", "label1"));
    let json = serde_json::to_string(&results[0].rows()).unwrap();
    assert!(json.contains(r#""run_labels":["label0","label1"]"#), "{json}");
    assert!(!text.contains("run0") && !json.contains("run0"), "{text} {json}");
    assert_eq!((&lines[4][2], &lines[4][7], &lines[4][10]), ("non-private", "", ""));
    let text = markdown(&results);
    assert!(text.contains("| pre-pruned | dropped 0 | dropped 0.5 |"), "{text}");
    assert!(text.contains("| 0 | 91.00 ± 1.41 | 80.00 ± 0.00 |"), "{text}");
    // One case is no map.
    assert!(text.contains("| non-private | 25.00 % | 1 of 1 |"), "{text}");
}

#[test]
fn the_notes_have_the_cost_of_choosing_with_and_without_a_random_number_of_runs() {
    let event = Event::poisson(0.01, 1.0, 500);
    let mut inner =
        result(vec![cell(0.0, Some(2.9), &[0.9; 10]), cell(0.5, Some(2.9), &[0.8; 10])], 10);
    inner.privacy_cost.own_charges = vec![event.clone(); 20];
    let best = [event.best_of(Trials::geometric(20.0))];
    let cost = TightestAccountant::new().epsilon(&best, Delta(1e-5)).unwrap().epsilon;
    let notes = of(inner.clone()).notes().join("\n");
    assert!(notes.contains("best of these 20 runs"), "{notes}");
    assert!(notes.contains(&format!("would cost epsilon {}", format::eps(cost))), "{notes}");
    let all =
        TightestAccountant::new().epsilon(&[event.repeated(20)], Delta(1e-5)).unwrap().epsilon;
    assert!(cost < 0.7 * all, "{cost} {all}");
    // Runs of different costs have no common bound.
    inner.privacy_cost.own_charges[0] = Event::poisson(0.01, 1.0, 400);
    let notes = of(inner).notes().join("\n");
    assert!(!notes.contains("would cost") && notes.contains("grid.select"), "{notes}");
}

#[test]
fn a_selection_of_cells_has_one_epsilon_for_all_trials() {
    let data = data::glyphs_with(300, 30, 71).unwrap();
    let model = models::linear(&data).seed(0).build().unwrap();
    let method = DpSsgd::new().batch_size(30).steps(3);
    let grid = Grid::new(method).epsilon([2.0]).delta(1e-4);
    let cells = grid.clone().masks(MaskKind::Random).pre_prune([0.0, 0.5]);
    let cells = cells.drop_gradients(DroppingRule::Random, [0.0, 0.5]);
    let plan =
        cells.experiment().unwrap().selection(Trials::geometric(4.0), &model, &data).unwrap();
    assert_eq!(plan.selection().unwrap().candidates().len(), 4);
    let epsilon = plan.epsilon_after(3).unwrap().unwrap();
    assert!((1.99..=2.0).contains(&epsilon), "{epsilon}");
    let refused = |grid: Grid, words: &str| {
        let experiment = grid.experiment().unwrap();
        let error = experiment.selection(Trials::geometric(4.0), &model, &data).unwrap_err();
        assert!(error.to_string().contains(words) && !error.advice().is_empty(), "{error}");
    };
    refused(grid.clone().seeds(3), "seeds");
    let case = Case::from(DpSsgd::new().batch_size(30).steps(3).noise_multiplier(1.0));
    let masked = Grid::new(case.clone().mask(MaskKind::Random, 0.5)).experiment().unwrap_err();
    assert!(masked.to_string().contains("a mask"), "{masked}");
    // A selection as a case is one run.
    let trials = PrivateSelection::new(DpSgd::new(), Trials::geometric(2.0));
    let experiment = Experiment::new([case.best_of(trials.learning_rates([0.5, 1.0]))]);
    assert!(experiment.check().is_ok());
    let several = experiment.seeds(2).check().unwrap_err();
    assert!(several.what().starts_with("seeds"), "{several}");
    refused(grid.clone().epsilon([1.0, 2.0]), "epsilon");
    refused(grid.with_method(NonPrivate::new()), "no guarantee");
}

mod at_once {
    //! Several runs at once, in a store of their own.

    use std::collections::BTreeMap;

    use super::super::allocation::JobAllocation;
    use super::super::scheduler::{run_grid, run_with_allocation};
    use super::super::{GridObserver, GridProgress, GridResult, NoopGridObserver, csv};
    use super::*;
    use crate::methods::DpSgd;
    use crate::nn::Model;
    use crate::store::RunStore;

    fn grid() -> Experiment {
        let method = DpSsgd::new().clip(0.5).batch_size(50).steps(3);
        Grid::new(method)
            .with_method(DpSgd::new().clip(0.5).batch_size(50).steps(3))
            .with_method(NonPrivate::new().batch_size(50).steps(3).learning_rate(0.1))
            .masks(MaskKind::Random)
            .pre_prune([0.0, 0.5])
            .drop_gradients(DroppingRule::Random, [0.0, 0.5])
            .epsilon([2.0])
            .seeds(3)
            .experiment()
            .unwrap()
    }

    /// The seconds of a run differ from one training to the next.
    /// The lines of the CSV file without seconds and random labels.
    fn repeatable(results: &[GridResult]) -> String {
        let lines = csv(results).unwrap();
        let mut reader = ::csv::Reader::from_reader(lines.as_bytes());
        let keep = |line: ::csv::StringRecord| {
            line.iter().enumerate().filter(|(i, _)| *i < 11).map(|(_, x)| format!("{x},")).collect()
        };
        reader.records().map(|line| keep(line.unwrap())).collect::<Vec<String>>().join("\n")
    }

    #[test]
    fn results_and_charges_are_those_of_one_run_after_the_other() -> crate::Result<()> {
        let data = data::glyphs_with(300, 60, 91)?;
        let build = |seed| models::mlp(&data, &[8]).seed(seed).build();
        let mut found = BTreeMap::new();
        for jobs in [1, 2, 5] {
            let folder = tempfile::tempdir().unwrap();
            let store = RunStore::open(folder.path().to_path_buf()).unwrap();
            let split = |_: &Experiment, _: &[crate::Result<_>], _: &Model, _: &_| {
                Ok(JobAllocation::even(jobs, 1, "as the test says".into()))
            };
            let result =
                run_with_allocation(&grid(), &build, &data, &store, &mut NoopGridObserver, split)?;
            // The case without rates of one method is the case of the other: trained and charged
            // once, although both are begun at the same time.
            let account = store.ledger(&data)?.state()?;
            assert_eq!((result.runs(), account.charges().len()), (27, 24), "{jobs}");
            assert!(account.charges().iter().all(|charge| charge.closed));
            let seen = [repeatable(std::slice::from_ref(&result)), result.to_string()];
            assert_eq!(*found.entry(()).or_insert_with(|| seen.clone()), seen, "{jobs}");
            let again = run_grid(&grid().jobs(4), &build, &data, &store, &mut NoopGridObserver)?;
            assert_eq!(again.to_string(), result.to_string());
            assert_eq!(store.ledger(&data)?.state()?.charges().len(), 24, "nothing was spent");
        }
        Ok(())
    }

    #[derive(Default)]
    struct Most {
        running: usize,
        failed: usize,
        noted: Vec<String>,
    }

    impl GridObserver for Most {
        fn on_progress(&mut self, progress: &GridProgress<'_>) {
            assert!(progress.completed + progress.running <= progress.total);
            self.running = self.running.max(progress.running);
        }
        fn on_run_end(&mut self, progress: &GridProgress<'_>, _: Result<&CellRun, &Error>) {
            self.failed = progress.failed;
        }
        fn on_note(&mut self, words: &str) {
            self.noted.push(words.to_owned());
        }
    }

    #[test]
    fn runs_that_fail_take_no_other_away_and_are_tried_again() -> crate::Result<()> {
        let data = data::glyphs_with(300, 60, 92)?;
        let build = |seed| models::linear(&data).seed(seed).build();
        let diverging = NonPrivate::new().batch_size(50).steps(12).learning_rate(1e300);
        let grid = Grid::new(DpSgd::new().clip(0.5).batch_size(50).steps(3).noise_multiplier(1.0))
            .with_method(diverging)
            .seeds(4)
            .experiment()?;
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(folder.path().to_path_buf()).unwrap();
        for _ in 0..2 {
            let mut most = Most::default();
            let split = |_: &Experiment, _: &[crate::Result<_>], _: &Model, _: &_| {
                Ok(JobAllocation::even(3, 1, "three at once".into()))
            };
            let result = run_with_allocation(&grid, &build, &data, &store, &mut most, split)?;
            let [fine, broken] = result.cells() else { panic!("{result}") };
            assert_eq!((fine.runs.len(), broken.errors.len(), most.failed), (4, 4, 4));
            let seeds: Vec<&str> = broken.errors.iter().map(|error| &error[..6]).collect();
            assert_eq!(seeds, ["seed 0", "seed 1", "seed 2", "seed 3"]);
            assert!(most.noted.iter().any(|words| words == "three at once"), "{:?}", most.noted);
            assert!((1..=3).contains(&most.running), "{}", most.running);
        }
        Ok(())
    }

    #[test]
    fn the_split_is_timed_and_charged_nowhere() -> crate::Result<()> {
        let data = data::glyphs_with(300, 60, 93)?;
        let build = |seed| models::mlp(&data, &[16]).seed(seed).build();
        let method = DpSgd::new().clip(0.5).batch_size(50).steps(3).noise_multiplier(1.0);
        let grid = Experiment::new([method]);
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(folder.path().to_path_buf()).unwrap();
        let mut most = Most::default();
        let result = run_grid(&grid.clone().seeds(4).jobs(2), &build, &data, &store, &mut most)?;
        assert_eq!(result.runs(), 4);
        assert!(most.noted.iter().any(|words| words.contains("thread")), "{:?}", most.noted);
        assert_eq!(store.ledger(&data)?.state()?.charges().len(), 4);
        let refused = run_grid(&grid.jobs(0), &build, &data, &store, &mut most).unwrap_err();
        assert!(refused.to_string().contains("jobs = 0"), "{refused}");
        Ok(())
    }
}
