//! What the cases of experiments cost, without training: steps, noise and epsilon.

use epsilab::Result;
use epsilab::data::Population;
use epsilab::device::marked;
use epsilab::methods::Plan;
use epsilab::privacy::{Epsilon, Event, OrderList, Rdp, SamplingRate, noise_multiplier_for};
use epsilab::show::format;
use serde::Serialize;

use super::case::{Case, Options};
use super::file::Experiment;
use super::out::{self, Cells, Column};
use super::paper::{Paper, printed};

/// The plan of one case, and what it costs.
#[derive(Serialize)]
pub struct Preview {
    experiment: String,
    /// The `train` options that decide it.
    options: Options,
    /// Number of training examples.
    examples: usize,
    steps: u64,
    epochs: f64,
    noise_multiplier: Option<f64>,
    delta: Option<f64>,
    /// The epsilon that decided the noise, if one did.
    target: Option<f64>,
    /// The smallest proved epsilon; none without a guarantee.
    epsilon: Option<f64>,
    /// The accountant that it is from.
    accountant: Option<String>,
    /// Epsilon by RDP with the orders of the paper.
    epsilon_rdp: Option<f64>,
    /// The noise multiplier that reaches a target by RDP with the orders of the paper.
    noise_multiplier_rdp: Option<f64>,
    paper: Paper,
}

/// A case with its preview, or why there is none.
pub type Previewed = std::result::Result<Preview, String>;

impl Preview {
    /// The preview of a case on as many examples.
    ///
    /// # Errors
    /// As making the plan and computing its epsilon.
    pub fn of(experiment: &Experiment, case: &Case, population: &Population) -> Result<Self> {
        let plan = case.train_args(0)?.plan_for(population)?;
        let spent = plan.spent_after(plan.steps())?;
        let rdp = case.paper.orders.as_deref().map(str::parse::<OrderList>).transpose()?;
        let rdp = rdp.map(|orders| Rdp::default().with_orders(orders));
        Ok(Self {
            experiment: marked(&experiment.name),
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
            noise_multiplier_rdp: rdp.as_ref().and_then(|rdp| noise_for_target(&plan, rdp)),
            paper: case.paper.on(plan.examples()),
        })
    }
}

/// Epsilon of a plan; none without privacy and where RDP does not support it.
fn epsilon(plan: &Plan, rdp: &Rdp) -> Option<f64> {
    let delta = plan.privacy()?.delta;
    Some(rdp.epsilon(&plan.releases_after(plan.steps()), delta).ok()?.epsilon)
}

/// The noise multiplier for the target of a plan; none without a target, and for plans of which it
/// is not the only number.
fn noise_for_target(plan: &Plan, rdp: &Rdp) -> Option<f64> {
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

/// Options that a column of results shows.
const SHOWN: [&str; 4] = ["noise-multiplier", "epsilon", "delta", "steps"];

/// The previews of an experiment as a table.
pub fn cells(experiment: &Experiment, previews: &[Previewed]) -> Cells {
    let noise = |value: f64| format::significant(value, 4);
    let columns: [Column<'_, Previewed>; 11] = [
        ("steps", &|row| Some(format::count(row.as_ref().ok()?.steps))),
        ("passes", &|row| Some(format::significant(row.as_ref().ok()?.epochs, 4))),
        ("noise", &|row| row.as_ref().ok()?.noise_multiplier.map(noise)),
        ("noise by rdp", &|row| row.as_ref().ok()?.noise_multiplier_rdp.map(noise)),
        ("delta", &|row| row.as_ref().ok()?.delta.map(format::delta)),
        ("target", &|row| row.as_ref().ok()?.target.map(printed)),
        ("epsilon", &|row| row.as_ref().ok()?.epsilon.map(format::eps)),
        ("by", &|row| row.as_ref().ok()?.accountant.clone()),
        ("epsilon by rdp", &|row| row.as_ref().ok()?.epsilon_rdp.map(format::eps)),
        ("paper's epsilon", &|row| row.as_ref().ok()?.paper.epsilon.map(printed)),
        ("not planned", &|row| row.as_ref().err().cloned()),
    ];
    out::table(experiment, &SHOWN, previews, &columns)
}
