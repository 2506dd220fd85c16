//! Where there is to compute.

use epsilab::device::Place;
use serde_json::{Value, json};

use super::{Check, State};
use crate::device;

/// The CPU and the cards. A card that is asked for and not there is an error of the command that
/// asks; here it is nothing to act on.
pub fn check() -> Check {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let kinds = [("cuda", "CUDA", Place::Cuda(0)), ("wgpu", "WGPU", Place::Wgpu(0))];
    let mut facts = json!({"cpu": {"threads": threads}});
    let mut said = vec![format!("CPU, {threads} threads")];
    for (key, name, place) in kinds {
        let cards = device::cards(place);
        said.push(match cards.as_deref() {
            None => format!("{name} is not built in"),
            Some([]) => format!("{name} finds no card"),
            Some(found) => format!("{name} finds {} (--device {key})", found.len()),
        });
        let count = cards.as_ref().map(Vec::len);
        let names: Value = (0..count.unwrap_or(0)).map(|n| format!("{key}:{n}")).collect();
        facts[key] = json!({"built_in": cards.is_some(), "found": names});
    }
    Check::new("devices", State::Ok, said.join("; ")).facts(facts)
}
