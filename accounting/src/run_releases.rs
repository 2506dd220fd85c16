//! Releases of a training run, by role.

use serde::{Deserialize, Serialize};

use super::Event;
use super::digits::pluralise;

/// Releases of a training run, finished or planned, about a data set.
///
/// Each release has a role, so that nothing depends on its position in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunReleases {
    /// Releases about the same data that the run depends on, from earlier entries of the ledger: a
    /// mask that was made before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Event>,
    /// Release without noise outside of the steps: by a preparation of the data that looked at
    /// private examples, or by a learning rate that follows a loss. No accountant supports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preparation: Option<Event>,
    /// The choice of the mask within the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<Event>,
    /// The training steps.
    pub training: Event,
}

impl RunReleases {
    /// Creates the releases of a run that released nothing but its training steps.
    pub fn training(training: Event) -> Self {
        Self { before: Vec::new(), preparation: None, mask: None, training }
    }

    /// Returns the event that the run's own ledger entry charges: everything but the releases
    /// before.
    pub fn charged_event(&self) -> Event {
        let parts = self.preparation.iter().chain(&self.mask).cloned();
        Event::composed(parts.chain([self.training.clone()]))
    }

    /// Returns all releases, in chronological order: what an accountant composes.
    pub fn events(&self) -> Vec<Event> {
        self.before.iter().cloned().chain([self.charged_event()]).collect()
    }

    /// Returns the releases of the run's own ledger entry by role: `mask: 1 release, training: 300
    /// releases`.
    pub fn summary(&self) -> String {
        let count = |event: &Event| pluralise(event.release_count(), "release");
        let roles = [("preparation", &self.preparation), ("mask", &self.mask)];
        let parts = roles.iter().filter_map(|(role, event)| {
            event.as_ref().map(|event| format!("{role}: {}", count(event)))
        });
        let training = format!("training: {}", count(&self.training));
        parts.chain([training]).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> RunReleases {
        let why = |why: &str| Event::Unaccountable { why: why.into() };
        RunReleases {
            before: vec![Event::gaussian(8.0)],
            preparation: Some(why("a vocabulary of private texts")),
            mask: Some(Event::gaussian(16.0)),
            training: Event::poisson(0.1, 1.0, 5),
        }
    }

    #[test]
    fn the_ledger_entry_has_what_the_run_itself_released() {
        let Event::Composed { events } = all().charged_event() else { panic!("three parts") };
        assert_eq!(events.len(), 3);
        assert_eq!(events.last(), Some(&Event::poisson(0.1, 1.0, 5)));
        assert_eq!(all().events().len(), 2);
        assert_eq!(
            all().summary(),
            "preparation: 1 release, mask: 1 release, training: 5 releases"
        );
        let none = RunReleases::training(Event::poisson(0.1, 1.0, 5));
        assert_eq!(none.charged_event(), none.training);
        assert_eq!(none.summary(), "training: 5 releases");
    }
}
