//! Tampering is detected, and an intact ledger is accepted.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::privacy::{Delta, Epsilon, Event};

fn training(steps: u64) -> Event {
    Event::PoissonGaussian { sampling_rate: 0.01, noise_multiplier: 1.72, steps }
}

/// A ledger of four lines: three runs, one of them closed.
struct Fixture {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc123.jsonl");
        let ledger = open_ledger(&path).unwrap();
        ledger.begin_run("one", &training(10)).unwrap();
        ledger.begin_run("two", &training(20)).unwrap();
        ledger.close_run("two", &training(15)).unwrap();
        ledger.begin_run("three", &training(30)).unwrap();
        Self { _folder: folder, path }
    }

    fn head(&self) -> PathBuf {
        self.path.with_extension("head")
    }

    fn lines(&self) -> Vec<String> {
        fs::read_to_string(&self.path).unwrap().lines().map(String::from).collect()
    }

    fn put(&self, lines: &[String]) {
        fs::write(&self.path, lines.iter().map(|line| format!("{line}\n")).collect::<String>())
            .unwrap();
    }

    /// Checks that every reader and writer reports an error at `line`, with advice, and leaves the
    /// file unchanged.
    fn refused(&self, line: usize, word: &str) {
        let before = fs::read(&self.path).ok();
        let opening = open_ledger(&self.path).unwrap_err();
        let attached = Ledger::new(LedgerFile::at(&self.path));
        let others = [
            attached.events().unwrap_err(),
            attached.begin_run("new", &training(1)).unwrap_err(),
            attached.set_budget(Epsilon(1.0), Delta(1e-5)).unwrap_err(),
        ];
        for error in others.map(crate::Error::from).into_iter().chain([opening]) {
            assert_eq!(error.kind(), ErrorKind::Ledger, "{error}");
            assert!(error.to_string().contains(&format!("abc123.jsonl, line {line},")), "{error}");
            assert!(error.to_string().contains(word), "{error}");
            assert!(error.advice().contains("backup"), "{error}");
        }
        assert_eq!(fs::read(&self.path).ok(), before, "left as it is");
    }

    /// Checks that the ledger can be read and appended to.
    fn goes_on(&self, entries: usize) {
        let ledger = open_ledger(&self.path).unwrap();
        assert_eq!(ledger.entries().unwrap().len(), entries);
        ledger.begin_run("next", &training(1)).unwrap();
        ledger.begin_run("after it", &training(1)).unwrap();
        assert_eq!(open_ledger(&self.path).unwrap().entries().unwrap().len(), entries + 2);
    }
}

#[test]
fn an_intact_ledger_is_accepted() {
    let ledger = Fixture::new();
    ledger.goes_on(4);
    let head: head::Head = serde_json::from_slice(&fs::read(ledger.head()).unwrap()).unwrap();
    assert_eq!(head.entries, 6);
    assert!(ledger.lines()[5].ends_with(&format!(",\"chain\":\"{}\"}}", head.chain)));
}

#[test]
fn a_changed_digit_is_detected_on_its_line() {
    for (line, from, to) in
        [(0, "1.72", "2.72"), (2, "15", "14"), (3, "30", "3"), (1, "0.01", "0.010"), (3, "T", "t")]
    {
        let ledger = Fixture::new();
        let mut lines = ledger.lines();
        assert!(lines[line].contains(from));
        lines[line] = lines[line].replacen(from, to, 1);
        ledger.put(&lines);
        ledger.refused(line + 1, "changed");
    }
}

#[test]
fn every_changed_byte_and_every_truncation_is_detected() {
    let ledger = Fixture::new();
    let read = || LedgerFile::at(&ledger.path).read().map(|_| ());
    for path in [&ledger.path, &ledger.head()] {
        let whole = fs::read(path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(path, &bytes).unwrap();
            assert_eq!(read().unwrap_err().kind(), ErrorKind::Ledger, "byte {at} changed");
            // Cut before its final newline, the head is still complete.
            if path == &ledger.path || at + 1 < whole.len() {
                fs::write(path, &whole[..at]).unwrap();
                assert_eq!(read().unwrap_err().kind(), ErrorKind::Ledger, "cut at {at}");
            }
        }
        fs::write(path, &whole).unwrap();
        read().unwrap();
    }
}

#[test]
fn a_changed_link_is_detected() {
    let ledger = Fixture::new();
    let mut lines = ledger.lines();
    let link = lines[3].split("\"chain\":\"").nth(1).unwrap().chars().next().unwrap();
    let other = if link == '0' { '1' } else { '0' };
    lines[3] =
        lines[3].replacen(&format!("\"chain\":\"{link}"), &format!("\"chain\":\"{other}"), 1);
    ledger.put(&lines);
    ledger.refused(4, "changed");
}

#[test]
fn removed_swapped_repeated_and_inserted_lines_are_detected() {
    type Change = fn(&mut Vec<String>);
    let change: [(usize, Change); 5] = [
        (1, |lines| drop(lines.remove(0))),
        (2, |lines| drop(lines.remove(1))),
        (2, |lines| lines.swap(1, 3)),
        (4, |lines| lines.insert(3, lines[2].clone())),
        (2, |lines| lines.insert(1, lines[1].replace("two", "four"))),
    ];
    for (line, change) in change {
        let ledger = Fixture::new();
        let mut lines = ledger.lines();
        change(&mut lines);
        ledger.put(&lines);
        ledger.refused(line, "removed, added or moved");
    }
}

#[test]
fn a_line_without_a_link_or_of_another_format_is_refused() {
    let ledger = Fixture::new();
    let mut lines = ledger.lines();
    lines[3] = format!("{}}}", lines[3].split(",\"chain\"").next().unwrap());
    ledger.put(&lines);
    ledger.refused(4, "does not follow");
    lines[3] = lines[3].replace("\"format\":2", "\"format\":1");
    ledger.put(&lines);
    let error = open_ledger(&ledger.path).unwrap_err().to_string();
    assert!(error.contains("can't read format 1"), "{error}");
}

#[test]
fn a_truncated_ledger_is_detected_by_its_head() {
    for kept in 0..4 {
        let ledger = Fixture::new();
        ledger.put(&ledger.lines()[..kept]);
        ledger.refused(kept + 1, &format!("{kept} of 4 entries"));
    }
    let ledger = Fixture::new();
    fs::remove_file(&ledger.path).unwrap();
    ledger.refused(1, "missing");
    assert!(!ledger.path.exists(), "it does not come back empty");
}

#[test]
fn another_history_of_the_same_length_is_detected_by_the_head() {
    let (ledger, other) = (Fixture::new(), Fixture::new());
    let lines = other.lines();
    other.put(&lines[..3]);
    // The same length, each chain intact: only the last plan differs.
    fs::write(other.head(), head_of(&lines[..3])).unwrap();
    open_ledger(&other.path).unwrap().begin_run("three", &training(1)).unwrap();
    fs::copy(&other.path, &ledger.path).unwrap();
    ledger.refused(4, "do not belong together");
}

/// Returns the head of a ledger with these lines.
fn head_of(lines: &[String]) -> String {
    let last = lines.last().unwrap().trim_end_matches("\"}");
    let chain = last.rsplit_once('"').unwrap().1;
    format!(r#"{{"entries":{},"chain":"{chain}"}}"#, lines.len())
}

#[test]
fn a_crash_between_line_and_head_is_accepted() {
    let ledger = Fixture::new();
    let lines = ledger.lines();
    fs::write(ledger.head(), head_of(&lines[..3])).unwrap();
    ledger.goes_on(4);
    // The first line, before there was a head.
    let ledger = Fixture::new();
    ledger.put(&ledger.lines()[..1]);
    fs::remove_file(ledger.head()).unwrap();
    ledger.goes_on(1);
}

#[test]
fn a_missing_corrupt_or_old_head_is_an_error_with_advice() {
    type Break = fn(&Path);
    let break_head: [(Break, &str); 4] = [
        (|head| fs::remove_file(head).unwrap(), "the head is missing"),
        (|head| fs::write(head, "").unwrap(), "the head can't be read"),
        (|head| fs::write(head, "{\"entries\":4}").unwrap(), "the head can't be read"),
        (|_| {}, "2 entries ahead"),
    ];
    for (break_head, word) in break_head {
        let ledger = Fixture::new();
        fs::write(ledger.head(), head_of(&ledger.lines()[..2])).unwrap();
        break_head(&ledger.head());
        ledger.refused(5, word);
        let advice = open_ledger(&ledger.path).unwrap_err().advice().to_string();
        let (_, head) = advice.split_once("write into it: ").expect("the text is in the advice");
        fs::write(ledger.head(), head).unwrap();
        ledger.goes_on(4);
    }
}
