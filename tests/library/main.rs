//! The library from outside. All these tests are one program, because linking takes far longer than
//! running most of them.
//!
//! Run some with `cargo test --workspace --test library ledger::`, and the long ones with
//! `cargo test --workspace --test library -- --ignored`. Tests that need files from outside the
//! repository are in `tests/reference`.

// `device::executor` loads what it shares with other modules itself, for `software-gpu`.
#![allow(clippy::duplicate_mod)]

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod accounting;
mod by_hand;
mod calibration;
mod conformance;
mod data;
mod device;
mod engine;
mod figures;
mod figures_masks;
#[cfg(target_os = "linux")]
mod full_disk;
mod grid;
#[cfg(unix)]
mod interrupt;
mod ledger;
mod lost_ledger;
mod masks;
mod method;
mod optim;
mod per_example;
mod pld_reference;
mod project;
mod published;
mod settings;
mod show;
mod training;
mod weights;
