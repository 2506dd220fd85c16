//! Input and output of the cells of this session, for `history_request`.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use regex::Regex;
use serde::Deserialize;
use serde_json::{Value, json};

/// Number of this session, the only one that is remembered. Clients also call it 0.
const SESSION: i64 = 1;

struct HistoryEntry {
    line: u64,
    input: String,
    output: Option<String>,
}

/// History of the cells, shared by the thread that runs them and the one that replies to requests.
#[derive(Clone, Default)]
pub struct History {
    cells: Arc<Mutex<Vec<HistoryEntry>>>,
}

/// Content of a `history_request`. Inputs are stored as typed, so `raw` makes no difference.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct HistoryQuery {
    hist_access_type: HistoryAccess,
    output: bool,
    session: i64,
    start: i64,
    stop: Option<i64>,
    n: Option<i64>,
    pattern: Option<String>,
    unique: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum HistoryAccess {
    #[default]
    Range,
    Tail,
    Search,
}

impl History {
    /// Adds a cell with its execution count.
    pub fn add(&self, line: u64, input: &str) {
        self.cells.lock().push(HistoryEntry { line, input: input.to_owned(), output: None });
    }

    /// Sets the text of the result of a cell.
    pub fn set_output(&self, line: u64, output: &str) {
        if let Some(cell) = self.cells.lock().iter_mut().rev().find(|cell| cell.line == line) {
            cell.output = Some(output.to_owned());
        }
    }

    /// Returns execution count and code of all cells, the newest first.
    pub fn newest_first(&self) -> Vec<(u64, String)> {
        self.cells.lock().iter().rev().map(|cell| (cell.line, cell.input.clone())).collect()
    }

    /// Returns the entries of a `history_reply`.
    pub fn query(&self, query: &HistoryQuery) -> Value {
        let cells = self.cells.lock();
        let found: Vec<&HistoryEntry> = match query.hist_access_type {
            HistoryAccess::Range => range(&cells, query),
            HistoryAccess::Tail => take_last(cells.iter().collect(), query.n),
            HistoryAccess::Search => take_last(search(&cells, query), query.n),
        };
        let entry = |cell: &HistoryEntry| {
            if query.output {
                json!([SESSION, cell.line, [cell.input, cell.output]])
            } else {
                json!([SESSION, cell.line, cell.input])
            }
        };
        found.into_iter().map(entry).collect()
    }
}

/// Returns the cells in `start..stop`. Negative numbers count back from the next line.
fn range<'a>(cells: &'a [HistoryEntry], query: &HistoryQuery) -> Vec<&'a HistoryEntry> {
    if ![0, SESSION].contains(&query.session) {
        return Vec::new();
    }
    let next = cells.last().map_or(1, |cell| cell.line.cast_signed() + 1);
    let position = |at: i64| if at < 0 { at.saturating_add(next) } else { at };
    let stop = query.stop.map_or(next, position);
    let lines = position(query.start)..stop;
    cells.iter().filter(|cell| lines.contains(&cell.line.cast_signed())).collect()
}

fn search<'a>(cells: &'a [HistoryEntry], query: &HistoryQuery) -> Vec<&'a HistoryEntry> {
    // A glob: `*` stands for any text, `?` for one character.
    let glob = regex::escape(query.pattern.as_deref().unwrap_or("*"));
    let glob = format!("(?s)^{}$", glob.replace(r"\*", ".*").replace(r"\?", "."));
    // One that is too long finds nothing.
    let Ok(glob) = Regex::new(&glob) else { return Vec::new() };
    let mut seen = HashSet::new();
    // Of equal inputs the last one is kept.
    let mut found: Vec<&HistoryEntry> = cells
        .iter()
        .rev()
        .filter(|cell| glob.is_match(&cell.input))
        .filter(|cell| !query.unique || seen.insert(&cell.input))
        .collect();
    found.reverse();
    found
}

fn take_last(mut cells: Vec<&HistoryEntry>, n: Option<i64>) -> Vec<&HistoryEntry> {
    let n = n.map_or(cells.len(), |n| usize::try_from(n).unwrap_or(0));
    cells.drain(..cells.len().saturating_sub(n));
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(history: &History, query: Value) -> Vec<String> {
        let query: HistoryQuery = serde_json::from_value(query).expect("a query");
        let found = history.query(&query);
        let found = found.as_array().expect("a list");
        found.iter().map(|entry| entry[2].as_str().expect("text").to_owned()).collect()
    }

    fn sample() -> History {
        let history = History::default();
        for (line, input) in [(1, "a = 1"), (2, "b"), (3, "a = 1"), (4, "let c")] {
            history.add(line, input);
        }
        history.set_output(2, "7");
        history
    }

    #[test]
    fn ranges_tails_and_searches() {
        let h = sample();
        let range = |start: i64, stop: Value| {
            inputs(&h, json!({ "hist_access_type": "range", "start": start, "stop": stop }))
        };
        assert_eq!(range(2, json!(4)), ["b", "a = 1"]);
        assert_eq!(range(-2, json!(null)), ["a = 1", "let c"]);
        assert_eq!(range(0, json!(-3)), ["a = 1"]);
        assert_eq!(range(i64::MIN, json!(i64::MAX)).len(), 4);
        assert!(inputs(&h, json!({ "session": -1 })).is_empty());
        assert_eq!(inputs(&h, json!({ "session": 1, "start": 4 })), ["let c"]);
        let tail = |n: Value| inputs(&h, json!({ "hist_access_type": "tail", "n": n }));
        assert_eq!(tail(json!(2)), ["a = 1", "let c"]);
        assert_eq!((tail(json!(null)).len(), tail(json!(-1)).len()), (4, 0));
        let search = |pattern: &str, unique: bool, n: Value| {
            let kind = "search";
            inputs(
                &h,
                json!({ "hist_access_type": kind, "pattern": pattern, "unique": unique,
                               "n": n }),
            )
        };
        assert_eq!(search("a*", false, json!(null)), ["a = 1", "a = 1"]);
        assert_eq!(search("*?", true, json!(2)), ["a = 1", "let c"]);
        assert_eq!(search("?", true, json!(null)), ["b"]);
        assert!(search("c", false, json!(null)).is_empty());
    }

    #[test]
    fn outputs_are_returned_with_their_inputs() {
        let query = json!({ "hist_access_type": "tail", "n": 3, "output": true });
        let query: HistoryQuery = serde_json::from_value(query).expect("a query");
        let expected =
            json!([[1, 2, ["b", "7"]], [1, 3, ["a = 1", null]], [1, 4, ["let c", null]]]);
        assert_eq!(sample().query(&query), expected);
    }

    #[test]
    fn patterns_with_many_stars_are_matched_fast() {
        let history = History::default();
        history.add(1, &"a".repeat(3000));
        let found = |pattern: &str| {
            inputs(&history, json!({ "hist_access_type": "search", "pattern": pattern })).len()
        };
        let pattern = "*a".repeat(1000);
        assert_eq!((found(&pattern), found(&format!("{pattern}b"))), (1, 0));
    }
}
