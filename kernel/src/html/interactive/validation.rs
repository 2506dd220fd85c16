//! Checks Vega-Lite specifications before they are drawn: those of a notebook may come from
//! anyone.

use serde_json::{Map, Value};

use crate::pattern::{Pattern, pattern};

/// Keys with which a specification, at any depth, loads or links something, changes the options of
/// the page, or reaches the prototypes of JavaScript's objects.
const FORBIDDEN_KEYS: &[&str] =
    &["url", "href", "element", "loader", "usermeta", "__proto__", "constructor", "prototype"];

/// Members of a data source that only hold or name its rows.
const DATA_KEYS: &[&str] = &["values", "name", "format"];

/// Members of an input element. Vega makes an attribute of every other one, such as `onfocus`.
const INPUT_KEYS: &[&str] =
    &["input", "name", "min", "max", "step", "options", "labels", "debounce"];

const INPUT_TYPES: &[&str] = &["range", "select", "radio", "checkbox", "number", "text"];

/// Returns whether a specification names no other grammar than Vega-Lite 5, contains its data, and
/// neither loads nor links anything.
pub fn is_safe(spec: &Value) -> bool {
    spec.is_object()
        && spec.get("$schema").is_none_or(|schema| schema.as_str().is_some_and(is_version_5))
        && is_value_safe(spec)
}

fn is_version_5(schema: &str) -> bool {
    static VERSION: Pattern = Pattern::new(|| {
        pattern(r"\Ahttps://vega\.github\.io/schema/vega-lite/v5(?:\.[.0-9]*)?\.json\z")
    });
    VERSION.is_match(schema)
}

fn is_value_safe(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.iter().all(|(key, value)| {
            let allowed = match key.as_str() {
                "data" => is_inline_data(value),
                "bind" => is_plain_input(value),
                key => !FORBIDDEN_KEYS.contains(&key),
            };
            allowed && is_value_safe(value)
        }),
        Value::Array(items) => items.iter().all(is_value_safe),
        _ => true,
    }
}

fn has_only_keys(members: &Map<String, Value>, known: &[&str]) -> bool {
    members.keys().all(|key| known.contains(&key.as_str()))
}

fn is_inline_data(data: &Value) -> bool {
    match data {
        Value::Object(members) => has_only_keys(members, DATA_KEYS),
        Value::String(_) | Value::Array(_) => false,
        _ => true,
    }
}

/// Returns whether `bind` is `"scales"`, `"legend"`, an input, or inputs by field.
fn is_plain_input(bind: &Value) -> bool {
    match bind {
        Value::String(to) => to == "scales" || to == "legend",
        Value::Object(members) => match members.get("input") {
            Some(input) => {
                let known = input.as_str().is_some_and(|input| INPUT_TYPES.contains(&input));
                known && has_only_keys(members, INPUT_KEYS)
            }
            None => members.values().all(is_plain_input),
        },
        _ => false,
    }
}
