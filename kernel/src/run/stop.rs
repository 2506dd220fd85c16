//! The wish to stop: Ctrl-C, or a polite signal from outside.

/// Tells each time somebody wants us to stop.
pub struct Stop {
    #[cfg(unix)]
    signals: [Option<tokio::signal::unix::Signal>; 3],
}

impl Stop {
    /// Starts listening; from now on these signals no longer end the process by themselves.
    #[cfg(unix)]
    pub fn listen() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        Self { signals: kinds.map(|kind| signal(kind).ok()) }
    }

    /// Starts listening.
    #[cfg(not(unix))]
    pub fn listen() -> Self {
        Self {}
    }

    /// Comes back when somebody asks; safe to call again and again.
    #[cfg(unix)]
    pub async fn asked(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.signals;
        tokio::select! {
            () = next(interrupt) => {}
            () = next(terminate) => {}
            () = next(hangup) => {}
        }
    }

    /// Comes back when somebody asks.
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
