//! Requests of clients, parsed with the defaults of the protocol for fields that are left out.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::history::HistoryQuery;

/// Request of a client, by message type.
#[derive(Debug)]
pub enum Request {
    Execute(ExecuteRequest),
    Complete(CodeCursor),
    Inspect(CodeCursor),
    IsComplete(Code),
    History(HistoryQuery),
    CommInfo,
    CommOpen(Comm),
    KernelInfo,
    Interrupt,
    /// Reply to a cell that asked for a line of input.
    Input(Input),
    Shutdown(Shutdown),
    /// A message type that this kernel does not support.
    Unsupported,
}

/// Request to run a cell.
#[derive(Clone, Debug, Deserialize)]
pub struct ExecuteRequest {
    pub code: String,
    #[serde(default)]
    pub silent: bool,
    #[serde(default = "default_true")]
    pub store_history: bool,
    #[serde(default = "default_true")]
    pub stop_on_error: bool,
    #[serde(default)]
    pub allow_stdin: bool,
    /// Expressions to evaluate after the cell, by name.
    #[serde(default)]
    pub user_expressions: Map<String, Value>,
}

/// Code and a cursor position in it.
#[derive(Debug, Deserialize)]
pub struct CodeCursor {
    pub code: String,
    /// Cursor position in code points; the end of the code if it is missing or negative.
    #[serde(default)]
    cursor_pos: Option<i64>,
}

impl CodeCursor {
    /// Returns the position in code points, at most the length of the code.
    pub fn position(&self) -> usize {
        let end = self.code.chars().count();
        self.cursor_pos.and_then(|at| usize::try_from(at).ok()).map_or(end, |at| at.min(end))
    }
}

fn default_true() -> bool {
    true
}

/// Content of a request about code without a cursor.
#[derive(Debug, Deserialize)]
pub struct Code {
    pub code: String,
}

/// Channel that a client opens.
#[derive(Debug, Deserialize)]
pub struct Comm {
    #[serde(default)]
    pub comm_id: String,
}

/// Reply of a client with a line that a cell asked for.
#[derive(Debug, Deserialize)]
pub struct Input {
    pub value: String,
}

/// Request to shut down, with whether the client starts the kernel again.
#[derive(Debug, Deserialize)]
pub struct Shutdown {
    #[serde(default)]
    pub restart: bool,
}

/// Parses a request.
///
/// # Errors
/// A field without a default is missing, or a field has the wrong type. The text names it.
pub fn parse(kind: &str, content: Value) -> Result<Request, String> {
    fn deserialize<T: DeserializeOwned>(content: Value) -> Result<T, String> {
        // A field that is null counts as left out.
        let content = match content {
            Value::Object(fields) => {
                fields.into_iter().filter(|(_, value)| !value.is_null()).collect()
            }
            other => other,
        };
        serde_json::from_value(content).map_err(|e| e.to_string())
    }
    Ok(match kind {
        "execute_request" => Request::Execute(deserialize(content)?),
        "complete_request" => Request::Complete(deserialize(content)?),
        "inspect_request" => Request::Inspect(deserialize(content)?),
        "is_complete_request" => Request::IsComplete(deserialize(content)?),
        "history_request" => Request::History(deserialize(content)?),
        "comm_info_request" => Request::CommInfo,
        "comm_open" => Request::CommOpen(deserialize(content)?),
        "kernel_info_request" => Request::KernelInfo,
        "input_reply" => Request::Input(deserialize(content)?),
        "interrupt_request" => Request::Interrupt,
        "shutdown_request" => Request::Shutdown(deserialize(content)?),
        _ => Request::Unsupported,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn missing_fields_have_the_default_of_the_protocol() {
        let Ok(Request::Execute(cell)) = parse("execute_request", json!({ "code": "1" })) else {
            panic!("not parsed");
        };
        assert!(!cell.silent && cell.store_history && cell.stop_on_error && !cell.allow_stdin);
        let null = json!({ "code": "1", "silent": null, "user_expressions": null });
        assert!(parse("execute_request", null).is_ok());
        for (cursor, expected) in [(json!(-1), 3), (json!(null), 3), (json!(2), 2), (json!(9), 3)] {
            let content = json!({ "code": "aé🙂", "cursor_pos": cursor });
            let Ok(Request::Complete(code_cursor)) = parse("complete_request", content) else {
                panic!("not parsed");
            };
            assert_eq!(code_cursor.position(), expected, "{cursor}");
        }
        let ended = parse("shutdown_request", json!({}));
        assert!(matches!(ended, Ok(Request::Shutdown(Shutdown { restart: false }))), "{ended:?}");
        assert!(matches!(parse("history_request", json!({})), Ok(Request::History(_))));
    }

    #[test]
    fn a_missing_field_without_default_is_named() {
        let why = parse("execute_request", json!({ "silent": true })).expect_err("no code");
        assert!(why.contains("code"), "{why}");
        let why = parse("complete_request", json!({ "code": 3 })).expect_err("a number");
        assert!(why.contains("string"), "{why}");
        assert!(parse("is_complete_request", json!([1])).is_err());
        assert!(matches!(parse("debug_request", json!(1)), Ok(Request::Unsupported)));
    }
}
