//! Previews of experiments: steps, noise and epsilon of the cases, without training.

use std::path::Path;
use std::process::ExitCode;

use epsilab::Result;
use epsilab::data::{Dataset, Population};
use epsilab::device::with_rehearsal_mark;
use epsilab::methods::Plan;
use epsilab::privacy::{Epsilon, Event, OrderList, Rdp, SamplingRate, noise_multiplier_for};
use epsilab::show::{Table, format};
use serde::Serialize;

use super::case::Case;
use super::file::Experiment;
use super::options::Options;
use super::paper::{PaperResults, format_as_printed};
use super::results::{json, to_single_line};
use crate::stdout;
use crate::train::DataArgs;

/// Plan of one case and its privacy cost.
#[derive(Serialize)]
pub struct Preview {
    experiment: String,
    /// Options of `train` that determine the cost.
    options: Options,
    /// Number of training examples.
    examples: usize,
    steps: u64,
    epochs: f64,
    noise_multiplier: Option<f64>,
    delta: Option<f64>,
    /// Target epsilon from which the noise was computed, if there is one.
    target: Option<f64>,
    /// Smallest proved epsilon; `None` without a guarantee.
    epsilon: Option<f64>,
    /// Accountant of `epsilon`.
    accountant: Option<String>,
    /// Epsilon by RDP with the orders of the paper.
    epsilon_rdp: Option<f64>,
    /// Noise multiplier that reaches the target by RDP with the orders of the paper.
    noise_multiplier_rdp: Option<f64>,
    paper: PaperResults,
}

/// Preview of a case, or the reason why there is none.
pub type PreviewResult = std::result::Result<Preview, String>;

impl Preview {
    /// Computes the preview of a case for the given number of examples.
    ///
    /// # Errors
    /// As making the plan and computing its epsilon.
    pub fn new(experiment: &Experiment, case: &Case, population: &Population) -> Result<Self> {
        let plan = case.train_args()?.plan_for(population)?;
        let spent = plan.spent_after(plan.steps())?;
        let rdp = case.paper.orders.as_deref().map(str::parse::<OrderList>).transpose()?;
        let rdp = rdp.map(|orders| Rdp::default().with_orders(orders));
        Ok(Self {
            experiment: with_rehearsal_mark(&experiment.name),
            options: case.options.clone(),
            examples: plan.examples(),
            steps: plan.steps(),
            epochs: plan.epochs(),
            noise_multiplier: plan.privacy().map(|privacy| privacy.noise_multiplier),
            delta: plan.privacy().map(|privacy| privacy.delta.0),
            target: plan.privacy().and_then(|privacy| privacy.target).map(|target| target.0),
            epsilon: spent.as_ref().map(|spent| spent.epsilon),
            accountant: spent.map(|spent| spent.accountant),
            epsilon_rdp: rdp.as_ref().and_then(|rdp| epsilon(&plan, rdp)),
            noise_multiplier_rdp: rdp.as_ref().and_then(|rdp| rdp_noise_multiplier(&plan, rdp)),
            paper: case.paper.on(plan.examples()),
        })
    }
}

/// Shows the costs of the cases. Where a case says the number of its examples, no data are read,
/// unless they are named (`is_named`).
///
/// # Errors
/// Errors of writing; those of cases are in their rows.
pub fn show(
    experiments: &[Experiment],
    is_named: bool,
    is_json: bool,
    folder: Option<&Path>,
) -> Result<ExitCode> {
    let costs: Vec<Experiment> = experiments.iter().map(Experiment::cost_experiment).collect();
    let mut read: Option<(DataArgs, Dataset)> = None;
    let mut population = |case: &Case| match case.paper.examples.filter(|_| !is_named) {
        Some(examples) => Ok(Population::with_size(examples)),
        None => {
            let args = case.train_args()?.data;
            let data = match &read {
                Some((known, data)) if *known == args => data.clone(),
                _ => args.read()?,
            };
            read = Some((args, data.clone()));
            Ok((&data).into())
        }
    };
    let mut previews: Vec<Vec<PreviewResult>> = Vec::new();
    for experiment in &costs {
        let preview_of = |case| population(case).and_then(|p| Preview::new(experiment, case, &p));
        let case_previews = experiment
            .cases
            .iter()
            .map(preview_of)
            .map(|preview| preview.map_err(|e| to_single_line(&e)));
        previews.push(case_previews.collect());
    }
    let tables = costs.iter().zip(&previews);
    let tables: Vec<Table> = tables.map(|(experiment, all)| table(experiment, all)).collect();
    let planned: Vec<&Preview> = previews.iter().flatten().flatten().collect();
    let json = json(&planned)?;
    if let Some(folder) = folder {
        let markdown = tables.iter().map(Table::markdown).collect::<Vec<_>>().join("\n");
        epsilab::file::write(folder.join("preview.json"), format!("{json}\n"))?;
        epsilab::file::write(folder.join("preview.md"), markdown)?;
        eprintln!("wrote {}", folder.display());
    }
    let text = || tables.iter().map(Table::text).collect::<Vec<_>>().join("\n\n");
    stdout::print_line(&if is_json { json } else { text() })?;
    for (experiment, all) in costs.iter().zip(&previews) {
        let cases = experiment.cases.iter().zip(all);
        let refused = cases.filter_map(|(case, preview)| Some((case, preview.as_ref().err()?)));
        refused.for_each(|(case, why)| eprintln!("not planned: {}, {why}", experiment.place(case)));
    }
    Ok(if planned.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Computes the epsilon of a plan by RDP; `None` without privacy and where RDP does not support
/// it.
fn epsilon(plan: &Plan, rdp: &Rdp) -> Option<f64> {
    let delta = plan.privacy()?.delta;
    Some(rdp.epsilon(&plan.releases_after(plan.steps()), delta).ok()?.epsilon)
}

/// Computes the noise multiplier for the target of a plan; `None` without a target, and for plans
/// whose releases are not a single Poisson-sampled Gaussian event.
fn rdp_noise_multiplier(plan: &Plan, rdp: &Rdp) -> Option<f64> {
    let privacy = plan.privacy()?;
    let (Epsilon(target), [Event::PoissonGaussian { sampling_rate, steps, .. }]) =
        (privacy.target?, &plan.releases_after(plan.steps())[..])
    else {
        return None;
    };
    let rate = SamplingRate(*sampling_rate);
    let found = noise_multiplier_for(Epsilon(target), privacy.delta, rate, *steps, rdp).ok()?;
    Some(found.noise_multiplier.0)
}

/// Options that have their own column in the results.
const SHOWN: [&str; 4] = ["noise-multiplier", "epsilon", "delta", "steps"];

/// Column of the table: its head, and its text for a preview that has it.
type Column<'a> = (&'a str, &'a dyn Fn(&PreviewResult) -> Option<String>);

/// Returns the previews of an experiment as a table: the options that differ, then steps, noise and
/// epsilon. Columns that no case has are left out.
fn table(experiment: &Experiment, previews: &[PreviewResult]) -> Table {
    let noise = |value: f64| format::significant(value, 4);
    let columns: [Column<'_>; 11] = [
        ("steps", &|row| Some(format::format_count(row.as_ref().ok()?.steps))),
        ("passes", &|row| Some(format::significant(row.as_ref().ok()?.epochs, 4))),
        ("noise", &|row| row.as_ref().ok()?.noise_multiplier.map(noise)),
        ("noise by rdp", &|row| row.as_ref().ok()?.noise_multiplier_rdp.map(noise)),
        ("delta", &|row| row.as_ref().ok()?.delta.map(format::delta)),
        ("target", &|row| row.as_ref().ok()?.target.map(format_as_printed)),
        ("epsilon", &|row| row.as_ref().ok()?.epsilon.map(format::eps)),
        ("by", &|row| row.as_ref().ok()?.accountant.clone()),
        ("epsilon by rdp", &|row| row.as_ref().ok()?.epsilon_rdp.map(format::eps)),
        ("paper's epsilon", &|row| row.as_ref().ok()?.paper.epsilon.map(format_as_printed)),
        ("not planned", &|row| row.as_ref().err().cloned()),
    ];
    let mut varied = experiment.varied_options();
    varied.retain(|name| !SHOWN.contains(name));
    let has = |(_, text): &&Column<'_>| previews.iter().any(|preview| text(preview).is_some());
    let shown: Vec<_> = columns.iter().filter(has).collect();
    let table = Table::new(varied.iter().copied().chain(shown.iter().map(|(head, _)| *head)));
    let table = table.caption(experiment.caption());
    experiment.cases.iter().zip(previews).fold(table, |table, (case, preview)| {
        let options = varied.iter().map(|name| case.get(name));
        let texts = options.chain(shown.iter().map(|(_, text)| text(preview)));
        table.row(texts.map(|text| text.unwrap_or_else(|| "-".into())))
    })
}
