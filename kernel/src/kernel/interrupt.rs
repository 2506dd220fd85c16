//! Stopping a cell. The first interrupt sends SIGINT, which sets a flag that training and loops
//! check, and kills compilers. If the cell does not stop, the user is told that the second
//! interrupt kills its process, and that all variables are lost then.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::current_cell::CurrentCell;
use crate::folder::entries;

const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// Time after which a cell that neither runs nor is compiled is taken to wait for something that
/// never comes.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Time after which the user is told that the interrupt has arrived; a step of training may take
/// longer.
const NOTICE_DELAY: Duration = Duration::from_secs(2);

/// Effect of interrupts on the cell that has just ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InterruptOutcome {
    /// Whether the cell was interrupted.
    pub requested: bool,
    /// Whether the process of the cell was killed.
    pub killed: bool,
}

#[derive(Default)]
struct InterruptState {
    /// Whether a cell is being compiled or run.
    is_active: bool,
    /// Whether the cell runs in its process.
    is_running: bool,
    cell_number: u64,
    outcome: InterruptOutcome,
    interrupt_count: u64,
    process: Option<Arc<std::sync::Mutex<Child>>>,
    /// The last known id of the cell process.
    last_process_id: Option<i32>,
    /// Output for messages to the user about the interrupt.
    cell_output: Option<CurrentCell>,
}

const DOES_NOT_STOP: &str = "the cell has not stopped yet: training ends after its step, a loop \
                             after its pass; code outside the lab may never end. A second \
                             interrupt ends the process of the cells: all variables are lost \
                             then.\n";

/// Interrupt state, shared by the thread that runs cells and the one that receives interrupts.
#[derive(Clone, Default)]
pub struct InterruptController {
    state: Arc<Mutex<InterruptState>>,
}

impl InterruptController {
    /// Sets the cell process, and the output for messages to the user. The handle stays valid when
    /// evcxr restarts the process.
    pub fn set_process(&self, process: Arc<std::sync::Mutex<Child>>, current: &CurrentCell) {
        let mut state = self.state.lock();
        state.cell_output = Some(current.clone());
        state.process = Some(process);
        state.last_process_id = None;
    }

    /// Returns the number of interrupts so far. Cells that were queued before an interrupt are not
    /// run after it.
    pub fn interrupt_count(&self) -> u64 {
        self.state.lock().interrupt_count
    }

    /// Marks the start of a cell.
    pub fn begin_cell(&self) {
        let mut state = self.state.lock();
        state.cell_number += 1;
        state.outcome = InterruptOutcome::default();
        state.process_id();
        state.is_active = true;
        state.is_running = false;
    }

    /// Records the report of the cell process that the cell runs, or that it has ended.
    pub fn set_running(&self, runs: bool) {
        self.state.lock().is_running = runs;
    }

    /// Returns the id of the cell process while a cell is being compiled or run.
    pub fn running_process(&self) -> Option<i32> {
        let mut state = self.state.lock();
        if state.is_active { state.process_id() } else { None }
    }

    /// Marks the end of the cell, and returns the effect of interrupts on it.
    pub fn end_cell(&self) -> InterruptOutcome {
        let mut state = self.state.lock();
        state.is_active = false;
        state.is_running = false;
        state.outcome
    }

    /// Interrupts the cell. The second interrupt kills its process.
    pub fn interrupt(&self) {
        let mut state = self.state.lock();
        state.interrupt_count += 1;
        if !state.is_active {
            return;
        }
        if std::mem::replace(&mut state.outcome.requested, true) {
            if state.is_running && !std::mem::replace(&mut state.outcome.killed, true) {
                state.kill();
            }
            return;
        }
        let (handle, cell) = (self.clone(), state.cell_number);
        std::thread::spawn(move || handle.stop_until_ended(cell));
    }

    /// Makes a running cell that can't continue stop at its next loop, as an interrupt does. The
    /// cell does not count as interrupted.
    pub fn request_stop(&self) {
        let mut state = self.state.lock();
        if state.is_active && state.is_running {
            state.signal(libc::SIGINT);
        }
    }

    /// Stops a cell: until it has ended, kills compilers (a cell may start several) or signals the
    /// process (repeatedly, since training may not have installed its handler yet).
    fn stop_until_ended(&self, cell: u64) {
        let mut stalled = Instant::now() + STALL_TIMEOUT;
        let (mut runs_since, mut is_noted) = (None, false);
        loop {
            let mut state = self.state.lock();
            // After a kill, evcxr restarts the process within the same cell.
            if !state.is_active || state.cell_number != cell || state.outcome.killed {
                return;
            }
            let mut notice = None;
            if state.is_running {
                let since: Instant = *runs_since.get_or_insert_with(Instant::now);
                state.signal(libc::SIGINT);
                stalled = Instant::now() + STALL_TIMEOUT;
                if since.elapsed() > NOTICE_DELAY && !std::mem::replace(&mut is_noted, true) {
                    notice = state.cell_output.clone();
                }
            } else if kill_compilers(state.process_id()) {
                stalled = Instant::now() + STALL_TIMEOUT;
            } else if Instant::now() > stalled {
                state.outcome.killed = true;
                state.kill();
                return;
            }
            drop(state);
            if let Some(output) = notice {
                output.print("stderr", DOES_NOT_STOP);
            }
            std::thread::sleep(SIGNAL_INTERVAL);
        }
    }

    /// Kills the cell process and all compilers.
    pub fn kill(&self) {
        self.state.lock().kill();
    }
}

impl InterruptState {
    fn kill(&mut self) {
        kill_compilers(self.process_id());
        self.signal(libc::SIGKILL);
    }

    fn signal(&mut self, signal: i32) {
        if let Some(id) = self.process_id() {
            // SAFETY: a signal to a child of this process.
            unsafe { libc::kill(id, signal) };
        }
    }

    fn process_id(&mut self) -> Option<i32> {
        // evcxr holds the lock while it waits for the process to end. The id has not changed then.
        if let Some(Ok(process)) = self.process.as_ref().map(|process| process.try_lock()) {
            self.last_process_id = i32::try_from(process.id()).ok();
        }
        self.last_process_id
    }
}

/// Kills all descendants of this process except the cell process and its descendants, and returns
/// whether there were any.
fn kill_compilers(keep: Option<i32>) -> bool {
    let own_id = std::process::id().cast_signed();
    let found = descendants(&process_parents(), own_id, keep);
    for id in &found {
        // SAFETY: a signal to a descendant of this process.
        unsafe { libc::kill(*id, libc::SIGKILL) };
    }
    !found.is_empty()
}

/// Returns the parent of every process. Empty on other systems than Linux: compilers then finish
/// their work before the cell stops.
fn process_parents() -> HashMap<i32, i32> {
    let process = |folder: PathBuf| {
        let id = folder.file_name()?.to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
        // `id (name) state parent …`, and the name may hold anything.
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        Some((id, parent))
    };
    entries(Path::new("/proc")).filter_map(process).collect()
}

fn descendants(parents: &HashMap<i32, i32>, root: i32, keep: Option<i32>) -> Vec<i32> {
    let mut found = Vec::new();
    let mut seen: HashSet<i32> = keep.into_iter().chain([root]).collect();
    let mut open = vec![root];
    while let Some(parent) = open.pop() {
        for (id, _) in parents.iter().filter(|(_, parent_id)| **parent_id == parent) {
            if seen.insert(*id) {
                found.push(*id);
                open.push(*id);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilers_are_found_and_the_cell_process_is_spared() {
        // 1 → kernel 10 → cargo 20 → rustc 30; cell process 40 → 50.
        let parents = HashMap::from([(10, 1), (20, 10), (30, 20), (40, 10), (50, 40), (60, 1)]);
        let mut found = descendants(&parents, 10, Some(40));
        found.sort();
        assert_eq!(found, [20, 30]);
    }

    #[test]
    fn the_process_id_is_known_while_evcxr_waits_for_the_process() {
        let child = std::process::Command::new("sleep").arg("60").spawn().expect("started");
        let id = i32::try_from(child.id()).expect("an id");
        let process = Arc::new(std::sync::Mutex::new(child));
        let interrupts = InterruptController::default();
        interrupts.state.lock().process = Some(process.clone());
        interrupts.begin_cell();
        let mut held = process.lock().expect("free");
        interrupts.kill();
        let ended = held.wait().expect("waited");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(libc::SIGKILL));
        assert_eq!(interrupts.state.lock().process_id(), Some(id));
    }

    #[test]
    fn an_interrupt_without_a_running_cell_is_only_counted() {
        let interrupts = InterruptController::default();
        interrupts.interrupt();
        assert_eq!(interrupts.interrupt_count(), 1);
        interrupts.begin_cell();
        assert_eq!(interrupts.end_cell(), InterruptOutcome::default());
    }
}
