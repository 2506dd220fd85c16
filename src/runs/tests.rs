use super::*;
use crate::data;
use crate::methods::DpSgd;
use crate::nn::models;
use crate::support::process;

/// Observer that presses the stop button when the run has ended and is not stored yet.
struct StopsAtTheEnd;

impl Observer for StopsAtTheEnd {
    fn on_finish(&mut self, _: &Run) {
        // SAFETY: raises a signal that the training is listening for.
        unsafe { libc::raise(libc::SIGINT) };
    }
}

/// In a process of its own: the signal would interrupt the runs of other tests.
#[test]
fn an_interrupt_between_the_last_step_and_the_store_loses_nothing() {
    if process::alone(this_test!()) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::open(folder.path().to_path_buf()).unwrap();
    let data = data::glyphs_with(60, 10, 19).unwrap();
    let model = models::linear(&data).seed(1).build().unwrap();
    let plan = DpSgd::new().noise_multiplier(1.0).batch_size(20).steps(2).plan(&data).unwrap();
    let run = train_as(&store, "a-run", &plan, &model, &data, &mut StopsAtTheEnd).unwrap();
    assert!(run.is_finished());
    assert!(folder.path().join("runs/a-run/result.json").is_file());
}

/// A plan with a seed is repeated in another project, also from a model without one.
#[test]
fn a_seeded_plan_also_seeds_the_initial_parameters_of_an_unseeded_model() {
    let data = data::glyphs_with(60, 10, 20).unwrap();
    let method = DpSgd::new().noise_multiplier(1.0).batch_size(20).steps(2);
    let bits = |plan: &Plan, seed: Option<u64>| {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(folder.path().to_path_buf()).unwrap();
        let model = models::linear(&data);
        let model = seed.map_or(model.clone(), |seed| model.seed(seed)).build().unwrap();
        let id = run_id(plan, &model, &data).unwrap();
        let run =
            train_as(&store, &id, plan, &model, &data, &mut crate::train::NoopObserver).unwrap();
        let values: Vec<u32> = run
            .model()
            .network()
            .values()
            .iter()
            .flat_map(|(_, values)| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>())
            .collect();
        (id, values)
    };
    let seeded = method.clone().seed(1).plan(&data).unwrap();
    let first = bits(&seeded, None);
    assert!(first == bits(&seeded, None), "one id, one result");
    let other = bits(&method.clone().seed(2).plan(&data).unwrap(), None);
    assert!(first.0 != other.0 && first.1 != other.1);
    assert!(bits(&seeded, Some(1)).1 != bits(&seeded, Some(2)).1, "a chosen seed counts");
    let unseeded = method.plan(&data).unwrap();
    assert!(bits(&unseeded, None).1 != bits(&unseeded, None).1);
}
