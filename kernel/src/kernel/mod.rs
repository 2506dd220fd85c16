//! Jupyter kernel: evcxr evaluates the cells, and this module implements the protocol.
//!
//! `wire` receives messages; `dispatch` answers or queues them. One thread (`evaluator`) owns evcxr
//! (`engine`) and runs the cells one after the other. Printed text comes back through evcxr
//! (`output`), figures come over a socket (`display`), and `fence` keeps both in order. A nonce
//! separates what cells print from what the cell process reports (`markers`).

mod advice;
mod cell;
mod cell_process;
mod commands;
mod complete;
mod content;
mod context;
mod crash;
mod disk;
mod dispatch;
mod display;
mod engine;
mod errors;
mod evaluator;
mod fence;
mod history;
mod input;
mod inspection;
mod interrupt;
mod is_complete;
mod lab_names;
mod limits;
mod markers;
mod moves;
mod names;
mod output;
mod panics;
mod place;
mod printed;
mod receiver;
mod requests;
mod rustc;
mod session;
mod std_sources;
mod stop_points;
mod variables;
mod visibility;
mod warm_up;
mod wire;
mod wording;

use std::path::Path;
use std::sync::Arc;

use epsilab::{Error, Result};

use session::KernelWorkspace;
pub use session::check_temporary_folder;

/// Runs the cell process or the compiler wrapper if this binary was started as one of them, and
/// then never returns. Must be called first in `main`.
pub fn run_child_process() {
    if rustc::is_invoked() {
        rustc::run();
    }
    if std::env::var_os("EVCXR_IS_RUNTIME").is_some() {
        cell_process::run();
    }
    evcxr::runtime_hook();
}

/// Serves the kernel described by the connection file until it is shut down. No other thread may
/// run: this sets environment variables.
///
/// # Errors
/// Unreadable connection file or busy port. If the lab can't be built, the kernel still starts, and
/// every cell reports the error.
pub fn serve(conn: &Path) -> Result<()> {
    let info = wire::read_connection(conn)?;
    let session = KernelWorkspace::new()?;
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
