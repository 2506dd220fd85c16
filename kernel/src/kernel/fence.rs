//! Keeps figures in order with printed text.
//!
//! Figures come over a socket, printed text through pipes and relay processes. Before a figure is
//! published, the kernel writes a numbered fence into both pipes and waits until it has read them
//! back: then all text printed before the figure is published.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::cell_process::pipe_path;
use super::interrupt::Interrupts;
use super::markers::{Marker, Markers};
use super::output::Stream;

/// After this time the figure is published anyway. A thread that outlives its cell runs into it:
/// evcxr reads standard output only while a cell runs.
const PATIENCE: Duration = Duration::from_secs(1);

/// Shared by the threads that publish figures and the one that reads printed text.
pub struct Fences {
    folder: PathBuf,
    markers: Markers,
    interrupts: Interrupts,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Number of the last fence that was written.
    written: u64,
    /// Number of the last fence that was read back from each stream.
    read: [u64; 2],
    /// Number of the last fence before which all text is published.
    published: u64,
}

impl Fences {
    /// Fences for the pipes in `folder`.
    pub fn new(folder: PathBuf, markers: Markers, interrupts: Interrupts) -> Self {
        Self { folder, markers, interrupts, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits until everything that the running cell has printed is published. Returns at once if no
    /// cell runs.
    pub fn wait_for_text(&self) {
        let Some(process) = self.interrupts.running_process() else { return };
        let mut state = self.state.lock();
        state.written += 1;
        let number = state.written;
        let line = format!("{}{number}\n", self.markers.text(Marker::Fence));
        for fd in [1, 2] {
            if self.write(process, fd, line.as_bytes()).is_err() {
                return;
            }
        }
        let unpublished = |state: &mut State| state.published < number;
        self.changed.wait_while_for(&mut state, unpublished, PATIENCE);
    }

    /// Fences are shorter than `PIPE_BUF`, so one is never mixed with text of the cell. A full pipe
    /// takes none until the relay has read.
    fn write(&self, process: i32, fd: i32, line: &[u8]) -> std::io::Result<()> {
        let mut options = File::options();
        options.write(true).custom_flags(libc::O_NONBLOCK);
        let mut pipe = options.open(pipe_path(&self.folder, process, fd))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match pipe.write_all(line) {
                Err(e)
                    if e.kind() == std::io::ErrorKind::WouldBlock && Instant::now() < deadline =>
                {
                    std::thread::sleep(Duration::from_millis(1));
                }
                written => return written,
            }
        }
    }

    /// The fence with this number was read from a stream. True if it was read from both, so that
    /// all text held back must be published now, and [`Self::text_published`] called.
    pub fn read_back(&self, stream: Stream, number: u64) -> bool {
        let mut state = self.state.lock();
        state.read[stream as usize] = number;
        state.read[0].min(state.read[1]) > state.published
    }

    /// All text before the last fence that was read from both streams is published.
    pub fn text_published(&self) {
        let mut state = self.state.lock();
        state.published = state.read[0].min(state.read[1]);
        self.changed.notify_all();
    }
}
