//! How often the host waits for a GPU. Alone in its process, and one after the other: all copies to
//! the host are counted together.

#[path = "../../tests/device/data.rs"]
#[allow(dead_code)] // The rest is run in another file.
mod data;
#[path = "../../tests/device/executor/mod.rs"]
#[allow(dead_code)]
mod executor;

use epsilab::data::glyphs_with;
use epsilab::device::host_syncs;
use epsilab::prelude::{DpSsgd, Dropping, Result, models};
use epsilab::privacy::Ledger;
use epsilab::train::{Silent, fit};
use epsilab_software_gpu::gpu;

#[test]
fn no_step_waits_for_the_gpu() -> Result<()> {
    executor::reads::later_steps_copy_nothing_to_the_host(&gpu());
    data::copies_to_the_host(&gpu())?;
    a_run_waits_only_to_draw_its_points()
}

fn a_run_waits_only_to_draw_its_points() -> Result<()> {
    let data = glyphs_with(200, 50, 1)?;
    let model = models::mlp(&data, &[8]).seed(1).build()?;
    let method = DpSsgd::new().noise_multiplier(1.0).batch_size(40).steps(360).seed(1);
    let plan = method.drop_gradients(Dropping::magnitude(0.5)).device("wgpu").plan(&data)?;
    let before = host_syncs();
    fit("a run", &plan, &model, &data, &Ledger::in_memory(), &mut Silent)?;
    // 61 points of the chart, 10 accuracies with a look whether all is finite, the first step's
    // question whether there was room, what was touched, and the trained parameters.
    let reads = host_syncs() - before;
    assert!((60..110).contains(&reads), "{reads} reads in 360 steps");
    Ok(())
}
