//! Where output goes. Chosen once per process, at first use:
//!
//! | condition | sink |
//! |---|---|
//! | `EPSILAB_DISPLAY` names a socket | the Epsilab kernel, by the side channel |
//! | else `EVCXR_IS_RUNTIME` is set | a stock evcxr kernel, by content blocks on stdout |
//! | else | a terminal or a file: text on stdout |
//!
//! Showing never fails and never panics: a figure is not worth a lost training run. A kernel that
//! stops answering is left, and output goes on as text.

use super::Bundle;
#[cfg(unix)]
use super::socket::KernelSocket;
use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Shows a bundle once, in the current sink.
pub fn display(bundle: &Bundle) {
    show(Frame::Once, bundle);
}

/// Says one line about work in progress, as plain text.
///
/// It ends with a newline whatever `text` ends with: evcxr holds back a line without one and may
/// never get past it.
pub fn progress(text: &str) {
    if capturing() {
        return;
    }
    let line = format!("{}\n", text.trim_end_matches(['\r', '\n']));
    with_sink(|sink| sink.say(&line));
}

/// Runs `work` and gives back all that it displayed on this thread, in order, instead of sending
/// it anywhere. Of a [`LiveDisplay`](super::LiveDisplay), the frames that would have been sent.
/// Progress lines are swallowed.
pub fn with_capture(work: impl FnOnce()) -> Vec<Bundle> {
    /// Puts the outer capture back, also when `work` panics.
    struct Restore(Option<Vec<Bundle>>);
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

/// What a bundle is to the viewer.
#[derive(Clone, Copy)]
pub(super) enum Frame<'a> {
    /// A figure of its own.
    Once,
    /// The first frame of the live display with this id; others follow.
    First(&'a str),
    /// Its only frame.
    Only(&'a str),
    /// A newer frame of it.
    Next(&'a str),
    /// Its last frame, after others.
    Last(&'a str),
}

/// Sends a bundle to the current sink.
pub(super) fn show(frame: Frame<'_>, bundle: &Bundle) {
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

/// Shortest time between two frames of a live display in the current sink. Lines of text pile
/// up, figures replace one another.
pub(super) fn pace() -> Duration {
    const FIGURES: Duration = Duration::from_millis(125);
    const LINES: Duration = Duration::from_secs(2);
    let mut pace = FIGURES;
    if !capturing() {
        with_sink(|sink| {
            if !sink.replaces_frames() {
                pace = LINES;
            }
        });
    }
    pace
}

thread_local! {
    static CAPTURE: RefCell<Option<Vec<Bundle>>> = const { RefCell::new(None) };
}

fn capturing() -> bool {
    CAPTURE.try_with(|capture| capture.borrow().is_some()) == Ok(true)
}

fn with_sink(work: impl FnOnce(&mut Sink)) {
    static SINK: Mutex<Option<Sink>> = Mutex::new(None);
    // A panic elsewhere while the sink was held left it whole: each message is one call.
    let mut sink: MutexGuard<'_, Option<Sink>> =
        SINK.lock().unwrap_or_else(PoisonError::into_inner);
    work(sink.get_or_insert_with(Sink::of_this_process));
}

enum Sink {
    #[cfg(unix)]
    Kernel(KernelSocket),
    Evcxr,
    Terminal,
}

impl Sink {
    fn of_this_process() -> Self {
        #[cfg(unix)]
        if let Some(path) = std::env::var_os("EPSILAB_DISPLAY").filter(|path| !path.is_empty()) {
            return match KernelSocket::connect(path.as_ref()) {
                Ok(socket) => Self::Kernel(socket),
                Err(error) => Self::left(&error),
            };
        }
        if std::env::var_os("EVCXR_IS_RUNTIME").is_some() { Self::Evcxr } else { Self::Terminal }
    }

    /// The terminal, after a word on stderr about the kernel that can't be reached.
    #[cfg(unix)]
    fn left(error: &io::Error) -> Self {
        let _ = writeln!(
            io::stderr(),
            "epsilab: the kernel's display channel does not answer ({error}); figures are shown \
             as text"
        );
        Self::Terminal
    }

    fn replaces_frames(&self) -> bool {
        match self {
            #[cfg(unix)]
            Self::Kernel(_) => true,
            Self::Evcxr | Self::Terminal => false,
        }
    }

    fn show(&mut self, frame: Frame<'_>, bundle: &Bundle) {
        #[cfg(unix)]
        if let Self::Kernel(socket) = self {
            match socket.show(frame, bundle) {
                Ok(()) => return,
                Err(error) => *self = Self::left(&error),
            }
        }
        match frame {
            Frame::First(_) | Frame::Next(_) => {
                write_out(&format!("{}\n", bundle.headline()));
            }
            Frame::Once | Frame::Only(_) | Frame::Last(_) => match self {
                Self::Evcxr => write_out(&content_blocks(bundle)),
                _ => write_out(&format!("{}\n", bundle.text.trim_end_matches('\n'))),
            },
        }
    }

    fn say(&mut self, line: &str) {
        #[cfg(unix)]
        if let Self::Kernel(socket) = self {
            match socket.say(line) {
                Ok(()) => return,
                Err(error) => *self = Self::left(&error),
            }
        }
        write_out(line);
    }
}

/// A closed pipe is no reason to panic, as `println!` would.
fn write_out(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Stock evcxr keeps one block per mime type and cell: the last figure of a cell is the one that
/// is seen.
fn content_blocks(bundle: &Bundle) -> String {
    let block = |(mime, data): (&str, String)| {
        format!("EVCXR_BEGIN_CONTENT {mime}\n{}\nEVCXR_END_CONTENT\n", data.trim_end_matches('\n'))
    };
    bundle.forms().into_iter().map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capture_keeps_what_was_shown_in_order_and_nests() {
        let mut inner = Vec::new();
        let outer = with_capture(|| {
            display(&Bundle::text("one"));
            inner = with_capture(|| display(&Bundle::text("two")));
            progress("not a figure");
            display(&Bundle::text("three"));
        });
        assert_eq!(outer, [Bundle::text("one"), Bundle::text("three")]);
        assert_eq!(inner, [Bundle::text("two")]);
    }

    #[test]
    fn a_panic_inside_a_capture_leaves_no_capture_behind() {
        let result = std::panic::catch_unwind(|| {
            with_capture(|| std::panic::resume_unwind(Box::new("stop")));
        });
        assert!(result.is_err());
        assert!(!capturing());
    }

    #[test]
    fn content_blocks_open_and_close_each_form() {
        let blocks = content_blocks(&Bundle::text("a\n").with_svg("<svg/>"));
        assert_eq!(
            blocks,
            "EVCXR_BEGIN_CONTENT text/plain\na\nEVCXR_END_CONTENT\n\
             EVCXR_BEGIN_CONTENT image/svg+xml\n<svg/>\nEVCXR_END_CONTENT\n"
        );
    }
}
