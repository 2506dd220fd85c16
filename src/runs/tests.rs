use super::*;
use crate::data;
use crate::methods::DpSgd;
use crate::nn::models;
use crate::support::process;

/// Presses the stop button when the run has ended and is not stored yet.
struct StopsAtTheEnd;

impl Observer for StopsAtTheEnd {
    fn finished(&mut self, _: &Run) {
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
    let store = Store::at(folder.path().to_path_buf());
    let data = data::glyphs_with(60, 10, 19).unwrap();
    let model = models::linear(&data).seed(1).build().unwrap();
    let plan = DpSgd::new().noise_multiplier(1.0).batch_size(20).steps(2).plan(&data).unwrap();
    let run = train(&store, "a-run", &plan, &model, &data, &mut StopsAtTheEnd).unwrap();
    assert!(run.is_finished());
    assert!(folder.path().join("runs/a-run/result.json").is_file());
}
