//! Ordering of figures and printed text.
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
use super::interrupt::InterruptController;
use super::markers::{Marker, Markers};
use super::output_reader::Stream;

/// Time after which the figure is published anyway. A thread that outlives its cell runs into it:
/// evcxr reads standard output only while a cell runs.
const FENCE_TIMEOUT: Duration = Duration::from_secs(1);

/// Fences, shared by the threads that publish figures and the one that reads printed text.
pub struct Fences {
    folder: PathBuf,
    markers: Markers,
    interrupts: InterruptController,
    state: Mutex<FenceState>,
    changed: Condvar,
}

#[derive(Default)]
struct FenceState {
    /// Number of the last fence that was written.
    written: u64,
    /// Number of the last fence that was read back from each stream.
    read: [u64; 2],
    /// Number of the last fence before which all text is published.
    published: u64,
}

impl Fences {
    /// Creates fences for the pipes in `folder`.
    pub fn new(folder: PathBuf, markers: Markers, interrupts: InterruptController) -> Self {
        Self { folder, markers, interrupts, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits until everything that the running cell has printed is published. Returns at once if no
    /// cell runs.
    pub fn wait_until_published(&self) {
        let Some(process) = self.interrupts.running_process() else { return };
        let mut state = self.state.lock();
        state.written += 1;
        let number = state.written;
        let line = format!("{}{number}\n", self.markers.text(Marker::Fence));
        for fd in [1, 2] {
            if self.write_fence(process, fd, line.as_bytes()).is_err() {
                return;
            }
        }
        let unpublished = |state: &mut FenceState| state.published < number;
        self.changed.wait_while_for(&mut state, unpublished, FENCE_TIMEOUT);
    }

    /// Writes a fence into a pipe of the cell. It is shorter than `PIPE_BUF`, so it is never mixed
    /// with text of the cell; a full pipe takes none until the relay has read.
    fn write_fence(&self, process: i32, fd: i32, line: &[u8]) -> std::io::Result<()> {
        let mut options = File::options();
        options.write(true).custom_flags(libc::O_NONBLOCK);
        let mut pipe = options.open(pipe_path(&self.folder, process, fd))?;
        let deadline = Instant::now() + FENCE_TIMEOUT;
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

    /// Records that the fence with this number was read from a stream. Returns whether it was read
    /// from both, so that all buffered text must be published now, and [`Self::mark_published`]
    /// called.
    pub fn record_read(&self, stream: Stream, number: u64) -> bool {
        let mut state = self.state.lock();
        state.read[stream as usize] = number;
        state.read[0].min(state.read[1]) > state.published
    }

    /// Records that all text before the last fence that was read from both streams is published.
    pub fn mark_published(&self) {
        let mut state = self.state.lock();
        state.published = state.read[0].min(state.read[1]);
        self.changed.notify_all();
    }
}
