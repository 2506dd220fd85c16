//! The Jupyter kernel: evcxr evaluates the cells, this folder speaks the protocol.
//!
//! Messages come in by `wire`, `dispatch` answers or queues them, one thread (`evaluator`) owns
//! evcxr and runs the cells one after the other. What cells show comes back on two ways: printed
//! text through evcxr (`output`), everything rich through a socket (`display`). What is printed
//! and what the cells' process says are told apart by a nonce (`markers`).

mod cell;
mod cell_process;
mod complete;
mod content;
mod crash;
mod dispatch;
mod display;
mod errors;
mod evaluator;
mod history;
mod interrupt;
mod is_complete;
mod markers;
mod output;
mod requests;
mod rustc;
mod session;
mod wire;

use std::path::Path;
use std::sync::Arc;

use epsilab::{Error, Result};

use session::Session;

/// Must be called first in `main`: the process of the cells and their compiler are this binary
/// started again, and in these cases this never returns.
pub fn child_hook() {
    if rustc::is_asked() {
        rustc::run();
    }
    if std::env::var_os("EVCXR_IS_RUNTIME").is_some() {
        cell_process::run();
    }
    evcxr::runtime_hook();
}

/// Serves the kernel described by the connection file until it is shut down. Call it from a
/// process without other threads: it sets environment variables for evcxr.
///
/// # Errors
/// Unreadable connection file or busy port. A missing lab is no error here: the kernel starts, and
/// says what is wrong in every cell.
pub fn serve(conn: &Path) -> Result<()> {
    let info = wire::read_connection(conn)?;
    let session = Session::new()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Error::io("starting the kernel's tasks", &e))?;
    let session = Arc::new(session);
    let done = runtime.block_on(dispatch::run(&info, session.clone()));
    session.clean_up();
    // Blocking reads of evcxr's threads must not keep the process alive.
    runtime.shutdown_background();
    done
}
