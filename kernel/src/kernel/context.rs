//! What the parts of a kernel share.

use std::sync::Arc;

use super::cell::CurrentCell;
use super::fence::Fences;
use super::history::History;
use super::input::Inputs;
use super::interrupt::Interrupts;
use super::session::Session;
use super::wire::Wire;

/// Handles to everything that outlives a cell.
#[derive(Clone)]
pub struct Context {
    pub session: Arc<Session>,
    pub wire: Wire,
    pub current: CurrentCell,
    pub interrupts: Interrupts,
    pub fences: Arc<Fences>,
    pub inputs: Inputs,
    pub history: History,
}
