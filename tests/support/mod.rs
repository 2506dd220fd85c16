//! What both test programs share: a clean environment with a project of its own, processes that
//! run one test again, and files that are not part of the repository.

// Each program uses a part of it.
#![allow(dead_code, unused_macros)]

pub mod environment;
pub mod files;
#[macro_use]
pub mod process;
