//! Measures variants of the private step and the private step itself, in turn in one process, so
//! that other load on the machine affects all of them.

use std::time::Instant;

use epsilab::burn::module::Module;
use epsilab::device::on_a_stand_in;
use epsilab::engine::ClipRule;
use epsilab::mask::{Dropping, Freezing, RandomMask, Selector};
use epsilab::nn::{Model, Network};
use epsilab::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::child::{cpu_time, wait};
use super::step::{CLIP, Selection, Training};
use super::{Case, data};
use crate::options;

/// Which variants of the private step are measured.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct VariantArgs {
    /// Also measure private steps that leave out this fraction of each weight tensor
    #[arg(long, value_name = "RATE")]
    pub masked: Option<f64>,
    /// Also measure private steps with these clip rules, separated by commas: auto-s, normalised,
    /// per-layer, flat (the rule of the private step)
    #[arg(long, value_name = "RULES", value_delimiter = ',')]
    pub clip_rule: Vec<String>,
    /// Also measure private steps that train only the parameters of this path, layer or group
    #[arg(long, value_name = "PATTERN")]
    pub train_only: Option<String>,
}

impl VariantArgs {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.masked.is_none() && self.clip_rule.is_empty() && self.train_only.is_none()
    }

    /// The options as given on the command line.
    pub fn to_args(&self) -> Vec<String> {
        let masked = self.masked.map(|rate| ["--masked".into(), rate.to_string()]);
        let rules = (!self.clip_rule.is_empty())
            .then(|| ["--clip-rule".to_owned(), self.clip_rule.join(",")]);
        let only = self.train_only.clone().map(|pattern| ["--train-only".into(), pattern]);
        [masked, rules, only].into_iter().flatten().flatten().collect()
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
        self.clip_rule.iter().try_for_each(|rule| options::clip_rule(rule, CLIP).map(drop))
    }

    /// Names of the variants, in the order of measurement.
    pub fn names(&self) -> Vec<String> {
        let masked = self.masked.iter().flat_map(|_| ["masked", "drop_random", "drop_smallest"]);
        let rules = self.clip_rule.iter().map(|rule| rule.replace('-', "_"));
        let only = self.train_only.iter().map(|_| "train_only".to_owned());
        masked.map(String::from).chain(rules).chain(only).collect()
    }

    /// The variants by name, after the private step itself, whose name is `full`.
    fn variants(&self, model: &Model, steps: u64) -> Result<Vec<Variant>> {
        let flat = || ClipRule::flat(CLIP);
        let selecting = |name: &str, mask: Option<_>, dropping| {
            let mut selector = Selector::new(mask.as_ref(), dropping, steps, [5; 32]);
            let select = move |network: &Network| selector.next(network);
            Variant { name: name.into(), rule: flat(), selection: Box::new(select) }
        };
        let mut variants = vec![selecting("full", None, None)];
        if let Some(rate) = self.masked {
            let mask = RandomMask::prune(rate).seed(1).mask(model)?;
            variants.push(selecting("masked", Some(mask), None));
            variants.push(selecting("drop_random", None, Some(Dropping::random(rate))));
            variants.push(selecting("drop_smallest", None, Some(Dropping::magnitude(rate))));
        }
        for name in &self.clip_rule {
            let rule = options::clip_rule(name, CLIP)?;
            let name = name.replace('-', "_");
            variants.push(Variant { name, rule, selection: Box::new(|_| Ok(None)) });
        }
        if let Some(pattern) = &self.train_only {
            let only = Freezing { train_only: vec![pattern.clone()], ..Freezing::default() };
            let mut weights = None;
            let select = move |network: &Network| {
                if weights.is_none() {
                    weights = Some(only.selection(network)?.into());
                }
                Ok(weights.clone())
            };
            let (name, rule) = ("train_only".into(), flat());
            variants.push(Variant { name, rule, selection: Box::new(select) });
        }
        Ok(variants)
    }
}

/// A variant of the private step. The selection is made anew in every step and is part of its time.
struct Variant {
    name: String,
    rule: ClipRule,
    selection: Selection,
}

/// Times of the steps of one variant.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Spent {
    pub name: String,
    /// Wall-clock seconds.
    pub seconds: Vec<f64>,
    /// CPU seconds of all threads; empty where the system does not report them.
    pub cpu_seconds: Vec<f64>,
}

/// Measures the private step and its variants.
pub fn measure(case: &Case<'_>) -> Result<Vec<Spent>> {
    let (model, device) = (case.entry.model()?, case.place.device());
    let network = model.network().clone().to_device(&device);
    let pool: Vec<_> =
        data::pool(case.entry, case.batch)?.into_iter().map(|b| b.to_device(&device)).collect();
    let rounds = case.warmup + case.steps;
    let (mut spent, mut each) = (Vec::new(), Vec::new());
    for Variant { name, rule, selection } in case.variants.variants(&model, rounds as u64)? {
        let mechanism = case.executor.mechanism(Some(rule), case.batch)?;
        each.push(Training::new(&network, mechanism).selecting(selection));
        spent.push(Spent { name, ..Spent::default() });
    }
    for round in 0..rounds {
        let batch = &pool[round % pool.len()];
        // Each variant follows each other variant equally often.
        for turn in 0..each.len() {
            let which = (round + turn) % each.len();
            let (clock, cpu) = (Instant::now(), cpu_time());
            let release = each[which].step(batch)?;
            wait(&device)?;
            let (seconds, cpu_after) = (clock.elapsed().as_secs_f64(), cpu_time());
            check_loss(&spent[which].name, release.mean_loss())?;
            if round >= case.warmup {
                let spent = &mut spent[which];
                spent.seconds.push(seconds);
                spent.cpu_seconds.extend(cpu_after.zip(cpu).map(|(after, before)| after - before));
            }
        }
    }
    Ok(spent)
}

fn check_loss(variant: &str, loss: Option<f64>) -> Result<()> {
    match loss {
        Some(loss) if loss.is_finite() || on_a_stand_in() => Ok(()),
        _ => {
            let what = format!("a step of the variant {variant}: loss = {loss:?}");
            let why = "such a step is not worth measuring";
            Err(Error::new(ErrorKind::Model, what, why))
        }
    }
}
