//! Batches, augmented versions and predictions made on a card: those of the host.

use epsilab::Result;
use epsilab_software_gpu::gpu;

#[path = "../../tests/card/data.rs"]
mod data;

/// All in one: copies to the host are counted for the whole process.
#[test]
fn what_a_card_does_with_data() -> Result<()> {
    let gpu = gpu();
    data::batches_from_memory(&gpu)?;
    data::strange_tokens(&gpu)?;
    data::predictions(&gpu)?;
    data::ties_and_nothing(&gpu)?;
    data::copies_to_the_host(&gpu)
}
