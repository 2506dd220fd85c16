//! The process that runs the cells: this binary, started again by evcxr. Begin with `command_loop`.
//!
//! Commands and answers use descriptors of their own, so that cells may print, read and close what
//! they like. What cells print reaches evcxr through `relay`, encoded so that no text is taken for
//! an answer (`stream_codec`). A cell that reads standard input asks the front end (`cell_stdin`).

mod cell_stdin;
mod command_loop;
mod relay;
pub mod stream_codec;

use super::markers::{Markers, NONCE_ENV_VAR};
use stream_codec::StreamEncoder;

/// Environment variable with the path of the lab's dylib.
pub const LIBRARY_ENV_VAR: &str = "EPSILAB_LAB_LIBRARY";
/// Environment variable with the folder for the named pipes that cells print to.
pub const PIPES_ENV_VAR: &str = "EPSILAB_CELL_PIPES";

/// Environment variable with the path of the kernel's side channel.
const CHANNEL_ENV_VAR: &str = "EPSILAB_DISPLAY";

/// Returns the path of the named pipe in place of the standard stream `fd` of the cell process
/// `id`.
pub fn pipe_path(folder: &std::path::Path, id: i32, fd: i32) -> std::path::PathBuf {
    folder.join(format!("stream-{id}-{fd}"))
}

/// Runs cells until evcxr closes the connection. No other thread may exist yet.
pub fn run() -> ! {
    let markers = Markers::from_env().unwrap_or_else(Markers::new);
    let folder = std::env::var_os(PIPES_ENV_VAR).map_or_else(std::env::temp_dir, Into::into);
    // SAFETY: no other thread runs yet, and the calls only change settings of this process.
    unsafe {
        #[cfg(target_os = "linux")]
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // evcxr turns backtraces on, but they show little besides generated code.
        let full = std::env::var_os("EPSILAB_BACKTRACE").is_some();
        std::env::set_var("RUST_BACKTRACE", if full { "1" } else { "0" });
        std::env::remove_var(NONCE_ENV_VAR);
        std::env::remove_var(PIPES_ENV_VAR);
    }
    let ready = relay::install(2, &folder, StreamEncoder::for_stderr(markers.clone()))
        .and_then(|()| relay::install(1, &folder, StreamEncoder::for_stdout(markers.clone())))
        .and_then(|()| command_loop::CommandLoop::new(markers));
    match ready {
        Ok(commands) => commands.run(),
        Err(error) => {
            eprintln!("the cell process can't be set up: {error}");
            std::process::exit(99);
        }
    }
}
