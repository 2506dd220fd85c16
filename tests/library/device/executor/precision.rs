//! Matrix products in bf16.

use epsilab::burn::optim::SgdConfig;
use epsilab::burn::prelude::Device;
use epsilab::burn::tensor::FloatDType;
use epsilab::data::glyphs_with;
use epsilab::engine::{Batch, ClipRule, Executor, ReferenceExecutor, TapExecutor, optimizer_step};
use epsilab::nn::{Model, Precision, models};
use epsilab::{ErrorKind, Result};

use super::{distance, median, relative_difference, to_device};

fn executor(precision: Precision) -> TapExecutor {
    TapExecutor::default().with_device_path().precision(precision)
}

/// Whether the device supports bf16. If not, checks that asking for it is an error.
fn has_bf16(model: &Model, batch: &Batch, device: &Device) -> bool {
    if device.supports_dtype(FloatDType::BF16) {
        return true;
    }
    let network = to_device(model.network(), device);
    let error = executor(Precision::Bf16).unclipped_sum(&network, batch, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Device, "{error}");
    false
}

/// Gradients agree with those in f32 up to the rounding of the factors to 8 bits, and are clipped
/// to the exact clip norm.
pub fn bf16_rounds_contributions_but_keeps_the_clipping_norm(device: &Device) -> Result<()> {
    let data = glyphs_with(24, 0, 3)?;
    let ids: Vec<u32> = (0..24).collect();
    let batch = Batch::from_examples(data.train(), &ids)?;
    for model in [models::papernot_cnn(&data), models::mlp(&data, &[16])] {
        let model = model.seed(2).build()?;
        if !has_bf16(&model, &batch, device) {
            return Ok(());
        }
        let network = to_device(model.network(), device);
        let want = ReferenceExecutor.clipped_sum(model.network(), &batch, &ClipRule::flat(1e9))?;
        let clip = 0.3 * median(&want.norms);
        let rule = ClipRule::flat(clip);
        let want = ReferenceExecutor.clipped_sum(model.network(), &batch, &rule)?;
        let sum = |precision| executor(precision).clipped_sum(&network, &batch, &rule);
        let (rounded, full) = (sum(Precision::Bf16)?, sum(Precision::F32)?);
        let (near, far) =
            (distance(&full.norms, &want.norms, 0.0), distance(&rounded.norms, &want.norms, 0.0));
        assert!(far < 0.03 && far > 10.0 * near, "{}: norms {near} {far}", model.name());
        assert!(relative_difference(&rounded.sum, &want.sum) < 0.03, "{}", model.name());
        // Every single clipped example has exactly the clip norm, however its factors are
        // rounded.
        for id in [0, 7, 23] {
            let one = Batch::from_examples(data.train(), &[id])?;
            let length =
                executor(Precision::Bf16).clipped_sum(&network, &one, &rule)?.sum.l2_norm();
            assert!((length / clip - 1.0).abs() < 1e-5, "{}: {length} of {clip}", model.name());
        }
    }
    Ok(())
}

/// Training in bf16 reaches the accuracy of training in f32.
pub fn bf16_training_reaches_the_same_accuracy(device: &Device) -> Result<()> {
    let data = glyphs_with(600, 300, 4)?;
    let model = models::mlp(&data, &[24]).seed(5).build()?;
    let batches: Vec<Batch> = (0..12u32)
        .map(|i| Batch::from_examples(data.train(), &(50 * i..50 * (i + 1)).collect::<Vec<_>>()))
        .collect::<Result<_>>()?;
    if !has_bf16(&model, &batches[0], device) {
        return Ok(());
    }
    let accuracy = |precision| {
        let (tap, mut optimizer) = (executor(precision), SgdConfig::new().init());
        let mut network = to_device(model.network(), device);
        for batch in batches.iter().cycle().take(120) {
            let mut sum = tap.clipped_sum(&network, batch, &ClipRule::flat(1.0))?.sum;
            sum.scale(1.0 / 50.0);
            network = optimizer_step(&mut optimizer, 0.5, &network, &sum);
        }
        model.with_network(to_device(&network, &Device::flex())).accuracy(&data)
    };
    let (full, rounded) = (accuracy(Precision::F32)?, accuracy(Precision::Bf16)?);
    assert!(full > 0.5, "training in f32 fails: {full}");
    // Three standard errors of one accuracy on 300 examples.
    let standard_error = (full * (1.0 - full) / 300.0).sqrt();
    assert!((full - rounded).abs() < 3.0 * standard_error, "{full} {rounded}");
    Ok(())
}
