//! The process that runs the cells: this binary started again by evcxr.
//!
//! It takes evcxr's orders, but in its own way. Orders and answers use descriptors of their own, so
//! that cells may print, read and close what they like: their output reaches evcxr by `relay`,
//! packed so that no text is taken for an answer (`stream`), and their input is at its end.

mod orders;
mod relay;
pub mod stream;

use super::markers::{Markers, VARIABLE};

/// Where the lab's dylib is.
pub const LAB_VARIABLE: &str = "EPSILAB_LAB_LIBRARY";

/// Takes over if this is the process of the cells. No other thread may exist yet.
pub fn run() -> ! {
    let markers = Markers::inherited().unwrap_or_else(Markers::new);
    // SAFETY: no other thread runs yet, and the calls only touch this process's own settings.
    unsafe {
        #[cfg(target_os = "linux")]
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // evcxr forces backtraces, of which a cell's author sees nothing but generated code.
        let full = std::env::var_os("EPSILAB_BACKTRACE").is_some();
        std::env::set_var("RUST_BACKTRACE", if full { "1" } else { "0" });
        std::env::remove_var(VARIABLE);
    }
    let ready = relay::install(2, stream::Lines::default())
        .and_then(|()| relay::install(1, stream::Packed::new(markers.clone())))
        .and_then(|()| orders::Orders::take_over(markers));
    match ready {
        Ok(orders) => orders.follow(),
        Err(error) => {
            eprintln!("the process of the cells can't be set up: {error}");
            std::process::exit(99);
        }
    }
}
