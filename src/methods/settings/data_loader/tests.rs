use std::time::Duration;

use super::*;
use crate::data::{self, Dataset};
use crate::engine::{AutoExecutor, ClipRule, Executor};
use crate::methods::DpSgd;
use crate::nn::models;

fn images() -> Dataset {
    let x = (0..240).map(|i| (i * 37 % 41) as f32 / 10.0 - 2.0).collect();
    data::from_vecs(x, &[1, 4, 5], (0..12).map(|i| i % 3).collect(), 3).unwrap()
}

/// Creates the batches of three steps, with all examples in every batch.
fn batches(data: &Dataset, augment: Option<Augment>) -> DataLoader {
    let settings = DpSgd::new().noise_multiplier(1.0).clip(0.1).batch_size(12).steps(3);
    let settings = augment.into_iter().fold(settings, |settings, a| settings.augment(a));
    DataLoader::new(&settings.plan(data).unwrap(), data.train(), [7; 32], [8; 32]).unwrap()
}

#[test]
fn the_next_batch_is_gathered_while_one_is_in_use_and_none_after_the_last_step() -> Result<()> {
    let data = images();
    let model = models::linear(&data).seed(1).build()?;
    let mut batches = batches(&data, Some(Augment::new().copies(2).flip()));
    let reader = batches.prefetcher.clone().expect("copies are made");
    // Waits until so many examples are gathered, and a little longer for more.
    let gathered = |expected: usize| {
        for _ in 0..120_000 {
            if reader.seen().examples >= expected {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(30));
        reader.seen().examples
    };
    let executor = AutoExecutor::default();
    for step in 1..=3 {
        let batch = batches.draw()?;
        executor.clipped_sum(model.network(), &batch, &ClipRule::flat(0.1))?;
        assert_eq!(gathered(12 * (step + 1).min(3)), 12 * (step + 1).min(3), "step {step}");
    }
    assert_eq!(reader.seen().alive, 2);
    // Beyond the last step, batches are gathered when they are used.
    let batch = batches.draw()?;
    assert_eq!(gathered(36), 36);
    executor.clipped_sum(model.network(), &batch, &ClipRule::flat(0.1))?;
    assert_eq!(gathered(48), 48);
    Ok(())
}

#[test]
fn data_in_memory_needs_no_thread_and_a_run_may_end_at_any_step() -> Result<()> {
    let data = images();
    assert!(batches(&data, None).prefetcher.is_none());
    let model = models::linear(&data).seed(1).build()?;
    for device in [false, true] {
        let mut batches = batches(&data, Some(Augment::new().copies(2)));
        if device {
            batches = batches.on_device_path(model.network())?;
            assert!(batches.prefetcher.is_none(), "the device holds the features");
        }
        let weak = batches.prefetcher.as_ref().map(Arc::downgrade);
        let batch = batches.draw()?;
        AutoExecutor::default().clipped_sum(model.network(), &batch, &ClipRule::flat(0.1))?;
        // The next batch may be being gathered: its thread ends here.
        drop((batches, batch));
        assert!(weak.is_none_or(|weak| weak.upgrade().is_none()));
    }
    Ok(())
}
