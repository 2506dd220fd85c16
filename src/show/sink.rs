//! The output sink of the process, chosen at first use:
//!
//! | condition | sink |
//! |---|---|
//! | `EPSILAB_DISPLAY` names a socket | the Epsilab kernel, through the side channel |
//! | else `EVCXR_IS_RUNTIME` is set | a stock evcxr kernel, through content blocks on stdout |
//! | else | a terminal or a file: text on stdout |
//!
//! Showing never fails and never panics, so that a display problem can't lose a training run. If
//! the kernel stops answering, output continues as text.

use super::MimeBundle;
#[cfg(unix)]
use super::socket::KernelSocket;
use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Environment variable with the socket of the Epsilab kernel's side channel.
const DISPLAY_ENV_VAR: &str = "EPSILAB_DISPLAY";
/// Environment variable of processes that evcxr starts to run cells.
const EVCXR_ENV_VAR: &str = "EVCXR_IS_RUNTIME";
/// Environment variables of processes that run cells.
pub(crate) const CELL_ENV_VARS: [&str; 2] = [DISPLAY_ENV_VAR, EVCXR_ENV_VAR];

/// Shows a bundle once, in the current sink.
pub fn display(bundle: &MimeBundle) {
    show(FrameKind { id: None, is_update: false, stays: true }, bundle);
}

/// Prints one line about work in progress as plain text.
///
/// The line always ends with a newline, because evcxr buffers output up to the next newline.
pub fn progress(text: &str) {
    if is_capturing() {
        return;
    }
    let line = format!("{}\n", text.trim_end_matches(['\r', '\n']));
    with_sink(|sink| sink.print_line(&line));
}

/// Removes what the running cell has shown so far, text and figures. With `wait`, this happens when
/// its next output comes, so that the notebook does not flicker.
///
/// Only the Epsilab kernel can do this. Elsewhere, nothing happens.
pub fn clear_output(wait: bool) {
    if !is_capturing() {
        with_sink(|sink| sink.clear(wait));
    }
}

/// Runs `work` and returns the bundles that it displayed on this thread, in order, instead of
/// showing them. Of a [`LiveDisplay`](super::LiveDisplay) these are the frames that would have been
/// sent. Progress lines are discarded.
pub fn with_capture(work: impl FnOnce()) -> Vec<MimeBundle> {
    /// Guard that restores the outer capture, also when `work` panics.
    struct Restore(Option<Vec<MimeBundle>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CAPTURE.with_borrow_mut(|capture| *capture = self.0.take());
        }
    }
    let outer = CAPTURE.with_borrow_mut(|capture| capture.replace(Vec::new()));
    let _restore = Restore(outer);
    work();
    CAPTURE.with_borrow_mut(|capture| capture.take().unwrap_or_default())
}

/// Role of a bundle for the viewer.
#[derive(Clone, Copy)]
pub(super) struct FrameKind<'a> {
    /// Live display that the bundle belongs to; `None` for a separate output.
    #[cfg_attr(not(unix), expect(dead_code, reason = "only the kernel reads it"))]
    pub id: Option<&'a str>,
    /// Whether the bundle replaces a frame of this display.
    #[cfg_attr(not(unix), expect(dead_code, reason = "only the kernel reads it"))]
    pub is_update: bool,
    /// Whether no newer frame follows.
    pub stays: bool,
}

/// Last output of the current cell; `None` where nothing reports when cells begin.
static LAST_CELL_OUTPUT: Mutex<Option<MimeBundle>> = Mutex::new(None);

fn last_cell_output() -> MutexGuard<'static, Option<MimeBundle>> {
    LAST_CELL_OUTPUT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notifies the sink that a cell begins, which has no output yet.
pub fn begin_cell() {
    *last_cell_output() = Some(MimeBundle::default());
}

/// Shows the value at the end of a cell, unless it is what the cell showed last: the figure of a
/// run that has just been trained.
pub(crate) fn display_value(bundle: &MimeBundle) {
    let is_shown = last_cell_output().as_ref() == Some(bundle);
    if !is_shown {
        display(bundle);
    }
}

/// Shows a note on what the cell has shown last, which stays its last output: see
/// [`display_value`].
pub(crate) fn display_note(bundle: &MimeBundle) {
    let last = last_cell_output().clone();
    display(bundle);
    *last_cell_output() = last;
}

/// Sends a bundle to the current sink.
pub(super) fn show(frame: FrameKind<'_>, bundle: &MimeBundle) {
    if let Some(last) = last_cell_output().as_mut().filter(|_| frame.stays) {
        last.clone_from(bundle);
    }
    let captured = CAPTURE.try_with(|capture| match capture.borrow_mut().as_mut() {
        Some(shown) => {
            shown.push(bundle.clone());
            true
        }
        None => false,
    });
    if captured != Ok(true) {
        with_sink(|sink| sink.show(frame, bundle));
    }
}

/// Returns the minimum time between two frames of a live display in the current sink. It is longer
/// where frames are printed as lines instead of replacing one another.
pub(super) fn frame_interval() -> Duration {
    const FIGURES: Duration = Duration::from_millis(125);
    const LINES: Duration = Duration::from_secs(2);
    if is_capturing() || replaces_frames() { FIGURES } else { LINES }
}

/// Returns whether the current sink replaces the frames of a live display, rather than listing
/// them. False while output is captured.
pub(super) fn replaces_frames() -> bool {
    !is_capturing() && with_sink(|sink| !matches!(sink, Sink::Evcxr | Sink::Terminal))
}

thread_local! {
    static CAPTURE: RefCell<Option<Vec<MimeBundle>>> = const { RefCell::new(None) };
}

fn is_capturing() -> bool {
    CAPTURE.try_with(|capture| capture.borrow().is_some()) == Ok(true)
}

fn with_sink<R>(work: impl FnOnce(&mut Sink) -> R) -> R {
    static SINK: Mutex<Option<Sink>> = Mutex::new(None);
    // A poisoned sink is usable: each message is sent by one call.
    let mut sink = SINK.lock().unwrap_or_else(PoisonError::into_inner);
    work(sink.get_or_insert_with(Sink::from_env))
}

enum Sink {
    #[cfg(unix)]
    Kernel(KernelSocket),
    Evcxr,
    Terminal,
}

impl Sink {
    fn from_env() -> Self {
        #[cfg(unix)]
        if let Some(path) = std::env::var_os(DISPLAY_ENV_VAR).filter(|path| !path.is_empty()) {
            return match KernelSocket::connect(path.as_ref()) {
                Ok(socket) => Self::Kernel(socket),
                Err(error) => Self::fallback(&error),
            };
        }
        if std::env::var_os(EVCXR_ENV_VAR).is_some() { Self::Evcxr } else { Self::Terminal }
    }

    /// Returns the terminal sink, after a message on stderr that the kernel can't be reached.
    #[cfg(unix)]
    fn fallback(error: &io::Error) -> Self {
        let _ = writeln!(
            io::stderr(),
            "epsilab: the kernel's display channel does not respond ({error}); figures are shown \
             as text"
        );
        Self::Terminal
    }

    /// Sends a message to the kernel, and returns whether one received it. The terminal takes the
    /// place of a kernel that does not answer.
    #[cfg(unix)]
    fn send(&mut self, message: impl FnOnce(&mut KernelSocket) -> io::Result<()>) -> bool {
        let Self::Kernel(socket) = self else { return false };
        let sent = message(socket);
        if let Err(error) = &sent {
            *self = Self::fallback(error);
        }
        sent.is_ok()
    }

    fn show(&mut self, frame: FrameKind<'_>, bundle: &MimeBundle) {
        #[cfg(unix)]
        if self.send(|kernel| kernel.show(frame, bundle)) {
            return;
        }
        match self {
            _ if !frame.stays => write_out(&format!("{}\n", bundle.first_line())),
            Self::Evcxr => write_out(&content_blocks(bundle)),
            _ => write_out(&format!("{}\n", bundle.text.trim_end_matches('\n'))),
        }
    }

    #[cfg_attr(not(unix), expect(unused_variables, reason = "only the kernel can clear"))]
    fn clear(&mut self, wait: bool) {
        #[cfg(unix)]
        self.send(|kernel| kernel.clear(wait));
    }

    fn print_line(&mut self, line: &str) {
        #[cfg(unix)]
        if self.send(|kernel| kernel.send_stdout(line)) {
            return;
        }
        write_out(line);
    }
}

/// Writes to stdout. Unlike `println!` it does not panic on a closed pipe.
fn write_out(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Returns content blocks for stock evcxr, which shows only the last block of each MIME type in a
/// cell.
fn content_blocks(bundle: &MimeBundle) -> String {
    let block = |(mime, data): (&str, String)| {
        format!("EVCXR_BEGIN_CONTENT {mime}\n{}\nEVCXR_END_CONTENT\n", data.trim_end_matches('\n'))
    };
    bundle.mime_entries().into_iter().map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capture_keeps_what_was_shown_in_order_and_nests() {
        let mut inner = Vec::new();
        let outer = with_capture(|| {
            display(&MimeBundle::text("one"));
            inner = with_capture(|| display(&MimeBundle::text("two")));
            progress("not a figure");
            display(&MimeBundle::text("three"));
        });
        assert_eq!(outer, [MimeBundle::text("one"), MimeBundle::text("three")]);
        assert_eq!(inner, [MimeBundle::text("two")]);
    }

    #[test]
    fn a_panic_inside_a_capture_leaves_no_capture_behind() {
        let result = std::panic::catch_unwind(|| {
            with_capture(|| std::panic::resume_unwind(Box::new("stop")));
        });
        assert!(result.is_err());
        assert!(!is_capturing());
    }

    #[test]
    fn content_blocks_open_and_close_each_form() {
        let blocks = content_blocks(&MimeBundle::text("a\n").with_svg("<svg/>"));
        assert_eq!(
            blocks,
            "EVCXR_BEGIN_CONTENT text/plain\na\nEVCXR_END_CONTENT\n\
             EVCXR_BEGIN_CONTENT image/svg+xml\n<svg/>\nEVCXR_END_CONTENT\n"
        );
    }
}
