//! The cost of earlier attempts at a run.
//!
//! A run that is trained again is charged again: an attempt that was killed has made releases, even
//! if its result is lost. The user is told before the new charge is made.

use crate::Result;
use crate::methods::Plan;
use crate::privacy::digits::RoundedUp;
use crate::privacy::ledger::ChargeRecord;
use crate::privacy::{Accountant, Delta, Ledger, TightestAccountant};
use crate::train::is_attempt_of;

/// Returns a sentence on the charges of earlier attempts at the run `id`; `None` if there are
/// none.
///
/// # Errors
/// As [`Ledger::entries`].
pub(super) fn describe_earlier_attempts(
    ledger: &Ledger,
    id: &str,
    plan: &Plan,
) -> Result<Option<String>> {
    let account = ledger.state()?;
    let attempts: Vec<&ChargeRecord> =
        account.charges().iter().filter(|charge| is_attempt_of(&charge.run, id)).collect();
    if attempts.is_empty() {
        return Ok(None);
    }
    let events: Vec<_> = attempts.iter().map(|charge| charge.event.clone()).collect();
    let delta = plan.privacy().map_or(Delta::DEFAULT, |privacy| privacy.delta);
    let cost = match TightestAccountant::for_events(&events).epsilon(&events, delta) {
        Ok(spent) => {
            format!("epsilon {} at delta {delta} ({})", RoundedUp(spent.epsilon), spent.accountant)
        }
        Err(_) => "an unbounded epsilon".to_owned(),
    };
    let stay = match attempts.len() {
        1 => "1 earlier attempt at this run stays charged in the ledger and costs".to_owned(),
        n => format!("{n} earlier attempts at this run stay charged in the ledger and cost"),
    };
    let open = match attempts.iter().filter(|charge| !charge.closed).count() {
        0 => String::new(),
        n => format!(
            " {n} of them did not report their steps (killed, or still running) and are charged \
             for their whole plan."
        ),
    };
    Ok(Some(format!("{stay} {cost}.{open} The new attempt is charged in addition.")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data;
    use crate::methods::DpSgd;
    use crate::nn::models;
    use crate::privacy::{Delta, Epsilon};
    use crate::store::{RunStore, run_id};
    use crate::train::Observer;

    #[derive(Default)]
    struct Noted(Vec<String>);

    impl Observer for Noted {
        fn on_note(&mut self, text: &str) {
            self.0.push(text.to_owned());
        }
    }

    #[test]
    fn the_cost_of_a_killed_attempt_is_noted_when_the_run_is_trained_again() -> Result<()> {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(folder.path().to_path_buf()).unwrap();
        let data = data::glyphs_with(300, 10, 83)?;
        let model = models::linear(&data).seed(1).build()?;
        let method = DpSgd::new().target(Epsilon(2.0), Delta(1e-4)).batch_size(30).steps(3);
        let plan = method.plan(&data)?;
        let id = run_id(&plan, &model, &data)?;
        let train = || -> Result<Vec<String>> {
            let mut noted = Noted::default();
            crate::runs::train_as(&store, &id, &plan, &model, &data, &mut noted)?;
            Ok(noted.0)
        };
        store.ledger(&data)?.begin_run(&format!("{id}-0a1b2c3d"), &plan.event())?;
        store.ledger(&data)?.begin_run("another-0a1b2c3d", &plan.event())?;
        let [words] = &train()?[..] else { panic!("it is told once") };
        let one = TightestAccountant::new().epsilon(&[plan.event()], Delta(1e-4))?.epsilon;
        assert!(
            words.contains(&format!("costs epsilon {} at delta 1e-4", RoundedUp(one))),
            "{words}"
        );
        assert!(words.contains("1 earlier attempt at this run stays charged"), "{words}");
        assert!(words.contains("1 of them did not report their steps"), "{words}");
        // The one that was finished stays charged as well, for what it took.
        let [words] = &train()?[..] else { panic!("it is told once") };
        let two =
            TightestAccountant::new().epsilon(&[plan.event(), plan.event()], Delta(1e-4))?.epsilon;
        assert!(words.contains(&format!("cost epsilon {} ", RoundedUp(two))), "{words}");
        assert!(words.contains("2 earlier attempts") && words.contains("1 of them"), "{words}");
        Ok(())
    }

    #[test]
    fn a_first_attempt_has_no_note() -> Result<()> {
        let data = data::glyphs_with(300, 10, 84)?;
        let plan = DpSgd::new().noise_multiplier(1.0).batch_size(30).steps(3).plan(&data)?;
        let ledger = Ledger::in_memory();
        assert_eq!(describe_earlier_attempts(&ledger, "00ff", &plan)?, None);
        ledger.begin_run("00ff0-0a1b2c3d", &plan.event())?;
        assert_eq!(describe_earlier_attempts(&ledger, "00ff", &plan)?, None);
        Ok(())
    }
}
