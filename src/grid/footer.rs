//! The notes below the table of a grid.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::redaction::redact_hashes;
use super::result::Inner;
use super::seed_noise;
use super::table::describe_cell;
use crate::data::Dataset;
use crate::privacy::digits::{format_count, pluralise};
use crate::privacy::ledger::{ChargeRecord, LedgerState};
use crate::privacy::{
    Accountant, Delta, Event, NeighbouringRelation, PrivacyCost, TightestAccountant, Trials,
};
use crate::show::format;
use crate::store::RunStore;
use crate::train::{LedgerEntryRef, run_id_of_attempt};
use crate::{Result, privacy};

/// A private run of a grid.
#[derive(Clone, Debug)]
pub(super) struct PrivateRun {
    /// Id of the run in the run store.
    pub(super) id: String,
    /// Event of the whole plan of the run.
    pub(super) plan: Event,
    /// Ledger entry of the run, if it is finished.
    pub(super) finished: Option<LedgerEntryRef>,
}

/// The cost of the private runs of a grid, alone and with all other runs on record.
///
/// Composing hundreds of runs takes a while, so it is done on first use.
#[derive(Clone, Debug)]
pub(super) struct GridPrivacyCost {
    pub(super) delta: Delta,
    /// Number of finished private runs; cases may share one.
    pub(super) runs: usize,
    /// Charge of each attempt at a private run of this grid, finished or not.
    pub(super) own_charges: Vec<Event>,
    /// Relation for which the guarantee of one of the runs is stated, where the event has a weaker
    /// one.
    pub(super) stated: Option<NeighbouringRelation>,
    /// Number of attempts that were never closed and are charged for their whole plan.
    pub(super) open_attempts: usize,
    pub(super) own_cost: OnceLock<privacy::Result<PrivacyCost>>,
    /// Number of other private runs in the ledger of the data.
    pub(super) other_runs: usize,
    /// State of the ledger when the grid ended.
    pub(super) account: LedgerState,
    pub(super) total_cost: OnceLock<privacy::Result<PrivacyCost>>,
}

impl GridPrivacyCost {
    /// Collects the charges of these runs, for the [`TightestAccountant`].
    ///
    /// # Guarantee
    /// Neighbours: those of the charges, for most one training example added or removed. All
    /// settings are fixed before the first run, so non-adaptive composition holds. The charges are
    /// those of the ledger and include every attempt at a run: one that was killed, failed or
    /// stopped has made releases too. A finished run that is not in the ledger counts as its whole
    /// plan.
    pub(super) fn from_ledger(
        store: &RunStore,
        data: &Dataset,
        private_runs: &[PrivateRun],
        delta: Option<Delta>,
    ) -> Result<Self> {
        let account = store.existing_ledger(data)?.map(|ledger| ledger.state()).transpose()?;
        let account = account.unwrap_or_default();
        let private = || account.charges().iter().filter(|charge| charge.event.has_guarantee());
        let places: HashMap<&str, usize> =
            private_runs.iter().enumerate().map(|(at, run)| (run.id.as_str(), at)).collect();
        let index_of = |charge: &ChargeRecord| places.get(run_id_of_attempt(&charge.run)).copied();
        // In the order of the runs, whichever was begun first: sums are rounded in their order.
        let mut attempts: Vec<(usize, &ChargeRecord)> =
            private().filter_map(|charge| Some((index_of(charge)?, charge))).collect();
        attempts.sort_by_key(|(at, _)| *at);
        let attempts_of = |at: usize| {
            let start = attempts.partition_point(|(other, _)| *other < at);
            let end = attempts.partition_point(|(other, _)| *other <= at);
            &attempts[start..end]
        };
        let unknown = private_runs
            .iter()
            .enumerate()
            .filter(|(at, run)| !run.is_charged_by_any(attempts_of(*at)));
        let events = attempts.iter().map(|(_, charge)| charge.event.clone());
        let events: Vec<Event> = events.chain(unknown.map(|(_, run)| run.plan.clone())).collect();
        let open = |(at, charge): &&(usize, &ChargeRecord)| {
            !charge.closed && !private_runs[*at].is_charged_as(charge)
        };
        Ok(Self {
            delta: delta.unwrap_or(Delta(1e-5)),
            runs: private_runs.iter().filter(|run| run.finished.is_some()).count(),
            open_attempts: attempts.iter().filter(open).count(),
            own_charges: events,
            stated: attempts.iter().find_map(|(_, charge)| charge.neighbouring),
            own_cost: OnceLock::new(),
            other_runs: private().count() - attempts.len(),
            total_cost: OnceLock::new(),
            account,
        })
    }

    /// Returns the cost of the grid's own private runs.
    fn own_cost(&self) -> &privacy::Result<PrivacyCost> {
        self.own_cost.get_or_init(|| {
            self.accountant_for(&self.own_charges).epsilon(&self.own_charges, self.delta)
        })
    }

    fn accountant_for(&self, events: &[Event]) -> TightestAccountant {
        TightestAccountant::stated_for(self.stated, events)
    }

    /// Returns the cost of all private runs on record.
    fn total_cost(&self) -> &privacy::Result<PrivacyCost> {
        self.total_cost.get_or_init(|| self.account.private_total(self.delta))
    }

    /// Describes the other attempts: those that gave none of the runs of the grid.
    fn describe_other_attempts(&self) -> Option<String> {
        let attempts = match self.own_charges.len().saturating_sub(self.runs) {
            0 => return None,
            1 => "and 1 other attempt at them that stays charged".to_owned(),
            n => format!("and {n} other attempts at them that stay charged"),
        };
        Some(match self.open_attempts {
            0 => format!("{attempts} (stopped, failed or trained again)."),
            open => format!(
                "{attempts}; {open} of these did not report their steps (killed, or still running) \
                 and are charged for their whole plan."
            ),
        })
    }

    /// Returns the note on the cost of choosing one of several runs.
    fn selection_note(&self) -> String {
        let runs = self.runs;
        let private = match self.selected() {
            Some(spent) => format!(
                "A private selection (`grid.select`, Papernot and Steinke, 2022) would cost \
                 {}: runs with the same noise, whose number is drawn at random ({runs} on average) \
                 and of which only the best is shown.",
                self.format_cost(&Ok(spent))
            ),
            None => "A private selection (`grid.select`, Papernot and Steinke, 2022) of runs with \
                     equal cost, whose number is drawn at random, has a bound that hardly grows \
                     with their number."
                .to_owned(),
        };
        format!(
            "Choosing a case by its accuracy is not covered by the epsilon of that case. Releasing \
             only the best of these {runs} runs, however it is chosen from them, costs at most \
             what all of them cost together (the choice is computed from their results). {private} \
             The best of many measured accuracies also overstates the accuracy."
        )
    }

    /// Returns the cost of the best of as many runs on average, by the geometric law; `None` if
    /// the runs have different costs.
    fn selected(&self) -> Option<PrivacyCost> {
        let (first, others) = self.own_charges.split_first()?;
        let best = [first.best_of(Trials::geometric(self.runs as f64))];
        let same = others.iter().all(|event| event == first);
        same.then(|| self.accountant_for(&best).epsilon(&best, self.delta).ok()).flatten()
    }

    /// Describes a cost.
    fn format_cost(&self, spent: &privacy::Result<PrivacyCost>) -> String {
        match spent {
            Ok(spent) => {
                let (epsilon, delta) = (format::eps(spent.epsilon), self.delta);
                format!("epsilon {epsilon} at delta {delta} ({})", spent.accountant)
            }
            Err(error) => format!("an unknown epsilon ({error})"),
        }
    }
}

impl PrivateRun {
    /// Returns whether one of these attempts gave the run, or the run is not finished.
    fn is_charged_by_any(&self, attempts: &[(usize, &ChargeRecord)]) -> bool {
        self.finished.is_none() || attempts.iter().any(|(_, charge)| self.is_charged_as(charge))
    }

    fn is_charged_as(&self, charge: &ChargeRecord) -> bool {
        self.finished.as_ref().is_some_and(|charged| charged.run == charge.run)
    }
}

/// Returns the lines under the table.
pub(super) fn notes(result: &Inner) -> Vec<String> {
    let mut notes = vec![accuracies(result)];
    notes.extend(cost_notes(result));
    notes.extend(uncovered(result));
    notes.extend(seed_noise::notes(result));
    notes.extend(missing(result));
    notes
}

fn accuracies(result: &Inner) -> String {
    let mut text = match result.test_examples {
        0 => "These data have no test part, so there is no accuracy".to_owned(),
        n => format!("Accuracy: on {}", pluralise(n, "test example")),
    };
    match result.seeds {
        1 => text.push_str(", one seed (0)."),
        n => text.push_str(&format!(
            ", mean and sample standard deviation over {n} seeds (0 to {}).",
            n - 1
        )),
    }
    text.push_str(
        " Study mode: for a reader who knows these seeds the noise gives no privacy. Train the run \
         that you publish without a seed, and count its cost too.",
    );
    text
}

/// Returns the notes on the cost of the private runs and of choosing one of them.
fn cost_notes(result: &Inner) -> Vec<String> {
    let together = &result.privacy_cost;
    let data = &result.data;
    if together.own_charges.is_empty() {
        return Vec::new();
    }
    let costs = together.format_cost(together.own_cost());
    let earlier = together.describe_other_attempts();
    let runs = together.runs;
    let Some(earlier) = earlier else {
        if runs == 1 {
            return vec![format!(
                "Private runs: 1 on {data}. It costs {costs}, as the ledger says."
            )];
        }
        let cost = format!(
            "Private runs: {runs} on {data}. Together they cost {costs}, composed from the ledger; \
             the epsilon of a single case does not cover this."
        );
        return vec![cost, together.selection_note()];
    };
    let mut notes = vec![format!(
        "Private runs: {runs} on {data}, {earlier} Together they cost {costs}, composed from the \
         ledger; the epsilon of a single case does not cover this."
    )];
    notes.extend((runs > 1).then(|| together.selection_note()));
    notes
}

/// Returns the cost of all private runs on record, if there are others than those of this grid. It
/// is not one of the notes, because it changes with runs made elsewhere and the notes of a grid
/// must not.
pub(super) fn total_cost_note(result: &Inner) -> Option<String> {
    let together = &result.privacy_cost;
    let others = match together.other_runs {
        0 => return None,
        n => format!("the {}", pluralise(n, "other private run")),
    };
    let costs = together.format_cost(together.total_cost());
    let data = &result.data;
    Some(format!(
        "With {others} on record for {data} (of other grids, or trained individually): {costs}."
    ))
}

fn uncovered(result: &Inner) -> Option<String> {
    let open: usize =
        result.cells.iter().flat_map(|cell| &cell.runs).filter(|run| run.epsilon.is_none()).count();
    (open > 0).then(|| {
        format!(
            "No epsilon covers {open} of the runs: they were trained without privacy, with a mask \
             made from private examples without noise, or on data prepared from private examples \
             without noise."
        )
    })
}

fn missing(result: &Inner) -> Vec<String> {
    let mut lines = Vec::new();
    for cell in &result.cells {
        for error in &cell.errors {
            let why = redact_hashes(&error.replace('\n', " "));
            lines.push(format!("Not trained ({}): {why}", describe_cell(cell)));
        }
    }
    if result.interrupted {
        let done: usize = result.cells.iter().map(|cell| cell.runs.len()).sum();
        lines.push(format!(
            "Stopped after {} of {}, which are kept. Run the same grid again to continue: finished \
             runs are not trained again.",
            format_count(done),
            pluralise(result.planned_runs, "run")
        ));
    }
    lines
}
