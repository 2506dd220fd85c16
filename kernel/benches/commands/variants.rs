//! The private step, the one without privacy, and variants of the private one.

use epsilab::engine::ClipRule;
use epsilab::mask::{CoordinateSelector, Dropping, FreezeConfig, RandomMask};
use epsilab::methods::Mechanism;
use epsilab::methods::backprop_clip::BackpropClipMechanism;
use epsilab::methods::non_private::MeanGradient;
use epsilab::nn::{LayerClips, Model, Network};
use epsilab::privacy::{NoiseMultiplier, Stages};
use epsilab::{Error, Result};

use super::Case;
use super::step::{CLIP, NOISE_MULTIPLIER, Selection};

/// The method that has variants of its own.
const BACKPROP_CLIPPING: &str = "backprop-clipping";
/// Its step, and the step without privacy that it is compared with.
pub const METHOD_VARIANTS: [&str; 2] = ["same_layers_nonprivate", "backprop_clipping"];

/// Which variants of the private step are measured.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct VariantArgs {
    /// Also measure private steps that drop this fraction of each weight tensor
    #[arg(long, value_name = "RATE")]
    pub masked: Option<f64>,
    /// Also measure private steps with these clip rules, separated by commas: auto-s, normalised,
    /// per-layer, flat (the rule of the private step)
    #[arg(long, value_name = "RULES", value_delimiter = ',')]
    pub clip_rule: Vec<String>,
    /// Also measure steps of this method, and steps without privacy that train the same layers:
    /// backprop-clipping. Normalisation layers, which it can't train, are frozen
    #[arg(long, value_name = "METHOD")]
    pub method: Option<String>,
    /// Also measure private steps that train only the parameters of this path, layer or group
    #[arg(long, value_name = "PATTERN")]
    pub train_only: Option<String>,
}

impl VariantArgs {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        let Self { masked, clip_rule, method, train_only } = self;
        masked.is_none() && clip_rule.is_empty() && method.is_none() && train_only.is_none()
    }

    /// The options as given on the command line.
    pub fn to_args(&self) -> Vec<String> {
        let masked = self.masked.map(|rate| ["--masked".into(), rate.to_string()]);
        let rules = (!self.clip_rule.is_empty())
            .then(|| ["--clip-rule".to_owned(), self.clip_rule.join(",")]);
        let only = self.train_only.clone().map(|pattern| ["--train-only".into(), pattern]);
        let method = self.method.clone().map(|method| ["--method".into(), method]);
        [masked, rules, method, only].into_iter().flatten().flatten().collect()
    }

    /// # Errors
    /// `Setting` for a rate out of range or an unknown rule.
    pub fn check(&self) -> Result<()> {
        if let Some(rate) = self.masked
            && !(0.0..1.0).contains(&rate)
        {
            let why = "it is the share of coordinates that is left out: from 0 to below 1";
            return Err(Error::setting("--masked", rate, why));
        }
        if let Some(method) = &self.method
            && method != BACKPROP_CLIPPING
        {
            let why = "there is no variant for it";
            return Err(Error::setting("--method", method, why).fix("use backprop-clipping"));
        }
        self.clip_rule.iter().try_for_each(|rule| ClipRule::named(rule, CLIP).map(drop))
    }

    /// Names of the variants, in the order of measurement.
    pub fn names(&self) -> Vec<String> {
        let masked = self.masked.iter().flat_map(|_| ["masked", "drop_random", "drop_smallest"]);
        let rules = self.clip_rule.iter().map(|rule| rule.replace('-', "_"));
        let method = self.method.iter().flat_map(|_| METHOD_VARIANTS.map(String::from));
        let only = self.train_only.iter().map(|_| "train_only".to_owned());
        masked.map(String::from).chain(rules).chain(method).chain(only).collect()
    }

    /// The private step, the one without privacy, and the variants.
    pub(super) fn variants(&self, case: &Case<'_>, model: &Model) -> Result<Vec<StepVariant>> {
        let steps = (case.warmup + case.steps) as u64;
        let private = |rule| case.executor.mechanism(Some(rule), case.batch);
        let network = || model.network().clone();
        let selecting = |name: &str, mask: Option<_>, dropping| {
            let mut selector = CoordinateSelector::new(mask.as_ref(), dropping, steps, [5; 32]);
            let selection: Selection =
                Box::new(move |network: &Network| selector.next_selection(network));
            let mechanism = private(ClipRule::flat(CLIP))?;
            Ok::<_, Error>(StepVariant {
                name: name.into(),
                network: network(),
                mechanism,
                selection,
            })
        };
        let plain = StepVariant {
            name: "nonprivate".into(),
            network: network(),
            mechanism: case.executor.mechanism(None, case.batch)?,
            selection: Box::new(|_| Ok(None)),
        };
        let mut variants = vec![selecting("private", None, None)?, plain];
        if let Some(rate) = self.masked {
            let mask = RandomMask::prune(rate).seed(1).mask(model)?;
            variants.push(selecting("masked", Some(mask), None)?);
            variants.push(selecting("drop_random", None, Some(Dropping::random(rate)))?);
            variants.push(selecting("drop_smallest", None, Some(Dropping::magnitude(rate)))?);
        }
        for name in &self.clip_rule {
            let mechanism = private(ClipRule::named(name, CLIP)?)?;
            let (name, selection) = (name.replace('-', "_"), Box::new(|_: &_| Ok(None)));
            variants.push(StepVariant { name, network: network(), mechanism, selection });
        }
        if self.method.is_some() {
            variants.extend(backprop_clipping_variants(model, case.batch)?);
        }
        if let Some(pattern) = &self.train_only {
            let only =
                FreezeConfig { train_only: vec![pattern.clone()], ..FreezeConfig::default() };
            let (mechanism, selection) = (private(ClipRule::flat(CLIP))?, unfrozen_selection(only));
            let name = "train_only".into();
            variants.push(StepVariant { name, network: network(), mechanism, selection });
        }
        Ok(variants)
    }
}

/// The coordinates that are not frozen, in every step.
fn unfrozen_selection(freezing: FreezeConfig) -> Selection {
    let mut weights = None;
    Box::new(move |network: &Network| {
        if weights.is_none() && !freezing.is_empty() {
            weights = Some(freezing.trainable_weights(network)?.into());
        }
        Ok(weights.clone())
    })
}

/// The step without privacy and the step of backpropagation clipping, with frozen normalisation
/// layers.
fn backprop_clipping_variants(model: &Model, batch: usize) -> Result<Vec<StepVariant>> {
    let clips = LayerClips::new(1.0, 0.01);
    let paths = model.network().paths();
    let norms: Vec<String> = paths.into_iter().filter(|path| path.ends_with("gamma")).collect();
    let freeze: Vec<String> =
        norms.iter().flat_map(|gamma| [gamma.clone(), gamma.replace("gamma", "beta")]).collect();
    let freezing = FreezeConfig { freeze, ..FreezeConfig::default() };
    let frozen = freezing.frozen_flags(model.network())?;
    let stages = Stages::constant(NoiseMultiplier(NOISE_MULTIPLIER), 1)?;
    let clipped = model.network().with_backprop_clips(&clips, &frozen)?;
    let plain: Box<dyn Mechanism> = Box::new(MeanGradient::new(batch));
    let private: Box<dyn Mechanism> =
        Box::new(BackpropClipMechanism::new(clips, stages, batch, [7; 32]));
    let networks = [(model.network().clone(), plain), (clipped, private)];
    let variants = METHOD_VARIANTS.into_iter().zip(networks);
    let variant = |(name, (network, mechanism)): (&str, _)| StepVariant {
        name: name.into(),
        network,
        mechanism,
        selection: unfrozen_selection(freezing.clone()),
    };
    Ok(variants.map(variant).collect())
}

/// A step. The selection is made anew in every step and is part of its time.
pub struct StepVariant {
    pub name: String,
    pub network: Network,
    pub mechanism: Box<dyn Mechanism>,
    pub selection: Selection,
}
