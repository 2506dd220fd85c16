//! The side channel to the Epsilab kernel: one JSON object per line out, one line `ok` back.
//!
//! Each message waits for the answer, so that all output of a cell is published before the cell's
//! reply. The wait ends after [`ACK_TIMEOUT`]; the next message then also reads the late answer.
//! After [`MAX_UNACKNOWLEDGED`] messages without an answer the channel counts as broken.

use super::MimeBundle;
use super::sink::FrameKind;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

const ACK_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_UNACKNOWLEDGED: u32 = 3;

pub(super) struct KernelSocket {
    stream: BufReader<UnixStream>,
    /// The part of an answer received so far.
    partial: Vec<u8>,
    unacknowledged: u32,
}

impl KernelSocket {
    pub(super) fn connect(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_write_timeout(Some(ACK_TIMEOUT))?;
        Ok(Self { stream: BufReader::new(stream), partial: Vec::new(), unacknowledged: 0 })
    }

    pub(super) fn show(&mut self, frame: FrameKind<'_>, bundle: &MimeBundle) -> io::Result<()> {
        self.send(&json!({
            "kind": "display",
            "id": frame.id,
            "update": frame.is_update,
            "data": bundle.to_json(),
            "metadata": bundle.metadata(),
        }))
    }

    pub(super) fn send_stdout(&mut self, text: &str) -> io::Result<()> {
        self.send(&json!({"kind": "stream", "name": "stdout", "text": text}))
    }

    pub(super) fn clear(&mut self, wait: bool) -> io::Result<()> {
        self.send(&json!({"kind": "clear", "wait": wait}))
    }

    fn send(&mut self, message: &Value) -> io::Result<()> {
        // serde_json escapes newlines inside strings, so the message is one line.
        let mut line = message.to_string().into_bytes();
        line.push(b'\n');
        self.stream.get_mut().write_all(&line)?;
        self.unacknowledged += 1;
        self.collect_acks()
    }

    fn collect_acks(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + ACK_TIMEOUT;
        while self.unacknowledged > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.stream.get_ref().set_read_timeout(Some(left))?;
            match self.stream.read_until(b'\n', &mut self.partial) {
                Ok(_) if self.partial.ends_with(b"\n") => {
                    let reply = std::mem::take(&mut self.partial);
                    if reply.trim_ascii() != b"ok" {
                        return Err(io::Error::new(io::ErrorKind::InvalidData, "unknown answer"));
                    }
                    self.unacknowledged -= 1;
                }
                Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(e)
                    if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
                {
                    break;
                }
                Err(e) => return Err(e),
            }
        }
        if self.unacknowledged < MAX_UNACKNOWLEDGED {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "three messages without an answer"))
    }
}
