//! The report of a run.

use super::{Block, REPEAT, Report, SOFTWARE, software};
use crate::Result;
use crate::lab::display::model_table;
use crate::lab::record_tables::record_table;
use crate::lab::{Preview, Statement};
use crate::mask::Mask;
use crate::methods::Plan;
use crate::privacy::Delta;
use crate::privacy::digits::pluralise;
use crate::program;
use crate::show::{Coverage, Table, figure_from_record, figures, format, run_coverage};
use crate::store::{RunStore, StoredReportData};
use crate::train::{RunRecord, RunSummaryLine};

/// Returns the report of a stored run.
pub(super) fn stored(store: &RunStore, id: &str) -> Result<Report> {
    report(&store.load_for_report(id)?, store)
}

pub(super) fn report(data: &StoredReportData, store: &RunStore) -> Result<Report> {
    let (record, plan) = (&data.record, &data.record.plan);
    let reveals = run_coverage(record);
    let mut lead = vec![Block::prose(RunSummaryLine(record).to_string(), reveals)];
    lead.extend(data.warnings.iter().map(|warning| Block::prose(warning, Coverage::Public)));
    let guarantee = Statement::for_run(record, data.mask.as_ref()).to_string();
    // A statement of no guarantee reveals nothing either.
    let guarantee = Block::prose(guarantee, Coverage::Covered);
    let settings = Preview::settings(plan)?.table();
    Ok(Report::new(format!("{} on {}", plan.method(), record.data))
        .section("", lead)
        .section("Guarantee", [guarantee])
        .section(
            "Result",
            [Block::figure(figure_from_record(record)), Block::Table(record_table(record))],
        )
        .section("Settings", [Block::Table(settings)])
        .section("Model", data.model.as_ref().map(|model| Block::Table(model_table(model))))
        .section("Mask", data.mask.iter().flat_map(mask))
        .section("Ledger", [ledger(record, store)?])
        .section(REPEAT, repeat(plan))
        .section(SOFTWARE, [software(std::slice::from_ref(&record.software))]))
}

fn mask(mask: &Mask) -> [Block; 2] {
    let kept = figures::kept(mask).bundle();
    [Block::prose(format!("{mask}."), kept.coverage), Block::figure(kept)]
}

/// Returns the block on the entry of the run, and on the cost of all runs on its data.
fn ledger(record: &RunRecord, store: &RunStore) -> Result<Block> {
    let account = store.find_account(record)?;
    let found = account.as_ref().and_then(|account| {
        let at = account.charges().iter().position(|charge| charge.run == record.charged.run)?;
        Some((account, at, &account.charges()[at]))
    });
    let Some((account, at, charge)) = found else {
        let text = "This project has no ledger entry of the run.";
        return Ok(Block::prose(text, Coverage::Public));
    };
    let note = Some(&charge.closing_note).filter(|note| !note.is_empty());
    let table = Table::new(["entry", ""])
        .row(["number".to_owned(), format!("{} of {}", at + 1, account.charges().len())])
        .row(["charged at", &charge.started_at])
        .row(["run", &charge.note])
        .row(["event", &charge.event.to_string()])
        .row(["state", charge.state()])
        .rows(note.map(|note| ["note", note]));
    let delta = account.budget().map(|budget| budget.delta);
    let delta =
        delta.or(record.plan.privacy().map(|privacy| privacy.delta)).unwrap_or(Delta::DEFAULT);
    let total = match account.private_total(delta) {
        Ok(spent) => format!("epsilon {} at delta {delta}", format::eps(spent.epsilon)),
        Err(error) => format!("unknown: {error}"),
    };
    let private = account.charges().len() - account.non_private_runs();
    let what = match private {
        1 => "the only private run on these data".to_owned(),
        n => format!("all {} on these data together", pluralise(n, "private run")),
    };
    let published = match account.non_private_runs() {
        0 => None,
        n => Some(format!("{n}: if their results are published, no epsilon holds")),
    };
    let table = table
        .rows((private > 0).then_some([what, total]))
        .rows(published.map(|claim| ["runs without a guarantee".to_owned(), claim]))
        .rows(account.budget().map(|budget| ["budget".to_owned(), budget.to_string()]));
    Ok(Block::Table(table.coverage(Coverage::Public)))
}

/// Returns the blocks on how to repeat the run: the plan as a file, if a file can represent it.
fn repeat(plan: &Plan) -> Vec<Block> {
    let Ok(file) = plan.to_json() else {
        let text = "The plan has a given mask, whose coordinates a plan file does not hold: \
                     repeat the run from the code that made the mask.";
        return vec![Block::prose(text, Coverage::Public)];
    };
    // Whoever knows the seed of a private run can compute its noise.
    let (seed, coverage) = match plan.seed() {
        Some(_) => (
            "The plan has a seed, so on the CPU and from the same initial parameters the result is \
             identical bit for bit.",
            if plan.has_guarantee() { Coverage::NotCovered } else { Coverage::Public },
        ),
        None => (
            "The plan has no seed, so a repetition draws other batches and noise, is charged \
             again, and reaches another accuracy.",
            Coverage::Public,
        ),
    };
    let command = program::command("train --plan plan.json --model NAME --data NAME");
    let get = program::how_to_get();
    let text = "Save this plan as plan.json. Plan::load(\"plan.json\")?.train(&model, &data)? in a \
                 notebook trains it, and so does the command";
    vec![
        Block::prose(format!("{seed} {get}{text}"), Coverage::Public),
        Block::Code(command, Coverage::Public),
        Block::Code(file, coverage),
    ]
}
