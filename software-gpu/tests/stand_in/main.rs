//! The program on a CUDA driver that computes nothing (`support/cuda-stand-in`): what it must
//! refuse, and how it ends when a call of the driver fails. No test needs any part of CUDA, except
//! those of `python_packages.rs`.

mod faults;
mod machine;
mod python_packages;
mod refusals;
mod rehearsal;
