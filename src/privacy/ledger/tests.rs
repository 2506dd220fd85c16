use std::path::PathBuf;

use super::*;
use crate::ErrorKind;
use crate::privacy::{Accountant, Delta, Epsilon, Headline, Rdp};

fn training(steps: u64) -> Event {
    Event::PoissonGaussian { sampling_rate: 0.034_133_333_333_333_3, noise_multiplier: 1.72, steps }
}

fn file_in(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("ledger").join("abc123.jsonl")
}

#[test]
fn a_plan_is_charged_in_full_until_the_run_is_closed() {
    for ledger in
        [Ledger::in_memory(), Ledger::open(&file_in(&tempfile::tempdir().unwrap())).unwrap()]
    {
        ledger.begin("run-1", &training(879)).unwrap();
        ledger.begin("run-2", &training(10)).unwrap();
        assert_eq!(ledger.events().unwrap(), [training(879), training(10)]);
        ledger.close("run-1", &training(400)).unwrap();
        assert_eq!(ledger.events().unwrap(), [training(400), training(10)]);
        assert_eq!(ledger.entries().unwrap().len(), 3);
    }
}

#[test]
fn a_correction_can_only_lower_the_charge_of_its_own_open_run() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(&file_in(&folder)).unwrap();
    ledger.begin("run", &training(100)).unwrap();
    let refused = |result: Result<()>| {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Ledger);
        assert_eq!(ledger.events().unwrap(), [training(100)], "nothing was written");
    };
    refused(ledger.close("run", &training(101)));
    refused(ledger.close("another", &training(1)));
    refused(ledger.close("run", &Event::Composed { events: vec![] }));
    refused(ledger.begin("run", &training(1)));
    ledger.close("run", &training(60)).unwrap();
    assert!(ledger.close("run", &training(0)).is_err(), "closed once");
    assert_eq!(ledger.events().unwrap(), [training(60)]);
}

#[test]
fn a_run_that_was_stopped_goes_on_under_its_own_charge() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(&file_in(&folder)).unwrap();
    let resume = |run: &str, steps| {
        ledger.record(&Entry::resumed(run, ledger.data_hash(), &training(steps)))
    };
    ledger.begin("other", &training(7)).unwrap();
    ledger.begin("run", &training(100)).unwrap();
    let refused = |result: Result<()>, charged| {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Ledger);
        assert_eq!(ledger.events().unwrap(), [training(7), training(charged)]);
    };
    refused(resume("run", 100), 100);
    refused(resume("another", 100), 100);
    ledger.close("run", &training(60)).unwrap();
    // What was released can't become less, and the run is not another one.
    refused(resume("run", 59), 60);
    let other = Event::PoissonGaussian { sampling_rate: 0.5, noise_multiplier: 9.0, steps: 100 };
    refused(ledger.record(&Entry::resumed("run", ledger.data_hash(), &other)), 60);
    resume("run", 100).unwrap();
    assert_eq!(ledger.events().unwrap(), [training(7), training(100)]);
    refused(ledger.begin("run", &training(100)), 100);
    ledger.close("run", &training(80)).unwrap();
    assert_eq!(Ledger::open(&file_in(&folder)).unwrap().events().unwrap()[1], training(80));
}

#[test]
fn a_budget_counts_a_resumed_run_once() {
    let delta = Delta(1e-5);
    let cost = |steps: &[u64]| {
        let events: Vec<Event> = steps.iter().map(|&steps| training(steps)).collect();
        Headline::new().epsilon(&events, delta).unwrap().epsilon
    };
    for (other, fits) in [(10, true), (60, false)] {
        let ledger = Ledger::in_memory();
        // Room for the run and ten steps more, but not for its first part beside the whole.
        ledger.set_budget(Epsilon(cost(&[100, 10])), delta).unwrap();
        assert!(cost(&[100, 50]) > cost(&[100, 10]));
        ledger.begin("run", &training(100)).unwrap();
        ledger.close("run", &training(50)).unwrap();
        let began = ledger.begin("other", &training(other));
        assert!(began.is_ok() || !fits, "{began:?}");
        let resumed = ledger.record(&Entry::resumed("run", "in-memory", &training(100)));
        assert_eq!(resumed.is_ok(), fits, "{resumed:?}");
        let charged = ledger.events().unwrap()[0].clone();
        assert_eq!(charged, training(if fits { 100 } else { 50 }));
    }
}

#[test]
fn a_run_closes_although_the_file_rounds_its_rate() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(&file_in(&folder)).unwrap();
    for examples in 1..200_u32 {
        let sampling_rate = 1.0 / f64::from(examples);
        let noise_multiplier = f64::from(examples).sqrt();
        let event = |steps| Event::PoissonGaussian { sampling_rate, noise_multiplier, steps };
        let run = examples.to_string();
        ledger.begin(&run, &event(9)).unwrap();
        ledger.close(&run, &event(8)).unwrap();
    }
}

#[test]
fn another_process_finds_everything_that_was_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = file_in(&folder);
    Ledger::open(&path).unwrap().begin("run", &training(879)).unwrap();
    // A new value knows nothing but the file, as after a kill.
    let reopened = Ledger::open(&path).unwrap();
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
                let ledger = Ledger::open(path).unwrap();
                for i in 0..10 {
                    ledger.begin(&format!("{writer}-{i}"), &training(1)).unwrap();
                }
            });
        }
    });
    assert_eq!(Ledger::open(&path).unwrap().events().unwrap().len(), 40);
}

#[test]
fn a_corrupt_line_is_an_error_with_file_and_line_and_nothing_is_reset() {
    let good = {
        let folder = tempfile::tempdir().unwrap();
        let path = file_in(&folder);
        let ledger = Ledger::open(&path).unwrap();
        ledger.begin("one", &training(5)).unwrap();
        ledger.begin("two", &training(6)).unwrap();
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
        let ledger = Ledger::open(&path).unwrap();
        std::fs::write(&path, &text).unwrap();
        let opened = Ledger::open(&path).unwrap_err();
        for error in
            [opened, ledger.events().unwrap_err(), ledger.begin("x", &training(1)).unwrap_err()]
        {
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
    Ledger::open(&path).unwrap();
    std::fs::write(&path, [0xff, 0xfe, b'\n']).unwrap();
    assert_eq!(Ledger::open(&path).unwrap_err().kind(), ErrorKind::Ledger);
}

#[test]
fn an_event_out_of_range_or_about_other_data_is_rejected() {
    let ledger = Ledger::in_memory();
    let bad = Event::PoissonGaussian { sampling_rate: 2.0, noise_multiplier: 1.0, steps: 1 };
    assert_eq!(ledger.begin("run", &bad).unwrap_err().kind(), ErrorKind::Setting);
    let foreign = Entry::planned("run", "other", &training(1));
    assert_eq!(ledger.record(&foreign).unwrap_err().kind(), ErrorKind::Ledger);
    assert!(ledger.entries().unwrap().is_empty());
}

#[test]
fn notes_and_claims_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(&file_in(&folder)).unwrap();
    let broken = Event::Unaccountable { why: "noise scale from the private batch".into() };
    let entry = Entry::planned("run", "abc123", &broken).note("as published").epsilon_claimed(0.24);
    ledger.record(&entry).unwrap();
    assert_eq!(ledger.entries().unwrap(), [entry]);
    assert!(ledger.to_string().contains("1 run charged"));
}

#[test]
fn a_missing_file_is_an_error_and_not_an_empty_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let path = file_in(&folder);
    let ledger = Ledger::open(&path).unwrap();
    ledger.begin("run", &training(5)).unwrap();
    std::fs::remove_file(&path).unwrap();
    for error in [
        ledger.events().unwrap_err(),
        ledger.begin("next", &training(5)).unwrap_err(),
        Ledger::open(&path).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Ledger, "{error}");
        assert!(error.to_string().contains("abc123.jsonl, line 1"), "{error}");
        assert!(error.to_string().contains("its head"), "{error}");
    }
    assert!(!path.exists());
    // Before the first entry there is no head; a missing file must still not be created again.
    let path = folder.path().join("def456.jsonl");
    let ledger = Ledger::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(ledger.begin("next", &training(5)).unwrap_err().kind(), ErrorKind::Io);
    assert!(!path.exists());
}

#[test]
fn an_event_that_could_not_be_read_back_is_never_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = file_in(&folder);
    let ledger = Ledger::open(&path).unwrap();
    ledger.begin("one", &training(5)).unwrap();
    let nest = |event, _| Event::Repeated { event: Box::new(event), count: 1 };
    let too_deep = (0..300).fold(training(1), nest);
    assert_eq!(ledger.begin("deep", &too_deep).unwrap_err().kind(), ErrorKind::Ledger);
    assert_eq!(Ledger::open(&path).unwrap().events().unwrap(), [training(5)], "still readable");
    ledger.begin("deep", &(0..20).fold(training(1), nest)).unwrap();
    assert_eq!(ledger.events().unwrap().len(), 2);
}

#[test]
fn opening_for_reading_creates_neither_files_nor_folders() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger/abc123.jsonl");
    assert_eq!(Ledger::open_existing(&path).unwrap_err().kind(), ErrorKind::Io);
    assert!(!path.parent().unwrap().exists());
    Ledger::open(&path).unwrap().begin("run", &training(5)).unwrap();
    let ledger = Ledger::open_existing(&path).unwrap();
    assert_eq!(ledger.events().unwrap(), [training(5)]);
    // A ledger opened for reading can also be charged.
    ledger.begin("next", &training(6)).unwrap();
    assert_eq!(Ledger::open(&path).unwrap().events().unwrap(), [training(5), training(6)]);
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
    for refused in [Ledger::open(&path), Ledger::open_existing(&path)] {
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
    let ledger = Ledger::open(&path).unwrap();
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

    // A crash after any number of whole lines leaves a ledger that reads and goes on.
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
        let after = Ledger::open_existing(&path).expect("a crash is no damage");
        assert_eq!(after.runs().unwrap().len(), kept);
        after.begin("next", &one).unwrap();
        assert_eq!(Ledger::open_existing(&path).unwrap().runs().unwrap().len(), kept + 1);
    }
    // More lines than were announced, or others, are no crash.
    std::fs::write(&path, lines[..7].concat()).unwrap();
    std::fs::write(&head, &announced).unwrap();
    assert!(Ledger::open_existing(&path).is_err());
    let forged = announced.replace(&chain(5), &chain(4));
    std::fs::write(&path, lines[..5].concat()).unwrap();
    std::fs::write(&head, forged).unwrap();
    assert!(Ledger::open_existing(&path).is_err());
}

#[test]
fn a_budget_is_compared_with_all_plans_of_a_batch_together() {
    let ledger = Ledger::in_memory();
    let event = Event::poisson(0.01, 1.0, 200);
    let two = crate::privacy::epsilon(&[event.clone(), event.clone()], Delta(1e-5)).unwrap();
    ledger.set_budget(Epsilon(two.epsilon * 1.01), Delta(1e-5)).unwrap();
    let plan = |n: usize| Entry::planned(&format!("run{n}"), "in-memory", &event);
    let all: Vec<Entry> = (0..3).map(plan).collect();
    let refused = ledger.record_all(&all).unwrap_err();
    assert_eq!(refused.kind(), crate::ErrorKind::Ledger, "{refused}");
    assert_eq!(ledger.runs().unwrap().len(), 0, "each of them alone would have been allowed");
    ledger.record_all(&all[..2]).unwrap();
}

#[test]
fn a_resumed_run_and_new_plans_of_a_batch_share_the_budget_in_any_order() {
    let event = Event::poisson(0.01, 1.0, 200);
    let one = crate::privacy::epsilon(std::slice::from_ref(&event), Delta(1e-5)).unwrap();
    let stopped = Entry::spent("old", "in-memory", &Event::poisson(0.01, 1.0, 1));
    let resumed = Entry::resumed("old", "in-memory", &event);
    let plan = Entry::planned("new", "in-memory", &event);
    for batch in [[resumed.clone(), plan.clone()], [plan.clone(), resumed.clone()]] {
        let ledger = Ledger::in_memory();
        ledger.begin("old", &event).unwrap();
        ledger.record(&stopped).unwrap();
        // Enough for one of the two runs beside the first step of the old one.
        ledger.set_budget(Epsilon(one.epsilon * 1.1), Delta(1e-5)).unwrap();
        let refused = ledger.record_all(&batch).unwrap_err();
        assert_eq!(refused.kind(), crate::ErrorKind::Ledger, "{refused}");
        assert_eq!(ledger.runs().unwrap().len(), 1);
        ledger.record_all(&batch[..1]).expect("one of them alone");
    }
}

#[test]
fn a_release_that_has_happened_is_recorded_beyond_the_budget() {
    let ledger = Ledger::in_memory();
    let event = Event::poisson(0.01, 1.0, 200);
    let one = crate::privacy::epsilon(std::slice::from_ref(&event), Delta(1e-5)).unwrap();
    ledger.set_budget(Epsilon(one.epsilon / 2.0), Delta(1e-5)).unwrap();
    let entries =
        [Entry::planned("a", "in-memory", &event), Entry::spent("a", "in-memory", &event)];
    assert!(ledger.record_all(&entries).is_err());
    ledger.record_released(&entries).unwrap();
    assert_eq!(ledger.runs().unwrap().len(), 1);
}
