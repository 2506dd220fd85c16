//! Notifications of the training loop.

use crate::Error;
use crate::methods::Plan;
use crate::train::{Curve, Run};

/// The progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The plan being followed.
    pub plan: &'a Plan,
    /// Steps taken so far.
    pub step: u64,
    /// All measurements so far.
    pub curve: &'a Curve,
    /// Wall-clock seconds of training so far, with those before the checkpoint that the run resumed
    /// from.
    pub seconds: f64,
}

/// An observer, which receives notifications from a run.
///
/// Call sequence: `on_note` before the run begins; `on_start` once; `on_step` after every step
/// (implementations decide how often to draw); `on_finish` once, also where the run ended early.
/// `on_warning` at any time. After an error that ends the run nothing more is called.
pub trait Observer {
    /// Receives a remark before the run begins, such as the cost of earlier attempts at it, or
    /// about a private selection, whose trials are not observed.
    fn on_note(&mut self, _text: &str) {}
    /// Observes the run before the first step.
    fn on_start(&mut self, _progress: &Progress<'_>) {}
    /// Observes the run after a step.
    fn on_step(&mut self, _progress: &Progress<'_>) {}
    /// Receives an error that does not end the run: it could not be stored, its ledger entry could
    /// not be reduced, or examples could not be read any more (of the test part, or of a run
    /// without privacy).
    fn on_warning(&mut self, _error: &Error) {}
    /// Observes the run after the last step, or the one at which the run ended early.
    fn on_finish(&mut self, _run: &Run) {}
}

/// An observer that ignores all notifications.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoopObserver;

impl Observer for NoopObserver {}
