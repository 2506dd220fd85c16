//! Tests of the program `epsilab`: its commands, and its kernel through its sockets.

mod common;

mod audit;
mod bench;
mod grid;
mod pins;
mod sweep;
mod tables;
mod train;

#[cfg(unix)]
mod checkpoints;

#[cfg(feature = "notebook")]
mod cells;
#[cfg(feature = "notebook")]
mod cli;
#[cfg(feature = "notebook")]
mod damage;
#[cfg(feature = "notebook")]
mod editor;
#[cfg(feature = "notebook")]
mod hostile;
#[cfg(feature = "notebook")]
mod kernel;
#[cfg(feature = "notebook")]
mod lab;
#[cfg(feature = "notebook")]
mod sessions;
