//! Requests to stop: Ctrl-C, `SIGTERM` and the end of the terminal.

use epsilab::train::interrupt;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receiver of requests to stop.
pub struct StopSignal {
    signals: [Option<Signal>; 3],
}

impl StopSignal {
    /// Starts listening. From now on these signals do not end the process. One that is ignored, as
    /// the end of the terminal is by `nohup`, is no request.
    pub fn listen() -> Self {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let is_handled = |kind: &SignalKind| !interrupt::is_ignored(kind.as_raw_value());
        Self { signals: kinds.map(|kind| is_handled(&kind).then(|| signal(kind).ok()).flatten()) }
    }

    /// Waits for a request to stop. Cancel safe.
    pub async fn received(&mut self) {
        let [ctrl_c, terminate, hangup] = &mut self.signals;
        interrupt::received(tokio::select! {
            () = next_signal(ctrl_c) => libc::SIGINT,
            () = next_signal(terminate) => libc::SIGTERM,
            () = next_signal(hangup) => libc::SIGHUP,
        });
    }
}

async fn next_signal(signal: &mut Option<Signal>) {
    if let Some(signal) = signal
        && signal.recv().await.is_some()
    {
        return;
    }
    std::future::pending::<()>().await;
}
