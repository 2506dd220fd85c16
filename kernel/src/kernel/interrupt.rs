//! Stopping a cell. First politely: the signal sets a flag that training looks at, and compilers
//! are stopped. A cell that does not stop loses its process, and with it all variables.

use std::collections::{HashMap, HashSet};
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const ASK_EVERY: Duration = Duration::from_millis(100);

/// A cell that neither runs nor is compiled for so long waits for something that never comes.
const QUIET: Duration = Duration::from_secs(60);

/// How long a cell has to stop by itself; the environment variable is for tests.
fn grace() -> Duration {
    let given = std::env::var("EPSILAB_INTERRUPT_GRACE").ok().and_then(|text| text.parse().ok());
    Duration::from_secs_f64(given.filter(|s: &f64| (0.0..1e6).contains(s)).unwrap_or(10.0))
}

/// What interrupts have done to the cell that has just ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interrupted {
    /// Somebody asked it to stop.
    pub asked: bool,
    /// Its process was killed.
    pub killed: bool,
}

#[derive(Default)]
struct State {
    /// A cell is worked on.
    working: bool,
    /// It is compiled and runs in its process.
    runs: bool,
    cell: u64,
    done: Interrupted,
    presses: u64,
    process: Option<Arc<Mutex<Child>>>,
    /// The process of the cells, as far as is known.
    id: Option<i32>,
}

/// Shared by the thread that runs cells and the one that hears the interrupts.
#[derive(Clone, Default)]
pub struct Interrupts {
    state: Arc<Mutex<State>>,
}

impl Interrupts {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process of the cells; the handle stays valid when evcxr starts it again.
    pub fn watch(&self, process: Arc<Mutex<Child>>) {
        let mut state = self.state();
        state.process = Some(process);
        state.id = None;
    }

    /// How often was pressed so far. Cells that were queued before a press are not run after it.
    pub fn presses(&self) -> u64 {
        self.state().presses
    }

    /// A cell begins.
    pub fn begin(&self) {
        let mut state = self.state();
        state.cell += 1;
        state.done = Interrupted::default();
        state.process_id();
        (state.working, state.runs) = (true, false);
    }

    /// The process of the cells says that the cell runs, or that it does not any more.
    pub fn runs(&self, runs: bool) {
        self.state().runs = runs;
    }

    /// The cell has ended.
    pub fn end(&self) -> Interrupted {
        let mut state = self.state();
        (state.working, state.runs) = (false, false);
        state.done
    }

    /// The user wants the cell to stop.
    pub fn press(&self) {
        let mut state = self.state();
        state.presses += 1;
        if !state.working {
            return;
        }
        let (cell, runs) = (state.cell, state.runs);
        let second = std::mem::replace(&mut state.done.asked, true);
        if second {
            if runs && !state.done.killed {
                state.done.killed = true;
                state.kill();
            }
            return;
        }
        drop(state);
        let this = self.clone();
        std::thread::spawn(move || this.stop(cell));
    }

    /// Until the cell has ended: compilers are stopped, one cell may call several; a cell that
    /// runs is asked again and again, its training may not have begun at the first time. Whatever
    /// it waits for if it does neither, in the end its process goes.
    fn stop(&self, cell: u64) {
        let mut until = Instant::now() + QUIET;
        let mut ran = false;
        loop {
            let mut state = self.state();
            // After a kill, evcxr starts the process again within the same cell.
            if !state.working || state.cell != cell || state.done.killed {
                return;
            }
            if state.runs {
                if !std::mem::replace(&mut ran, true) {
                    until = Instant::now() + grace();
                }
                state.signal(libc::SIGINT);
            } else if stop_compilers(state.process_id()) {
                until = Instant::now() + QUIET;
            }
            if Instant::now() > until {
                state.done.killed = true;
                state.kill();
                return;
            }
            drop(state);
            std::thread::sleep(ASK_EVERY);
        }
    }

    /// Ends the process of the cells and all compilers.
    pub fn kill(&self) {
        self.state().kill();
    }
}

impl State {
    fn kill(&mut self) {
        stop_compilers(self.process_id());
        self.signal(libc::SIGKILL);
    }

    fn signal(&mut self, signal: i32) {
        if let Some(id) = self.process_id() {
            // SAFETY: a signal to our own child.
            unsafe { libc::kill(id, signal) };
        }
    }

    fn process_id(&mut self) -> Option<i32> {
        // evcxr holds the lock while it waits for the process to end, for ever if need be: then it
        // is still the one that is known.
        if let Some(Ok(process)) = self.process.as_ref().map(|process| process.try_lock()) {
            self.id = i32::try_from(process.id()).ok();
        }
        self.id
    }
}

/// Kills everything this process started, except the process of the cells and what that started.
/// True if there was something.
fn stop_compilers(keep: Option<i32>) -> bool {
    let own = std::process::id().cast_signed();
    let found = descendants(&parents(), own, keep);
    for id in &found {
        // SAFETY: a signal to our own descendants.
        unsafe { libc::kill(*id, libc::SIGKILL) };
    }
    !found.is_empty()
}

/// Every process with its parent. Elsewhere than on Linux there is no such table: compilers then
/// finish their work, and the cell stops after that.
fn parents() -> HashMap<i32, i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return HashMap::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let id = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            // `id (name) state parent …`, and the name may hold anything.
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((id, parent))
        })
        .collect()
}

fn descendants(parents: &HashMap<i32, i32>, root: i32, keep: Option<i32>) -> Vec<i32> {
    let mut found = Vec::new();
    let mut seen: HashSet<i32> = keep.into_iter().chain([root]).collect();
    let mut open = vec![root];
    while let Some(parent) = open.pop() {
        for (id, _) in parents.iter().filter(|(_, of)| **of == parent) {
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
    fn compilers_are_found_and_the_process_of_the_cells_is_spared() {
        // 1 → kernel 10 → cargo 20 → rustc 30; the cells' process 40 started 50.
        let parents = HashMap::from([(10, 1), (20, 10), (30, 20), (40, 10), (50, 40), (60, 1)]);
        let mut found = descendants(&parents, 10, Some(40));
        found.sort();
        assert_eq!(found, [20, 30]);
    }

    #[test]
    fn the_process_is_known_also_while_evcxr_waits_for_it() {
        let child = std::process::Command::new("sleep").arg("60").spawn().expect("started");
        let id = i32::try_from(child.id()).expect("an id");
        let process = Arc::new(Mutex::new(child));
        let interrupts = Interrupts::default();
        interrupts.watch(process.clone());
        interrupts.begin();
        let mut held = process.lock().expect("free");
        interrupts.kill();
        let ended = held.wait().expect("waited");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(libc::SIGKILL));
        assert_eq!(interrupts.state().process_id(), Some(id));
    }

    #[test]
    fn a_press_without_a_running_cell_only_counts() {
        let interrupts = Interrupts::default();
        interrupts.press();
        assert_eq!(interrupts.presses(), 1);
        interrupts.begin();
        assert_eq!(interrupts.end(), Interrupted::default());
    }
}
