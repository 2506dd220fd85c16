//! Memory of steps, of this process and of others.

use std::fs;

use epsilab::Result;
use epsilab::engine::ClipRule;

use super::step::{CLIP, Training};
use super::{Case, data};

/// All buffers exist after the first step; a leak would show in the next ones.
const MAX_STEPS: usize = 4;

/// Peak memory of steps on the CPU above that before the first, in MiB; `None` where the system
/// does not report it.
pub fn measure(case: &Case<'_>, private: bool) -> Result<Option<f64>> {
    let (model, pool) = (case.entry.model()?, data::pool(case.entry, case.batch)?);
    let rule = private.then(|| ClipRule::flat(CLIP));
    let mechanism = case.executor.mechanism(rule, case.batch)?;
    let mut training = Training::new(model.network(), mechanism);
    settle();
    let before = resident();
    for batch in pool.iter().cycle().take(case.steps.min(MAX_STEPS)) {
        training.step(batch)?;
    }
    Ok(peak_mib().zip(before).map(|(peak, before)| (peak - before).max(0.0)))
}

/// Resident memory in MiB; `None` where the system does not report it.
fn resident() -> Option<f64> {
    status("VmRSS:")
}

/// Peak since the start or the last call of [`settle`], in MiB.
fn peak_mib() -> Option<f64> {
    status("VmHWM:")
}

/// Returns unused memory to the system and resets the peak.
fn settle() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: asks the allocator to return free pages; no memory in use is touched.
    unsafe {
        libc::malloc_trim(0);
    }
    // On Linux, 5 resets the peak. On other systems the peak includes the preparation.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Resident memory of a process and of those it started, in MB.
#[cfg(feature = "notebook")]
pub fn process_tree_mb(root: u32) -> Option<f64> {
    let resident = |id: &u32| status_field(&id.to_string(), "VmRSS:");
    let mib: f64 = tree(root).iter().filter_map(resident).sum();
    (mib > 0.0).then_some(mib * 1.048_576)
}

/// A process and those it started.
#[cfg(feature = "notebook")]
fn tree(root: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").into_iter().flatten();
    let parents: Vec<(u32, u32)> = all
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|id: u32| Some((id, parent(id)?)))
        .collect();
    let mut tree = vec![root];
    let mut at = 0;
    while let Some(&id) = tree.get(at) {
        tree.extend(parents.iter().filter(|(_, parent)| *parent == id).map(|(child, _)| child));
        at += 1;
    }
    tree
}

#[cfg(feature = "notebook")]
fn parent(id: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name of the program, in parentheses, may contain anything.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn status(field: &str) -> Option<f64> {
    status_field("self", field)
}

fn status_field(process: &str, field: &str) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024.0)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "notebook")]
    fn the_memory_of_a_tree_includes_its_children() {
        use std::time::{Duration, Instant};

        let mut child = std::process::Command::new("sleep").arg("10").spawn().unwrap();
        let (own_tree, childs) = (tree(std::process::id()), tree(child.id()));
        // A process that has just begun has hardly any memory yet.
        let deadline = Instant::now() + Duration::from_secs(5);
        let mut memory = process_tree_mb(child.id());
        while memory.is_none_or(|mb| mb <= 0.1) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
            memory = process_tree_mb(child.id());
        }
        let _ = child.kill();
        let _ = child.wait();
        assert!(own_tree.contains(&child.id()), "{own_tree:?}");
        assert_eq!(childs, [child.id()]);
        assert!(memory.is_some_and(|mb| mb > 0.1), "{memory:?}");
        assert_eq!(process_tree_mb(u32::MAX), None);
    }

    #[test]
    fn memory_that_is_touched_and_given_back_is_still_in_the_peak() {
        let pages = vec![1u8; 64 << 20];
        assert!(pages.iter().step_by(4096).map(|&x| usize::from(x)).sum::<usize>() > 0);
        let held = resident().unwrap();
        drop(pages);
        // Whatever other tests of this process take and return meanwhile.
        let peak = peak_mib().unwrap();
        assert!(held > 60.0 && peak > held - 1.0, "{held} MiB held, {peak} MiB at the peak");
    }
}
