//! Assignment of the tensors of a file to the parameters of a model.

use std::collections::{BTreeMap, HashMap};

use super::load_context::{LoadContext, list_names};
use super::parameter_location::{ParameterLocation, parameter_locations};
use super::prefix::usual_prefix;
use super::report::{MatchedTensor, UnmatchedTensor, WeightReport};
use super::weight_file::{ElementType, TensorEntry, WeightFile, printable};
use super::weight_layout::WeightLayout;
use crate::nn::{Model, path_matches};
use crate::{Error, Result};

/// Reasons why a tensor or a parameter has no counterpart.
const NEW_HEAD: &str = "new head";
const CHOSEN: &str = "as the layout says";
const OUTSIDE: &str = "outside of the layout's prefix";

/// Assignment of tensors to parameters, with the tensors and parameters that are excluded.
pub(super) struct Assignment<'a> {
    pairs: Vec<(ParameterLocation, &'a TensorEntry)>,
    left_in_file: BTreeMap<&'a str, &'static str>,
    kept_initial: Vec<UnmatchedTensor>,
}

impl<'a> Assignment<'a> {
    /// Assigns tensors by name and compares shapes. No values are read.
    pub(super) fn new(attempt: LoadContext, source: &'a WeightFile) -> Result<Self> {
        let LoadContext { model, layout, .. } = attempt;
        attempt.refuse_batch_norm(source)?;
        let locations = all_locations(model);
        check_patterns("keep_initial", &layout.keep_patterns, locations.iter().map(|p| &p.path))?;
        check_patterns("leave_in_file", &layout.leave_patterns, source.entries.keys())?;
        let head = locations.len() - model.network().head_tensor_count();
        let (mut left, mut pairs) = (BTreeMap::new(), Vec::new());
        let (mut kept, mut missing) = (Vec::new(), Vec::new());
        for (index, location) in locations.into_iter().enumerate() {
            let name = layout.tensor_name(&location);
            let entry = name.as_ref().and_then(|name| source.entries.get(name));
            let why = kept_reason(layout, &location, index >= head);
            match (why, entry) {
                (Some(why), _) => {
                    left.extend(entry.map(|entry| (entry.name.as_str(), why)));
                    kept.push(unmatched(&location.path, &location.shape, why));
                }
                (None, Some(entry)) => {
                    if let ElementType::Other(_) = entry.dtype {
                        return Err(attempt.not_floating_point(&location, entry));
                    }
                    if !layout.axes.fits(&location, &entry.shape) {
                        return Err(attempt.shape_mismatch(&location, entry, index >= head));
                    }
                    pairs.push((location, entry));
                }
                (None, None) => missing.push((location, name)),
            }
        }
        if !missing.is_empty() {
            return Err(attempt.missing(source, &missing));
        }
        let mut assignment = Self { pairs, left_in_file: left, kept_initial: kept };
        assignment.check_leftovers(attempt, source)?;
        Ok(assignment)
    }

    /// Leaves the tensors without a parameter in the file.
    fn check_leftovers(&mut self, attempt: LoadContext, source: &'a WeightFile) -> Result<()> {
        let layout = attempt.layout;
        let mut owners: HashMap<&str, &str> = HashMap::new();
        for (location, entry) in &self.pairs {
            if let Some(other) = owners.insert(&entry.name, &location.path) {
                return Err(attempt.shared_tensor(entry, [other, &location.path]));
            }
        }
        let mut superfluous = Vec::new();
        for name in source.entries.keys().filter(|name| !owners.contains_key(name.as_str())) {
            if self.left_in_file.contains_key(name.as_str()) {
                continue;
            }
            let why = if !name.starts_with(&layout.prefix) {
                OUTSIDE
            } else if is_named(&layout.leave_patterns, name) {
                CHOSEN
            } else {
                superfluous.push(name);
                continue;
            };
            self.left_in_file.insert(name, why);
        }
        if superfluous.is_empty() { Ok(()) } else { Err(attempt.superfluous(&superfluous)) }
    }

    /// Reads the tensors: the values of the parameters by path, in the model's order of axes.
    pub(super) fn values(&self, attempt: LoadContext) -> Result<HashMap<String, Vec<f32>>> {
        let read = |(location, entry): &(ParameterLocation, &TensorEntry)| {
            let values = entry.values().map_err(|e| attempt.unreadable(entry, &e))?;
            match values.iter().position(|value| !value.is_finite()) {
                None => Ok((
                    location.path.clone(),
                    attempt.layout.axes.to_native_order(location, values),
                )),
                Some(at) => Err(attempt.not_finite(entry, at, values[at])),
            }
        };
        self.pairs.iter().map(read).collect()
    }

    /// Returns the report. `folded` names the biases into which BatchNorm was folded.
    pub(super) fn report(
        self,
        attempt: LoadContext,
        source: &WeightFile,
        folded: &[String],
    ) -> WeightReport {
        let LoadContext { model, layout, path } = attempt;
        let is_read = |name: &&String| self.pairs.iter().any(|(_, entry)| entry.name == **name);
        let folded = folded.iter().filter(is_read).count();
        let matched = self.pairs.into_iter().map(|(location, entry)| MatchedTensor {
            path: location.path,
            name: entry.shown(),
            shape: entry.shape.clone(),
            dtype: entry.dtype.name().to_owned(),
        });
        let left = self.left_in_file.into_iter().filter_map(|(name, why)| {
            source.entries.get(name).map(|entry| unmatched(&entry.shown(), &entry.shape, why))
        });
        let below = match layout.prefix.strip_suffix('.') {
            Some(key) => format!(", under `{key}`"),
            None => String::new(),
        };
        WeightReport {
            heading: format!(
                "{} from {}{below} ({}, {layout})",
                model.name(),
                path.display(),
                source.format
            ),
            matched: matched.collect(),
            left: left.collect(),
            kept: self.kept_initial,
            folded,
            skipped: source.skipped.iter().map(|name| printable(name)).collect(),
        }
    }
}

/// Returns the locations of a network's parameters; for a user-defined module, only their paths.
fn all_locations(model: &Model) -> Vec<ParameterLocation> {
    if !model.is_user_module() {
        return parameter_locations(model.network().specs());
    }
    let parameters = model.network().parameters().into_iter();
    parameters
        .map(|parameter| ParameterLocation::from_path(parameter.path, parameter.shape))
        .collect()
}

/// Returns the reason why a parameter keeps its initial value; `None` if it needs a tensor.
fn kept_reason(
    layout: &WeightLayout,
    location: &ParameterLocation,
    in_head: bool,
) -> Option<&'static str> {
    if in_head && layout.new_head {
        return Some(NEW_HEAD);
    }
    is_named(&layout.keep_patterns, &location.path).then_some(CHOSEN)
}

/// Returns the layout with the prefix of the part of the checkpoint that holds the parameters, if
/// it has none and the file has all of them under one usual key.
pub(super) fn in_checkpoint(attempt: LoadContext, source: &WeightFile) -> Option<WeightLayout> {
    let LoadContext { model, layout, .. } = attempt;
    if !layout.prefix.is_empty() {
        return None;
    }
    let locations = all_locations(model);
    let head = locations.len() - model.network().head_tensor_count();
    let needed = locations.iter().enumerate();
    let needed =
        needed.filter(|(index, location)| kept_reason(layout, location, *index >= head).is_none());
    let names: Option<Vec<String>> =
        needed.map(|(_, location)| layout.tensor_name(location)).collect();
    let names = names?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    usual_prefix(source, &names).map(|prefix| layout.clone().prefix(&prefix))
}

fn is_named(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| path_matches(pattern, name))
}

/// Refuses patterns that name nothing.
fn check_patterns<'a>(
    setting: &str,
    patterns: &[String],
    names: impl Iterator<Item = &'a String> + Clone,
) -> Result<()> {
    let is_unmatched = |pattern: &&String| !names.clone().any(|name| path_matches(pattern, name));
    match patterns.iter().find(is_unmatched) {
        None => Ok(()),
        Some(pattern) => Err(Error::setting(setting, pattern, "the pattern matches nothing")
            .fix(format!("there are {}; * stands for any characters", list_names(names)))),
    }
}

fn unmatched(name: &str, shape: &[usize], why: &str) -> UnmatchedTensor {
    UnmatchedTensor { name: name.to_owned(), shape: shape.to_vec(), cause: why.to_owned() }
}
