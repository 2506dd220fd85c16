//! Several runs at once: the commands `grid` and `sweep`. Cases are combinations of lists of
//! options of `train`, and each is trained with several seeds, here or on a cluster.

mod case;
mod file;
pub mod grid;
mod grid_out;
mod options;
mod out;
mod paper;
mod preview;
mod progress;
mod rows;
pub mod run;
mod slurm;
pub mod sweep;
pub mod worker;

pub use grid_out::file_name;

/// Returns what is said of runs that were interrupted.
fn stop_words(done: usize) -> String {
    format!(
        "stopped after {done} finished runs, which are kept; the same command continues from there"
    )
}
