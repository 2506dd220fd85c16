//! What has to be known beside a grid's table.

use super::result::{CellResult, Inner};
use super::statistics;
use super::table::point;
use crate::Result;
use crate::data::Dataset;
use crate::privacy::{Accountant, Delta, Event, Headline, Spent};
use crate::show::format;
use crate::store::Store;
use crate::train::Charged;

/// What the private runs of a grid cost together, and with all else on record.
#[derive(Clone, Debug)]
pub(super) struct Together {
    pub(super) delta: Delta,
    /// Private runs of this grid; cells may share one.
    pub(super) own: usize,
    pub(super) spent: Result<Spent>,
    /// Other private runs that the data's ledger holds.
    pub(super) others: usize,
    /// What the ledger says of all of them.
    pub(super) all: Result<Spent>,
}

impl Together {
    /// Adds up what is charged for these runs, by the [`Headline`] accountant.
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
        let charges = account.as_ref().map_or(&[][..], |account| account.runs());
        for (name, event) in &mut events {
            let charge = charges.iter().find(|charge| Some(&charge.run) == name.as_ref());
            *event = charge.map_or(event.clone(), |charge| charge.event.clone());
        }
        let own: Vec<Event> = events.into_iter().map(|(_, event)| event).collect();
        let private = account.as_ref().map_or(0, |a| a.runs().len() - a.without_privacy());
        let spent = Headline::default().epsilon(&own, delta);
        let all = match &account {
            Some(account) if private > own.len() => account.private_total(delta),
            _ => spent.clone(),
        };
        Ok(Self { delta, own: own.len(), spent, others: private.saturating_sub(own.len()), all })
    }
}

/// The lines under the table.
pub(super) fn notes(result: &Inner) -> Vec<String> {
    let mut notes = vec![accuracies(result)];
    notes.extend(together(result));
    notes.extend(uncovered(result));
    notes.push(noise(result));
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
    let Together { delta, own, others, .. } = &result.together;
    if *own == 0 {
        return Vec::new();
    }
    let epsilon = |spent: &Result<Spent>| match spent {
        Ok(spent) => {
            format!(
                "epsilon {} at delta {delta} ({})",
                format::eps(spent.epsilon),
                spent.accountant
            )
        }
        Err(error) => format!("what no accountant can say ({error})"),
    };
    let mut cost = match own {
        1 => format!("Private runs: 1 on {}. It costs ", result.data),
        _ => format!("Private runs: {own} on {}. Together they cost ", result.data),
    };
    cost.push_str(&epsilon(&result.together.spent));
    cost.push_str(", added up from the ledger; no cell's own epsilon is that.");
    if *others > 0 {
        cost.push_str(&format!(
            " With the {others} other private runs on record: {}.",
            epsilon(&result.together.all)
        ));
    }
    if *own == 1 {
        return vec![cost];
    }
    let choice = format!(
        "Choosing a cell by looking at the accuracies is not covered by that cell's epsilon. \
         Releasing only the best of these {own} runs, however it is chosen from them, costs at most \
         what all of them cost together (it is computed from their results). Smaller bounds are \
         proved if the number of runs is drawn at random (Papernot and Steinke, 2022, \
         arXiv:2110.03620); here it is fixed. And the best of many looks better than it is."
    );
    vec![cost, choice]
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

fn noise(result: &Inner) -> String {
    let accuracies: Vec<Vec<f64>> = result.cells.iter().map(CellResult::accuracies).collect();
    let Some((pooled, freedom)) = statistics::pooled_std(&accuracies) else {
        return "One seed says nothing about noise: use several before you compare cells.".into();
    };
    let points = |share: f64| format!("{} points", format::significant(100.0 * share, 2));
    let seeds = result.seeds;
    let mut text = format!(
        "Differences below {} are within seed noise: 2 x pooled standard deviation x sqrt(2 / {seeds} \
         seeds), about two standard errors of a difference of two cells. The pooled deviation, {}, \
         has {freedom} degrees of freedom.",
        points(statistics::threshold(pooled, seeds)),
        points(pooled),
    );
    if seeds < 5 {
        text.push_str(" With so few seeds this is rough.");
    }
    if accuracies.len() > 2 {
        text.push_str(" Among many cells some differ by more by chance alone.");
    }
    text
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
