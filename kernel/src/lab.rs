//! The lab as the cells see it: everything of `epsilab`, linked as one Rust dylib.

pub use epsilab::*;

mod cell_process {
    use std::io::Write;

    /// Writes out what the cells printed without a line break. Standard output is buffered in the
    /// standard library that the cells share; only code linked to that copy can reach the buffer.
    #[unsafe(no_mangle)]
    extern "C" fn epsilab_flush_stdout() {
        let _ = std::io::stdout().flush();
    }
}
