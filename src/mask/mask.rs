//! Masks: which coordinates are trained.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::covered::{Covered, Origin, both};
use super::saliency::Saliency;
use crate::engine::{Gradients, Weights};
use crate::nn::{Model, Network};
use crate::{Error, ErrorKind, Result};

/// The part of a mask that is about one parameter tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The parameter, by its path: `"0.weight"`.
    pub path: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Which of its coordinates are trained, row-major.
    pub kept: Vec<bool>,
}

impl Kept {
    /// How many coordinates are kept.
    pub fn count(&self) -> usize {
        self.kept.iter().filter(|&&kept| kept).count()
    }

    /// The share that is kept.
    pub fn share(&self) -> f64 {
        self.count() as f64 / self.kept.len() as f64
    }
}

/// Which coordinates of a model are trained, keyed by parameter path. Cheap to clone.
///
/// Parameters it does not name are trained in full. Coordinates it does not keep are *frozen*:
/// they keep their value and are used in the forward pass, but get no gradient, no noise and no
/// optimizer state; [`zeroing`](Self::zeroing) sets them to zero as well.
///
/// # Guarantee
/// A mask that was chosen without the private data, or from a release that is accounted for,
/// leaves sensitivity and accounting as they are: a step is a Gaussian mechanism on the kept
/// coordinates. What its choice has cost is in its [`origin`](Self::origin).
#[derive(Clone)]
pub struct Mask(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    tensors: Vec<Kept>,
    zeroing: bool,
    origin: Origin,
    saliency: Option<Saliency>,
}

/// Masks are equal that do the same and were made in the same way; files do not hold the scores.
impl PartialEq for Mask {
    fn eq(&self, other: &Self) -> bool {
        let of = |mask: &Self| (mask.0.zeroing, mask.0.origin.clone());
        self.tensors() == other.tensors() && of(self) == of(other)
    }
}

impl Mask {
    /// A mask of your own.
    ///
    /// # Guarantee
    /// None by itself: a run with it assumes that it was not chosen by looking at private data.
    ///
    /// # Errors
    /// Kind `Model` if a tensor has another number of coordinates than its shape says, is named
    /// twice or keeps nothing, or if there is no tensor.
    pub fn of(tensors: Vec<Kept>) -> Result<Self> {
        let assumed = "it was chosen without looking at private data";
        Self::made(tensors, Origin::new("of your own", Covered::Assumption(assumed.into())))
    }

    /// A mask of known origin.
    pub(crate) fn made(tensors: Vec<Kept>, origin: Origin) -> Result<Self> {
        let wrong = |what: String, why: &str| {
            Err(Error::new(ErrorKind::Model, what, why)
                .fix("a mask has one flag per coordinate and keeps at least one per tensor"))
        };
        if tensors.is_empty() {
            return wrong("a mask without tensors".into(), "it says nothing about any parameter");
        }
        for (i, tensor) in tensors.iter().enumerate() {
            let Kept { path, shape, kept } = tensor;
            if kept.is_empty() || kept.len() != shape.iter().product::<usize>() {
                let what = format!("a mask of {} flags for {path}", kept.len());
                return wrong(what, &format!("its shape {shape:?} holds another number"));
            }
            if tensors[..i].iter().any(|other| other.path == *path) {
                return wrong(format!("a mask that names {path} twice"), "it can't be both");
            }
            if tensor.count() == 0 {
                let what = format!("a mask that keeps nothing of {path}");
                return wrong(what, "nothing could be learnt there: the layer would collapse");
            }
        }
        Ok(Self(Arc::new(Inner { tensors, zeroing: false, origin, saliency: None })))
    }

    /// The same mask with the saliencies it was made by.
    pub(crate) fn with_saliency(&self, saliency: Saliency) -> Self {
        Self(Arc::new(Inner { saliency: Some(saliency), ..(*self.0).clone() }))
    }

    /// The same mask, setting coordinates that are not kept to zero when training begins
    /// (classical pruning) instead of freezing them at their value.
    pub fn zeroing(&self) -> Self {
        Self(Arc::new(Inner { zeroing: true, ..(*self.0).clone() }))
    }

    /// Whether coordinates that are not kept are set to zero.
    pub fn is_zeroing(&self) -> bool {
        self.0.zeroing
    }

    /// Its tensors, in the order of the model's parameters.
    pub fn tensors(&self) -> &[Kept] {
        &self.0.tensors
    }

    /// The part about one parameter.
    pub fn get(&self, path: &str) -> Option<&Kept> {
        self.tensors().iter().find(|tensor| tensor.path == path)
    }

    /// How it was made, and what that revealed.
    pub fn origin(&self) -> &Origin {
        &self.0.origin
    }

    /// The saliencies it was made by, if it was; not stored in files.
    pub fn saliency(&self) -> Option<&Saliency> {
        self.0.saliency.as_ref()
    }

    /// How many coordinates it is about.
    pub fn len(&self) -> usize {
        self.tensors().iter().map(|tensor| tensor.kept.len()).sum()
    }

    /// Whether it is about no coordinate, which no mask is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many coordinates it keeps.
    pub fn kept(&self) -> usize {
        self.tensors().iter().map(Kept::count).sum()
    }

    /// The tensors that are down to a single coordinate, by their paths: what chose the mask would
    /// have dropped that one too, most likely, but for the rule that something must be trained.
    pub fn collapsed(&self) -> Vec<&str> {
        let few = self.tensors().iter().filter(|t| t.kept.len() > 1 && t.count() == 1);
        few.map(|tensor| tensor.path.as_str()).collect()
    }

    /// The share that it does not keep.
    pub fn rate(&self) -> f64 {
        1.0 - self.kept() as f64 / self.len() as f64
    }

    /// Refuses a model that the mask is not for.
    ///
    /// # Errors
    /// Kind `Model` if it names a parameter that the network does not have, or has in another
    /// shape.
    pub fn check(&self, network: &Network) -> Result<()> {
        let parameters = network.parameters();
        for tensor in self.tensors() {
            let known = parameters.iter().find(|parameter| parameter.path == tensor.path);
            let why = match known {
                Some(parameter) if parameter.shape == tensor.shape => continue,
                Some(parameter) => format!("in this model its shape is {:?}", parameter.shape),
                None => "this model has no such parameter".to_owned(),
            };
            let what = format!("a mask for {} of shape {:?}", tensor.path, tensor.shape);
            return Err(Error::new(ErrorKind::Model, what, why)
                .fix("make the mask from the model that is trained"));
        }
        Ok(())
    }

    /// Ones for the coordinates that are trained, zeros for the others: what executors take.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn weights(&self, network: &Network) -> Result<Weights> {
        self.check(network)?;
        let mut ones = Gradients::zeros_like(network);
        for entry in &mut ones.entries {
            match self.get(&entry.path) {
                None => entry.values.fill(1.0),
                Some(tensor) => {
                    entry.values = tensor.kept.iter().map(|&kept| f32::from(kept)).collect();
                }
            }
        }
        Weights::new(network, ones)
    }

    /// The model with zeros where the mask keeps nothing, whether it is zeroing or not.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn apply(&self, model: &Model) -> Result<Model> {
        self.check(model.network())?;
        let zeroed = model.network().values().into_iter().filter_map(|(parameter, mut values)| {
            let kept = &self.get(&parameter.path)?.kept;
            values.iter_mut().zip(kept).filter(|(_, kept)| !**kept).for_each(|(v, _)| *v = 0.0);
            Some((parameter.path, values))
        });
        let zeroed: std::collections::HashMap<String, Vec<f32>> = zeroed.collect();
        Ok(model.with_network(model.network().filled(|path| zeroed.get(path).cloned())))
    }

    /// What makes two masks the same to start a run from: the flags, whatever made them.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        let Inner { zeroing, tensors, .. } = &*self.0;
        hash.update(format!("{zeroing}"));
        for tensor in tensors {
            hash.update(format!("{} {:?}", tensor.path, tensor.shape));
            hash.update(tensor.kept.iter().map(|&kept| u8::from(kept)).collect::<Vec<_>>());
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The coordinates that both keep.
    ///
    /// # Errors
    /// Kind `Model` if they are about different parameters, nothing would be left of one, or one
    /// freezes where the other sets to zero.
    pub fn intersect(&self, other: &Mask) -> Result<Mask> {
        self.combined(other, "and", |a, b| a && b)
    }

    /// The coordinates that at least one keeps.
    ///
    /// # Errors
    /// As [`intersect`](Self::intersect).
    pub fn union(&self, other: &Mask) -> Result<Mask> {
        self.combined(other, "or", |a, b| a || b)
    }

    fn combined(&self, other: &Mask, word: &str, keep: fn(bool, bool) -> bool) -> Result<Mask> {
        self.same_tensors(other)?;
        if self.is_zeroing() != other.is_zeroing() {
            let what = "a mask that freezes and one that sets to zero";
            let why = "it would not be clear what becomes of coordinates that are not kept";
            return Err(Error::new(ErrorKind::Model, what, why).fix("say .zeroing() on both"));
        }
        let pairs = self.tensors().iter().zip(other.tensors());
        let tensors = pairs.map(|(a, b)| Kept {
            kept: a.kept.iter().zip(&b.kept).map(|(&a, &b)| keep(a, b)).collect(),
            ..a.clone()
        });
        let (a, b) = (self.origin(), other.origin());
        let origin = Origin {
            how: format!("{} {word} {}", a.how, b.how),
            covered: both(&a.covered, &b.covered),
        };
        let mask = Self::made(tensors.collect(), origin)?;
        Ok(if self.is_zeroing() { mask.zeroing() } else { mask })
    }

    /// How two masks differ.
    ///
    /// # Errors
    /// Kind `Model` if they are about different parameters.
    pub fn diff(&self, other: &Mask) -> Result<Overlap> {
        self.same_tensors(other)?;
        let flags = |mask: &Mask| -> Vec<bool> {
            mask.tensors().iter().flat_map(|tensor| tensor.kept.clone()).collect()
        };
        let mut overlap = Overlap { both: 0, only_first: 0, only_second: 0, neither: 0 };
        for (a, b) in flags(self).into_iter().zip(flags(other)) {
            match (a, b) {
                (true, true) => overlap.both += 1,
                (true, false) => overlap.only_first += 1,
                (false, true) => overlap.only_second += 1,
                (false, false) => overlap.neither += 1,
            }
        }
        Ok(overlap)
    }

    /// Coordinates that both keep over those that at least one keeps: 1 for equal masks.
    ///
    /// # Errors
    /// As [`diff`](Self::diff).
    pub fn jaccard(&self, other: &Mask) -> Result<f64> {
        Ok(self.diff(other)?.jaccard())
    }

    fn same_tensors(&self, other: &Mask) -> Result<()> {
        let named = |mask: &Mask| -> Vec<(String, Vec<usize>)> {
            mask.tensors().iter().map(|t| (t.path.clone(), t.shape.clone())).collect()
        };
        let (a, b) = (named(self), named(other));
        if a == b {
            return Ok(());
        }
        let names = |list: &[(String, Vec<usize>)]| -> String {
            list.iter()
                .map(|(path, shape)| format!("{path} {shape:?}"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let what = format!("masks for {} and for {}", names(&a), names(&b));
        Err(Error::new(ErrorKind::Model, what, "they are about different parameters")
            .fix("compare masks of the same model and the same set of prunable parameters"))
    }
}

/// How two masks of the same parameters differ, in coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// Kept by both.
    pub both: usize,
    /// Kept by the first only.
    pub only_first: usize,
    /// Kept by the second only.
    pub only_second: usize,
    /// Kept by neither.
    pub neither: usize,
}

impl Overlap {
    /// `both` over all that at least one keeps.
    pub fn jaccard(&self) -> f64 {
        self.both as f64 / (self.both + self.only_first + self.only_second) as f64
    }
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "kept by both {}, only by the first {}, only by the second {}, by neither {} \
             (Jaccard {:.3})",
            self.both,
            self.only_first,
            self.only_second,
            self.neither,
            self.jaccard()
        )
    }
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.is_zeroing() { "the others set to zero" } else { "the others frozen" };
        write!(
            f,
            "{} of {} coordinates trained, {verb}: {}",
            self.kept(),
            self.len(),
            self.origin()
        )
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
