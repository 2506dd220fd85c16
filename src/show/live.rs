//! Live displays: one output that is updated in place.

use super::Bundle;
use super::sink::{self, Frame};
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
    state: Arc<Mutex<State>>,
}

impl LiveDisplay {
    /// A new display. It shows nothing before the first frame.
    pub fn new() -> Self {
        let state = State { id: new_id(), shown: false, finished: false, due: None, held: None };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Shows a newer frame, or holds it back if the previous one was shown too recently.
    pub fn update(&self, frame: &Bundle) {
        let mut state = self.state();
        if state.finished {
            return;
        }
        if state.is_due() {
            state.send(frame, false);
        } else {
            state.held = Some(frame.clone());
        }
    }

    /// Shows the last frame. Later updates are ignored; another `finish` replaces the frame.
    pub fn finish(&self, frame: &Bundle) {
        let mut state = self.state();
        state.finished = true;
        state.send(frame, true);
    }

    /// Whether a frame would be shown now. Saves rendering a frame that would be held back.
    pub fn is_due(&self) -> bool {
        let state = self.state();
        !state.finished && state.is_due()
    }

    fn state(&self) -> MutexGuard<'_, State> {
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

struct State {
    id: String,
    shown: bool,
    finished: bool,
    due: Option<Instant>,
    held: Option<Bundle>,
}

impl State {
    fn is_due(&self) -> bool {
        self.due.is_none_or(|due| Instant::now() >= due)
    }

    fn send(&mut self, bundle: &Bundle, last: bool) {
        self.held = None;
        let frame = Frame { id: Some(&self.id), is_update: self.shown, stays: last };
        let start = Instant::now();
        sink::show(frame, bundle);
        self.shown = true;
        self.due = Some(
            Instant::now()
                + pause_after(bundle.wire_size(), start.elapsed(), sink::frame_interval()),
        );
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(frame) = self.held.take() {
            self.send(&frame, true);
        }
    }
}

/// Time to wait after a frame: the interval of the sink; longer for large frames (a notebook server
/// throttles a cell at 1 MB/s, of which we use half) and for frames that took long to send (so that
/// at most a fifth of the time goes into showing), but at most 5 s.
fn pause_after(bytes: usize, sending: Duration, pace: Duration) -> Duration {
    const BYTES_PER_SECOND: f64 = 500_000.0;
    const LONGEST: Duration = Duration::from_secs(5);
    let by_size = Duration::from_secs_f64(bytes as f64 / BYTES_PER_SECOND);
    pace.max(by_size).max(sending * 4).min(LONGEST)
}

/// An id that is unique across cells and restarts of the process.
fn new_id() -> String {
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
                live.update(&Bundle::text(format!("frame {i}")));
            }
            live.finish(&Bundle::text("end"));
            live.update(&Bundle::text("too late"));
        });
        assert_eq!(shown.first(), Some(&Bundle::text("frame 0")));
        assert_eq!(shown.last(), Some(&Bundle::text("end")));
        assert!(shown.len() < 10, "{} frames passed", shown.len());
    }

    #[test]
    fn a_display_that_is_never_finished_shows_the_frame_it_held_back() {
        let shown = with_capture(|| {
            let live = LiveDisplay::new();
            live.update(&Bundle::text("first"));
            live.update(&Bundle::text("second"));
            live.clone().update(&Bundle::text("third"));
        });
        assert_eq!(shown, [Bundle::text("first"), Bundle::text("third")]);
    }

    #[test]
    fn large_and_slow_frames_come_less_often() {
        let ms = Duration::from_millis;
        assert_eq!(pause_after(1_000, ms(1), ms(125)), ms(125));
        assert_eq!(pause_after(500_000, ms(1), ms(125)), ms(1000));
        assert_eq!(pause_after(1_000, ms(100), ms(125)), ms(400));
        assert_eq!(pause_after(1_000, ms(2000), ms(125)), ms(5000));
    }

    #[test]
    fn ids_are_unique() {
        assert_ne!(new_id(), new_id());
    }
}
