//! How often the host waits for the GPU. The checks run one after the other in a process of their
//! own, because the counter of host syncs is global.

#[path = "../../tests/library/device/data.rs"]
#[allow(dead_code)] // Other checks run in `device.rs`.
mod data;
#[path = "../../tests/library/device/executor/mod.rs"]
#[allow(dead_code)]
mod executor;

use epsilab::data::glyphs_with;
use epsilab::device::host_sync_count;
use epsilab::prelude::{DpSsgd, Dropping, Result, models};
use epsilab::privacy::Ledger;
use epsilab::train::{NoopObserver, fit};
use epsilab_software_gpu::gpu;

#[test]
fn training_steps_do_not_wait_for_the_gpu() -> Result<()> {
    executor::reads::later_steps_have_no_host_syncs(&gpu());
    data::host_syncs_of_batches_and_evaluation(&gpu())?;
    a_run_waits_only_for_its_chart_and_checks()
}

fn a_run_waits_only_for_its_chart_and_checks() -> Result<()> {
    let data = glyphs_with(200, 50, 1)?;
    let model = models::mlp(&data, &[8]).seed(1).build()?;
    let method = DpSsgd::new().noise_multiplier(1.0).batch_size(40).steps(360).seed(1);
    let plan = method.drop_gradients(Dropping::magnitude(0.5)).device("wgpu").plan(&data)?;
    let before = host_sync_count();
    fit("a run", &plan, &model, &data, &Ledger::in_memory(), &mut NoopObserver)?;
    // 61 points of the chart with a loss and a norm each, 13 accuracies each with a check for
    // finite parameters, the initial norm, the memory check of the first step, the selection log,
    // and the trained parameters.
    let syncs = host_sync_count() - before;
    assert!((120..170).contains(&syncs), "{syncs} host syncs in 360 steps");
    Ok(())
}
