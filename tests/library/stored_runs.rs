//! Runs and ledgers of an earlier version are shown and counted, not trained again.
//!
//! `tests/stored/project` was written by the version of 22 November 2026:
//! `epsilab grid --data glyphs --train 60 --test 10 --model linear --method
//! dp-sgd,dp-ssgd,non-private --mask dp-snip --pre-prune 0,0.5 --drop 0.5 --steps 2 --batch 16
//! --epsilon 3 --seeds 1 --optimizer adam`, without the figures. The noise of its run with a mask
//! by DP-SNIP is calibrated to other last digits by later versions, so that run is listed and
//! charged, and not found again by its settings.

use std::fs;
use std::path::Path;

use epsilab::grid::{Grid, GridObserver, GridProgress, Quiet};
use epsilab::mask::DroppingRule;
use epsilab::prelude::*;

use crate::support::environment::home;
use crate::support::process;

/// Fails if anything is trained.
struct NothingIsTrained(Quiet);

impl GridObserver for NothingIsTrained {
    fn progressed(&mut self, progress: &GridProgress<'_>) {
        panic!("trained {} of {}", progress.step, progress.steps);
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            // Not `fs::copy`, which makes a read-only file of a read-only file.
            false => fs::write(to, fs::read(entry.path()).unwrap()).unwrap(),
        }
    }
}

#[test]
fn runs_of_an_earlier_version_are_shown_and_counted() -> Result<()> {
    if process::alone(this_test!()) {
        return Ok(());
    }
    let home = home();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stored/project"), &home);
    let data = data::glyphs()?.limit(60, 10);
    let build = |seed| models::linear(&data).seed(seed).build();
    let adam = Optimizer::adam();
    let dense = DpSgd::new().clip(0.1).batch_size(16).epochs(8).steps(2);
    let dense = dense.optimizer(adam).learning_rate(0.01);
    let plain =
        NonPrivate::new().batch_size(16).epochs(8).steps(2).optimizer(adam).learning_rate(0.01);
    // Equal settings give equal plans, and so equal names of runs.
    let stored = fs::read_to_string(home.join("runs/2bd6b4dbdacc6cfd/settings.json")).unwrap();
    let stored: serde_json::Value = serde_json::from_str(&stored).unwrap();
    let plan = dense.clone().target(Epsilon(3.0), Delta(1e-5)).seed(0).plan(&data)?;
    assert_eq!(serde_json::to_value(&plan).unwrap(), stored["plan"]);
    let grid = Grid::new(dense.clone())
        .beside(DpSsgd::from(dense))
        .drop_gradients(DroppingRule::Random, [0.5])
        .epsilon([3.0]);
    let others = Grid::new(plain).drop_gradients(DroppingRule::Random, [0.5]);
    let mut ids = Vec::new();
    for grid in [grid, others] {
        let result = grid.run_watched(&build, &data, &mut NothingIsTrained(Quiet))?;
        for cell in result.cells() {
            assert!(cell.errors.is_empty(), "{:?}", cell.errors);
            ids.extend(cell.runs.iter().map(|run| (run.id.clone(), run.restored, run.epsilon)));
        }
    }
    ids.sort_by(|a, b| a.0.cmp(&b.0));
    let names: Vec<&str> = ids.iter().map(|(id, _, _)| id.as_str()).collect();
    let stored = ["2bd6b4dbdacc6cfd", "9499d00497041a6c", "ca7e2e871faff842"];
    assert_eq!(names, stored);
    assert_eq!(lab::runs()?.all().len(), 4, "the others are listed too");
    assert!(ids.iter().all(|(_, restored, _)| *restored));
    let finite = ids.iter().filter_map(|(_, _, epsilon)| *epsilon);
    assert!(finite.clone().count() == 2 && finite.clone().all(|epsilon| epsilon <= 3.0));
    let ledger = fs::read_dir(home.join("ledger")).unwrap().count();
    assert_eq!(ledger, 2, "a ledger and its head, and no second ledger");
    Ok(())
}
