//! Context that the parts of a kernel share.

use std::sync::Arc;

use super::current_cell::CurrentCell;
use super::fence::Fences;
use super::history::History;
use super::input_requests::InputRequests;
use super::interrupt::InterruptController;
use super::wire::MessageSender;
use super::workspace::KernelWorkspace;

/// Handles to all parts of the kernel that outlive a cell.
#[derive(Clone)]
pub struct KernelContext {
    pub workspace: Arc<KernelWorkspace>,
    pub sender: MessageSender,
    pub current: CurrentCell,
    pub interrupts: InterruptController,
    pub fences: Arc<Fences>,
    pub inputs: InputRequests,
    pub history: History,
}
