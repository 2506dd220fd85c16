//! Other processes, as Linux lists them.

use std::collections::HashMap;

/// The processes that a process has started and that have not ended.
pub fn children(id: u32) -> Vec<u32> {
    let parents = parents();
    parents.iter().filter(|(_, parent)| **parent == id).map(|(child, _)| *child).collect()
}

/// A process and its descendants.
pub fn family(id: u32) -> Vec<u32> {
    let parents = parents();
    let mut all = vec![id];
    let mut at = 0;
    while let Some(&one) = all.get(at) {
        at += 1;
        all.extend(parents.iter().filter(|(_, parent)| **parent == one).map(|(child, _)| child));
    }
    all
}

/// The parent of every process.
fn parents() -> HashMap<u32, u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(|id| Some((id, status(id, "PPid:")?.parse().ok()?))).collect()
}

/// The name of the program that a process runs.
pub fn name(id: u32) -> Option<String> {
    status(id, "Name:")
}

/// `Z` for one that has ended and that its parent has not asked about.
pub fn state(id: u32) -> Option<char> {
    status(id, "State:")?.chars().next()
}

/// Whether a process is there and has not ended.
pub fn is_alive(id: u32) -> bool {
    state(id).is_some_and(|state| state != 'Z')
}

/// The number of its threads.
pub fn threads(id: u32) -> usize {
    status(id, "Threads:").and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// Resident memory of some processes together, in MiB.
pub fn memory(ids: &[u32]) -> f64 {
    let resident = |id: &u32| status(*id, "VmRSS:")?.split(' ').next()?.parse::<f64>().ok();
    ids.iter().filter_map(resident).sum::<f64>() / 1024.0
}

fn status(id: u32, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
}
