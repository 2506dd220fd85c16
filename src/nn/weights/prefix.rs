//! Finds the part of a checkpoint that holds the tensors of a model.

use super::weight_file::WeightFile;

/// Keys under which training programs store the tensors of the model that they train.
const MODEL_KEYS: [&str; 11] = [
    "model",
    "model_state",
    "model_state_dict",
    "module",
    "net",
    "network",
    "params",
    "state_dict",
    "weights",
    // PyTorch's compiler and Lightning wrap models under these names.
    "_orig_mod",
    "_forward_module",
];

/// Returns the prefix under which the file holds all of these names, if there is one such prefix
/// that consists of usual keys, as in `{"model": model.state_dict(), "args": …}`; `None` if the
/// names are there without a prefix.
pub(super) fn usual_prefix(source: &WeightFile, names: &[&str]) -> Option<String> {
    let is_present = |name: &&str| source.entries.contains_key(*name);
    if names.iter().any(is_present) {
        return None;
    }
    let is_usual = |prefix: &String| {
        let keys = prefix.strip_suffix('.');
        keys.is_some_and(|keys| keys.split('.').all(|key| MODEL_KEYS.contains(&key)))
    };
    let mut usual = complete_prefixes(source, names).into_iter().filter(is_usual);
    let first = usual.next()?;
    usual.next().is_none().then_some(first)
}

/// Returns each prefix under which the file holds all of these names.
pub(super) fn complete_prefixes(source: &WeightFile, names: &[&str]) -> Vec<String> {
    let Some(first) = names.first() else { return Vec::new() };
    let prefixes = source.entries.keys().filter_map(|own| own.strip_suffix(first));
    let is_complete = |prefix: &&str| {
        names.iter().all(|name| source.entries.contains_key(&format!("{prefix}{name}")))
    };
    prefixes.filter(|prefix| !prefix.is_empty()).filter(is_complete).map(str::to_owned).collect()
}
