use std::fs;
use std::path::Path;

use super::*;
use crate::data::{self, Dataset};
use crate::grid::Grid;
use crate::mask;
use crate::methods::{DpSgd, DpSsgd, NonPrivate, Plan};
use crate::nn::{Model, models};
use crate::privacy::{Delta, Epsilon};
use crate::runs::train_as;
use crate::show::NOT_COVERED;
use crate::train::NoopObserver;

fn start() -> (Dataset, Model) {
    let data = data::glyphs_with(60, 20, 87).unwrap();
    let model = models::linear(&data).seed(1).build().unwrap();
    (data, model)
}

/// Returns a report of a stored run and its record.
fn stored(plan: &Plan, store: &RunStore) -> Report {
    let (data, model) = start();
    train_as(store, "a-hash-of-a-run", plan, &model, &data, &mut NoopObserver).unwrap();
    run::stored(store, "a-hash").unwrap()
}

fn private() -> DpSgd {
    DpSgd::new().target(Epsilon(3.0), Delta(1e-4)).batch_size(10).steps(3)
}

fn is_balanced(html: &str, tag: &str) -> bool {
    html.matches(&format!("<{tag}")).count() == html.matches(&format!("</{tag}>")).count()
}

#[test]
fn a_report_has_every_section_and_no_hash() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::open(folder.path().to_path_buf()).unwrap();
    let report = stored(&private().plan(&start().0)?, &store);
    let headings: Vec<&str> = report.sections.iter().map(|section| section.heading).collect();
    let expected = ["", "Guarantee", "Result", "Settings", "Model", "Ledger", REPEAT, SOFTWARE];
    assert_eq!(headings, expected);
    let (html, markdown) = (report.html(), report.markdown());
    let (data, _) = start();
    for text in [&html, &markdown] {
        for hidden in [data.hash(), data.origin(), "a-hash-of-a-run"] {
            assert!(!text.contains(hidden), "{hidden}");
        }
        for part in
            ["Anyone who sees the trained model", "1 of 1", "closed", "noise_multiplier", "Burn "]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    for tag in ["main", "table", "figure", "pre", "details", "h2"] {
        assert!(is_balanced(&html, tag), "{tag}");
    }
    assert!(!html.contains("<script") && html.contains("data:image/svg+xml;base64,"));
    assert!(html.matches("http").count() == html.matches("http-equiv").count(), "it loads nothing");
    // The device of this machine need not be that of the training.
    let settings = markdown.split("## Settings").nth(1).and_then(|all| all.split("##").next());
    assert!(settings.is_some_and(|table| table.contains("clip") && !table.contains("device")));
    // The plan of the report trains the same run.
    let plan = markdown.split("```\n{").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let path = folder.path().join("plan.json");
    fs::write(&path, format!("{{{plan}")).unwrap();
    assert_eq!(Plan::load(path)?, private().plan(&data)?);
    Ok(())
}

#[test]
fn without_what_no_epsilon_covers_the_loss_is_gone_and_the_epsilon_stays() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let report =
        stored(&private().plan(&start().0)?, &RunStore::open(folder.path().to_path_buf()).unwrap());
    // A stored run does not know that its data are drawn by code.
    assert_eq!(report.coverage(), Coverage::NotCovered);
    assert!(report.markdown().contains(NOT_COVERED));
    let covered = report.covered();
    assert!(covered.coverage() <= Coverage::TestPart);
    let (html, markdown) = (covered.html(), covered.markdown());
    for text in [&html, &markdown] {
        assert!(!text.contains(NOT_COVERED), "{text}");
        assert!(text.contains("Left out: 1 part of this report"), "{text}");
        assert!(text.contains("epsilon spent"), "{text}");
    }
    let figure = covered.figures().next().unwrap();
    assert!(figure.text.contains("accuracy") && !figure.text.contains("loss"));
    Ok(())
}

#[test]
fn in_study_mode_no_result_and_no_seed_is_left() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let plan = private().seed(70_707).plan(&start().0)?;
    let report = stored(&plan, &RunStore::open(folder.path().to_path_buf()).unwrap());
    let whole = report.markdown();
    assert!(whole.contains("70707") && whole.contains(NOT_COVERED), "{whole}");
    let left = report.covered().markdown();
    assert!(!left.contains("test accuracy") && !left.contains("70707"), "{left}");
    Ok(())
}

#[test]
fn the_statement_of_a_run_without_privacy_guarantees_nothing() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::open(folder.path().to_path_buf()).unwrap();
    let plan = NonPrivate::new().batch_size(10).steps(2).plan(&start().0)?;
    let report = stored(&plan, &store);
    assert!(report.markdown().contains("Nothing is guaranteed"));
    assert!(report.markdown().contains("no epsilon holds"));
    assert!(!report.covered().markdown().contains("test accuracy"));
    Ok(())
}

#[test]
fn a_report_of_a_masked_run_draws_its_mask() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::open(folder.path().to_path_buf()).unwrap();
    let (data, model) = start();
    let plan = DpSsgd::new()
        .target(Epsilon(3.0), Delta(1e-4))
        .batch_size(10)
        .steps(3)
        .pre_prune(mask::RandomMask::prune(0.5))
        .plan(&data)?;
    train_as(&store, "masked", &plan, &model, &data, &mut NoopObserver)?;
    let report = run::stored(&store, "masked")?;
    assert!(report.sections.iter().any(|section| section.heading == "Mask"));
    assert_eq!(report.figures().count(), 2);
    Ok(())
}

#[test]
fn a_record_that_is_not_what_was_charged_is_refused() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::open(folder.path().to_path_buf()).unwrap();
    stored(&private().plan(&start().0)?, &store);
    let path = folder.path().join("runs/a-hash-of-a-run/result.json");
    let text = fs::read_to_string(&path).unwrap();
    let fewer = text.replacen("\"steps\": 3", "\"steps\": 2", 2);
    assert_ne!(text, fewer);
    fs::write(&path, fewer).unwrap();
    let error = run::stored(&store, "a-hash").unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::CorruptData, "{error}");
    Ok(())
}

#[test]
fn files_are_written_with_their_figures() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let report =
        stored(&private().plan(&start().0)?, &RunStore::open(folder.path().join("home")).unwrap());
    let at = |name: &str| folder.path().join(name);
    for (name, begins) in [("r.html", "<!doctype"), ("r.md", "# DP-SGD"), ("r.tex", "\\document")] {
        report.save(at(name))?;
        let text = fs::read_to_string(at(name)).unwrap();
        assert!(text.starts_with(begins), "{name}: {text:.60}");
    }
    let markdown = fs::read_to_string(at("r.md")).unwrap();
    assert!(markdown.contains("(<r_files/figure_1.svg>)"), "{markdown}");
    assert!(at("r_files/figure_1.svg").exists() && at("r_files/figure_1.png").exists());
    let latex = fs::read_to_string(at("r.tex")).unwrap();
    let begins = latex.matches("\\begin{").count();
    assert_eq!(begins, latex.matches("\\end{").count());
    assert!(latex.contains("{r_files/figure_1.png}"));
    let error = report.save(Path::new("r.pdf")).unwrap_err().to_string();
    assert!(error.contains(".tex"), "{error}");
    Ok(())
}

#[test]
fn a_report_of_a_grid_names_the_best_cell_and_the_noise() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::open(folder.path().to_path_buf()).unwrap();
    let (data, _) = start();
    let grid = Grid::new(private()).seeds(2).experiment()?;
    let build = |seed| models::linear(&data).seed(seed).build();
    let mut quiet = crate::grid::NoopGridObserver;
    let result = crate::grid::scheduler::run_grid(&grid, &build, &data, &store, &mut quiet)?;
    let report = grid::report(&result, &store)?.repeated_by("words", "the command", "{}");
    let headings: Vec<&str> = report.sections.iter().map(|section| section.heading).collect();
    let expected = ["", "Results", "Privacy cost and seed noise", "Settings", REPEAT, SOFTWARE];
    assert_eq!(headings, expected);
    let text = report.markdown();
    for part in ["2 of 2 runs are finished", "Highest mean accuracy", "Private runs: 2 on"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The data are drawn by code, so the known seeds reveal nothing.
    assert_eq!(report.coverage(), Coverage::Public);
    Ok(())
}
