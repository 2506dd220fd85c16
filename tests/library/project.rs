//! Project folders: readings of one file share a ledger, and other formats are refused.

use std::fs;
use std::path::{Path, PathBuf};

use epsilab::prelude::*;

use crate::support::environment::home;
use crate::support::process;

const DELTA: Delta = Delta(1e-4);

fn settings(epsilon: f64) -> DpSgd {
    DpSgd::new().target(Epsilon(epsilon), DELTA).batch_size(20).steps(3).learning_rate(0.1)
}

#[test]
fn two_readings_of_one_file_share_a_budget() -> Result<()> {
    if process::alone(this_test!()) {
        return Ok(());
    }
    let path = home().join("people.csv");
    let rows: String = (0..120).map(|i| format!("{},{},{}\n", i * 7 % 101, i % 2, i % 3)).collect();
    fs::write(&path, format!("age,ill,town\n{rows}")).expect("a table");
    let (ill, town) = (data::csv(&path, "ill")?, data::csv(&path, "town")?);
    lab::budget(&ill, Epsilon(1.0), DELTA)?;
    settings(0.9).train(&models::linear(&ill).seed(1).build()?, &ill)?;
    let model = models::linear(&town).seed(1).build()?;
    let error = settings(0.9).train(&model, &town).expect_err("nothing is left for it");
    assert_eq!(error.kind(), ErrorKind::Ledger, "{error}");
    assert_eq!(lab::remaining(&town)?.runs(), 1);
    Ok(())
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to)
        } else {
            // Not `fs::copy`, which makes a read-only file of a read-only file.
            fs::write(to, fs::read(entry.path()).unwrap()).unwrap()
        }
    }
}

/// The paths of all files in a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> =
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect();
    all.sort();
    all
}

/// `tests/stored/project` was written before projects had a format. What it spent must never be
/// taken for nothing.
#[test]
fn a_project_of_another_format_is_refused_whole() -> Result<()> {
    if process::alone(this_test!()) {
        return Ok(());
    }
    let home = home();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stored/project"), &home);
    let before = files(&home);
    let data = data::glyphs()?.limit(60, 10);
    let model = models::linear(&data).seed(0).build()?;
    let plan = settings(1.0).plan(&data)?;
    let grid = Grid::new(settings(1.0)).seeds(1);
    let build = |seed| models::linear(&data).seed(seed).build();
    let attempts: [(&str, Result<()>); 9] = [
        ("runs", lab::runs().map(drop)),
        ("ledger", lab::ledger().map(drop)),
        ("remaining", lab::remaining(&data).map(drop)),
        ("budget", lab::budget(&data, Epsilon(9.0), DELTA).map(drop)),
        ("preview", plan.preview(&data).map(drop)),
        ("train", plan.train(&model, &data).map(drop)),
        ("fresh", plan.clone().fresh().train(&model, &data).map(drop)),
        (
            "grid",
            grid.run_with_observer(&build, &data, &mut epsilab::grid::NoopGridObserver).map(drop),
        ),
        ("checkpoint", lab::checkpoint("2bd6").map(drop)),
    ];
    for (name, result) in attempts {
        let error = result.expect_err(name);
        assert_eq!(error.kind(), ErrorKind::CorruptData, "{name}: {error}");
        assert!(error.to_string().contains("format.json"), "{name}: {error}");
        assert!(error.advice().contains("commit"), "{name}: {error}");
    }
    assert_eq!(files(&home), before, "nothing is written");
    Ok(())
}
