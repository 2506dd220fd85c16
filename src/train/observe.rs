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
    /// Seconds since the first step began.
    pub seconds: f64,
}

/// Receives notifications from a run.
///
/// Call sequence: `noted` before the run begins; `started` once; `progressed`
/// after every step (implementations decide how often to draw); `finished` once, also where the
/// run ended early. After any other error nothing more is called.
pub trait Observer {
    /// A remark before the run begins, such as the cost of earlier attempts at it, or about a
    /// private selection, whose trials are not observed.
    fn noted(&mut self, _words: &str) {}
    /// Before the first step.
    fn started(&mut self, _progress: &Progress<'_>) {}
    /// After a step.
    fn progressed(&mut self, _progress: &Progress<'_>) {}
    /// An error that does not end the run: it could not be stored, its ledger entry could not be
    /// reduced, or examples could not be read any more (of the test part, or of a run without
    /// privacy).
    fn trouble(&mut self, _error: &Error) {}
    /// After the last step, or the one at which the run ended early.
    fn finished(&mut self, _run: &Run) {}
}

/// An observer that ignores all notifications.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}
