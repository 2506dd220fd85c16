//! Jupyter kernel: evcxr evaluates the cells, and this module implements the protocol.
//!
//! `wire` receives messages; `dispatch` answers or queues them. One thread (`evaluator`) owns evcxr
//! (`engine`) and runs the cells one after the other. Printed text comes back through evcxr
//! (`output_reader`), figures come over a socket (`side_channel`), and `fence` keeps both in order.
//! A nonce separates what cells print from what the cell process reports (`markers`). Begin with
//! `dispatch` and `evaluator`. The modules by subject:
//!
//! - the protocol: `wire`, `requests`, `dispatch`, `context`, `current_cell`, `input_requests`,
//!   `history`;
//! - the running of cells: `evaluator`, `engine`, `workspace`, `cell_process`, `cell_commands`,
//!   `rustc_wrapper`, `variables`, `warm_up`;
//! - the stopping of cells: `interrupt`, `safepoints`;
//! - outputs: `output_reader`, `stream_buffer`, `output_limits`, `display_blocks`, `side_channel`,
//!   `fence`, `markers`;
//! - errors: `errors`, `rustc_messages`, `error_location`, `advice`, `borrow_advice`, `lab_names`,
//!   `panics`, `crash`, `disk_full`;
//! - completion and inspection: `complete`, `receiver`, `string_completion`, `inspection`,
//!   `is_complete`, `visibility`, `std_sources`.

mod advice;
mod borrow_advice;
mod cell_commands;
mod cell_process;
mod complete;
mod context;
mod crash;
mod current_cell;
mod disk_full;
mod dispatch;
mod display_blocks;
mod engine;
mod error_location;
mod errors;
mod evaluator;
mod fence;
mod history;
mod input_requests;
mod inspection;
mod interrupt;
mod is_complete;
mod lab_names;
mod markers;
mod output_limits;
mod output_reader;
mod panics;
mod receiver;
mod requests;
mod rustc_messages;
mod rustc_wrapper;
mod safepoints;
mod side_channel;
mod std_sources;
mod stream_buffer;
mod string_completion;
mod variables;
mod visibility;
mod warm_up;
mod wire;
mod workspace;

use std::path::Path;
use std::sync::Arc;

use epsilab::{Error, Result};

use workspace::KernelWorkspace;
pub use workspace::check_temporary_folder;

/// Runs the cell process or the compiler wrapper if this binary was started as one of them, and
/// then never returns. Must be called first in `main`.
pub fn run_child_process() {
    if rustc_wrapper::is_invoked() {
        rustc_wrapper::run();
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
