//! What the runs of a tuning cost the private data.

use crate::data::Dataset;
use crate::methods::Plan;
use crate::privacy::digits::counted;
use crate::privacy::{Accountant, Badge, Headline, Trials};
use crate::show::format;

/// The cost of runs on public data.
pub(super) fn on_public(public: &Dataset) -> String {
    let name = public.name();
    match public.public() {
        Some(known) if known.drawn_by_code => format!("none, {name} is drawn by code"),
        _ => format!("none, if {name} is public"),
    }
}

/// The cost of runs without noise on the private data.
pub(super) fn without_noise(runs: usize, data: &Dataset) -> String {
    format!(
        "no epsilon covers it: {} without noise on {} decided it",
        counted(runs, "run"),
        data.name()
    )
}

/// The cost of as many runs of a private plan, and of a private selection with as many on average.
pub(super) fn with_noise(runs: usize, plan: &Plan) -> String {
    let Some(privacy) = plan.privacy() else { return String::new() };
    let (event, delta) = (plan.event(), privacy.delta);
    let epsilon_of = |event| {
        let headline = Headline::with_neighbouring(plan.neighbouring());
        headline.epsilon(&[event], delta).map_or("?".into(), |spent| format::eps(spent.epsilon))
    };
    let all = epsilon_of(event.times(runs as u64));
    let said = format!("epsilon {all} at delta {delta} for {} together", counted(runs, "run"));
    let said = format!("{said}, beside steps 1 and 2, which no epsilon covers");
    match runs {
        0 | 1 => said,
        n => {
            let best = epsilon_of(event.best_of(Trials::geometric(n as f64)));
            format!("{said} (PrivateSelection with as many trials on average: {best})")
        }
    }
}

/// How firm the guarantee of a run with the chosen settings is.
pub(super) fn badge(data: &Dataset, public: Option<&Dataset>) -> Badge {
    match public {
        Some(public) if public.public().is_some_and(|known| known.drawn_by_code) => Badge::Proved,
        Some(public) => Badge::Assumption(format!(
            "{}, on which the settings were chosen, is public, and its examples need no guarantee",
            public.name()
        )),
        None => Badge::None(format!(
            "learning rate and clip norm were chosen by training on {} without noise",
            data.name()
        )),
    }
}
