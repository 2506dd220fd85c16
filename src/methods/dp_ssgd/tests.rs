use super::*;
use crate::data::{self, Dataset};
use crate::engine::{
    Batch, ClipRule, CoordinateWeights, Executor, Gradients, ReferenceExecutor, TapExecutor,
};
use crate::mask::{
    CoordinateSelector, DpSnip, Dropping, MagnitudeMask, Mask, MaskOrigin, MaskTensor,
    PrivacyStatus, RandomMask, Synflow, mask_assumptions,
};
use crate::methods::dp_sgd::GaussianMechanism;
use crate::methods::{DpSgd, Mechanism};
use crate::nn::{Model, models};
use crate::privacy::{Delta, Epsilon, Event, NoiseMultiplier, Stages};
use crate::{ErrorKind, Result};

const SEED: [u8; 32] = [7; 32];

/// Creates 40 examples of 6 numbers in 3 classes, of very different sizes.
fn small() -> Dataset {
    let x = (0..240).map(|i| ((i * 37 % 23) as f32 - 11.0) * (1.0 + (i / 60) as f32)).collect();
    data::from_vecs(x, &[6], (0..40).map(|i| i % 3).collect(), 3).unwrap()
}

fn model(data: &Dataset) -> Model {
    models::mlp(data, &[64, 64]).seed(1).build().unwrap()
}

fn batch(data: &Dataset, ids: &[u32]) -> Batch {
    Batch::from_examples(data.train(), ids).unwrap()
}

fn flat(gradients: &Gradients) -> Vec<f64> {
    gradients.entries.iter().flat_map(|e| e.values.iter().map(|&v| f64::from(v))).collect()
}

fn flags(selected: &CoordinateWeights) -> Vec<bool> {
    selected.entries().iter().flat_map(|e| e.values.iter().map(|&w| w != 0.0)).collect()
}

fn sum_of_squares(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().map(|v| v * v).sum()
}

fn select(model: &Model, mask: Option<&Mask>, dropping: Dropping) -> CoordinateWeights {
    let mut selector = CoordinateSelector::new(mask, Some(dropping), 10, SEED);
    (*selector.next_selection(model.network()).unwrap().unwrap()).clone()
}

/// Creates the mechanism of steps with an expected batch size of 16.
fn mechanism(clip: f64, noise_multiplier: f64) -> GaussianMechanism {
    let stages = Stages::constant(NoiseMultiplier(noise_multiplier), 100).unwrap();
    GaussianMechanism::new(ClipRule::flat(clip), stages, 16, SEED)
}

fn settings() -> DpSsgd {
    DpSsgd::new().noise_multiplier(1.0).clip(0.25).batch_size(10).steps(4)
}

#[test]
fn noise_falls_on_the_selected_coordinates_and_on_no_other() {
    let data = small();
    let model = model(&data);
    let mask = RandomMask::keep(0.6).seed(2).mask(&model).unwrap();
    let selected = select(&model, Some(&mask), Dropping::random(0.5));
    let count = flags(&selected).into_iter().filter(|&selected| selected).count();
    let empty = batch(&data, &[]);
    let release = mechanism(0.5, 2.0).release(model.network(), &empty, Some(&selected)).unwrap();
    let noise = flat(&release.gradient);
    let noisy = noise.iter().filter(|&&v| v != 0.0).count();
    assert_eq!(noisy, count, "one noisy number per selected coordinate");
    assert!(flags(&selected).iter().zip(&noise).all(|(&selected, &v)| selected == (v != 0.0)));
    // sigma C / B on each of them: the wrong standard deviations are told from the right one.
    let score = |std: f64| {
        let ratio = sum_of_squares(noise.iter().copied()) / (count as f64 * std * std);
        ((ratio - 1.0) / (2.0 / count as f64).sqrt()).abs()
    };
    let right = 2.0 * 0.5 / 16.0;
    assert!(score(right) < 4.0);
    let share = count as f64 / noise.len() as f64;
    for wrong in [right * share.sqrt(), right / share.sqrt(), right * 0.9, right * 16.0] {
        assert!(score(wrong) > 4.0, "{wrong} was not told from {right}");
    }
}

#[test]
fn one_example_moves_the_selected_sum_by_at_most_the_clip_norm() {
    let data = small();
    let model = model(&data);
    let selected = select(&model, None, Dropping::random(0.7));
    let (clip, all) = (0.25, (0..40).collect::<Vec<u32>>());
    let rule = ClipRule::flat(clip);
    let sum = |ids: &[u32]| {
        let batch = batch(&data, ids);
        let sum =
            TapExecutor::default().weighted_sum(model.network(), &batch, &rule, Some(&selected));
        flat(&sum.unwrap().sum)
    };
    // Norm and clip over all coordinates, the selection taken afterwards: within the bound, but
    // kept coordinates of most examples are cut shorter than they need be.
    let late = |ids: &[u32]| {
        let batch = batch(&data, ids);
        let mut sum =
            TapExecutor::default().clipped_sum(model.network(), &batch, &rule).unwrap().sum;
        selected.apply_mask(&mut sum);
        flat(&sum)
    };
    let moved = |sum: &dyn Fn(&[u32]) -> Vec<f64>| -> Vec<f64> {
        let with = sum(&all);
        let without = |guest: u32| {
            let rest: Vec<u32> = all.iter().copied().filter(|&id| id != guest).collect();
            sum_of_squares(with.iter().zip(sum(&rest)).map(|(a, b)| a - b)).sqrt()
        };
        all.iter().map(|&guest| without(guest)).collect()
    };
    let right = moved(&sum);
    assert!(right.iter().all(|&distance| distance <= clip * (1.0 + 1e-4)), "{right:?}");
    assert!(right.iter().filter(|&&distance| distance > 0.99 * clip).count() > 30, "{right:?}");
    assert!(
        moved(&late).iter().all(|&distance| distance < 0.9 * clip),
        "the norm is of selected coordinates"
    );
    assert!(flags(&selected).iter().zip(sum(&all)).all(|(&selected, v)| selected || v == 0.0));
}

#[test]
fn a_step_releases_the_sum_that_is_clipped_by_the_selected_norm() {
    let data = small();
    let model = model(&data);
    let network = model.network();
    let selected = select(&model, None, Dropping::random(0.7));
    let all = batch(&data, &(0..40).collect::<Vec<u32>>());
    let released = mechanism(0.25, 1e-9).release(network, &all, Some(&selected)).unwrap().gradient;
    let rule = ClipRule::flat(0.25);
    let right = ReferenceExecutor.weighted_sum(network, &all, &rule, Some(&selected)).unwrap().sum;
    // Norm and clip over all coordinates, the selection taken afterwards.
    let mut late = ReferenceExecutor.clipped_sum(network, &all, &rule).unwrap().sum;
    selected.apply_mask(&mut late);
    let off = |sum: &Gradients| {
        let apart = flat(sum).into_iter().zip(flat(&released)).map(|(sum, r)| sum - 16.0 * r);
        (sum_of_squares(apart) / sum_of_squares(flat(sum))).sqrt()
    };
    assert!(off(&right) < 1e-4, "{}", off(&right));
    assert!(off(&late) > 0.1, "the wrong version is told from the right one: {}", off(&late));
}

#[test]
fn masks_without_data_and_dropping_leave_the_accounting_as_it_is() -> Result<()> {
    let data = small();
    let dense = DpSgd::new().target(Epsilon(2.0), Delta(1e-3)).batch_size(10).epochs(3);
    let mask = RandomMask::keep(0.3).seed(1).mask(&model(&data))?;
    let sparse = [
        dense.clone().pre_prune(&mask),
        dense.clone().pre_prune(RandomMask::keep(0.1)),
        dense.clone().pre_prune(MagnitudeMask::keep(0.5)),
        dense.clone().drop_gradients(Dropping::magnitude(0.9)),
        dense.clone().pre_prune(&mask).drop_gradients(Dropping::random(0.5)),
    ];
    let dense = dense.plan(&data)?;
    for method in sparse {
        let plan = method.plan(&data)?;
        assert_eq!((plan.event(), plan.steps()), (dense.event(), dense.steps()));
        assert_eq!(plan.method(), "DP-SSGD");
        assert!(plan.has_guarantee());
    }
    Ok(())
}

#[test]
fn the_selection_is_a_function_of_parameters_and_randomness_not_of_data() -> Result<()> {
    // What the selector is given: a network, a stream, the number of the step. Two networks of the
    // same parameters select the same, whatever examples trained them.
    let data = small();
    let (a, b) = (model(&data), model(&small()));
    let selected = |model: &Model, dropping| flags(&select(model, None, dropping));
    for dropping in [Dropping::random(0.5), Dropping::magnitude(0.5)] {
        assert!(selected(&a, dropping) == selected(&b, dropping), "{dropping}");
    }
    let other = models::mlp(&data, &[64, 64]).seed(2).build()?;
    let (random, magnitude) = (Dropping::random(0.5), Dropping::magnitude(0.5));
    assert!(selected(&a, magnitude) != selected(&other, magnitude));
    assert!(selected(&a, random) == selected(&other, random));
    Ok(())
}

#[test]
fn a_mask_of_unknown_or_private_origin_shows_in_the_plan() -> Result<()> {
    let data = small();
    let model = model(&data);
    let user_mask = Mask::new(vec![MaskTensor {
        path: "0.weight".into(),
        shape: vec![6, 64],
        kept: (0..384).map(|i| i % 2 == 0).collect(),
    }])?;
    assert!(settings().pre_prune(&user_mask).plan(&data)?.has_guarantee());
    let assumed = |mask: &Mask| mask_assumptions(&mask.origin().privacy, data.origin());
    assert!(
        assumed(&user_mask)[0].contains("without looking at private data"),
        "{:?}",
        assumed(&user_mask)
    );
    // Magnitudes of parameters that training has moved are no longer data-free.
    let trained = model.with_network(model.network().clone());
    let mask = MagnitudeMask::keep(0.5).mask(&trained)?;
    assert!(assumed(&mask)[0].contains("was trained privately"), "{:?}", assumed(&mask));
    let fresh = MagnitudeMask::keep(0.5).mask(&model)?;
    assert!(assumed(&fresh).is_empty());
    // Released on other data: free here only if nobody is in both.
    let released = PrivacyStatus::Released {
        event: Event::gaussian(3.0),
        data: "elsewhere".into(),
        run: "r".into(),
        assumed: Some("nobody knows the seed".into()),
    };
    let both = mask_assumptions(std::slice::from_ref(&released), data.origin());
    assert!(both.len() == 2 && both[1].contains("in both"), "{both:?}");
    assert_eq!(mask_assumptions(&[released], "elsewhere").len(), 1);
    Ok(())
}

#[test]
fn a_mask_released_on_the_data_counts_there() -> Result<()> {
    let (x, y) = ((0..400).map(|i| i as f32).collect(), (0..100).map(|i| i % 2).collect());
    let data = crate::data::from_vecs(x, &[4], y, 2)?;
    assert_ne!(data.hash(), data.origin());
    let mut mask = RandomMask::keep(0.5).mask(&models::mlp(&data, &[8]).seed(1).build()?)?;
    let released = |data: &str| PrivacyStatus::Released {
        event: Event::gaussian(3.0),
        data: data.into(),
        run: "r".into(),
        assumed: None,
    };
    for (name, releases) in [(data.origin(), 2), (data.hash(), 1), ("elsewhere", 1)] {
        mask = Mask::with_origin(mask.tensors().to_vec(), MaskOrigin::new("then", released(name)))?;
        let plan = settings().batch_size(20).pre_prune(&mask).plan(&data)?;
        assert_eq!(plan.releases_after(1).len(), releases, "{name}");
    }
    Ok(())
}

#[test]
fn bad_settings_are_refused_with_advice() {
    let data = small();
    let cases: [(&str, DpSsgd); 13] = [
        ("prune = 1)", settings().pre_prune(RandomMask::prune(1.0))),
        ("keep = 0 ", settings().pre_prune(RandomMask::keep(0.0))),
        ("keep = 1.5 ", settings().pre_prune(RandomMask::keep(1.5))),
        ("keep = 1.1 ", settings().pre_prune(Synflow::keep(1.1))),
        ("keep = -0.2 ", settings().pre_prune(Synflow::keep(-0.2))),
        ("keep = 1.7 ", settings().pre_prune(MagnitudeMask::keep(1.7))),
        ("keep = 2 ", settings().pre_prune(DpSnip::keep(2.0).noise_multiplier(9.0))),
        ("prune = -0.1)", settings().pre_prune(MagnitudeMask::prune(-0.1))),
        ("keep = NaN ", settings().pre_prune(RandomMask::keep(f64::NAN))),
        ("drop_gradients = 1:", settings().drop_gradients(Dropping::random(1.0))),
        ("drop_gradients", settings().drop_gradients(Dropping::magnitude(-0.5))),
        ("clip", settings().clip(0.0)),
        ("noise_multiplier", settings().noise_multiplier(-1.0)),
    ];
    for (name, method) in cases {
        let error = method.plan(&data).expect_err(name);
        assert_eq!(error.kind(), ErrorKind::Setting, "{error}");
        assert!(error.to_string().contains(name), "{name}: {error}");
        assert!(!error.advice().is_empty(), "{error}");
    }
    let unset = DpSsgd::new().batch_size(10).plan(&data).unwrap_err();
    assert!(unset.to_string().contains("DP-SSGD") && unset.advice().contains(".target("));
}

#[test]
fn mask_and_training_are_one_composed_release() -> Result<()> {
    let data = small();
    let total = (Epsilon(3.0), Delta(1e-3));
    let method = DpSsgd::new().target(total.0, total.1).batch_size(10).epochs(5);
    let recipe = crate::mask::DpSnip::keep(0.5).budget_fraction(0.05);
    let plan = method.clone().pre_prune(recipe).plan(&data)?;
    let Event::Composed { events } = plan.event() else { panic!("{}", plan.event()) };
    assert!(matches!(events[0], Event::Gaussian { count: 1, .. }), "{}", events[0]);
    let spent = plan.spent_after(plan.steps())?.unwrap().epsilon;
    assert!(spent <= 3.0 && spent > 2.97, "{spent}");
    // Training alone may spend less than without the mask.
    let dense = method.plan(&data)?;
    let noise = |plan: &crate::methods::Plan| plan.privacy().unwrap().noise_multiplier;
    assert!(noise(&plan) > noise(&dense));
    let shorter = plan.event_after(1);
    assert_eq!(plan.event().reduced_to(&shorter)?, shorter, "the mask stays charged");
    let above = method.pre_prune(crate::mask::DpSnip::keep(0.5).epsilon(Epsilon(3.5)));
    assert!(above.plan(&data).is_err(), "the mask's budget is above the total");
    Ok(())
}
