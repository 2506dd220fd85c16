//! A method of a crate of its own, which uses the public interface only.

use std::sync::Arc;

use burn::prelude::*;
use epsilab::audit::{self, Options, Verdict};
use epsilab::data::Population;
use epsilab::engine::{
    AutoExecutor, Batch, Bound, ClipFunction, ClipGroups, CoordinateWeights, Executor,
    GaussianNoise,
};
use epsilab::grid::NoopGridObserver;
use epsilab::methods::builder::{self, Clip, Noise};
use epsilab::methods::{
    Builder, FigureStyle, Mechanism, MethodDescriptor, MethodSettings, Plan, Release, SettingSpec,
    check_state, methods, register,
};
use epsilab::nn::Network;
use epsilab::prelude::*;
use epsilab::privacy::{NeighbouringRelation, Stages};
use serde::{Deserialize, Serialize};

use crate::support::environment::home;

/// SGD whose gradients g of norm n become g · C/(Cᵖ + nᵖ)^(1/p).
type PowerClip = Builder<PowerClipSettings>;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct PowerClipSettings {
    /// p: the larger, the nearer is it to flat clipping.
    power: f64,
}

impl Default for PowerClipSettings {
    fn default() -> Self {
        Self { power: 4.0 }
    }
}

static DESCRIPTOR: MethodDescriptor = MethodDescriptor {
    name: "power-clip",
    title: "power-clip SGD",
    summary: "clipping by a power mean",
    method: || Box::new(PowerClip::new()),
    mechanism: |plan, seed| {
        let (clip, stages) = parts(plan)?;
        Ok(Box::new(PowerClipMechanism {
            clip,
            stages,
            expected_batch_size: plan.expected_batch_size() as f64,
            noise: GaussianNoise::new(seed),
            executor: AutoExecutor::default(),
        }))
    },
    bound: |plan, _| Ok(Some(Box::new(parts(plan)?.0))),
    bound_description: |plan| {
        let Power { norm, power } = parts(plan).ok()?.0;
        Some(format!("rescaled to an L2 norm below {norm} (power mean {power})"))
    },
    own: &[SettingSpec::new("power", "Power of the mean", |method, text| {
        let value =
            text.parse().map_err(|_| Error::setting("power", text, "not a number").fix("try 4"))?;
        match method.own_mut().downcast_mut::<PowerClipSettings>() {
            Some(own) => own.power = value,
            None => unreachable!("the table is that of this method"),
        }
        Ok(())
    })
    .default_value("4")
    .value("P")],
    style: FigureStyle::new(4, 3),
    ..MethodDescriptor::DP_SGD
};

impl MethodSettings for PowerClipSettings {
    fn descriptor() -> &'static MethodDescriptor {
        &DESCRIPTOR
    }

    fn plan(builder: &PowerClip, population: &Population) -> Result<Plan> {
        let privacy = builder::privacy(builder, population, &[])?;
        builder::plan(builder, population, 0.1, Some(privacy))?
            .with_method_settings(builder::method_settings(builder))
    }
}
impl Noise for PowerClipSettings {}
impl Clip for PowerClipSettings {}

#[derive(Clone, Copy, Debug)]
struct Power {
    norm: f64,
    power: f64,
}

impl ClipFunction for Power {
    fn factor(&self, norm: f32) -> f32 {
        let Self { norm: c, power: p } = *self;
        (c / (c.powf(p) + f64::from(norm).powf(p)).powf(1.0 / p)) as f32
    }

    fn factors(&self, norms: Tensor<1>) -> Tensor<1> {
        let (c, p) = (self.norm as f32, self.power as f32);
        norms.full_like(c) / (norms.powf_scalar(p) + c.powf(p)).powf_scalar(1.0 / p)
    }

    fn sensitivity(&self) -> f64 {
        self.norm
    }
}

impl Bound for Power {
    fn check(&self) -> Result<()> {
        Ok(())
    }

    fn groups(&self, network: &Network) -> Result<ClipGroups> {
        Ok(ClipGroups::joint(network, Arc::new(*self)))
    }
}

struct PowerClipMechanism {
    clip: Power,
    stages: Stages,
    expected_batch_size: f64,
    noise: GaussianNoise,
    executor: AutoExecutor,
}

impl Mechanism for PowerClipMechanism {
    fn release(
        &mut self,
        network: &Network,
        batch: &Batch,
        selected: Option<&CoordinateWeights>,
    ) -> Result<Release> {
        let clipped = self.executor.weighted_sum(network, batch, &self.clip, selected)?;
        let multiplier = self.stages.at(self.noise.step()).noise_multiplier;
        let stds = self.clip.groups(network)?.noise_stds(multiplier);
        let mut gradient = clipped.sum;
        self.noise.add_to_each(&mut gradient, &stds, selected)?;
        gradient.scale(1.0 / self.expected_batch_size);
        let noise_std = stds.iter().map(|std| std / self.expected_batch_size).collect();
        Ok(Release::new(gradient, clipped.losses, noise_std))
    }

    fn resume(&mut self, steps: u64, state: &[f64]) -> Result<()> {
        check_state(state, 0)?;
        self.noise = self.noise.clone().at_step(steps);
        Ok(())
    }
}

fn parts(plan: &Plan) -> Result<(Power, Stages)> {
    let power = plan.method_settings::<PowerClipSettings>()?.power;
    let privacy = plan.privacy().expect("a private method");
    let norm = privacy.clip.sensitivity(NeighbouringRelation::AddOrRemoveOne);
    Ok((Power { norm, power }, plan.stages()?.expect("stages")))
}

/// A cell keeps a method in a variable only if the type of it has a public path.
#[test]
fn the_types_of_all_methods_can_be_named() {
    use epsilab::methods::{
        MethodSettings, adaptive_dp_sgd::AdaptiveDpSgdSettings, auto_dp_sgd::AutoDpSgdSettings,
        backprop_clip::BackpropClipSettings, dp_sgd::DpSgdSettings, dp_ssgd::DpSsgdSettings,
        dynamic_dp_sgd::DynamicDpSgdSettings, non_private::NonPrivateSettings,
        quantile_dp_sgd::QuantileDpSgdSettings,
    };
    fn name<S: MethodSettings>() -> &'static str {
        S::descriptor().name
    }
    let named = [
        name::<AdaptiveDpSgdSettings>(),
        name::<AutoDpSgdSettings>(),
        name::<BackpropClipSettings>(),
        name::<DpSgdSettings>(),
        name::<DpSsgdSettings>(),
        name::<DynamicDpSgdSettings>(),
        name::<NonPrivateSettings>(),
        name::<QuantileDpSgdSettings>(),
    ];
    for method in epsilab::methods::methods() {
        let name = method.descriptor().name;
        // The method of this file may be registered already.
        assert!(named.contains(&name) || name == "power-clip", "{name}");
    }
}

#[test]
fn a_method_of_another_crate_is_known_everywhere_once_it_is_registered() -> Result<()> {
    home();
    register(&DESCRIPTOR)?;
    register(&DESCRIPTOR)?;
    let all = methods();
    assert_eq!(all.iter().filter(|method| method.descriptor().name == "power-clip").count(), 1);
    // Its own setting and a shared one, by name.
    let mut named = (DESCRIPTOR.method)();
    named.set("power", "2")?;
    named.set("max-grad-norm", "0.5")?;
    let typed = PowerClip::from(PowerClipSettings { power: 2.0 }).clip(0.5);
    assert_eq!(*named, *(Box::new(typed.clone()) as Box<dyn epsilab::methods::Method>));
    assert!(named.set("quantile", "0.5").unwrap_err().advice().contains("power"));

    // The plan has the setting, in its file too, and finds the method again.
    let data = data::glyphs_with(300, 60, 140)?;
    let method = typed.noise_multiplier(1.0).batch_size(50).steps(3);
    let plan = method.plan(&data)?;
    let other = PowerClip::from(PowerClipSettings { power: 3.0 }).clip(0.5);
    let other = other.noise_multiplier(1.0).batch_size(50).steps(3).plan(&data)?;
    assert_ne!(plan, other, "the setting is part of the plan");
    let folder = tempfile::tempdir().expect("a folder");
    plan.save(folder.path().join("plan.json"))?;
    let read = Plan::load(folder.path().join("plan.json"))?;
    assert_eq!(
        (read.method_settings::<PowerClipSettings>()?.power, read.method()),
        (2.0, "power-clip SGD")
    );
    assert!(read.epsilon_after(3)?.is_some());

    // Its statement and preview say how it bounds an example.
    let preview = plan.preview(&data)?.to_string();
    assert!(preview.contains("below 0.5 (power mean 2)"), "{preview}");
    // The nodes of a cluster do not have it.
    let slurm = Slurm::new();
    let build = |seed| models::linear(&data).seed(seed).build();
    let refused = Grid::new(method.clone()).on(slurm).dry_run(&build, &data);
    assert!(refused.unwrap_err().to_string().contains("power-clip SGD"));

    // A grid trains it beside another method, and figures know its style.
    let grid =
        Grid::new(method).with_method(DpSgd::new().noise_multiplier(1.0).batch_size(50).steps(3));
    let result = grid.seeds(2).run_with_observer(&build, &data, &mut NoopGridObserver)?;
    assert_eq!((result.runs(), result.cells()[0].method), (4, "power-clip"), "{result}");
    assert_eq!(all.last().map(|method| method.descriptor().style), Some(FigureStyle::new(4, 3)));

    // The auditor attacks it.
    let options = Options { trials: 2000, seed: 7, ..Options::default() };
    let report = audit::by_name("power-clip", &options)?.run()?;
    assert_eq!(report.verdict, Verdict::Consistent, "{report}");
    assert!(audit::targets().iter().any(|subject| subject.name == "power-clip"));
    Ok(())
}

/// A method whose names are another's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Taken;

static TAKEN: MethodDescriptor = MethodDescriptor {
    name: "mine",
    method: || Box::new(Builder::<Taken>::new()),
    ..MethodDescriptor::DP_SGD
};

impl MethodSettings for Taken {
    fn descriptor() -> &'static MethodDescriptor {
        &TAKEN
    }
}

/// A method with a setting that all methods have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Rated;

static RATED: MethodDescriptor = MethodDescriptor {
    name: "rated",
    title: "a rated method",
    method: || Box::new(Builder::<Rated>::new()),
    own: &[SettingSpec::new("speed", "a rate", |_, _| Ok(())).aliases(&["lr"])],
    ..MethodDescriptor::DP_SGD
};

impl MethodSettings for Rated {
    fn descriptor() -> &'static MethodDescriptor {
        &RATED
    }
}

#[test]
fn a_method_that_takes_the_names_of_others_is_refused() {
    static NO_METHOD: MethodDescriptor =
        MethodDescriptor { name: "none", title: "no method", ..MethodDescriptor::DP_SGD };
    for (descriptor, words) in
        [(&TAKEN, "DP-SGD"), (&RATED, "the setting speed"), (&NO_METHOD, "another method")]
    {
        let error = register(descriptor).expect_err(words);
        assert!(error.to_string().contains(words) && !error.advice().is_empty(), "{error}");
    }
    assert!(!methods().iter().any(|method| method.descriptor().name == "rated"));
}
