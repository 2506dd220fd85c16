//! Ledgers by the name of the people in the data: one for all readings of a file, and those that
//! earlier versions kept under other names are taken over.
//!
//! Whatever is read of a project's ledgers looks at all of them, so each test has a project of its
//! own.

use epsilab::prelude::*;
use epsilab::privacy::{Event, Ledger};
use std::fs;
use std::path::PathBuf;

use crate::support::environment::home;
use crate::support::process;

/// A table of 120 people with two columns to choose a label from, different for each seed.
fn table(seed: u32) -> PathBuf {
    let path = home().join(format!("people-{seed}.csv"));
    let row = |i: u32| format!("{},{},{}\n", (i * 7 + seed) % 101, i % 2, i % 3);
    let rows: String = (0..120).map(row).collect();
    fs::write(&path, format!("age,ill,town\n{rows}")).expect("a table");
    path
}

fn ledger_at(name: &str) -> PathBuf {
    home().join("ledger").join(format!("{name}.jsonl"))
}

const DELTA: Delta = Delta(1e-4);

fn settings(epsilon: f64) -> DpSgd {
    DpSgd::new().target(Epsilon(epsilon), DELTA).batch_size(20).steps(3).learning_rate(0.1)
}

#[test]
fn two_readings_of_one_file_share_a_budget() -> Result<()> {
    if process::alone(this_test!()) {
        return Ok(());
    }
    let path = table(1);
    let (ill, town) = (data::csv(&path, "ill")?, data::csv(&path, "town")?);
    lab::budget(&ill, Epsilon(1.0), DELTA)?;
    settings(0.9).train(&models::linear(&ill).seed(1).build()?, &ill)?;
    let model = models::linear(&town).seed(1).build()?;
    let error = settings(0.9).train(&model, &town).expect_err("nothing is left for it");
    assert_eq!(error.kind(), ErrorKind::Ledger, "{error}");
    assert_eq!(lab::remaining(&town)?.runs(), 1);
    Ok(())
}

#[test]
fn a_ledger_of_an_earlier_version_is_taken_over_with_its_budget() -> Result<()> {
    if process::alone(this_test!()) {
        return Ok(());
    }
    let path = table(2);
    let (ill, town) = (data::csv(&path, "ill")?, data::csv(&path, "town")?);
    let old = Ledger::open(&ledger_at(ill.hash()))?;
    let event = settings(0.9).plan(&ill)?.event();
    old.set_budget(Epsilon(9.0), DELTA)?;
    old.begin("old", &event)?;
    old.set_budget(Epsilon(1.0), DELTA)?;

    let found = lab::remaining(&ill)?;
    assert_eq!((found.runs(), found.limit()), (1, Some(Epsilon(1.0))));
    assert!((found.spent() - 0.9).abs() < 1e-3, "{found}");
    assert_eq!(lab::remaining(&town)?.spent(), found.spent(), "for other readings too");
    let error = settings(0.9).train(&models::linear(&ill).seed(1).build()?, &ill);
    assert_eq!(error.expect_err("nothing is left").kind(), ErrorKind::Ledger);
    let view = lab::ledger()?;
    assert_eq!(
        (view.epsilon(ill.origin()), view.epsilon(ill.hash())),
        (found.spent(), found.spent())
    );
    assert_eq!(Ledger::open(&ledger_at(ill.origin()))?.runs()?.len(), 1, "once, not at each look");

    // The earlier version goes on for a while.
    old.set_budget(Epsilon(9.0), DELTA)?;
    old.begin("later", &event)?;
    let found = lab::remaining(&ill)?;
    assert_eq!((found.runs(), found.limit()), (2, Some(Epsilon(1.0))));
    assert!(found.spent() > 1.0, "{found}");
    assert_eq!(lab::remaining(&ill)?.spent(), found.spent());
    Ok(())
}

#[test]
fn two_former_ledgers_of_one_file_add_up_in_one() -> Result<()> {
    if process::alone(this_test!()) {
        return Ok(());
    }
    let path = table(3);
    let (ill, town) = (data::csv(&path, "ill")?, data::csv(&path, "town")?);
    let event = settings(0.5).plan(&town)?.event();
    Ledger::open(&ledger_at(ill.hash()))?.begin("one", &event)?;
    Ledger::open(&ledger_at(town.hash()))?.begin("two", &event)?;
    assert_eq!(lab::remaining(&ill)?.runs(), 1);
    assert_eq!(lab::remaining(&town)?.runs(), 2);
    assert_eq!(lab::remaining(&ill)?.runs(), 2);
    Ok(())
}

#[test]
fn a_run_stored_by_an_earlier_version_is_shown_and_its_lost_ledger_is_missed() -> Result<()> {
    if process::alone(this_test!()) {
        return Ok(());
    }
    let data = data::csv(table(5), "ill")?;
    let model = models::linear(&data).seed(1).build()?;
    let run = settings(0.8).train(&model, &data)?;
    // The project as an earlier version would have left it.
    let charged = run.record().charged.clone().expect("a new run says where it is charged");
    let event = Ledger::open(&ledger_at(data.origin()))?.events()?.remove(0);
    for ending in ["jsonl", "head"] {
        fs::remove_file(ledger_at(data.origin()).with_extension(ending)).expect("the ledger");
    }
    let stored = home().join("runs").join(&run.record().id).join("settings.json");
    let text = fs::read_to_string(&stored).expect("the settings");
    let mut json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    json["charged"] = serde_json::json!({"origin": data.hash(), "run": charged.run});
    fs::write(&stored, json.to_string()).expect("writing");

    let error = settings(0.8).train(&model, &data).expect_err("its ledger is lost");
    assert_eq!(error.kind(), ErrorKind::Ledger, "{error}");
    Ledger::open(&ledger_at(data.hash()))?.begin(&charged.run, &event)?;
    assert!(settings(0.8).train(&model, &data)?.is_restored());
    let found = lab::remaining(&data)?;
    assert_eq!(found.runs(), 1);
    assert!(found.spent() > 0.8, "{found}");
    Ok(())
}

#[test]
fn a_former_ledger_that_is_damaged_or_gone_stops_everything() -> Result<()> {
    if process::alone(this_test!()) {
        return Ok(());
    }
    let data = data::csv(table(6), "ill")?;
    let path = ledger_at(data.hash());
    Ledger::open(&path)?.begin("old", &Event::Gaussian { noise_multiplier: 5.0, count: 1 })?;
    let text = fs::read_to_string(&path).expect("the ledger");
    fs::write(&path, text.replace("\"count\":1", "\"count\":0")).expect("damage");
    assert_eq!(lab::remaining(&data).expect_err("damaged").kind(), ErrorKind::Ledger);
    fs::remove_file(&path).expect("removed");
    assert_eq!(lab::remaining(&data).expect_err("gone").kind(), ErrorKind::Ledger);
    fs::write(&path, text).expect("the backup");
    assert_eq!(lab::remaining(&data)?.runs(), 1);
    Ok(())
}
