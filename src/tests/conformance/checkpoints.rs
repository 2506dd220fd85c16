//! A run that is killed and resumed is the run that was never killed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::mask::{DpSnip, Dropping, RandomMask};
use crate::train::{Observer, Progress};

/// Kills the process, as far as the run can tell, after this step.
struct Killed {
    after: u64,
}

impl Observer for Killed {
    fn on_step(&mut self, progress: &Progress<'_>) {
        assert!(progress.step != self.after, "killed");
    }
}

/// Trains a plan with checkpoints, and kills it after each of these steps in turn.
fn killed_after(steps: &[u64], plan: &Plan, data: &Dataset, store: &RunStore) -> Result<Run> {
    let model = model(data);
    let id = run_id(plan, &model, data)?;
    for &after in steps {
        let run = || runs::train_as(store, &id, plan, &model, data, &mut Killed { after });
        let outcome = catch_unwind(AssertUnwindSafe(run));
        assert!(outcome.is_err(), "{} was not killed after step {after}", plan.method());
    }
    runs::train_as(store, &id, plan, &model, data, &mut NoopObserver)
}

/// Plans of every method: with plain settings, and with everything that has a state.
fn with_states(data: &Dataset) -> Vec<Plan> {
    let mut plans = Vec::new();
    for mut method in enrolled() {
        plans.push(method.plan(data).unwrap());
        let settings = method.settings_mut();
        settings.optimizer = Optimizer::dp_adam_bc();
        settings.learning_rate_schedule = "one-cycle".parse().unwrap();
        settings.weight_decay = Some(0.01);
        settings.average = Some(Average::Last { steps: 3 });
        settings.freezing.freeze.push("0.bias".into());
        plans.push(method.plan(data).unwrap());
        let settings = method.settings_mut();
        settings.average = Some(Average::ema());
        settings.optimizer = Optimizer::Sgd { momentum: 0.9 };
        settings.sampling = crate::methods::Sampling::DisjointBatches {
            neighbouring: NeighbouringRelation::ZeroOutOne,
        };
        plans.extend(method.plan(data));
        let settings = method.settings_mut();
        settings.sampling = Default::default();
        let sparsity = settings.sparsity.get_or_insert_default();
        sparsity.dropping = Some(Dropping::random(0.4));
        sparsity.pre_prune = Some(RandomMask::keep(0.5).into());
        plans.extend(method.plan(data));
    }
    let sparse = crate::methods::DpSsgd::new().noise_multiplier(1.2).batch_size(BATCH).steps(STEPS);
    let sparse = sparse.pre_prune(DpSnip::keep(0.5).noise_multiplier(2.0));
    plans.push(sparse.drop_gradients(Dropping::magnitude(0.3)).plan(data).unwrap());
    let loss = crate::methods::NonPrivate::new().batch_size(BATCH).steps(STEPS);
    plans.push(loss.learning_rate_schedule("plateau:0.5:1".parse().unwrap()).plan(data).unwrap());
    plans
}

#[test]
fn a_run_that_is_killed_goes_on_bit_for_bit_and_is_charged_once() -> Result<()> {
    let data = small();
    let mut logs = 0;
    for plan in with_states(&data) {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [whole, parts] =
            [0, 1].map(|i| RunStore::open(folders[i].path().to_path_buf()).unwrap());
        let plan = plan.with_seed(3);
        let run = trained(&plan, &data, &whole)?;
        let every_third = plan.clone().checkpoint_every(3.into(), Vec::new())?;
        // Before the first checkpoint, after one, between two, and before the run is closed.
        let resumed = killed_after(&[1, 2, 3, 5, 8], &every_third, &data, &parts)?;
        let about = plan.method();
        assert!(resumed.is_finished() && !resumed.is_restored(), "{about}");
        assert_eq!(parameters(&resumed), parameters(&run), "{about}");
        assert_eq!(resumed.curve(), run.curve(), "{about}");
        assert_eq!(resumed.selection_log(), run.selection_log(), "{about}");
        assert_eq!(resumed.record().mean_threshold, run.record().mean_threshold, "{about}");
        assert_eq!(
            resumed.mask().map(|m| m.kept_count()),
            run.mask().map(|m| m.kept_count()),
            "{about}"
        );
        assert_eq!(parts.ledger(&data)?.events()?, whole.ledger(&data)?.events()?, "{about}");
        let checkpoints = resumed.record().checkpoints.as_ref().unwrap();
        let steps: Vec<u64> = checkpoints.resumed.iter().map(|resumed| resumed.step).collect();
        assert_eq!(steps, [0, 0, 3, 3, 6], "{about}");
        assert!(checkpoints.resumed.iter().all(|resumed| resumed.repeated && resumed.same_bits));
        assert!(!parts.checkpoint_dir(&resumed.record().id).exists(), "{about}");
        assert_eq!(resumed.epsilon(), run.epsilon(), "{about}");
        logs += usize::from(run.selection_log().is_some());
    }
    assert!(logs > 3, "selections were compared");
    Ok(())
}
