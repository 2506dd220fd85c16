//! The side channel: figures, live updates and questions for input come over a Unix socket,
//! separate from printed text.
//!
//! Each line is one JSON object. The kernel answers a line after it has published the content, so a
//! figure reaches the client before the reply of its cell. Figures and printed text keep their
//! order: see [`Fences`](super::fence::Fences).

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};

use epsilab::{Error, Result};
use serde_json::{Value, json};

use super::context::KernelContext;

/// Maximum length of a line in bytes: a line may contain a picture, but must not fill the memory.
const MAX_LINE: u64 = 64 << 20;

/// Listens on the socket of the side channel until the process ends. Only the user can read the
/// folder of the socket.
///
/// # Errors
/// The socket can't be made.
pub fn listen(context: &KernelContext) -> Result<()> {
    let path = context.workspace.display_socket();
    let listener = UnixListener::bind(&path)
        .map_err(|e| Error::io(format!("listening on {}", path.display()), &e))?;
    let context = context.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let context = context.clone();
            std::thread::spawn(move || serve(stream, &context));
        }
    });
    Ok(())
}

fn serve(stream: UnixStream, KernelContext { current, fences, inputs, .. }: &KernelContext) {
    let Ok(mut answers) = stream.try_clone() else { return };
    let mut lines = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        let mut limited = std::io::Read::take(&mut lines, MAX_LINE);
        match limited.read_until(b'\n', &mut line) {
            Ok(n) if n > 0 && line.ends_with(b"\n") => {}
            _ => return,
        }
        let line: Value = serde_json::from_slice(&line).unwrap_or_default();
        let reply = match to_jupyter_message(&line) {
            _ if line["kind"] == "sync" => {
                fences.wait_until_published();
                "ok\n".to_owned()
            }
            _ if line["kind"] == "input" => {
                // The prompt.
                fences.wait_until_published();
                format!("{}\n", json!(inputs.request_line()))
            }
            _ if line["kind"] == "late" => {
                // No cell runs whose figures it could be in order with. Nobody waits for an answer.
                current.print("stdout", line["text"].as_str().unwrap_or_default());
                continue;
            }
            Some((kind, content)) => {
                // An update changes a figure where it stands.
                if kind != "update_display_data" {
                    fences.wait_until_published();
                }
                current.publish(kind, content);
                "ok\n".to_owned()
            }
            None => "not understood\n".to_owned(),
        };
        if answers.write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}

/// Returns the protocol message for one line of the side channel.
fn to_jupyter_message(line: &Value) -> Option<(&'static str, Value)> {
    match line["kind"].as_str()? {
        "display" if line["data"].is_object() => {
            let id = line["id"].as_str();
            let is_update = line["update"] == true && id.is_some();
            let kind = if is_update { "update_display_data" } else { "display_data" };
            let metadata = line["metadata"].as_object().cloned().unwrap_or_default();
            let transient = id.map_or(json!({}), |id| json!({ "display_id": id }));
            let content =
                json!({ "data": line["data"], "metadata": metadata, "transient": transient });
            Some((kind, content))
        }
        "clear" => Some(("clear_output", json!({ "wait": line["wait"] == true }))),
        "stream" => {
            let name = if line["name"] == "stderr" { "stderr" } else { "stdout" };
            Some(("stream", json!({ "name": name, "text": line["text"].as_str()? })))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_need_an_id_and_data_must_be_there() {
        let line =
            json!({"kind": "display", "id": "a", "update": true, "data": {"text/plain": "1"}});
        let (kind, content) = to_jupyter_message(&line).expect("an update");
        assert_eq!(kind, "update_display_data");
        assert_eq!(content["transient"]["display_id"], "a");
        let line = json!({"kind": "display", "id": null, "update": true, "data": {}});
        assert_eq!(to_jupyter_message(&line).expect("shown once").0, "display_data");
        let (kind, content) =
            to_jupyter_message(&json!({"kind": "clear", "wait": true})).expect("clear");
        assert_eq!((kind, content), ("clear_output", json!({"wait": true})));
        assert!(to_jupyter_message(&json!({"kind": "display"})).is_none());
        assert!(to_jupyter_message(&json!({"kind": "stream", "name": "stdout"})).is_none());
        assert!(to_jupyter_message(&json!(3)).is_none());
    }
}
