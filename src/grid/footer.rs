//! What has to be known beside a grid's table.

use std::sync::OnceLock;

use super::noise;
use super::result::Inner;
use super::table::point;
use crate::Result;
use crate::data::Dataset;
use crate::privacy::{Accountant, Delta, Event, Headline, Spent, ledger::Account};
use crate::show::format;
use crate::store::Store;
use crate::train::Charged;

/// What the private runs of a grid cost together, and with all else on record.
///
/// Adding up hundreds of runs takes an accountant a while, so that is done when it is asked for.
#[derive(Clone, Debug)]
pub(super) struct Together {
    pub(super) delta: Delta,
    /// What is charged for each private run of this grid; cells may share one.
    pub(super) own: Vec<Event>,
    pub(super) spent: OnceLock<Result<Spent>>,
    /// Other private runs that the data's ledger holds.
    pub(super) others: usize,
    /// The ledger's account of all of them, as it was when the grid ended.
    pub(super) account: Account,
    pub(super) all: OnceLock<Result<Spent>>,
}

impl Together {
    /// Collects what is charged for these runs, for the [`Headline`] accountant to add up.
    ///
    /// # Guarantee
    /// Neighbours: one training example added or removed. All settings were fixed before the first
    /// run, so plain composition holds. What a run is charged is read from the ledger; a run that
    /// says nothing of its place there counts as its whole plan.
    pub(super) fn of(
        store: &Store,
        data: &Dataset,
        runs: Vec<(Option<Charged>, Event)>,
        delta: Option<Delta>,
    ) -> Result<Self> {
        let delta = delta.unwrap_or(Delta(1e-5));
        let mut events: Vec<(Option<String>, Event)> = Vec::new();
        for (charged, event) in runs {
            let name = charged.map(|charged| charged.run);
            if name.is_none() || events.iter().all(|(known, _)| *known != name) {
                events.push((name, event));
            }
        }
        let account = store.known_ledger(data)?.map(|ledger| ledger.account()).transpose()?;
        let account = account.unwrap_or_default();
        for (name, event) in &mut events {
            let charge = account.runs().iter().find(|charge| Some(&charge.run) == name.as_ref());
            *event = charge.map_or(event.clone(), |charge| charge.event.clone());
        }
        let own: Vec<Event> = events.into_iter().map(|(_, event)| event).collect();
        let private = account.runs().len() - account.without_privacy();
        let others = private.saturating_sub(own.len());
        let (spent, all) = (OnceLock::new(), OnceLock::new());
        Ok(Self { delta, own, spent, others, account, all })
    }

    /// What the grid's own private runs cost.
    fn spent(&self) -> &Result<Spent> {
        self.spent.get_or_init(|| Headline::default().epsilon(&self.own, self.delta))
    }

    /// What all private runs on record cost.
    fn all(&self) -> &Result<Spent> {
        self.all.get_or_init(|| self.account.private_total(self.delta))
    }

    /// A cost in words.
    fn words(&self, spent: &Result<Spent>) -> String {
        match spent {
            Ok(spent) => {
                let (epsilon, delta) = (format::eps(spent.epsilon), self.delta);
                format!("epsilon {epsilon} at delta {delta} ({})", spent.accountant)
            }
            Err(error) => format!("what no accountant can say ({error})"),
        }
    }
}

/// The lines under the table.
pub(super) fn notes(result: &Inner) -> Vec<String> {
    let mut notes = vec![accuracies(result)];
    notes.extend(together(result));
    notes.extend(uncovered(result));
    notes.extend(noise::notes(result));
    notes.extend(missing(result));
    notes
}

fn accuracies(result: &Inner) -> String {
    let mut text = match result.test_examples {
        0 => "These data have no test part, so there is no accuracy".to_owned(),
        n => format!("Accuracy: on the {} test examples", format::count(n)),
    };
    match result.seeds {
        1 => text.push_str(", one seed (0)."),
        n => text.push_str(&format!(
            ", mean and sample standard deviation over {n} seeds (0 to {}).",
            n - 1
        )),
    }
    text.push_str(
        " Study mode: against a reader who knows these seeds the noise protects nothing. Train what \
         you publish without a seed, and count it too.",
    );
    text
}

/// What the private runs cost, and what choosing one of them does.
fn together(result: &Inner) -> Vec<String> {
    let together = &result.together;
    let own = together.own.len();
    let data = &result.data;
    if own == 0 {
        return Vec::new();
    }
    let costs = together.words(together.spent());
    if own == 1 {
        return vec![format!("Private runs: 1 on {data}. It costs {costs}, as the ledger says.")];
    }
    let cost = format!(
        "Private runs: {own} on {data}. Together they cost {costs}, added up from the ledger; no \
         cell's own epsilon is that."
    );
    let choice = format!(
        "Choosing a cell by looking at the accuracies is not covered by that cell's epsilon. \
         Releasing only the best of these {own} runs, however it is chosen from them, costs at most \
         what all of them cost together (it is computed from their results). Smaller bounds are \
         proved if the number of runs is drawn at random (Papernot and Steinke, 2022, \
         arXiv:2110.03620); here it is fixed. And the best of many looks better than it is."
    );
    vec![cost, choice]
}

/// What everything private on record costs, if there is more than this grid. Not a note: it changes
/// with every run that is made elsewhere, and the same grid again is to say the same.
pub(super) fn on_record(result: &Inner) -> Option<String> {
    let together = &result.together;
    let others = match together.others {
        0 => return None,
        1 => "the 1 other private run".to_owned(),
        n => format!("the {n} other private runs"),
    };
    let costs = together.words(together.all());
    let data = &result.data;
    Some(format!(
        "With {others} on record for {data} (of other grids, or attempts that were stopped): {costs}."
    ))
}

fn uncovered(result: &Inner) -> Option<String> {
    let open: usize =
        result.cells.iter().flat_map(|cell| &cell.runs).filter(|run| run.epsilon.is_none()).count();
    (open > 0).then(|| {
        format!(
            "No epsilon covers {open} of the runs: they were trained without privacy or with a mask \
             made from private examples without noise."
        )
    })
}

fn missing(result: &Inner) -> Vec<String> {
    let mut lines = Vec::new();
    for cell in &result.cells {
        for error in &cell.errors {
            lines.push(format!("Not made ({}): {}", point(cell), error.replace('\n', " ")));
        }
    }
    if result.interrupted {
        let done: usize = result.cells.iter().map(|cell| cell.runs.len()).sum();
        lines.push(format!(
            "Stopped after {done} of {} runs, which are kept. Run the same grid again to go on: \
             finished runs are not trained again.",
            result.all
        ));
    }
    lines
}
