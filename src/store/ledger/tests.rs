use std::path::PathBuf;

use super::*;
use crate::privacy::{Delta, Epsilon, Event, Rdp};

fn training(steps: u64) -> Event {
    Event::PoissonGaussian { sampling_rate: 0.034_133_333_333_333_3, noise_multiplier: 1.72, steps }
}

fn file_in(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("ledger").join("abc123.jsonl")
}

#[test]
fn a_run_closes_although_the_file_rounds_its_rate() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = open_ledger(&file_in(&folder)).unwrap();
    for examples in 1..200_u32 {
        let sampling_rate = 1.0 / f64::from(examples);
        let noise_multiplier = f64::from(examples).sqrt();
        let event = |steps| Event::PoissonGaussian { sampling_rate, noise_multiplier, steps };
        let run = examples.to_string();
        ledger.begin_run(&run, &event(9)).unwrap();
        ledger.close_run(&run, &event(8)).unwrap();
    }
}

#[test]
fn another_process_finds_everything_that_was_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = file_in(&folder);
    open_ledger(&path).unwrap().begin_run("run", &training(879)).unwrap();
    // A new value knows nothing but the file, as after a kill.
    let reopened = open_ledger(&path).unwrap();
    assert_eq!(reopened.data_hash(), "abc123");
    let events = reopened.events().unwrap();
    let spent = Rdp::default().epsilon(&events, Delta(1e-5)).unwrap();
    let direct = Rdp::default().epsilon(&[training(879)], Delta(1e-5)).unwrap();
    assert!((spent.epsilon - direct.epsilon).abs() < 1e-9);
}

#[test]
fn concurrent_writers_lose_no_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = file_in(&folder);
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let path = &path;
            scope.spawn(move || {
                let ledger = open_ledger(path).unwrap();
                for i in 0..10 {
                    ledger.begin_run(&format!("{writer}-{i}"), &training(1)).unwrap();
                }
            });
        }
    });
    assert_eq!(open_ledger(&path).unwrap().events().unwrap().len(), 40);
}

#[test]
fn a_corrupt_line_is_an_error_with_file_and_line_and_resets_nothing() {
    let good = {
        let folder = tempfile::tempdir().unwrap();
        let path = file_in(&folder);
        let ledger = open_ledger(&path).unwrap();
        ledger.begin_run("one", &training(5)).unwrap();
        ledger.begin_run("two", &training(6)).unwrap();
        std::fs::read_to_string(&path).unwrap()
    };
    let (first, second) = good.trim_end().split_once('\n').unwrap();
    let cases = [
        ("cut off", format!("{first}\n{}", &second[..second.len() / 2])),
        ("cut off", format!("{first}\n{second}")),
        ("not JSON", format!("{first}\n{}\n", second.replace('"', "'"))),
        ("empty", format!("{first}\n\n{second}\n")),
        ("run twice", format!("{first}\n{first}\n")),
        ("newer", format!("{first}\n{}\n", second.replace(r#""format":2"#, r#""format":3"#))),
        ("other data", format!("{first}\n{}\n", second.replace("abc123", "def456"))),
        ("bad number", format!("{first}\n{}\n", second.replace("1.72", "-1.72"))),
        ("unknown event", format!("{first}\n{}\n", second.replace("poisson_gaussian", "other"))),
    ];
    for (name, text) in cases {
        let folder = tempfile::tempdir().unwrap();
        let path = file_in(&folder);
        let ledger = open_ledger(&path).unwrap();
        std::fs::write(&path, &text).unwrap();
        let opened = open_ledger(&path).unwrap_err();
        let read = ledger.events().unwrap_err().into();
        let begun = ledger.begin_run("x", &training(1)).unwrap_err().into();
        for error in [opened, read, begun] {
            assert_eq!(error.kind(), ErrorKind::Ledger, "{name}: {error}");
            let message = error.to_string();
            assert!(message.contains("abc123.jsonl, line 2"), "{name}: {message}");
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "{name}: untouched");
    }
}

#[test]
fn invalid_utf8_is_a_typed_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = file_in(&folder);
    open_ledger(&path).unwrap();
    std::fs::write(&path, [0xff, 0xfe, b'\n']).unwrap();
    assert_eq!(open_ledger(&path).unwrap_err().kind(), ErrorKind::Ledger);
}

#[test]
fn notes_and_claims_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = open_ledger(&file_in(&folder)).unwrap();
    let broken = Event::Unaccountable { why: "noise scale from the private batch".into() };
    let entry = Entry::planned("run", "abc123", &broken)
        .with_note("as published")
        .with_claimed_epsilon(0.24);
    ledger.record(&entry).unwrap();
    let kept = ledger.entries().unwrap();
    assert_eq!(kept, [Entry { recorded_at: kept[0].recorded_at.clone(), ..entry }]);
    assert!(ledger.to_string().contains("1 run charged"));
}

#[test]
fn a_missing_file_is_an_error_and_not_an_empty_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let path = file_in(&folder);
    let ledger = open_ledger(&path).unwrap();
    ledger.begin_run("run", &training(5)).unwrap();
    std::fs::remove_file(&path).unwrap();
    for error in [
        ledger.events().unwrap_err().into(),
        ledger.begin_run("next", &training(5)).unwrap_err().into(),
        open_ledger(&path).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Ledger, "{error}");
        assert!(error.to_string().contains("abc123.jsonl, line 1"), "{error}");
        assert!(error.to_string().contains("but its head"), "{error}");
    }
    assert!(!path.exists());
    // Before the first entry there is no head; a missing file must still not be created again.
    let path = folder.path().join("def456.jsonl");
    let ledger = open_ledger(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let error = Error::from(ledger.begin_run("next", &training(5)).unwrap_err());
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(std::error::Error::source(&error).is_some(), "that of the operating system");
    assert!(!path.exists());
}

#[test]
fn an_event_that_could_not_be_read_back_is_never_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = file_in(&folder);
    let ledger = open_ledger(&path).unwrap();
    ledger.begin_run("one", &training(5)).unwrap();
    let nest = |event, _| Event::Repeated { event: Box::new(event), count: 1 };
    let too_deep = (0..300).fold(training(1), nest);
    let refused = ledger.begin_run("deep", &too_deep).unwrap_err();
    assert_eq!(refused.kind(), privacy::ErrorKind::Ledger);
    assert_eq!(open_ledger(&path).unwrap().events().unwrap(), [training(5)], "still readable");
    ledger.begin_run("deep", &(0..20).fold(training(1), nest)).unwrap();
    assert_eq!(ledger.events().unwrap().len(), 2);
}

#[test]
fn opening_for_reading_creates_neither_files_nor_folders() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger/abc123.jsonl");
    assert_eq!(open_existing_ledger(&path).unwrap_err().kind(), ErrorKind::Io);
    assert!(!path.parent().unwrap().exists());
    open_ledger(&path).unwrap().begin_run("run", &training(5)).unwrap();
    let ledger = open_existing_ledger(&path).unwrap();
    assert_eq!(ledger.events().unwrap(), [training(5)]);
    // A ledger opened for reading can also be charged.
    ledger.begin_run("next", &training(6)).unwrap();
    assert_eq!(open_ledger(&path).unwrap().events().unwrap(), [training(5), training(6)]);
}

#[cfg(unix)]
#[test]
fn a_pipe_in_place_of_a_ledger_is_rejected_without_blocking() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let path = file_in(&folder);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: a path that ends in a zero byte.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    for refused in [open_ledger(&path), open_existing_ledger(&path)] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Ledger);
        assert!(error.to_string().contains("not a regular file"), "{error}");
    }
}

#[test]
fn entries_that_are_recorded_together_are_refused_together_and_survive_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.jsonl");
    let (one, plan) = (Event::poisson(0.01, 1.0, 50), |run: &str, event: &Event| {
        Entry::planned(run, "data", event)
    });
    let ledger = open_ledger(&path).unwrap();
    let all: Vec<Entry> = (0..5).map(|n| plan(&format!("run{n}"), &one)).collect();
    // One that was started before refuses all, and nothing is written.
    let twice = [&all[..], &all[1..2]].concat();
    assert!(ledger.record_all(&twice).is_err());
    assert_eq!(ledger.runs().unwrap().len(), 0);
    ledger.record_all(&all).unwrap();
    ledger.record_all(&[]).unwrap();
    assert_eq!(ledger.runs().unwrap().len(), 5);
    let spent = Entry::spent("run3", "data", &Event::poisson(0.01, 1.0, 7));
    ledger.record_all(&[spent, plan("run5", &one)]).unwrap();

    // A crash after any number of whole lines leaves a ledger that can be read and extended.
    let (text, head) = (std::fs::read_to_string(&path).unwrap(), path.with_extension("head"));
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let chain = |at: usize| {
        let line: serde_json::Value = serde_json::from_str(lines[at - 1]).unwrap();
        line["chain"].as_str().unwrap().to_owned()
    };
    let announced = format!(
        r#"{{"entries":1,"chain":"{}","coming":{{"entries":5,"chain":"{}"}}}}"#,
        chain(1),
        chain(5)
    );
    for kept in 1..=5 {
        std::fs::write(&path, lines[..kept].concat()).unwrap();
        std::fs::write(&head, &announced).unwrap();
        let after = open_existing_ledger(&path).expect("a crash is no damage");
        assert_eq!(after.runs().unwrap().len(), kept);
        after.begin_run("next", &one).unwrap();
        assert_eq!(open_existing_ledger(&path).unwrap().runs().unwrap().len(), kept + 1);
    }
    // More lines than were announced, or others, are no crash.
    std::fs::write(&path, lines[..7].concat()).unwrap();
    std::fs::write(&head, &announced).unwrap();
    assert!(open_existing_ledger(&path).is_err());
    let forged = announced.replace(&chain(5), &chain(4));
    std::fs::write(&path, lines[..5].concat()).unwrap();
    std::fs::write(&head, forged).unwrap();
    assert!(open_existing_ledger(&path).is_err());
}

#[test]
fn a_budget_holds_in_a_file_and_the_part_that_a_run_did_not_use_is_free_again() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = open_ledger(&file_in(&folder)).unwrap();
    let limit = privacy::epsilon(&[training(1000)], Delta(1e-5)).unwrap().epsilon;
    ledger.begin_run("first", &training(600)).unwrap();
    ledger.set_budget(Epsilon(limit), Delta(1e-5)).unwrap();
    let before = std::fs::read(file_in(&folder)).unwrap();
    let refused = ledger.begin_run("second", &training(500)).unwrap_err();
    assert_eq!(refused.kind(), privacy::ErrorKind::Ledger, "{refused}");
    assert_eq!(std::fs::read(file_in(&folder)).unwrap(), before, "nothing is written");
    ledger.close_run("first", &training(400)).unwrap();
    open_ledger(&file_in(&folder)).unwrap().begin_run("second", &training(500)).unwrap();
    assert_eq!(ledger.budget_status().unwrap().unwrap().runs, 2);
}

#[test]
fn an_entry_that_can_not_be_written_refuses_those_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = open_ledger(&file_in(&folder)).unwrap();
    let nest = |event, _| Event::Repeated { event: Box::new(event), count: 1 };
    let too_deep = (0..300).fold(training(1), nest);
    let entries = [("good", &training(1)), ("deep", &too_deep)]
        .map(|(run, event)| Entry::planned(run, "abc123", event));
    let refused = ledger.record_all(&entries).unwrap_err();
    assert_eq!(refused.kind(), privacy::ErrorKind::Ledger);
    assert!(ledger.entries().unwrap().is_empty());
}

#[test]
fn entries_in_a_file_have_the_time() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = open_ledger(&file_in(&folder)).unwrap();
    let new = |run| Entry::planned(run, "abc123", &training(1));
    let dated = Entry { recorded_at: "2026-01-02T03:04:05Z".into(), ..new("a") };
    ledger.record_all(&[dated.clone(), new("b")]).unwrap();
    let entries = ledger.entries().unwrap();
    assert_eq!(entries[0], dated);
    assert_eq!(entries[1], Entry { recorded_at: entries[1].recorded_at.clone(), ..new("b") });
    assert!(
        entries[1].recorded_at.ends_with('Z') && entries[1].recorded_at.starts_with('2'),
        "{}",
        entries[1].recorded_at
    );
}
