//! A project whose ledger was removed while its runs are still stored.
//!
//! `lab::ledger()` reads the whole project, and other tests would fail on what is broken here. So
//! this test has a process and a project of its own.

use epsilab::prelude::*;
use serde_json::Value;
use std::fs;
use std::path::Path;

use crate::support::environment::home;
use crate::support::process;

fn settings(steps: u64) -> DpSgd {
    DpSgd::new().target(Epsilon(8.0), Delta(1e-4)).batch_size(30).steps(steps)
}

/// Changes the stored settings of a run.
fn edit_json(settings: &Path, change: impl FnOnce(&mut Value)) {
    let text = fs::read_to_string(settings).expect("the settings");
    let mut json = serde_json::from_str(&text).expect("JSON");
    change(&mut json);
    fs::write(settings, json.to_string()).expect("writing");
}

#[test]
fn a_ledger_that_lacks_a_stored_run_is_always_an_error() -> Result<()> {
    if process::alone(this_test!()) {
        return Ok(());
    }
    let home = home();
    let (data, other) = (data::glyphs_with(300, 10, 1)?, data::glyphs_with(300, 10, 2)?);
    let part = data.limit(200, 10);
    let (model, another) = (models::linear(&data).seed(1).build()?, settings(3));
    let run = settings(2).train(&model, &data)?;
    let charged = run.record().charged.clone();
    assert_eq!(charged.origin, data.origin());

    let intact = || -> Result<()> {
        assert!(settings(2).train(&model, &data)?.is_restored());
        assert!(lab::remaining(&data)?.spent() > 0.0 && lab::ledger()?.data_sets() >= 1);
        another.preview(&data).map(|_| ())
    };
    intact()?;
    let refused = |what: &str| {
        let outcomes = [
            ("showing", settings(2).train(&model, &data).err()),
            ("training", another.train(&model, &data).err()),
            ("training anew", settings(2).fresh().train(&model, &data).err()),
            ("training on a part", another.train(&model, &part).err()),
            ("remaining", lab::remaining(&data).err()),
            ("budget", lab::budget(&data, Epsilon(9.0), Delta(1e-4)).err()),
            ("preview", another.preview(&data).err()),
            ("ledger", lab::ledger().err()),
        ];
        for (verb, error) in outcomes {
            let error = error.unwrap_or_else(|| panic!("{what}: {verb} continued"));
            assert_eq!(error.kind(), ErrorKind::Ledger, "{what}: {verb}: {error}");
            assert!(error.to_string().contains(&run.record().id), "{what}: {verb}: {error}");
            assert!(error.advice().contains("backup"), "{what}: {verb}: {error}");
        }
    };
    let (ledger, aside) = (home.join("ledger"), home.join("aside"));
    fs::rename(&ledger, &aside).expect("removing all ledgers");
    refused("all ledgers removed");
    assert!(!ledger.exists(), "nothing is made in place of what is lost");
    assert_eq!(lab::remaining(&other)?.runs(), 0, "other data is not concerned");

    fs::create_dir(&ledger).expect("a folder");
    fs::write(ledger.join(format!("{}.jsonl", data.origin())), "").expect("an empty ledger");
    refused("an empty ledger in its place");
    fs::remove_dir_all(&ledger).expect("removing it");
    fs::rename(&aside, &ledger).expect("the backup");
    intact()?;

    // An older copy, with its head, that lacks a later training of the same settings.
    fs::create_dir(&aside).expect("a folder");
    let copy = |from: &Path, to: &Path| {
        for file in fs::read_dir(from).expect("a folder") {
            let file = file.expect("a file");
            fs::copy(file.path(), to.join(file.file_name())).expect("a copy");
        }
    };
    copy(&ledger, &aside);
    settings(2).fresh().train(&model, &data)?;
    copy(&aside, &ledger);
    refused("an older copy");

    // A run that does not say where it is charged might be the one that is missing.
    let stored = home.join("runs").join(&run.record().id).join("settings.json");
    edit_json(&stored, |json| {
        json.as_object_mut().expect("an object").remove("charged").expect("it was there");
    });
    for text in [fs::read_to_string(&stored).expect("it"), "{\"charged\": {".to_owned()] {
        fs::write(&stored, text).expect("writing");
        let error = lab::ledger().expect_err("its charge is unknown");
        assert_eq!(error.kind(), ErrorKind::CorruptData, "{error}");
    }
    Ok(())
}
