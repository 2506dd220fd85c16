//! What a training run released, by its role.

use serde::{Deserialize, Serialize};

use super::Event;
use super::digits::counted;

/// What a training run released, or will release, about a data set.
///
/// Each release has a role, so that nothing depends on its position in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Stored")]
pub struct Released {
    /// Releases about the same data that the run depends on, from earlier entries of the ledger: a
    /// mask that was made before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Event>,
    /// A preparation of the data that looked at private examples without noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preparation: Option<Event>,
    /// The choice of the mask within the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<Event>,
    /// The training steps.
    pub training: Event,
    /// Why the moment at which the run ended is not covered, if it depended on private examples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Event>,
}

impl Released {
    /// A run that released nothing but its training steps.
    pub fn training(training: Event) -> Self {
        Self { before: Vec::new(), preparation: None, mask: None, training, ending: None }
    }

    /// The event that the run's own ledger entry charges: everything but the releases before and
    /// the ending.
    pub fn charged(&self) -> Event {
        let parts = self.preparation.iter().chain(&self.mask).cloned();
        let events: Vec<Event> = parts.chain([self.training.clone()]).collect();
        match events.len() {
            1 => self.training.clone(),
            _ => Event::Composed { events },
        }
    }

    /// All releases, in chronological order: what an accountant composes.
    pub fn events(&self) -> Vec<Event> {
        let parts = self.before.iter().cloned().chain([self.charged()]);
        parts.chain(self.ending.clone()).collect()
    }

    /// The releases of the run's own ledger entry by role: `mask: 1 release, training: 300
    /// releases`.
    pub fn roles(&self) -> String {
        let count = |event: &Event| {
            counted(usize::try_from(event.releases()).unwrap_or(usize::MAX), "release")
        };
        let roles = [("preparation", &self.preparation), ("mask", &self.mask)];
        let parts = roles.iter().filter_map(|(role, event)| {
            event.as_ref().map(|event| format!("{role}: {}", count(event)))
        });
        let training = format!("training: {}", count(&self.training));
        parts.chain([training]).collect::<Vec<_>>().join(", ")
    }
}

/// The serialised forms: by role, or a list in which the position was the role.
#[derive(Deserialize)]
#[serde(untagged)]
enum Stored {
    Roles {
        #[serde(default)]
        before: Vec<Event>,
        #[serde(default)]
        preparation: Option<Event>,
        #[serde(default)]
        mask: Option<Event>,
        training: Event,
        #[serde(default)]
        ending: Option<Event>,
    },
    /// Runs stored before November 2026: the releases before, the charged event, and an
    /// unaccountable ending. The charged event was composed of an unaccountable preparation, the
    /// mask, and training, in this order.
    List(Vec<Event>),
}

impl From<Stored> for Released {
    fn from(stored: Stored) -> Self {
        let mut events = match stored {
            Stored::Roles { before, preparation, mask, training, ending } => {
                return Self { before, preparation, mask, training, ending };
            }
            Stored::List(events) => events,
        };
        let unaccountable = |event: &Event| matches!(event, Event::Unaccountable { .. });
        let ending =
            (events.len() > 1).then(|| events.pop_if(|last| unaccountable(last))).flatten();
        let charged = events.pop().unwrap_or(Event::Composed { events: Vec::new() });
        let mut parts = match charged {
            Event::Composed { events } if !events.is_empty() => events,
            one => vec![one],
        };
        let training = parts.pop().unwrap_or(Event::Composed { events: Vec::new() });
        let of_mask = |event: &Event| match event {
            Event::Unaccountable { why } => why.starts_with("the mask: "),
            _ => true,
        };
        let (mask, preparation): (Vec<Event>, Vec<Event>) = parts.into_iter().partition(of_mask);
        Self {
            before: events,
            preparation: preparation.into_iter().next(),
            mask: mask.into_iter().next(),
            training,
            ending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Released {
        let why = |why: &str| Event::Unaccountable { why: why.into() };
        Released {
            before: vec![Event::gaussian(8.0)],
            preparation: Some(why("a vocabulary of private texts")),
            mask: Some(Event::gaussian(16.0)),
            training: Event::poisson(0.1, 1.0, 5),
            ending: Some(why("an example could not be read")),
        }
    }

    #[test]
    fn lists_of_earlier_versions_are_read_by_role() {
        let none = Released::training(Event::poisson(0.1, 1.0, 5));
        let mask = || Released { mask: Some(Event::gaussian(16.0)), ..none.clone() };
        let raw = |why: &str| Some(Event::Unaccountable { why: why.into() });
        let cases = [
            none.clone(),
            mask(),
            Released { before: vec![Event::gaussian(8.0); 2], ..mask() },
            Released { mask: raw("the mask: SNIP without noise"), ..none.clone() },
            Released { preparation: raw("a vocabulary"), ..none.clone() },
            Released { training: Event::Unaccountable { why: "raw".into() }, ..none.clone() },
            Released { ending: raw("unreadable"), ..mask() },
            all(),
        ];
        for released in cases {
            let list = serde_json::to_string(&released.events()).unwrap();
            assert_eq!(serde_json::from_str::<Released>(&list).unwrap(), released, "{list}");
            let roles = serde_json::to_string(&released).unwrap();
            assert_eq!(serde_json::from_str::<Released>(&roles).unwrap(), released, "{roles}");
        }
    }

    #[test]
    fn the_ledger_entry_has_what_the_run_itself_released() {
        let Event::Composed { events } = all().charged() else { panic!("three parts") };
        assert_eq!(events.len(), 3);
        assert_eq!(events.last(), Some(&Event::poisson(0.1, 1.0, 5)));
        assert_eq!(all().events().len(), 3);
        assert_eq!(all().roles(), "preparation: 1 release, mask: 1 release, training: 5 releases");
        let none = Released::training(Event::poisson(0.1, 1.0, 5));
        assert_eq!(none.charged(), none.training);
        assert_eq!(none.roles(), "training: 5 releases");
    }
}
