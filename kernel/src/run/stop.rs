//! Requests to stop: Ctrl-C, `SIGTERM` and the end of the terminal.

#[cfg(unix)]
use epsilab::train::interrupt;

/// Receives requests to stop.
pub struct Stop {
    #[cfg(unix)]
    signals: [Option<tokio::signal::unix::Signal>; 3],
}

impl Stop {
    /// Starts listening. From now on these signals do not end the process. One that is ignored, as
    /// the end of the terminal is by `nohup`, is no request.
    #[cfg(unix)]
    pub fn listen() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let heard = |kind: &SignalKind| !interrupt::is_ignored(kind.as_raw_value());
        Self { signals: kinds.map(|kind| heard(&kind).then(|| signal(kind).ok()).flatten()) }
    }

    /// Starts listening.
    #[cfg(not(unix))]
    pub fn listen() -> Self {
        Self {}
    }

    /// Waits for a request. Cancel safe.
    #[cfg(unix)]
    pub async fn asked(&mut self) {
        let [ctrl_c, terminate, hangup] = &mut self.signals;
        interrupt::received(tokio::select! {
            () = next(ctrl_c) => libc::SIGINT,
            () = next(terminate) => libc::SIGTERM,
            () = next(hangup) => libc::SIGHUP,
        });
    }

    /// Waits for a request.
    #[cfg(not(unix))]
    pub async fn asked(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(unix)]
async fn next(signal: &mut Option<tokio::signal::unix::Signal>) {
    if let Some(signal) = signal
        && signal.recv().await.is_some()
    {
        return;
    }
    std::future::pending::<()>().await;
}
