//! Whole runs on the software GPU, compared with the same runs on the CPU.

use std::collections::BTreeSet;
use std::sync::Mutex;

use epsilab::burn::{self, module::Module, prelude::*};
use epsilab::data::glyphs_with;
use epsilab::methods::methods;
use epsilab::nn::{BatchTensor, Forward, Linear, LinearSpec, Tape};
use epsilab::prelude::*;
use epsilab::privacy::Ledger;
use epsilab::train::{NoopObserver, fit};

/// The default GPU of WGPU: the software GPU if there is no other.
const GPU: &str = "wgpu";

fn trained(plan: &Plan, model: &Model, data: &Dataset) -> Result<Run> {
    // The noise depends on the name of the run, so it is the same on both devices.
    fit("the same run", plan, model, data, &Ledger::in_memory(), &mut NoopObserver)
}

/// Batches and noise are the same up to rounding, so the trained models must be nearly equal.
fn assert_same(gpu: &Run, cpu: &Run, what: &str) {
    assert!(gpu.record().device.starts_with(GPU), "{what}: {}", gpu.record().device);
    assert!(cpu.record().device.starts_with("cpu"), "{what}");
    assert_eq!(gpu.record().released, cpu.record().released, "{what}: different charges");
    assert_eq!(gpu.record().epsilon, cpu.record().epsilon, "{what}");
    // The runs share their noise but not their sums, so only one of them may be published.
    let sole_release =
        |run: &Run| run.badge().to_string().contains("no other run of the same settings");
    let private = gpu.record().plan.has_guarantee();
    assert_eq!((sole_release(gpu), sole_release(cpu)), (private, false), "{what}: {}", gpu.badge());
    assert_eq!(gpu.mask().is_some(), cpu.mask().is_some(), "{what}");
    let (on_gpu, on_cpu) = (gpu.model().network().values(), cpu.model().network().values());
    let (mut difference, mut norm) = (0.0, 0.0);
    for ((_, a), (_, b)) in on_gpu.iter().zip(&on_cpu) {
        difference += a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>();
        norm += b.iter().map(|b| f64::from(*b).powi(2)).sum::<f64>();
    }
    let relative = f64::sqrt(difference / norm);
    assert!(relative < 0.02, "{what}: parameters differ by {relative:.4}");
    let accuracy = |run: &Run| run.record().test_accuracy.expect("a test accuracy");
    let (on_gpu, on_cpu) = (accuracy(gpu), accuracy(cpu));
    assert!((on_gpu - on_cpu).abs() < 0.04, "{what}: {on_gpu} on the GPU, {on_cpu} on the CPU");
}

#[test]
fn every_method_trains_the_same_model_on_gpu_and_cpu() -> Result<()> {
    let data = glyphs_with(600, 200, 9)?;
    let model = models::papernot_cnn(&data).seed(3).build()?;
    let private = || DpSsgd::new().noise_multiplier(0.7).clip(0.5).batch_size(75).epochs(1).seed(5);
    let synflow = || Synflow::keep(0.5);
    let methods = [
        ("DP-SGD", private()),
        ("Synflow", private().pre_prune(synflow())),
        ("random dropping", private().drop_gradients(Dropping::random(0.3))),
        (
            "Synflow and dropping by magnitude, Adam",
            private()
                .pre_prune(synflow())
                .drop_gradients(Dropping::magnitude(0.4))
                .optimizer(Optimizer::adam())
                .learning_rate(0.01),
        ),
        ("DP-SNIP", private().pre_prune(DpSnip::keep(0.5).noise_multiplier(5.0))),
    ];
    for (what, method) in methods {
        let run =
            |device: &str| trained(&method.clone().device(device).plan(&data)?, &model, &data);
        assert_same(&run(GPU)?, &run("cpu")?, what);
    }
    let plain = NonPrivate::new().batch_size(75).epochs(2).seed(5);
    let run = |device: &str| trained(&plain.clone().device(device).plan(&data)?, &model, &data);
    let (gpu, cpu) = (run(GPU)?, run("cpu")?);
    assert_same(&gpu, &cpu, "non-private");
    // Chance level is 0.1.
    let accuracy = gpu.record().test_accuracy;
    assert!(accuracy > Some(0.4), "{accuracy:?}");
    Ok(())
}

#[test]
fn every_method_of_the_registry_trains_the_same_model_on_gpu_and_cpu() -> Result<()> {
    let data = glyphs_with(300, 300, 9)?;
    let model = models::mlp(&data, &[32]).seed(3).build()?;
    for mut method in methods() {
        let title = method.descriptor().title;
        let settings = method.settings_mut();
        (settings.expected_batch_size, settings.steps) = (60, Some(8));
        settings.seed = Some(5);
        if let Some(private) = method.privacy_settings_mut() {
            private.set_noise_multiplier(0.7);
        }
        let mut run = |device: &str| {
            method.settings_mut().device = Some(device.to_owned());
            trained(&method.plan(&data)?, &model, &data)
        };
        assert_same(&run(GPU)?, &run("cpu")?, title);
    }
    Ok(())
}

#[test]
fn augmented_images_and_texts_train_on_the_gpu() -> Result<()> {
    let images = data::patterns_with(120, 60, 2)?;
    let model = models::papernot_cnn(&images).seed(1).build()?;
    let augment = data::Augment::new().copies(3).flip().crop(2);
    let method =
        DpSgd::new().noise_multiplier(1.0).batch_size(30).steps(3).seed(2).augment(augment);
    let run =
        |device: &str| trained(&method.clone().device(device).plan(&images)?, &model, &images);
    assert_same(&run(GPU)?, &run("cpu")?, "augmented");
    let texts = data::sentences_with(80, 40, 3)?;
    let vocabulary_size = texts.vocabulary().map_or(0, |vocabulary| vocabulary.len());
    let model = models::bilstm(&texts, vocabulary_size, 8, 8).seed(1).build()?;
    let method = DpSgd::new().noise_multiplier(1.0).batch_size(20).steps(3).seed(2);
    let run = |device: &str| trained(&method.clone().device(device).plan(&texts)?, &model, &texts);
    assert_same(&run(GPU)?, &run("cpu")?, "texts");
    Ok(())
}

#[test]
fn unsupported_precision_is_refused_before_anything_is_charged() -> Result<()> {
    let data = glyphs_with(40, 0, 1)?;
    let model = models::mlp(&data, &[4]).seed(1).build()?;
    let method = DpSgd::new().noise_multiplier(1.0).batch_size(20).steps(1).device(GPU);
    // WGSL, the shading language of WGPU, has no bf16.
    let plan = method.precision(Precision::Bf16).plan(&data)?;
    let ledger = Ledger::in_memory();
    let error =
        fit("a run", &plan, &model, &data, &ledger, &mut NoopObserver).expect_err("no bf16");
    assert_eq!(error.kind(), ErrorKind::Device, "{error}");
    assert!(error.to_string().contains("bf16"), "{error}");
    assert!(ledger.entries()?.is_empty(), "{error}");
    Ok(())
}

/// The batch sizes of all forward passes on the GPU.
static BATCH_SIZES: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// A linear model that records the batch sizes of its forward passes.
#[derive(Module, Debug)]
struct BatchSizeRecorder {
    layer: Linear,
}

impl Forward for BatchSizeRecorder {
    fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> Tensor<2> {
        if x.device() != Device::flex() {
            BATCH_SIZES.lock().expect("no thread panicked").insert(x.dims()[0]);
        }
        self.layer.forward(BatchTensor::Flat(x.into_flat()), tape).into_flat()
    }
}

#[test]
fn all_passes_of_a_run_have_the_same_size() -> Result<()> {
    let data = glyphs_with(200, 0, 1)?;
    let layer = Linear::new(LinearSpec::new(784, 10), 1)?;
    let model = Model::custom("counting", BatchSizeRecorder { layer }, &data)?;
    let method = DpSgd::new().noise_multiplier(1.0).batch_size(20).steps(8).seed(1);
    trained(&method.device(GPU).plan(&data)?, &model, &data)?;
    // Passes of 20 + 3 √20, rounded up; the memory of one example is measured on the CPU.
    assert_eq!(*BATCH_SIZES.lock().expect("no thread panicked"), BTreeSet::from([34]));
    Ok(())
}
