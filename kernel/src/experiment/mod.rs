//! Several runs at once: the commands `grid` and `sweep`. Cases are combinations of lists of
//! options of `train`, and each is trained with several seeds, here or on a cluster. `grid` and
//! `sweep` have the two commands; begin with `command`, which they share. `case` and `options` make
//! the cases, `run` and `slurm` train them, and `results` and `paper` show what came out.

mod case;
mod command;
mod file;
pub mod grid;
mod options;
mod paper;
mod preview;
mod progress;
mod results;
pub mod run;
mod slurm;
pub mod sweep;
pub mod worker;

pub use results::{PLAN_FILE, sanitise_file_name};
