//! Cost of the runs of a tuning to the private data.

use crate::data::Dataset;
use crate::methods::Plan;
use crate::privacy::digits::pluralise;
use crate::privacy::{Accountant, Badge, TightestAccountant, Trials};
use crate::show::format;

/// Describes the cost of runs on public data.
pub(super) fn describe_public_cost(public: &Dataset) -> String {
    let name = public.name();
    match public.public() {
        Some(known) if known.drawn_by_code => format!("none, {name} is drawn by code"),
        _ => format!("none, if {name} is public"),
    }
}

/// Describes the cost of runs without noise on the private data.
pub(super) fn describe_noiseless_cost(runs: usize, data: &Dataset) -> String {
    format!(
        "no epsilon covers it: {} without noise on {} determined it",
        pluralise(runs, "run"),
        data.name()
    )
}

/// Describes the cost of as many runs of a private plan, and of a private selection with as many
/// on average.
pub(super) fn describe_noisy_cost(runs: usize, plan: &Plan) -> String {
    let Some(privacy) = plan.privacy() else { return String::new() };
    let (event, delta) = (plan.event(), privacy.delta);
    let epsilon_of = |event| {
        let tightest = TightestAccountant::with_neighbouring(plan.neighbouring());
        tightest.epsilon(&[event], delta).map_or("?".into(), |spent| format::eps(spent.epsilon))
    };
    let all = epsilon_of(event.repeated(runs as u64));
    let description =
        format!("epsilon {all} at delta {delta} for {} together", pluralise(runs, "run"));
    let description = format!("{description}, beside steps 1 and 2, which no epsilon covers");
    match runs {
        0 | 1 => description,
        n => {
            let best = epsilon_of(event.best_of(Trials::geometric(n as f64)));
            format!("{description} (PrivateSelection with as many trials on average: {best})")
        }
    }
}

/// Returns the badge of a run with the chosen settings.
pub(super) fn badge(data: &Dataset, public: Option<&Dataset>) -> Badge {
    match public {
        Some(public) if public.public().is_some_and(|known| known.drawn_by_code) => Badge::Proved,
        Some(public) => Badge::Conditional(format!(
            "{}, on which the settings were chosen, is public, and its examples need no guarantee",
            public.name()
        )),
        None => Badge::NoGuarantee(format!(
            "learning rate and clip norm were chosen by training on {} without noise",
            data.name()
        )),
    }
}
