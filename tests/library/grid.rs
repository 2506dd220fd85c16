//! Accuracy grids on small data.

use epsilab::grid::{CellRun, GridObserver, GridProgress, GridResult, NoopGridObserver};
use epsilab::lab::open_ledger;
use epsilab::nn::Model;
use epsilab::prelude::*;

use crate::support::environment::home;
use crate::support::process;

fn glyphs(seed: u64) -> Dataset {
    home();
    data::glyphs_with(300, 60, seed).expect("glyphs")
}

fn method() -> DpSsgd {
    DpSsgd::new().clip(0.5).batch_size(50).steps(3)
}

fn run_grid(grid: &Grid, data: &Dataset) -> Result<GridResult> {
    grid.run_with_observer(
        &|seed| models::linear(data).seed(seed).build(),
        data,
        &mut NoopGridObserver,
    )
}

fn ledger(data: &Dataset) -> String {
    let path = home().join(format!("ledger/{}.jsonl", data.origin()));
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Counts what was trained and what was shown again.
#[derive(Default)]
struct Counts {
    steps: usize,
    trained: usize,
    restored: usize,
    failed: usize,
}

impl GridObserver for Counts {
    fn on_progress(&mut self, progress: &GridProgress<'_>) {
        assert!(progress.completed < progress.total && progress.step <= progress.steps);
        self.steps += usize::from(progress.step > 0);
    }
    fn on_run_end(&mut self, progress: &GridProgress<'_>, run: Result<&CellRun, &Error>) {
        assert!(progress.completed <= progress.total);
        match run {
            Ok(run) if run.restored => self.restored += 1,
            Ok(_) => self.trained += 1,
            Err(_) => self.failed += 1,
        }
    }
}

#[test]
fn every_cell_and_seed_is_one_run_and_the_same_again_trains_nothing() -> Result<()> {
    let data = glyphs(1);
    let grid = Grid::new(method())
        .masks(MaskKind::Random)
        .pre_prune([0.0, 0.5])
        .drop_gradients(DroppingRule::Random, [0.0, 0.9])
        .epsilon([2.0, 8.0])
        .delta(1e-3)
        .seeds(2);
    let build = |seed| models::linear(&data).seed(seed).build();
    let mut counts = Counts::default();
    let first = grid.run_with_observer(&build, &data, &mut counts)?;
    assert_eq!((grid.len(), first.cells().len(), first.runs()), (16, 8, 16));
    assert_eq!((counts.trained, counts.restored, counts.failed), (16, 0, 0));
    assert_eq!(counts.steps, 16 * 3);
    let charged = ledger(&data);
    assert_eq!(charged.lines().count(), 32, "a plan and its correction for each run");

    let mut counts = Counts::default();
    let again = grid.run_with_observer(&build, &data, &mut counts)?;
    assert_eq!((counts.trained, counts.restored, counts.steps), (0, 16, 0));
    assert_eq!(ledger(&data), charged, "nothing was spent");
    assert_eq!(again.rows(), first.rows());
    assert_eq!(again.to_string(), first.to_string());
    assert_eq!(epsilab::grid::csv(&[again])?, epsilab::grid::csv(std::slice::from_ref(&first))?);

    // Each cell is what it says: other rates, other seeds, other epsilons are other runs.
    let mut labels: Vec<String> = first.rows().into_iter().flat_map(|row| row.run_labels).collect();
    labels.sort();
    labels.dedup();
    assert_eq!(labels.len(), 16);
    for row in first.rows() {
        let spent = row.epsilon_spent.expect("private");
        let target = row.epsilon.expect("a target");
        assert!(spent <= target && spent > 0.9 * target, "{spent} of {target}");
        assert_eq!(
            (row.mask.is_some(), row.drop_rule.is_some()),
            (row.pre_prune > 0.0, row.drop > 0.0)
        );
        assert_eq!((row.delta, row.accuracies.len()), (Some(1e-3), 2));
    }
    Ok(())
}

#[test]
fn a_cell_without_rates_is_plain_dp_sgd_and_shares_its_runs() -> Result<()> {
    let data = glyphs(2);
    let dense = DpSgd::new().clip(0.5).batch_size(50).steps(3);
    let by_hand = dense
        .clone()
        .target(Epsilon(4.0), Delta(1e-5))
        .seed(0)
        .train(&models::linear(&data).seed(0).build()?, &data)?;
    let grid = Grid::new(method())
        .with_method(dense)
        .drop_gradients(DroppingRule::Magnitude, [0.0, 0.5])
        .epsilon([4.0]);
    let result = run_grid(&grid, &data)?;
    let rows = result.rows();
    assert_eq!(
        rows.iter().map(|row| row.method).collect::<Vec<_>>(),
        ["dp-ssgd", "dp-ssgd", "dp-sgd"]
    );
    assert_eq!(result.cells()[0].runs[0].id, by_hand.record().id);
    assert_eq!(rows[0].run_labels, rows[2].run_labels);
    assert_ne!(rows[0].run_labels, rows[1].run_labels);
    assert_eq!(rows[0].accuracies, [by_hand.accuracy()]);
    // Three cells, two private runs: the shared one costs once.
    let notes = result.notes().join("\n");
    assert!(notes.contains("Private runs: 2 on"), "{notes}");
    let steps = by_hand.plan().event();
    let both = privacy::epsilon(&[steps.clone(), steps], Delta(1e-5))?.epsilon;
    let expected = format!("epsilon {}", epsilab::show::format::eps(both));
    assert!(notes.contains(&expected), "{expected} is not in {notes}");
    Ok(())
}

#[test]
fn other_runs_on_the_same_data_are_counted_beside_the_grid() -> Result<()> {
    if process::alone(this_test!()) {
        return Ok(());
    }
    let data = glyphs(3);
    let model = models::linear(&data).seed(9).build()?;
    let other = DpSgd::new().noise_multiplier(1.0).batch_size(50).steps(40).train(&model, &data)?;
    let result = run_grid(&Grid::new(method()).epsilon([2.0]).seeds(3), &data)?;
    let notes = result.notes().join("\n");
    assert!(notes.contains("Private runs: 3 on"), "{notes}");
    let record = result.on_record().expect("another run is on record");
    assert!(record.contains("With the 1 other private run on record"), "{record}");
    let all = lab::ledger()?.epsilon(data.origin());
    assert!(all > other.epsilon());
    let expected = format!("epsilon {}", epsilab::show::format::eps(all));
    assert!(
        record.contains(&expected) && !notes.contains("on record"),
        "{expected}: {record} {notes}"
    );
    let shown = epsilab::show::with_capture(|| result.show());
    assert_eq!(shown[1].text, record);
    Ok(())
}

#[test]
fn a_cell_that_fails_takes_no_other_away() -> Result<()> {
    let data = glyphs(4);
    let diverging = NonPrivate::new().batch_size(50).steps(12).learning_rate(1e300);
    let grid =
        Grid::new(method()).with_method(diverging).epsilon([1e-6, 3.0]).delta(1e-30).seeds(2);
    let mut counts = Counts::default();
    let build = |seed| models::linear(&data).seed(seed).build();
    let result = grid.run_with_observer(&build, &data, &mut counts)?;
    let [unreachable, fine, broken] = result.cells() else { panic!("three cells") };
    assert_eq!((fine.runs.len(), fine.errors.len()), (2, 0));
    // A target out of reach is known before, and once; a run that diverges is one error each.
    assert_eq!((unreachable.runs.len(), unreachable.errors.len()), (0, 1));
    assert_eq!((broken.runs.len(), broken.errors.len()), (0, 2));
    assert!(broken.errors[1].starts_with("seed 1: ") && broken.errors[1].contains("not finite"));
    assert_eq!((counts.trained, counts.failed), (2, 2));
    assert_eq!(unreachable.mean(), None);
    let text = result.to_string();
    assert_eq!(text.matches("Not trained").count(), 3, "{text}");
    let alone = run_grid(&Grid::new(method()).epsilon([1e-6]).delta(1e-30), &data).unwrap_err();
    assert!(unreachable.errors[0].starts_with(alone.to_string().lines().next().unwrap()));
    Ok(())
}

#[test]
fn axes_that_no_run_can_be_made_of_are_refused_before_anything_is_trained() {
    let data = glyphs(5);
    let grid = || Grid::new(method()).epsilon([2.0]);
    let random = DroppingRule::Random;
    let cases = [
        ("pre_prune = 1", grid().pre_prune([0.0, 1.0])),
        ("pre_prune = -0.1", grid().pre_prune([-0.1])),
        ("pre_prune = NaN", grid().pre_prune([f64::NAN])),
        ("pre_prune = []", grid().pre_prune([])),
        ("drop_gradients = 1.5", grid().drop_gradients(random, [1.5])),
        ("drop_gradients = 0.3", grid().drop_gradients(random, [0.3, 0.5, 0.3])),
        ("epsilon = 0", grid().epsilon([0.0])),
        ("epsilon = []", grid().epsilon([0.0; 0])),
        ("epsilon = 2", grid().epsilon([2.0, 2.0])),
        ("delta = 1", grid().delta(1.0)),
        ("seeds = 0", grid().seeds(0)),
        ("seeds = 18446744073709551615", grid().seeds(u64::MAX)),
        ("method = dp-ssgd", grid().with_method(method().clip(1.0))),
        (".seed", Grid::new(method().seed(1)).epsilon([2.0])),
        (".fresh", Grid::new(method().fresh()).epsilon([2.0])),
        (".pre_prune", Grid::new(method().pre_prune(RandomMask::prune(0.5))).epsilon([2.0])),
        ("DP-SGD alone", Grid::new(DpSgd::new()).epsilon([2.0]).pre_prune([0.5])),
        ("batch_size = 301", Grid::new(method().batch_size(301)).epsilon([2.0, 3.0])),
        ("neither a target", Grid::new(method())),
    ];
    for (words, grid) in cases {
        let error = run_grid(&grid, &data).expect_err(words);
        assert_eq!(error.kind(), ErrorKind::Setting, "{words}: {error}");
        assert!(error.to_string().contains(words), "{words}: {error}");
    }
    assert_eq!(ledger(&data), "", "nothing was charged");
    let flat = |_| -> Result<Model> { models::papernot_cnn(&glyphs(5).limit(1, 0)).build() };
    assert!(
        Grid::new(method())
            .epsilon([2.0])
            .seeds(0)
            .run_with_observer(&flat, &data, &mut NoopGridObserver)
            .is_err()
    );
}

#[test]
fn the_builder_shows_the_grid_live_and_the_files_are_written() -> Result<()> {
    let data = glyphs(6);
    let grid = Grid::new(NonPrivate::new().batch_size(50).steps(2))
        .drop_gradients(DroppingRule::Random, [0.0, 0.5])
        .seeds(2);
    let mut result = None;
    let shown = epsilab::show::with_capture(|| {
        result = Some(grid.run(&models::mlp(&data, &[8]), &data));
    });
    let result = result.expect("it ran")?;
    let last = shown.last().expect("a last frame");
    assert_eq!(last.text, "4 of 4 runs are finished");
    let shown = epsilab::show::with_capture(|| result.show());
    assert_eq!(shown[0].text, result.to_string());
    assert!(shown[0].html.as_ref().is_some_and(|html| html.contains("<table")));
    assert!(shown.len() > 1, "no figures");
    assert!(shown[1..].iter().all(|figure| figure.svg.is_some() && figure.png.is_some()));
    let rows = result.rows();
    assert!(rows.iter().all(|row| row.epsilon.is_none() && row.epsilon_spent.is_none()));
    assert!(result.notes().join("\n").contains("No epsilon covers 4 of the runs"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    result.save_csv(folder.path().join("grid.csv"))?;
    result.save_markdown(folder.path().join("grid.md"))?;
    let csv = std::fs::read_to_string(folder.path().join("grid.csv")).expect("the csv");
    assert_eq!(csv.lines().count(), 5);
    assert!(result.save_csv(folder.path().join("grid.csv/no/folder.csv")).is_err());
    Ok(())
}

#[test]
fn every_kind_of_mask_makes_its_cells_and_plain_snip_has_no_epsilon() -> Result<()> {
    let data = glyphs(7);
    for kind in [MaskKind::Synflow, MaskKind::Magnitude, MaskKind::DpSnip, MaskKind::Snip] {
        let grid = Grid::new(method()).masks(kind).pre_prune([0.0, 0.5]).epsilon([4.0]).seeds(2);
        let result = run_grid(&grid, &data)?;
        let [plain, pruned] = result.cells() else { panic!("{result}") };
        assert_eq!((plain.runs.len(), pruned.runs.len()), (2, 2), "{result}");
        assert!(plain.epsilon_spent().is_some_and(|epsilon| epsilon <= 4.0));
        // Each seed has its own model, hence its own mask and run.
        assert_ne!(pruned.runs[0].id, pruned.runs[1].id);
        let private = kind != MaskKind::Snip;
        assert_eq!(pruned.epsilon_spent().is_some(), private, "{kind}");
        let folder = tempfile::tempdir().expect("a temporary folder");
        result.save_markdown(folder.path().join("grid.md"))?;
        let text = std::fs::read_to_string(folder.path().join("grid.md")).expect("the file");
        for form in result.figures().iter().map(|(_, figure)| &figure.text).chain([&text]) {
            assert_eq!(form.contains("not covered by epsilon"), !private, "{kind}: {form}");
        }
    }
    Ok(())
}

#[test]
fn attempts_that_were_killed_are_part_of_what_a_grid_costs() -> Result<()> {
    if process::alone(this_test!()) {
        return Ok(());
    }
    let data = glyphs(8);
    let grid = Grid::new(method()).epsilon([2.0]).seeds(2);
    let first = run_grid(&grid, &data)?;
    assert!(first.notes().join("\n").contains("Together they cost"), "{first}");
    // What a process leaves that was killed in its first step, before it began again.
    let plan = DpSgd::new().target(Epsilon(2.0), Delta(1e-5)).clip(0.5).batch_size(50).steps(3);
    let plan = plan.plan(&data)?.event();
    let ledger = home().join(format!("ledger/{}.jsonl", data.origin()));
    let ledger = open_ledger(&ledger)?;
    ledger.begin_run(&format!("{}-0a1b2c3d", first.cells()[0].runs[1].id), &plan)?;
    let again = run_grid(&grid, &data)?;
    let notes = again.notes().join("\n");
    let all = privacy::epsilon(&ledger.events()?, Delta(1e-5))?.epsilon;
    let expected = format!("cost epsilon {}", epsilab::show::format::eps(all));
    assert!(notes.contains(&expected), "{expected} is not in {notes}");
    assert!(notes.contains("Private runs: 2 on") && notes.contains("1 other attempt"), "{notes}");
    assert_eq!(again.on_record(), None, "nothing else is on record: {notes}");

    // The killed run itself, begun again: what it has cost is told, and what it costs now counts.
    let stored = home().join("runs").join(&again.cells()[0].runs[1].id);
    std::fs::rename(stored, home().join("aside")).expect("forgetting the run");
    #[derive(Default)]
    struct Noted(Vec<String>);
    impl GridObserver for Noted {
        fn on_note(&mut self, words: &str) {
            self.0.push(words.to_owned());
        }
    }
    let mut noted = Noted::default();
    let build = |seed| models::linear(&data).seed(seed).build();
    let third = grid.run_with_observer(&build, &data, &mut noted)?;
    let [note, words] = &noted.0[..] else { panic!("{:?}", noted.0) };
    let ledgers = home().join("ledger").display().to_string();
    assert!(note.contains(&ledgers) && note.contains("runs on these data so far"), "{note}");
    assert!(!note.contains(data.origin()), "{note}");
    assert!(words.contains("seed 1: 2 earlier attempts at this run stay charged"), "{words}");
    let all = privacy::epsilon(&ledger.events()?, Delta(1e-5))?.epsilon;
    let expected = format!("cost epsilon {}", epsilab::show::format::eps(all));
    let notes = third.notes().join("\n");
    assert!(notes.contains(&expected) && notes.contains("2 other attempts"), "{expected}: {notes}");
    Ok(())
}

#[test]
fn files_for_others_name_neither_runs_nor_data() -> Result<()> {
    if process::alone(this_test!()) {
        return Ok(());
    }
    let data = glyphs(9);
    let grid = Grid::new(method()).epsilon([2.0]).seeds(2);
    let ids: Vec<String> =
        run_grid(&grid, &data)?.cells()[0].runs.iter().map(|run| run.id.clone()).collect();
    // Its folder is named in the error, which the owner needs and others must not have.
    let damaged = home().join("runs").join(&ids[1]).join("result.json");
    std::fs::write(damaged, "{").expect("damaging a run");
    let result = run_grid(&grid, &data)?;
    assert!(result.cells()[0].errors[0].contains(&ids[1]), "{result}");
    assert_eq!(result.cells()[0].runs[0].id, ids[0], "the owner finds a run by its name");
    let folder = tempfile::tempdir().expect("a temporary folder");
    result.save_csv(folder.path().join("grid.csv"))?;
    result.save_markdown(folder.path().join("grid.md"))?;
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect(name);
    let rows = serde_json::to_string(&result.rows()).expect("JSON");
    let label = &result.cells()[0].runs[0].label;
    assert!(rows.contains(&format!("\"run_labels\":[\"{label}\"]")), "{rows}");
    assert!(read("grid.csv").contains(label), "files with one run have one name of it");
    assert_eq!(lab::runs()?.get(label)?.id, ids[0], "its owner finds it by the label");
    assert!(rows.contains("can't be read") && read("grid.md").contains("can't be read"), "{rows}");
    let mut given = vec![rows, read("grid.csv"), read("grid.md"), result.to_string()];
    given.extend(result.figures().into_iter().map(|(name, figure)| name + &figure.text));
    for text in given {
        for name in [&ids[0][..], &ids[1], data.hash(), data.origin()] {
            assert!(!text.contains(name), "{name} is in {text}");
        }
    }
    Ok(())
}
