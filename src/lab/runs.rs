//! The list of a project's runs.

use std::cmp::Ordering;
use std::fmt;

use crate::data::Dataset;
use crate::methods::Plan;
use crate::nn::Model;
use crate::show::figures::RunPoint;
use crate::show::{Coverage, MimeBundle, Table, format};
use crate::store::{RunState, RunStore, RunSummary, home, run_id};
use crate::train::{CheckpointHeader, Run, RunRecord};
use crate::{Error, ErrorKind, Result};

/// Runs of this project, the newest first: stored ones, and those that can resume from a
/// checkpoint.
///
/// ```no_run
/// # use epsilab::prelude::*;
/// # fn look(model: &Model, data: &Dataset) -> Result<()> {
/// let runs = lab::runs()?.sorted_by("accuracy")?;
/// runs.table().save("runs.csv")?;              // or .json, for pandas and polars
/// let run = runs.open(0, model, data)?;        // the first row
/// let record = runs.record("3f09")?;           // the run whose name begins like this
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RunList(Vec<RunSummary>);

/// Lists the runs of this project.
///
/// # Errors
/// `Io` if its folders can't be listed. A run that can't be read is in the list.
pub fn runs() -> Result<RunList> {
    RunStore::open(home())?.list_runs().map(RunList)
}

/// Returns the header of the checkpoint of the run whose name begins with `name`.
///
/// # Errors
/// `MissingData` if there is none, or more than one; `CorruptData` if it can't be read.
pub fn checkpoint(name: &str) -> Result<CheckpointHeader> {
    RunStore::open(home())?.checkpoint_header(name)
}

/// Checks that training `plan` would resume the run `id`, and not train another one.
///
/// # Errors
/// `CorruptData` if it is another run: the data, or a file that the plan or the model was read
/// from, have changed since the run was begun.
#[doc(hidden)]
pub fn check_resumes_same_run(id: &str, plan: &Plan, model: &Model, data: &Dataset) -> Result<()> {
    if run_id(plan, model, data)? == id {
        return Ok(());
    }
    let what = format!("cannot resume the run {id}");
    let why = "the data or a file that its command reads have changed, so another run would be \
               trained and charged";
    Err(Error::new(ErrorKind::CorruptData, what, why)
        .fix("restore the file; or run the command itself, which trains the other run"))
}

/// Removes the checkpoint of the run whose name begins with `name`, and returns that name. The run
/// can't be resumed then; what the ledger charges for it stays.
///
/// # Errors
/// `MissingData` if there is none, or more than one; `Io` if another process trains the run, or the
/// file can't be removed.
pub fn remove_checkpoint(name: &str) -> Result<String> {
    RunStore::open(home())?.remove_checkpoint(name)
}

/// Removes the stored run whose name begins with `name`, with its model and figures, and returns
/// that name. What the ledger charges for it stays, so training it again is charged again.
///
/// # Errors
/// `MissingData` if there is none, or more than one; `Io` if it can't be removed.
pub fn remove_run(name: &str) -> Result<String> {
    RunStore::open(home())?.remove_run(name)
}

/// Selector of a run of the list: its row from 0, the beginning of its name, or its label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunSelector {
    /// Row of the run, from 0.
    Row(usize),
    /// Beginning of the name, or the label.
    Name(String),
}

impl From<usize> for RunSelector {
    fn from(row: usize) -> Self {
        Self::Row(row)
    }
}

impl From<&str> for RunSelector {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl From<&String> for RunSelector {
    fn from(name: &String) -> Self {
        Self::Name(name.clone())
    }
}

/// The columns of the table.
const COLUMNS: [&str; 8] =
    ["run", "state", "method", "data", "steps", "epsilon", "accuracy", "UTC"];

impl RunList {
    /// Returns the runs.
    pub fn all(&self) -> &[RunSummary] {
        &self.0
    }

    /// Returns the number of runs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no runs.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the list as a table, which [`Table::save`] writes as CSV or JSON.
    ///
    /// # Guarantee
    /// That of each run, and its coverage is not stated: the list does not know which data are
    /// public, and which runs have a published seed.
    pub fn table(&self) -> Table {
        Table::new(COLUMNS).rows(self.0.iter().map(cells))
    }

    /// Returns the list sorted by a column of the table: the highest accuracy first, the latest
    /// time first, and everything else in ascending order. Runs without a value come last, and
    /// equal ones keep their order.
    ///
    /// # Errors
    /// `Setting` if the table has no such column.
    pub fn sorted_by(&self, column: &str) -> Result<Self> {
        let mut all = self.0.clone();
        match column {
            "run" => all.sort_by(|a, b| a.id.cmp(&b.id)),
            "state" => all.sort_by_key(|run| run.state as u8),
            "method" => all.sort_by(|a, b| a.method.cmp(&b.method)),
            "data" => all.sort_by(|a, b| a.data.cmp(&b.data)),
            "steps" => all.sort_by_key(|run| run.steps),
            "epsilon" => all.sort_by(|a, b| missing_last(a.epsilon, b.epsilon, f64::total_cmp)),
            "accuracy" => all.sort_by(|a, b| {
                missing_last(a.accuracy, b.accuracy, |a: &f64, b: &f64| b.total_cmp(a))
            }),
            "UTC" => {
                all.sort_by(|a, b| missing_last(a.at.as_ref(), b.at.as_ref(), |a, b| b.cmp(a)))
            }
            _ => {
                let why = format!("the columns are {}", COLUMNS.join(", "));
                return Err(Error::setting("column", column, why).fix("for instance \"accuracy\""));
            }
        }
        Ok(Self(all))
    }

    /// Returns the run in a row of this list, from 0, or the one with this label or whose name
    /// begins like this.
    ///
    /// # Errors
    /// `MissingData` if there is none, or more than one.
    pub fn get(&self, run: impl Into<RunSelector>) -> Result<&RunSummary> {
        let (what, found) = match run.into() {
            RunSelector::Row(row) => (format!("row {row}"), Vec::from_iter(self.0.get(row))),
            RunSelector::Name(name) => {
                let starts = |run: &&RunSummary| run.id.starts_with(&name) || run.label == name;
                let mut found: Vec<_> =
                    self.0.iter().filter(|run| !name.is_empty() && starts(run)).collect();
                if let Some(exact) = found.iter().position(|run| run.id == name) {
                    found = vec![found[exact]];
                }
                (format!("run {name}"), found)
            }
        };
        let why = match found[..] {
            [only] => return Ok(only),
            [] => {
                let all = format::pluralise(self.len(), "run");
                format!("none of the {all} in the list matches")
            }
            [..] => format!("the names of {} runs begin with this text", found.len()),
        };
        Err(Error::new(ErrorKind::MissingData, what, why)
            .fix("give a row counted from 0, or more characters of a name; lab::runs() lists both"))
    }

    /// Returns everything about a stored run except its weights: settings, measurements, results.
    ///
    /// # Errors
    /// `MissingData` if no run or more than one matches, or the run is not stored; `CorruptData` if
    /// its record can't be read.
    pub fn record(&self, run: impl Into<RunSelector>) -> Result<RunRecord> {
        RunStore::open(home())?.find_record(&self.get(run)?.id)
    }

    /// Opens a finished run of this list, read from the store. `model` is the one that its
    /// training started from, and `data` the data that it was trained on: they say what its
    /// parameters depend on.
    ///
    /// # Errors
    /// `MissingData` if no finished run or more than one matches; `CorruptData` if it can't be
    /// read; `Setting` for other data; `Ledger` if the ledger of the data does not charge it.
    pub fn open(&self, run: impl Into<RunSelector>, model: &Model, data: &Dataset) -> Result<Run> {
        open_in(&RunStore::open(home())?, self.get(run)?, model, data)
    }

    /// Returns accuracy and epsilon of each finished run on one data set, for
    /// [`figures::pareto`](crate::show::figures::pareto). Runs without an accuracy are left out.
    pub fn points(&self, data: &str) -> Vec<RunPoint> {
        let of_data = self.0.iter().filter(|run| run.data == data);
        of_data.filter(|run| run.state == RunState::Finished).filter_map(point).collect()
    }

    /// Returns the list for a notebook.
    pub fn bundle(&self) -> MimeBundle {
        if self.0.is_empty() { MimeBundle::prose(NONE) } else { self.table().bundle() }
    }

    /// Shows the list in a notebook.
    pub fn show(&self) {
        crate::show::display(&self.bundle());
    }
}

fn open_in(store: &RunStore, run: &RunSummary, model: &Model, data: &Dataset) -> Result<Run> {
    let record = store.find_record(&run.id)?;
    if record.data_hash != data.hash() {
        let why = format!("the run was trained on {}, and these data differ", record.data);
        return Err(Error::setting("data", data.name(), why)
            .fix("read the data as for the training of the run, with the same split and limit"));
    }
    store.load_charged_run(&run.id, model, data)?.ok_or_else(|| {
        let what = format!("run {}", run.id);
        Error::new(ErrorKind::MissingData, what, "the run ended before its last step")
            .fix("train it again with the same call: it resumes from a checkpoint if there is one")
    })
}

fn point(run: &RunSummary) -> Option<RunPoint> {
    Some(RunPoint {
        series: run.method.clone(),
        epsilon: run.epsilon,
        target: None,
        accuracy: run.accuracy?,
        tooltip: format!("run {}, {}", run.id, format::pluralise(run.steps, "step")),
        coverage: Coverage::Unmarked,
    })
}

/// Returns the order of two values by `order`; missing ones are last.
fn missing_last<T>(a: Option<T>, b: Option<T>, order: impl Fn(&T, &T) -> Ordering) -> Ordering {
    match (&a, &b) {
        (Some(a), Some(b)) => order(a, b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}

const NONE: &str = "This project has no runs yet.";

fn cells(run: &RunSummary) -> [String; 8] {
    let state = match run.state {
        RunState::Finished => "finished",
        RunState::EndedEarly => "ended early",
        RunState::Checkpoint => "checkpoint",
        RunState::Damaged => "can't be read",
    };
    let steps = match run.state {
        RunState::Damaged => run.why.clone().unwrap_or_default(),
        RunState::Finished => format::format_count(run.steps),
        _ => format!(
            "{} of {}",
            format::format_count(run.steps),
            format::format_count(run.planned_steps)
        ),
    };
    [
        run.id.clone(),
        state.into(),
        run.method.clone(),
        run.data.clone(),
        steps,
        run.epsilon.map(format::eps).unwrap_or_default(),
        run.accuracy.map(|a| format!("{:.2} %", 100.0 * a)).unwrap_or_default(),
        run.at.clone().unwrap_or_default(),
    ]
}

impl fmt::Display for RunList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str(NONE) } else { f.write_str(&self.table().text()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data;
    use crate::methods::NonPrivate;
    use crate::nn::models;
    use crate::runs::train_as;
    use crate::train::NoopObserver;

    fn summary(id: &str, epsilon: Option<f64>, accuracy: Option<f64>) -> RunSummary {
        RunSummary {
            id: id.into(),
            label: format!("label-of-{id}"),
            state: RunState::Finished,
            method: "DP-SGD".into(),
            data: "glyphs".into(),
            steps: 3,
            planned_steps: 3,
            epsilon,
            accuracy,
            at: None,
            command: Vec::new(),
            why: None,
        }
    }

    #[test]
    fn runs_are_sorted_by_any_column_and_missing_values_come_last() {
        let runs = RunList(vec![
            summary("ab", None, Some(0.5)),
            summary("ac", Some(3.0), None),
            summary("b", Some(1.0), Some(0.9)),
        ]);
        let sorted = |column: &str| -> Vec<String> {
            runs.sorted_by(column).unwrap().0.into_iter().map(|run| run.id).collect()
        };
        assert_eq!(sorted("accuracy"), ["b", "ab", "ac"]);
        assert_eq!(sorted("epsilon"), ["b", "ac", "ab"]);
        COLUMNS.map(sorted).iter().for_each(|all| assert_eq!(all.len(), 3));
        assert!(runs.sorted_by("loss").unwrap_err().to_string().contains("epsilon, accuracy"));
        assert_eq!(runs.table().bundle().coverage, Coverage::Unmarked);
        assert!(runs.table().csv().contains("b,finished,DP-SGD,glyphs,3,1,90.00,"));
        let points = runs.points("glyphs");
        assert_eq!(points.iter().map(|p| p.accuracy).collect::<Vec<_>>(), [0.5, 0.9]);
        assert!(runs.points("MNIST").is_empty());
    }

    #[test]
    fn runs_are_found_by_row_and_by_the_beginning_of_their_names() {
        let runs = RunList(["ab", "abc", "b"].map(|id| summary(id, None, None)).to_vec());
        let id = |name: &str| runs.get(name).map(|run| run.id.clone());
        assert_eq!((id("b").unwrap(), id("abc").unwrap()), ("b".into(), "abc".into()));
        assert_eq!(id("ab").unwrap(), "ab", "the whole name");
        assert_eq!(runs.get(1).unwrap().id, "abc");
        assert_eq!(runs.get("label-of-abc").unwrap().id, "abc");
        assert!(runs.get("label-of").is_err(), "a label has no abbreviation");
        for error in [id("a").unwrap_err(), id("").unwrap_err(), id("x").unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::MissingData);
        }
        assert!(runs.get(3).is_err());
    }

    #[test]
    fn a_stored_run_is_opened_with_its_data_and_no_others() -> Result<()> {
        let data = data::glyphs_with(40, 10, 86)?;
        let model = models::linear(&data).seed(1).build()?;
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(folder.path().to_path_buf()).unwrap();
        let plan = NonPrivate::new().batch_size(10).steps(2).seed(1).plan(&data)?;
        let run = train_as(&store, "opened", &plan, &model, &data, &mut NoopObserver)?;
        let runs = RunList(store.list_runs()?);
        let opened = open_in(&store, runs.get("ope")?, &model, &data)?;
        assert!(opened.is_restored() && opened.accuracy() == run.accuracy());
        assert_eq!(opened.model().provenance(), run.model().provenance());
        let error = open_in(&store, runs.get(0)?, &model, &data::glyphs_with(40, 10, 87)?);
        assert!(error.unwrap_err().to_string().contains("these data differ"));
        assert_eq!(store.find_record("opened")?.steps, 2);
        Ok(())
    }
}
