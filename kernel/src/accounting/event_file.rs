//! Reader for events in a file: an exported ledger, or events written by another program.

use std::path::Path;

use epsilab::privacy::{Event, NeighbouringRelation};
use epsilab::{Error, ErrorKind, Result};
use serde_json::Value;

/// The supported version of exported ledgers.
const FORMAT_VERSION: u64 = 1;

/// Events and neighbouring relation read from a file.
#[derive(Debug)]
pub struct EventFile {
    pub events: Vec<Event>,
    /// The neighbouring relation that the file names.
    pub neighbouring: Option<NeighbouringRelation>,
}

/// Reads the events in a JSON file: an exported ledger (an object with `data_sets`, one of which is
/// chosen by number), an object with `events`, a list of events, or one event.
///
/// # Errors
/// Kind `Io` if the file can't be read, `CorruptData` if it has another form, `Setting` if the
/// choice of the data set is ambiguous.
pub fn read(path: &Path, data_set: Option<usize>) -> Result<EventFile> {
    let text = std::fs::read_to_string(path).map_err(|e| {
        Error::io(format!("reading the events of {}", path.display()), &e).fix(
            "give the path of a JSON file, for example of an exported ledger: \
             lab::ledger()?.export(\"ledger.json\")",
        )
    })?;
    if is_raw_ledger(&text) {
        let what = format!("{} is a ledger file, not an exported ledger", path.display());
        let why = "the lines of a ledger hold plans and corrections, which must be resolved first";
        return Err(Error::new(ErrorKind::CorruptData, what, why)
            .fix("export it first, in a notebook: lab::ledger()?.export(\"ledger.json\")"));
    }
    let json = serde_json::from_str(&text).map_err(|e| not_an_event_file(path, &e.to_string()))?;
    parse_event_file(path, json, data_set)
}

/// Returns whether the text is a ledger of the store, which has one entry per line.
fn is_raw_ledger(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    let line: Option<Value> = serde_json::from_str(first).ok();
    line.is_some_and(|line| line.get("format").is_some() && line.get("entry").is_some())
}

fn parse_event_file(path: &Path, mut json: Value, data_set: Option<usize>) -> Result<EventFile> {
    if let Some(format) = json.get("format")
        && format.as_u64() != Some(FORMAT_VERSION)
    {
        let why = format!("this version reads format {FORMAT_VERSION}, not format {format}");
        return Err(not_an_event_file(path, &why).fix("use the version that wrote the file"));
    }
    let of_all = parse_neighbouring(path, &json)?;
    // An event may contain `events`, too, but it has a kind.
    if let Some(data_sets) = json.get_mut("data_sets").map(Value::take) {
        let Value::Array(data_sets) = data_sets else {
            return Err(not_an_event_file(path, "`data_sets` is not a list"));
        };
        let mut chosen = select_data_set(path, data_sets, data_set)?;
        let neighbouring = parse_neighbouring(path, &chosen)?.or(of_all);
        let events = parse_events(path, chosen.get_mut("events").map(Value::take))?;
        return Ok(EventFile { events, neighbouring });
    }
    if let Some(number) = data_set {
        let why = format!("{} holds the events of one data set, not of several", path.display());
        return Err(Error::setting("--data-set", number, why).fix("leave out --data-set"));
    }
    let events = match json {
        event if event.get("kind").is_some() => Some(Value::Array(vec![event])),
        Value::Object(mut object) => object.remove("events"),
        other => Some(other),
    };
    Ok(EventFile { events: parse_events(path, events)?, neighbouring: of_all })
}

/// Returns the neighbouring relation that the file names.
fn parse_neighbouring(path: &Path, object: &Value) -> Result<Option<NeighbouringRelation>> {
    let Some(value) = object.get("neighbouring") else { return Ok(None) };
    serde_json::from_value(value.clone())
        .map(Some)
        .map_err(|e| not_an_event_file(path, &format!("`neighbouring`: {e}")))
}

fn select_data_set(path: &Path, mut data_sets: Vec<Value>, number: Option<usize>) -> Result<Value> {
    let known = || {
        let names =
            data_sets.iter().enumerate().map(|(i, data_set)| match data_set_name(data_set) {
                Some(name) => format!("{} ({name})", i + 1),
                None => format!("{}", i + 1),
            });
        names.collect::<Vec<_>>().join(", ")
    };
    if data_sets.is_empty() {
        return Err(not_an_event_file(path, "the list of data sets is empty"));
    }
    let index = match number {
        None if data_sets.len() == 1 => 0,
        Some(number) if (1..=data_sets.len()).contains(&number) => number - 1,
        Some(number) => {
            let why = format!("the ledger has these data sets: {}", known());
            return Err(Error::setting("--data-set", number, why).fix("choose one of them"));
        }
        None => {
            return Err(Error::new(
                ErrorKind::Setting,
                format!("{} is about {} data sets: {}", path.display(), data_sets.len(), known()),
                "each data set has its own ledger, and their costs do not add up",
            )
            .fix("choose one, for example --data-set 1"));
        }
    };
    Ok(data_sets.swap_remove(index))
}

/// Returns a short name of a data set.
fn data_set_name(data_set: &Value) -> Option<String> {
    let text = ["name", "data_set", "data", "data_hash", "hash"]
        .iter()
        .find_map(|key| data_set.get(key).and_then(Value::as_str))?;
    Some(text.chars().take(24).collect())
}

fn parse_events(path: &Path, events: Option<Value>) -> Result<Vec<Event>> {
    let Some(Value::Array(events)) = events else {
        return Err(not_an_event_file(path, "the file has no list of events"));
    };
    let event = |(i, value): (usize, Value)| {
        let event: Event = serde_json::from_value(value)
            .map_err(|e| not_an_event_file(path, &format!("event {}: {e}", i + 1)))?;
        event.check()?;
        Ok(event)
    };
    events.into_iter().enumerate().map(event).collect()
}

fn not_an_event_file(path: &Path, why: &str) -> Error {
    let what = format!("{} is not a file of events", path.display());
    Error::new(ErrorKind::CorruptData, what, why).fix(
        "give an exported ledger, a list of events, or one event such as {\"kind\":\"gaussian\",\
         \"noise_multiplier\":8.0,\"count\":1}",
    )
}
