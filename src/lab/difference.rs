//! Differences between two runs.

use serde_json::Value;

use crate::lab::record_tables::describe_ending;
use crate::show::{Table, format, run_coverage};
use crate::train::Run;

/// Longest value in a cell.
const MAX_VALUE_LEN: usize = 60;
/// Keys of a plan that are computed from private data, or repeat another key.
const HIDDEN: [&str; 6] = ["hash", "data_hash", "sha256", "origin", "id", "run"];

impl Run {
    /// Returns the settings and results in which this run and another differ, as a table: a row
    /// for each, with the values of this run and of the other. Without a difference it has no
    /// rows.
    ///
    /// ```no_run
    /// # use epsilab::prelude::*;
    /// # fn compare(first: &Run, second: &Run) -> Result<()> {
    /// first.difference(second).show();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Guarantee
    /// That of the two runs; accuracies are computed on their test parts.
    pub fn difference(&self, other: &Self) -> Table {
        let (mut this_run, mut other_run) = (values(self), values(other));
        let mut names: Vec<String> = this_run.iter().map(|(name, _)| name.clone()).collect();
        for (name, _) in &other_run {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let mut take = |name: &str| {
            let take_value = |entries: &mut Vec<(String, String)>| {
                let at = entries.iter().position(|(key, _)| key == name);
                at.map_or("-".to_owned(), |at| entries.swap_remove(at).1)
            };
            (take_value(&mut this_run), take_value(&mut other_run))
        };
        let rows = names.iter().map(|name| (name, take(name)));
        let rows = rows.filter(|(_, (this_run, other_run))| this_run != other_run);
        let rows = rows.map(|(name, (this_run, other_run))| [name.clone(), this_run, other_run]);
        let table = Table::new(["", "this run", "other run"]).rows(rows);
        let table = table.coverage(run_coverage(self.record()).max(run_coverage(other.record())));
        if table.is_empty() {
            table.caption("The settings and results of these runs are equal.")
        } else {
            table
        }
    }
}

/// Returns settings and results by name.
fn values(run: &Run) -> Vec<(String, String)> {
    let record = run.record();
    let mut all = vec![("data".to_owned(), record.data.clone())];
    let plan = serde_json::to_value(&record.plan).unwrap_or_default();
    flatten("", &plan, &mut all);
    let epsilon = |epsilon: Option<f64>| epsilon.map_or("none".into(), format::eps);
    // The plan has the fingerprint of a mask only.
    let mask = run.mask().map_or("none".to_owned(), |mask| mask.origin().method.clone());
    let results = [
        ("mask", mask),
        ("steps taken", format::format_count(record.steps)),
        ("ending", describe_ending(record.ending).to_owned()),
        ("test accuracy", record.test_accuracy.map_or("-".into(), format_percent)),
        ("epsilon spent", epsilon(record.epsilon)),
        ("training time", record.publishable_seconds().map_or("secret".into(), format::seconds)),
        ("device", record.device.clone()),
        ("guarantee", run.badge().to_string()),
    ];
    all.extend(results.map(|(name, value)| (name.to_owned(), value)));
    all
}

/// Formats a fraction in percent with two digits, because differences between runs are small.
fn format_percent(share: f64) -> String {
    format!("{} %", format::fixed(100.0 * share, 2))
}

/// Collects the values of a JSON object by the path to them. Of two values with the same name,
/// which a plan has beside its settings, the first is kept.
fn flatten(path: &str, value: &Value, into: &mut Vec<(String, String)>) {
    let Value::Object(members) = value else {
        if !path.is_empty() && !into.iter().any(|(name, _)| name == path) {
            into.push((path.to_owned(), short(value)));
        }
        return;
    };
    // Plain values come before groups of them.
    let (groups, plain): (Vec<_>, Vec<_>) =
        members.iter().partition(|(_, value)| value.is_object());
    for (key, value) in plain.into_iter().chain(groups) {
        if HIDDEN.contains(&key.as_str()) || value.is_null() {
            continue;
        }
        let key = key.replace('_', " ");
        let path = match (path, key.as_str()) {
            ("", "settings" | "privacy") => String::new(),
            ("", key) => key.to_owned(),
            (path, "kind") => path.to_owned(),
            (path, key) => format!("{path}: {key}"),
        };
        flatten(&path, value, into);
    }
}

/// Formats a value as one short line.
fn short(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.chars().count() > MAX_VALUE_LEN {
        text.chars().take(MAX_VALUE_LEN - 1).chain(['…']).collect()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data;
    use crate::methods::DpSgd;
    use crate::nn::models;
    use crate::privacy::{Delta, Epsilon};
    use crate::show::Coverage;
    use crate::store::open_ledger;
    use crate::train::{NoopObserver, fit};

    #[test]
    fn only_what_differs_is_in_the_table() {
        let data = data::glyphs_with(200, 40, 95).unwrap();
        let model = models::linear(&data).seed(1).build().unwrap();
        let run = |rate: f64, steps: u64| {
            let method = DpSgd::new().target(Epsilon(3.0), Delta(1e-4)).batch_size(40);
            let plan = method.learning_rate(rate).steps(steps).seed(1).plan(&data).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let ledger = open_ledger(&folder.path().join(format!("{}.jsonl", data.origin())));
            fit("secret-id", &plan, &model, &data, &ledger.unwrap(), &mut NoopObserver).unwrap()
        };
        let (one, other) = (run(0.5, 2), run(0.25, 3));
        let table = one.difference(&other);
        let csv = table.csv();
        for line in ["learning rate,0.5,0.25\n", "steps,2,3\n", "steps taken,2,3\n"] {
            assert!(csv.contains(line), "{line}: {csv}");
        }
        assert_eq!(csv.matches("learning rate").count(), 1, "{csv}");
        assert!(csv.contains("noise multiplier,"), "{csv}");
        for equal in ["delta", "method", "batch", "device", "seed", "data,"] {
            assert!(!csv.contains(equal), "{equal}: {csv}");
        }
        for hidden in ["secret-id", data.hash()] {
            assert!(!csv.contains(hidden), "{csv}");
        }
        assert_eq!(table.bundle().coverage, Coverage::Public);
        assert!(one.difference(&one).is_empty());
        assert!(one.difference(&one).text().contains("are equal"));
    }

    #[test]
    fn groups_are_named_by_their_path() {
        let value = serde_json::json!({
            "a": 1, "privacy": {"clip": {"kind": "flat", "max_norm": 0.5}}, "settings": {"a": 2},
            "hash": "x", "b": null, "list": [1, 2]
        });
        let mut all = Vec::new();
        flatten("", &value, &mut all);
        let expected = [("a", "1"), ("list", "[1,2]"), ("clip", "flat"), ("clip: max norm", "0.5")];
        assert_eq!(all, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
