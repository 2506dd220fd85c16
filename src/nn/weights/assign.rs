//! Which tensor of a file belongs to which parameter of a model.

use std::collections::{BTreeMap, HashMap};

use super::attempt::{Attempt, some};
use super::place::{Place, places};
use super::report::{Matched, Unmatched, WeightReport};
use super::source::{Entry, Number, Source};
use crate::nn::{Model, path_matches};
use crate::{Error, Result};

/// Why a tensor or a parameter has no counterpart.
const NEW_HEAD: &str = "new head";
const CHOSEN: &str = "as the layout says";
const OUTSIDE: &str = "outside of the layout's prefix";

/// The tensors that are read, each with its parameter, and what is left out.
pub(super) struct Assignment<'a> {
    pairs: Vec<(Place, &'a Entry)>,
    left: BTreeMap<&'a str, &'static str>,
    kept: Vec<Unmatched>,
}

impl<'a> Assignment<'a> {
    /// Assigns tensors by name and compares shapes. No values are read.
    pub(super) fn new(attempt: Attempt, source: &'a Source) -> Result<Self> {
        let Attempt { model, layout, .. } = attempt;
        attempt.refuse_batch_norm(source)?;
        let places = all_places(model);
        check_patterns("keep_initial", &layout.kept, places.iter().map(|p| &p.path))?;
        check_patterns("leave_in_file", &layout.left, source.entries.keys())?;
        let head = places.len() - model.network().head_tensors();
        let (mut left, mut pairs) = (BTreeMap::new(), Vec::new());
        let (mut kept, mut missing) = (Vec::new(), Vec::new());
        for (index, place) in places.into_iter().enumerate() {
            let name = layout.name_of(&place);
            let entry = name.as_ref().and_then(|name| source.entries.get(name));
            let why = if index >= head && layout.new_head {
                Some(NEW_HEAD)
            } else {
                is_named(&layout.kept, &place.path).then_some(CHOSEN)
            };
            match (why, entry) {
                (Some(why), _) => {
                    left.extend(entry.map(|entry| (entry.name.as_str(), why)));
                    kept.push(unmatched(&place.path, &place.shape, why));
                }
                (None, Some(entry)) => {
                    if let Number::Other(_) = entry.number {
                        return Err(attempt.no_floats(&place, entry));
                    }
                    if !layout.axes.fits(&place, &entry.shape) {
                        return Err(attempt.shape(&place, entry, index >= head));
                    }
                    pairs.push((place, entry));
                }
                (None, None) => missing.push((place, name)),
            }
        }
        if !missing.is_empty() {
            return Err(attempt.missing(source, &missing));
        }
        let mut assignment = Self { pairs, left, kept };
        assignment.leave_others(attempt, source)?;
        Ok(assignment)
    }

    /// Leaves the tensors without a parameter in the file.
    fn leave_others(&mut self, attempt: Attempt, source: &'a Source) -> Result<()> {
        let layout = attempt.layout;
        let mut owners: HashMap<&str, &str> = HashMap::new();
        for (place, entry) in &self.pairs {
            if let Some(other) = owners.insert(&entry.name, &place.path) {
                return Err(attempt.shared(entry, [other, &place.path]));
            }
        }
        let mut superfluous = Vec::new();
        for name in source.entries.keys().filter(|name| !owners.contains_key(name.as_str())) {
            if self.left.contains_key(name.as_str()) {
                continue;
            }
            let why = if !name.starts_with(&layout.prefix) {
                OUTSIDE
            } else if is_named(&layout.left, name) {
                CHOSEN
            } else {
                superfluous.push(name);
                continue;
            };
            self.left.insert(name, why);
        }
        if superfluous.is_empty() { Ok(()) } else { Err(attempt.superfluous(&superfluous)) }
    }

    /// Reads the tensors: the values of the parameters by path, in the model's order of axes.
    pub(super) fn values(&self, attempt: Attempt) -> Result<HashMap<String, Vec<f32>>> {
        let read = |(place, entry): &(Place, &Entry)| {
            let values = entry.values().map_err(|e| attempt.unreadable(entry, &e))?;
            match values.iter().position(|value| !value.is_finite()) {
                None => Ok((place.path.clone(), attempt.layout.axes.turned(place, values))),
                Some(at) => Err(attempt.not_finite(entry, at, values[at])),
            }
        };
        self.pairs.iter().map(read).collect()
    }

    pub(super) fn report(self, attempt: Attempt, source: &Source) -> WeightReport {
        let Attempt { model, layout, path } = attempt;
        let matched = self.pairs.into_iter().map(|(place, entry)| Matched {
            path: place.path,
            name: entry.shown(),
            shape: entry.shape.clone(),
            number: entry.number.name().to_owned(),
        });
        let left = self.left.into_iter().filter_map(|(name, why)| {
            source.entries.get(name).map(|entry| unmatched(&entry.shown(), &entry.shape, why))
        });
        WeightReport {
            heading: format!(
                "{} from {} ({}, {layout})",
                model.name(),
                path.display(),
                source.format
            ),
            matched: matched.collect(),
            left: left.collect(),
            kept: self.kept,
        }
    }
}

/// The places of a network's parameters; for a user-defined module, only their paths.
fn all_places(model: &Model) -> Vec<Place> {
    if !model.is_user_module() {
        return places(model.network().specs());
    }
    let parameters = model.network().parameters().into_iter();
    parameters.map(|parameter| Place::of_path(parameter.path, parameter.shape)).collect()
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
    let nothing = |pattern: &&String| !names.clone().any(|name| path_matches(pattern, name));
    match patterns.iter().find(nothing) {
        None => Ok(()),
        Some(pattern) => Err(Error::setting(setting, pattern, "it names nothing")
            .fix(format!("there are {}; * stands for any characters", some(names)))),
    }
}

fn unmatched(name: &str, shape: &[usize], why: &str) -> Unmatched {
    Unmatched { name: name.to_owned(), shape: shape.to_vec(), why: why.to_owned() }
}
