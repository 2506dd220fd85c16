//! The example that writes DP-SGD out step by step trains as the library does.

#[allow(dead_code)]
#[path = "../../examples/dp_sgd_by_hand.rs"]
mod dp_sgd_by_hand;

use epsilab::prelude::*;
use epsilab::privacy::Ledger;
use epsilab::train::{NoopObserver, Seeds, fit};

const STEPS: u64 = 5;

/// Same seeds, same bits: a step that clipped, noised or divided in another way would differ.
#[test]
fn dp_sgd_by_hand_is_dp_sgd() -> Result<()> {
    let data = data::glyphs_with(3000, 100, 0)?;
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let seeds = Seeds::new(Some(1), "by hand")?;
    let (by_hand, epsilon) = dp_sgd_by_hand::train(&model, &data, STEPS, &seeds)?;

    let plan = DpSgd::new()
        .target(Epsilon(3.0), Delta(1e-5))
        .clip(0.1)
        .learning_rate(4.0)
        .batch_size(1024)
        .steps(STEPS)
        .seed(1)
        .device("cpu")
        .plan(&data)?;
    let run = fit("by hand", &plan, &model, &data, &Ledger::in_memory(), &mut NoopObserver)?;

    assert_eq!(epsilon, run.epsilon());
    let values = |model: &Model| -> Vec<f32> {
        model.network().values().into_iter().flat_map(|(_, values)| values).collect()
    };
    assert!(values(&by_hand) == values(&run.model()), "the parameters differ");
    Ok(())
}
