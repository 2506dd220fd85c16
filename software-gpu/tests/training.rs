//! Whole runs on the software GPU, beside the same runs on the CPU.

use std::collections::BTreeSet;
use std::sync::Mutex;

use epsilab::burn::{self, module::Module, prelude::*};
use epsilab::data::glyphs_with;
use epsilab::nn::{Forward, Linear, LinearSpec, Tape, Value};
use epsilab::prelude::*;
use epsilab::privacy::Ledger;
use epsilab::train::{Silent, fit};

/// The best GPU that WGPU finds, which is the software GPU where there is no other.
const GPU: &str = "wgpu";

fn trained(plan: &Plan, model: &Model, data: &Dataset) -> Result<Run> {
    // The name of a run decides its noise, so the same run on both devices has the same.
    fit("the same run", plan, model, data, &Ledger::in_memory(), &mut Silent)
}

/// Same batches, same noise, the same up to rounding: what is learned must be about the same.
fn assert_same(gpu: &Run, cpu: &Run, what: &str) {
    assert!(gpu.record().device.starts_with(GPU), "{what}: {}", gpu.record().device);
    assert!(cpu.record().device.starts_with("cpu"), "{what}");
    assert_eq!(gpu.record().events, cpu.record().events, "{what}: the same is charged");
    assert_eq!(gpu.record().epsilon, cpu.record().epsilon, "{what}");
    // Both have the noise of one seed, but not the same sums: only one of them may be published.
    let alone = |run: &Run| run.badge().to_string().contains("no other run of the same settings");
    let private = gpu.record().plan.privacy().is_some();
    assert_eq!((alone(gpu), alone(cpu)), (private, false), "{what}: {}", gpu.badge());
    assert_eq!(gpu.mask().is_some(), cpu.mask().is_some(), "{what}");
    let (there, here) = (gpu.model().network().values(), cpu.model().network().values());
    let (mut apart, mut moved) = (0.0, 0.0);
    for ((_, a), (_, b)) in there.iter().zip(&here) {
        apart += a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>();
        moved += b.iter().map(|b| f64::from(*b).powi(2)).sum::<f64>();
    }
    assert!(
        (apart / moved).sqrt() < 0.02,
        "{what}: parameters {:.4} apart",
        (apart / moved).sqrt()
    );
    let accuracy = |run: &Run| run.record().test_accuracy.expect("there is a test part");
    let (there, here) = (accuracy(gpu), accuracy(cpu));
    assert!((there - here).abs() < 0.04, "{what}: {there} on the GPU, {here} on the CPU");
}

#[test]
fn every_method_learns_on_a_gpu_what_it_learns_on_the_cpu() -> Result<()> {
    let data = glyphs_with(1200, 300, 9)?;
    let model = models::papernot_cnn(&data).seed(3).build()?;
    let private =
        || DpSsgd::new().noise_multiplier(0.7).clip(0.5).batch_size(150).epochs(2).seed(5);
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
                .optimizer(Optimizer::Adam)
                .learning_rate(0.01),
        ),
        ("DP-SNIP", private().pre_prune(DpSnip::keep(0.5).noise_multiplier(5.0))),
    ];
    for (what, method) in methods {
        let run =
            |device: &str| trained(&method.clone().device(device).plan(&data)?, &model, &data);
        assert_same(&run(GPU)?, &run("cpu")?, what);
    }
    let plain = NonPrivate::new().batch_size(150).epochs(2).seed(5);
    let run = |device: &str| trained(&plain.clone().device(device).plan(&data)?, &model, &data);
    let (gpu, cpu) = (run(GPU)?, run("cpu")?);
    assert_same(&gpu, &cpu, "without privacy");
    // A tenth is chance.
    let accuracy = gpu.record().test_accuracy;
    assert!(accuracy > Some(0.4), "{accuracy:?}");
    Ok(())
}

#[test]
fn augmented_images_and_texts_train_there_too() -> Result<()> {
    let images = data::patterns_with(120, 60, 2)?;
    let model = models::papernot_cnn(&images).seed(1).build()?;
    let augment = data::Augment::new().copies(3).flip().crop(2);
    let method =
        DpSgd::new().noise_multiplier(1.0).batch_size(30).steps(3).seed(2).augment(augment);
    let run =
        |device: &str| trained(&method.clone().device(device).plan(&images)?, &model, &images);
    assert_same(&run(GPU)?, &run("cpu")?, "augmented");
    let texts = data::sentences_with(80, 40, 3)?;
    let words = texts.vocabulary().map_or(0, |vocabulary| vocabulary.len());
    let model = models::bilstm(&texts, words, 8, 8).seed(1).build()?;
    let method = DpSgd::new().noise_multiplier(1.0).batch_size(20).steps(3).seed(2);
    let run = |device: &str| trained(&method.clone().device(device).plan(&texts)?, &model, &texts);
    assert_same(&run(GPU)?, &run("cpu")?, "texts");
    Ok(())
}

#[test]
fn what_a_gpu_cannot_take_is_refused_before_anything_is_charged() -> Result<()> {
    let data = glyphs_with(40, 0, 1)?;
    let model = models::mlp(&data, &[4]).seed(1).build()?;
    let method = DpSgd::new().noise_multiplier(1.0).batch_size(20).steps(1).device(GPU);
    // The shading language that WGPU speaks has no such numbers.
    let plan = method.precision(Precision::Bf16).plan(&data)?;
    let ledger = Ledger::in_memory();
    let error = fit("a run", &plan, &model, &data, &ledger, &mut Silent).expect_err("no bf16");
    assert_eq!(error.kind(), ErrorKind::Device, "{error}");
    assert!(error.to_string().contains("bf16"), "{error}");
    assert!(ledger.entries()?.is_empty(), "{error}");
    Ok(())
}

/// How many rows came at a time, on the GPU.
static SEEN: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// A linear model that remembers how many rows it is given.
#[derive(Module, Debug)]
struct Counting {
    layer: Linear,
}

impl Forward for Counting {
    fn forward(&self, x: Value, tape: &mut dyn Tape) -> Tensor<2> {
        if x.device() != Device::flex() {
            SEEN.lock().expect("nobody panics").insert(x.dims()[0]);
        }
        self.layer.forward(Value::Flat(x.flat()), tape).flat()
    }
}

#[test]
fn all_passes_of_a_run_have_one_size_whatever_the_batches() -> Result<()> {
    let data = glyphs_with(200, 0, 1)?;
    let layer = Linear::new(LinearSpec::new(784, 10), 1)?;
    let model = Model::custom("counting", Counting { layer }, &data)?;
    let method = DpSgd::new().noise_multiplier(1.0).batch_size(20).steps(8).seed(1);
    trained(&method.device(GPU).plan(&data)?, &model, &data)?;
    // One example tells what it takes; then 20 + 3 √20, rounded up.
    assert_eq!(*SEEN.lock().expect("nobody panics"), BTreeSet::from([1, 34]));
    Ok(())
}
