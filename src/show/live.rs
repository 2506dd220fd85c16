//! Live displays: one output that is updated in place.

use super::MimeBundle;
use super::sink::{self, FrameKind};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// An output in the notebook that is updated in place.
///
/// Updates that come too fast are dropped, but never the last: [`finish`](Self::finish) always
/// shows its frame, and a display that is dropped without it shows the newest frame that it held
/// back. In the Epsilab kernel at most 8 frames a second are shown, fewer if they are large or the
/// kernel is slow. In a terminal or in stock evcxr the first line of a frame's text is printed at
/// most every 2 s, and the whole last frame at the end.
#[derive(Clone)]
pub struct LiveDisplay {
    state: Arc<Mutex<DisplayState>>,
}

impl LiveDisplay {
    /// Creates a new display. It shows nothing before the first frame.
    pub fn new() -> Self {
        let state = DisplayState {
            id: unique_id(),
            shown: false,
            finished: false,
            next_due: None,
            pending_frame: None,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Shows a newer frame, or delays it if the previous one was shown too recently.
    pub fn update(&self, frame: &MimeBundle) {
        let mut state = self.state();
        if state.finished {
            return;
        }
        if state.is_due() {
            state.send(frame, false);
        } else {
            state.pending_frame = Some(frame.clone());
        }
    }

    /// Shows the last frame. Later updates are ignored; another `finish` replaces the frame.
    pub fn finish(&self, frame: &MimeBundle) {
        let mut state = self.state();
        state.finished = true;
        state.send(frame, true);
    }

    /// Returns whether a frame would be shown now. Saves rendering a frame that would be held
    /// back.
    pub fn is_due(&self) -> bool {
        let state = self.state();
        !state.finished && state.is_due()
    }

    fn state(&self) -> MutexGuard<'_, DisplayState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for LiveDisplay {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for LiveDisplay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveDisplay").field("id", &self.state().id).finish_non_exhaustive()
    }
}

struct DisplayState {
    id: String,
    shown: bool,
    finished: bool,
    next_due: Option<Instant>,
    pending_frame: Option<MimeBundle>,
}

impl DisplayState {
    fn is_due(&self) -> bool {
        self.next_due.is_none_or(|due| Instant::now() >= due)
    }

    fn send(&mut self, bundle: &MimeBundle, last: bool) {
        self.pending_frame = None;
        let frame = FrameKind { id: Some(&self.id), is_update: self.shown, stays: last };
        let start = Instant::now();
        sink::show(frame, bundle);
        self.shown = true;
        self.next_due = Some(
            Instant::now()
                + delay_after_frame(
                    bundle.approximate_size(),
                    start.elapsed(),
                    sink::frame_interval(),
                ),
        );
    }
}

impl Drop for DisplayState {
    fn drop(&mut self) {
        if let Some(frame) = self.pending_frame.take() {
            self.send(&frame, true);
        }
    }
}

/// Returns the time to wait after a frame: the interval of the sink; longer for large frames (a
/// notebook server throttles a cell at 1 MB/s, of which we use half) and for frames that took long
/// to send (so that at most a fifth of the time goes into showing), but at most 5 s.
fn delay_after_frame(bytes: usize, sending: Duration, pace: Duration) -> Duration {
    const BYTES_PER_SECOND: f64 = 500_000.0;
    const LONGEST: Duration = Duration::from_secs(5);
    let by_size = Duration::from_secs_f64(bytes as f64 / BYTES_PER_SECOND);
    pace.max(by_size).max(sending * 4).min(LONGEST)
}

/// Returns an id that is unique across cells and restarts of the process.
fn unique_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("epsilab-{:x}-{:x}-{n}", std::process::id(), since_epoch.as_micros())
}

#[cfg(test)]
mod tests {
    use super::super::with_capture;
    use super::*;

    #[test]
    fn fast_updates_are_dropped_but_never_the_last() {
        let shown = with_capture(|| {
            let live = LiveDisplay::new();
            for i in 0..1000 {
                live.update(&MimeBundle::text(format!("frame {i}")));
            }
            live.finish(&MimeBundle::text("end"));
            live.update(&MimeBundle::text("too late"));
        });
        assert_eq!(shown.first(), Some(&MimeBundle::text("frame 0")));
        assert_eq!(shown.last(), Some(&MimeBundle::text("end")));
        assert!(shown.len() < 10, "{} frames passed", shown.len());
    }

    #[test]
    fn a_display_that_is_never_finished_shows_the_frame_it_held_back() {
        let shown = with_capture(|| {
            let live = LiveDisplay::new();
            live.update(&MimeBundle::text("first"));
            live.update(&MimeBundle::text("second"));
            live.clone().update(&MimeBundle::text("third"));
        });
        assert_eq!(shown, [MimeBundle::text("first"), MimeBundle::text("third")]);
    }

    #[test]
    fn large_and_slow_frames_come_less_often() {
        let ms = Duration::from_millis;
        assert_eq!(delay_after_frame(1_000, ms(1), ms(125)), ms(125));
        assert_eq!(delay_after_frame(500_000, ms(1), ms(125)), ms(1000));
        assert_eq!(delay_after_frame(1_000, ms(100), ms(125)), ms(400));
        assert_eq!(delay_after_frame(1_000, ms(2000), ms(125)), ms(5000));
    }

    #[test]
    fn ids_are_unique() {
        assert_ne!(unique_id(), unique_id());
    }
}
