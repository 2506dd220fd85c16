use super::*;
use crate::data::{self, Dataset};
use crate::engine::{Batch, Bound, ClipRule, Executor, ReferenceExecutor};
use crate::methods::{DpSgd, Method, Plan, Release};
use crate::nn::{
    Conv2dSpec, GroupNormSpec, LayerClips, LayerSpec, Model, Network, UpstreamNorm, models,
};
use crate::privacy::{
    ClipSchedule, Delta, Epsilon, Event, Ledger, NeighbouringRelation, NoiseSchedule,
};
use crate::train::{NoopObserver, fit};
use crate::{ErrorKind, Result};

fn small() -> Dataset {
    let x = (0..240).map(|i| (i * 37 % 23) as f32 - 11.0).collect();
    data::from_vecs(x, &[6], (0..40).map(|i| i % 3).collect(), 3).unwrap()
}

fn model(data: &Dataset) -> Model {
    models::mlp(data, &[64]).seed(1).build().unwrap()
}

fn method() -> BackpropClip {
    BackpropClip::new().input_clip(2.0).gradient_clip(0.1).noise_multiplier(1.5).batch_size(10)
}

fn batch(data: &Dataset, ids: impl IntoIterator<Item = u32>) -> Batch {
    Batch::from_examples(data.train(), &ids.into_iter().collect::<Vec<_>>()).unwrap()
}

fn released(plan: &Plan, network: &Network, batch: &Batch) -> Release {
    plan.mechanism([3; 32]).unwrap().release(network, batch, None).unwrap()
}

#[test]
fn every_layer_has_an_equal_part_of_the_noise() -> Result<()> {
    let data = small();
    // The first layer without bias, so that the layers differ in their sensitivity.
    let linear =
        |inputs, outputs, bias| LayerSpec::Linear(crate::nn::LinearSpec { inputs, outputs, bias });
    let specs = [linear(6, 8, false), LayerSpec::Tanh, linear(8, 3, true)];
    let network = Network::build(&[6], &specs, |_, shape, _| vec![0.1; shape.iter().product()])?;
    let plan = method().steps(3).plan(&data)?;
    let network = plan.prepare_network(&network)?;
    let release = released(&plan, &network, &batch(&data, 0..40));
    let (first, second) = (2.0 * 0.1, 5f64.sqrt() * 0.1);
    let wanted = [first, second, second].map(|bound| 1.5 * 2f64.sqrt() * bound / 10.0);
    for (std, wanted) in release.noise_std.iter().zip(wanted) {
        assert!((std / wanted - 1.0).abs() < 1e-12, "{std} {wanted}");
    }
    let groups = ClipRule::Backprop(LayerClips::new(2.0, 0.1)).groups(&network)?;
    let stds: Vec<f64> = release.noise_std.iter().map(|std| std * 10.0).collect();
    assert!((groups.joint_noise_multiplier(&stds) - 1.5).abs() < 1e-12);
    // The paper's accounting charges every layer as a release of its own.
    let each = [first / stds[0], second / stds[1]];
    assert!(each.iter().all(|ratio| (ratio * 1.5 * 2f64.sqrt() - 1.0).abs() < 1e-12));
    Ok(())
}

#[test]
fn the_release_is_the_clipped_sum_and_no_example_depends_on_the_size_of_the_batch() -> Result<()> {
    let data = small();
    // So little noise that the sum can be read.
    let plan = method().noise_multiplier(1e-6).plan(&data)?;
    let prepared = plan.prepare_model(&model(&data))?;
    let network = prepared.network();
    let sum = |ids: &[u32]| -> Result<Vec<f64>> {
        let batch = batch(&data, ids.iter().copied());
        let release = released(&plan, network, &batch);
        let expected = ReferenceExecutor.unclipped_sum(network, &batch, None)?.sum;
        let all = release.gradient.entries.iter().zip(&expected.entries);
        let pairs = all.flat_map(|(a, b)| a.values.iter().copied().zip(b.values.iter().copied()));
        pairs
            .map(|(a, b)| {
                assert!((10.0 * a - b).abs() < 1e-4, "divided by the expected batch size");
                Ok(10.0 * f64::from(a))
            })
            .collect()
    };
    let all_ids: Vec<u32> = (0..40).collect();
    let parts: Vec<Vec<f64>> = all_ids.chunks(7).map(&sum).collect::<Result<_>>()?;
    let whole = sum(&all_ids)?;
    for (i, whole) in whole.iter().enumerate() {
        let together: f64 = parts.iter().map(|part| part[i]).sum();
        assert!((together - whole).abs() < 1e-3, "the loss is summed");
    }
    Ok(())
}

#[test]
fn a_trained_model_keeps_its_clips_and_charges_one_event() -> Result<()> {
    let data = small();
    let plan = method().steps(4).seed(1).noise_schedule(NoiseSchedule::linear(0.5)).plan(&data)?;
    let ledger = Ledger::in_memory();
    let run = fit("a run", &plan, &model(&data), &data, &ledger, &mut NoopObserver)?;
    let trained = run.model();
    let network = trained.network();
    assert!(network.specs().iter().any(|spec| matches!(spec, LayerSpec::BackpropClipped(_))));
    // Prediction clips inputs: a huge example and its direction have the same logits.
    let logits = |scale: f32| network.logits((1..7).map(|i| i as f32 * scale).collect(), 1);
    let (one, huge) = (logits(10.0), logits(1e6));
    assert!((one - huge).abs().max().into_scalar::<f32>() < 1e-4);
    assert_eq!(plan.event().release_count(), 4);
    let event = plan.event();
    let same = DpSgd::new().noise_multiplier(1.5).batch_size(10).steps(4);
    assert_eq!(event, same.noise_schedule(NoiseSchedule::linear(0.5)).plan(&data)?.event());
    assert!(run.statement().to_string().contains("root of their number"), "{}", run.statement());
    // The parameters keep their names, and the clips are in the file of the model.
    assert_eq!(network.paths(), model(&data).network().paths());
    let file = tempfile::NamedTempFile::new().unwrap();
    run.model().save(file.path())?;
    let loaded = crate::nn::models::load(file.path())?;
    assert_eq!(loaded.network().specs(), network.specs());
    Ok(())
}

#[test]
fn frozen_layers_have_no_clips_no_noise_and_no_part_in_the_budget() -> Result<()> {
    let data = data::patterns_with(40, 0, 1)?;
    let conv = |i, o| LayerSpec::Conv2d(Conv2dSpec { bias: false, ..Conv2dSpec::new(i, o, 3) });
    let norm = LayerSpec::GroupNorm(GroupNormSpec { groups: 2, channels: 4, epsilon: 1e-5 });
    let head = LayerSpec::Linear(crate::nn::LinearSpec { inputs: 4, outputs: 10, bias: true });
    let specs = [conv(3, 4), norm, LayerSpec::Relu, LayerSpec::GlobalAvgPool, head];
    let shape = data.shape().to_vec();
    let network = Network::build(&shape, &specs, |_, shape, _| vec![0.1; shape.iter().product()])?;
    let error = method().plan(&data)?.prepare_network(&network).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Model);
    assert!(error.to_string().contains("1 (GroupNorm)"), "{error}");
    assert!(error.advice().contains(".freeze(\"1\")"), "{error}");

    let texts = data::sentences_with(40, 10, 1)?;
    let model = models::bilstm(&texts, 60, 4, 4).seed(1).build()?;
    let prepared = method().plan(&texts)?.prepare_model(&model)?;
    let release = released(&method().plan(&texts)?, prepared.network(), &batch(&texts, []));
    // Inputs of norm 2, 4 hidden features and 2 biases.
    let wanted = 1.5 * 3f64.sqrt() * 0.1 * (4.0 + 4.0 + 2.0f64).sqrt() / 10.0;
    assert_eq!(release.noise_std.len(), 1 + 32 + 2);
    assert!(release.noise_std[1..33].iter().all(|std| (std / wanted - 1.0).abs() < 1e-12));

    let plan = method().freeze("1").plan(&data)?;
    let network = plan.prepare_network(&network)?;
    let selected = plan.freezing().trainable_weights(&network)?;
    let mut mechanism = plan.mechanism([3; 32])?;
    let release = mechanism.release(&network, &batch(&data, 0..20), Some(&selected))?;
    let frozen = |path: &str| path.starts_with("1.");
    for (entry, std) in release.gradient.entries.iter().zip(&release.noise_std) {
        assert_eq!(frozen(&entry.path), entry.values.iter().all(|&v| v == 0.0), "{}", entry.path);
        let of_layer = if entry.path.starts_with('0') { 0.2 } else { 0.1 * 5f64.sqrt() };
        let wanted = if frozen(&entry.path) { 0.0 } else { 1.5 * 2f64.sqrt() * of_layer / 10.0 };
        assert!((std - wanted).abs() < 1e-12, "{}: {std} {wanted}", entry.path);
    }
    // Without the selection the noise would have no bound: nothing is released.
    let error = plan.mechanism([3; 32])?.release(&network, &batch(&data, 0..20), None);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Setting);
    Ok(())
}

#[test]
fn a_layer_of_which_one_tensor_is_frozen_has_the_noise_of_its_clips() -> Result<()> {
    let data = small();
    for frozen in ["0.weight", "0.bias"] {
        let plan = method().freeze(frozen).plan(&data)?;
        let prepared = plan.prepare_model(&model(&data))?;
        let selected = plan.freezing().trainable_weights(prepared.network())?;
        let empty = batch(&data, []);
        let mut mechanism = plan.mechanism([3; 32])?;
        let release = mechanism.release(prepared.network(), &empty, Some(&selected))?;
        for (entry, &std) in release.gradient.entries.iter().zip(&release.noise_std) {
            let wanted = 1.5 * 2f64.sqrt() * 0.1 * 5f64.sqrt() / 10.0;
            assert!((std - wanted).abs() < 1e-12, "{}", entry.path);
            let zero = entry.values.iter().all(|&value| value == 0.0);
            assert_eq!(zero, entry.path == frozen, "{}", entry.path);
        }
    }
    // A frozen layer keeps the clips that it was trained with.
    let first = method().plan(&data)?.prepare_model(&model(&data))?;
    let plan = method().gradient_clip(0.5).freeze("0").plan(&data)?;
    let second = plan.prepare_model(&first)?;
    assert_eq!(second.network().specs()[0], first.network().specs()[0]);
    assert_ne!(second.network().specs()[2], first.network().specs()[2]);
    assert!(plan.bound(0)?.unwrap().groups(second.network()).is_ok());
    Ok(())
}

#[test]
fn the_published_code_has_the_noise_of_a_far_smaller_multiplier() -> Result<()> {
    let data = small();
    let (sound, published) = (method().steps(5).plan(&data)?, method().steps(5).as_published());
    let published = published.plan(&data)?;
    let epsilon = |plan: &Plan| plan.epsilon_after(5).map(Option::unwrap);
    assert!(epsilon(&published)? > 10.0 * epsilon(&sound)?);
    // The same noise on a sum whose sensitivity is larger by the batch size.
    let stds = |plan: &Plan| -> Result<Vec<f64>> {
        let network = plan.prepare_model(&model(&data))?.network().clone();
        Ok(released(plan, &network, &batch(&data, [])).noise_std)
    };
    for (a, b) in stds(&sound)?.into_iter().zip(stds(&published)?) {
        assert!((a / b - 1.0).abs() < 1e-12);
    }
    let sensitivity = |plan: &Plan| -> Result<f64> {
        let network = plan.prepare_model(&model(&data))?.network().clone();
        let groups = plan.bound(0)?.unwrap().groups(&network)?;
        Ok(groups.joint_sensitivity(NeighbouringRelation::AddOrRemoveOne))
    };
    assert!((sensitivity(&published)? / sensitivity(&sound)? - 10.0).abs() < 1e-9);
    let target = BackpropClip::new().as_published().target(Epsilon(1.0), Delta(1e-5));
    assert_eq!(target.plan(&data).unwrap_err().kind(), ErrorKind::Setting);
    Ok(())
}

#[test]
fn settings_that_do_not_apply_are_refused() -> Result<()> {
    let data = small();
    let refused = |change: &dyn Fn(&mut BackpropClip), words: &str| {
        let mut method = method();
        change(&mut method);
        let error = method.plan(&data).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setting, "{error}");
        assert!(error.to_string().contains(words) && !error.advice().is_empty(), "{error}");
    };
    refused(&|method| method.privacy_settings_mut().unwrap().set_clip(1.0), "bound on the clipped");
    let decay = || ClipSchedule::decay(0.5);
    refused(
        &|method| method.privacy_settings_mut().unwrap().clip_schedule = decay(),
        "bound on the",
    );
    for value in ["0", "-1", "nan", "1e13"] {
        refused(&|method| method.set("input-clip", value).unwrap(), "max_input_norm");
        refused(&|method| method.set("gradient-clip", value).unwrap(), "max_upstream_norm");
    }
    let mut named = method();
    named.set("norm", "l15")?;
    assert_eq!(named, method().norm(UpstreamNorm::L15));
    assert!(named.set("norm", "l2").unwrap_err().advice().contains("sqrt_m"));
    assert!(named.set("gradient_scale", "1").is_err());
    // DP-SGD does not take this rule, nor a file that says so.
    let rule = ClipRule::Backprop(LayerClips::new(1.0, 0.01));
    let error = DpSgd::new().noise_multiplier(1.0).batch_size(10).clip_rule(rule).plan(&data);
    assert!(error.unwrap_err().advice().contains("BackpropClip"));
    let plan = method().plan(&data)?;
    assert!(matches!(plan.event(), Event::PoissonGaussian { .. }));
    let text = serde_json::to_string(&plan).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    for (title, accepted) in [("backpropagation clipping", true), ("DP-SGD", false)] {
        let edited = text
            .replace("\"method\":\"backpropagation clipping\"", &format!("\"method\":\"{title}\""));
        std::fs::write(file.path(), edited).unwrap();
        assert_eq!(Plan::load(file.path()).is_ok(), accepted, "{title}");
    }
    Ok(())
}
