//! The Jupyter kernel: evcxr evaluates the cells, this folder speaks the protocol.

use std::path::Path;

use epsilab::Result;

/// Must be called first in `main`: the process of the cells is this binary started again, and in
/// that case this never returns.
pub fn child_hook() {
    evcxr::runtime_hook();
}

/// Serves the kernel described by the connection file until it is shut down.
///
/// # Errors
/// Unreadable connection file, busy port, or no prebuilt lab.
pub fn serve(conn: &Path) -> Result<()> {
    let _ = conn;
    Err(epsilab::Error::new(epsilab::ErrorKind::Notebook, "the kernel", "can't serve yet"))
}
