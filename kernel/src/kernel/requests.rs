//! What clients ask for, read with the protocol's defaults: a client may leave out what has one.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::history::Query;

/// A request, by its message type.
#[derive(Debug)]
pub enum Request {
    Execute(Execute),
    Complete(Place),
    Inspect(Place),
    IsComplete {
        code: String,
    },
    History(Query),
    CommInfo,
    CommOpen {
        id: String,
    },
    KernelInfo,
    Interrupt,
    Shutdown {
        restart: bool,
    },
    /// Of a type that this kernel does not know.
    Other,
}

/// A cell to run.
#[derive(Clone, Debug, Deserialize)]
pub struct Execute {
    pub code: String,
    #[serde(default)]
    pub silent: bool,
    #[serde(default = "yes")]
    pub store_history: bool,
    #[serde(default = "yes")]
    pub stop_on_error: bool,
}

/// Code and a place in it.
#[derive(Debug, Deserialize)]
pub struct Place {
    pub code: String,
    /// In code points; without one, or before the beginning, it is the end of the code.
    #[serde(default)]
    cursor_pos: Option<i64>,
}

impl Place {
    /// In code points, inside the code.
    pub fn cursor(&self) -> usize {
        let end = self.code.chars().count();
        self.cursor_pos.and_then(|at| usize::try_from(at).ok()).map_or(end, |at| at.min(end))
    }
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
struct Code {
    code: String,
}

#[derive(Deserialize)]
struct Comm {
    #[serde(default)]
    comm_id: String,
}

#[derive(Deserialize)]
struct Shutdown {
    #[serde(default)]
    restart: bool,
}

/// Reads a request.
///
/// # Errors
/// A field without a default is missing, or one is of another type: which, in words.
pub fn read(kind: &str, content: Value) -> Result<Request, String> {
    fn of<T: DeserializeOwned>(content: Value) -> Result<T, String> {
        // A field that is null was left out.
        let content = match content {
            Value::Object(fields) => {
                fields.into_iter().filter(|(_, value)| !value.is_null()).collect()
            }
            other => other,
        };
        serde_json::from_value(content).map_err(|e| e.to_string())
    }
    Ok(match kind {
        "execute_request" => Request::Execute(of(content)?),
        "complete_request" => Request::Complete(of(content)?),
        "inspect_request" => Request::Inspect(of(content)?),
        "is_complete_request" => Request::IsComplete { code: of::<Code>(content)?.code },
        "history_request" => Request::History(of(content)?),
        "comm_info_request" => Request::CommInfo,
        "comm_open" => Request::CommOpen { id: of::<Comm>(content)?.comm_id },
        "kernel_info_request" => Request::KernelInfo,
        "interrupt_request" => Request::Interrupt,
        "shutdown_request" => Request::Shutdown { restart: of::<Shutdown>(content)?.restart },
        _ => Request::Other,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_left_out_has_the_protocols_default() {
        let Ok(Request::Execute(cell)) = read("execute_request", json!({ "code": "1" })) else {
            panic!("not read");
        };
        assert!(!cell.silent && cell.store_history && cell.stop_on_error);
        let null = json!({ "code": "1", "silent": null, "user_expressions": null });
        assert!(read("execute_request", null).is_ok());
        for (cursor, expected) in [(json!(-1), 3), (json!(null), 3), (json!(2), 2), (json!(9), 3)] {
            let asked = json!({ "code": "aé🙂", "cursor_pos": cursor });
            let Ok(Request::Complete(place)) = read("complete_request", asked) else {
                panic!("not read");
            };
            assert_eq!(place.cursor(), expected, "{cursor}");
        }
        let ended = read("shutdown_request", json!({}));
        assert!(matches!(ended, Ok(Request::Shutdown { restart: false })), "{ended:?}");
        assert!(matches!(read("history_request", json!({})), Ok(Request::History(_))));
    }

    #[test]
    fn what_has_no_default_is_named() {
        let why = read("execute_request", json!({ "silent": true })).expect_err("no code");
        assert!(why.contains("code"), "{why}");
        let why = read("complete_request", json!({ "code": 3 })).expect_err("a number");
        assert!(why.contains("string"), "{why}");
        assert!(read("is_complete_request", json!([1])).is_err());
        assert!(matches!(read("debug_request", json!(1)), Ok(Request::Other)));
    }
}
