//! evcxr's own Jupyter kernel, as `install --stock` registers it.

use std::process::ExitCode;

fn main() -> ExitCode {
    match evcxr_jupyter::main() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
