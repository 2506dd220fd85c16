//! [`Mask`]: the trained coordinates of a model.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::origin::{MaskOrigin, PrivacyStatus, combined};
use super::saliency::Saliency;
use crate::data::digest::hex;
use crate::engine::{CoordinateWeights, Gradients};
use crate::nn::{Model, Network};
use crate::privacy::digits::format_count;
use crate::{Error, ErrorKind, Result};

/// Flags of a mask for one parameter tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskTensor {
    /// The path of the parameter, such as `"0.weight"`.
    pub path: String,
    /// The shape of the parameter.
    pub shape: Vec<usize>,
    /// Whether each coordinate is trained, row-major.
    pub kept: Vec<bool>,
}

impl MaskTensor {
    /// Returns the number of kept coordinates.
    pub fn kept_count(&self) -> usize {
        self.kept.iter().filter(|&&kept| kept).count()
    }

    /// Returns the fraction of coordinates that the mask keeps.
    pub fn density(&self) -> f64 {
        self.kept_count() as f64 / self.kept.len() as f64
    }
}

/// Mask of the trained coordinates of a model, by parameter path. Cheap to clone.
///
/// Parameters that the mask does not name are trained in full. Coordinates that it does not keep
/// are *frozen*: they keep their value and take part in the forward pass, but get no gradient, no
/// noise and no optimizer state. A [`with_zeroing`](Self::with_zeroing) mask sets them to zero
/// instead.
///
/// ```
/// use epsilab::prelude::*;
/// use epsilab::mask::MaskTensor;
/// let mask = |kept: [bool; 4]| {
///     let (path, shape) = ("0.weight".to_owned(), vec![2, 2]);
///     Mask::new(vec![MaskTensor { path, shape, kept: kept.into() }])
/// };
/// let (first, second) = (mask([true, false, true, true])?, mask([true, true, false, true])?);
/// assert_eq!((first.kept_count(), first.len()), (3, 4));
/// assert_eq!(first.jaccard(&second)?, 0.5); // 2 in both, 4 in at least one
/// assert_eq!(first.intersect(&second)?.kept_count(), 2);
/// let method = DpSgd::new().noise_multiplier(1.0).pre_prune(&first); // trains what it keeps
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// A mask that was chosen without the private data, or from a release that is accounted for, does
/// not change sensitivity and accounting: a step is a Gaussian mechanism on the kept coordinates.
/// Its [`origin`](Self::origin) states what the choice of the mask reveals.
#[derive(Clone)]
pub struct Mask(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    tensors: Vec<MaskTensor>,
    zeroing: bool,
    origin: MaskOrigin,
    saliency: Option<Saliency>,
}

/// Compares flags, zeroing and origin, but not saliencies, which files do not hold.
impl PartialEq for Mask {
    fn eq(&self, other: &Self) -> bool {
        let rest = |mask: &Self| (mask.0.zeroing, mask.0.origin.clone());
        self.tensors() == other.tensors() && rest(self) == rest(other)
    }
}

impl Mask {
    /// Creates a user-defined mask.
    ///
    /// # Guarantee
    /// None by itself. A run with this mask assumes that it was chosen without looking at private
    /// data.
    ///
    /// # Errors
    /// `Model` if there is no tensor, or if a tensor is named twice, keeps no coordinate, or has a
    /// number of flags that does not match its shape.
    pub fn new(tensors: Vec<MaskTensor>) -> Result<Self> {
        let assumed = "it was chosen without looking at private data";
        Self::with_origin(
            tensors,
            MaskOrigin::new("of your own", PrivacyStatus::Assumption(assumed.into())),
        )
    }

    /// Creates a mask with a known origin. Errors as [`new`](Self::new).
    pub(crate) fn with_origin(tensors: Vec<MaskTensor>, origin: MaskOrigin) -> Result<Self> {
        let invalid = |what: String, why: &str| {
            Err(Error::new(ErrorKind::Model, what, why)
                .fix("a mask has one flag per coordinate and keeps at least one per tensor"))
        };
        if tensors.is_empty() {
            return invalid("a mask without tensors".into(), "the mask names no parameter");
        }
        for (i, tensor) in tensors.iter().enumerate() {
            let MaskTensor { path, shape, kept } = tensor;
            if kept.is_empty() || kept.len() != shape.iter().product::<usize>() {
                let what = format!("a mask of {} flags for {path}", kept.len());
                let size: usize = shape.iter().product();
                return invalid(what, &format!("the shape {shape:?} has {size} coordinates"));
            }
            if tensors[..i].iter().any(|other| other.path == *path) {
                let why = "a parameter has one set of flags";
                return invalid(format!("a mask that names {path} twice"), why);
            }
            if tensor.kept_count() == 0 {
                let what = format!("a mask that keeps nothing of {path}");
                return invalid(what, "no coordinate of that tensor could be trained");
            }
        }
        Ok(Self(Arc::new(Inner { tensors, zeroing: false, origin, saliency: None })))
    }

    /// Returns the same mask, with the saliencies that it was made from.
    pub(crate) fn with_saliency(&self, saliency: Saliency) -> Self {
        Self(Arc::new(Inner { saliency: Some(saliency), ..(*self.0).clone() }))
    }

    /// Returns the same mask, but with coordinates that it does not keep set to zero when training
    /// begins (classical pruning) instead of being frozen at their value.
    pub fn with_zeroing(&self) -> Self {
        Self(Arc::new(Inner { zeroing: true, ..(*self.0).clone() }))
    }

    /// Returns whether coordinates that the mask does not keep are set to zero.
    pub fn is_zeroing(&self) -> bool {
        self.0.zeroing
    }

    /// Returns the masked tensors, in the order of the model's parameters.
    pub fn tensors(&self) -> &[MaskTensor] {
        &self.0.tensors
    }

    /// Returns the flags of the mask for one parameter.
    pub fn get(&self, path: &str) -> Option<&MaskTensor> {
        self.tensors().iter().find(|tensor| tensor.path == path)
    }

    /// Returns the origin of the mask: its method, and the privacy of its choice.
    pub fn origin(&self) -> &MaskOrigin {
        &self.0.origin
    }

    /// Returns the saliencies that the mask was made from, if any. Files do not store them.
    pub fn saliency(&self) -> Option<&Saliency> {
        self.0.saliency.as_ref()
    }

    /// Returns the number of coordinates of all masked tensors.
    pub fn len(&self) -> usize {
        self.tensors().iter().map(|tensor| tensor.kept.len()).sum()
    }

    /// Returns false: every mask names at least one coordinate.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of kept coordinates.
    pub fn kept_count(&self) -> usize {
        self.tensors().iter().map(MaskTensor::kept_count).sum()
    }

    /// Returns the paths of the tensors with a single kept coordinate (layer collapse). The
    /// pruning method would most likely have dropped that one too, but every tensor keeps at least
    /// one.
    pub fn collapsed_tensors(&self) -> Vec<&str> {
        let collapsed = self.tensors().iter().filter(|t| t.kept.len() > 1 && t.kept_count() == 1);
        collapsed.map(|tensor| tensor.path.as_str()).collect()
    }

    /// Returns the fraction of coordinates that the mask does not keep (the pruning rate).
    pub fn pruning_rate(&self) -> f64 {
        1.0 - self.kept_count() as f64 / self.len() as f64
    }

    /// Checks that the mask fits the network.
    ///
    /// # Errors
    /// `Model` if the network lacks a parameter that the mask names, or has it in another shape.
    pub fn check(&self, network: &Network) -> Result<()> {
        let parameters = network.parameters();
        for tensor in self.tensors() {
            let parameter = parameters.iter().find(|parameter| parameter.path == tensor.path);
            let why = match parameter {
                Some(parameter) if parameter.shape == tensor.shape => continue,
                Some(parameter) => format!("the shape in this model is {:?}", parameter.shape),
                None => "this model has no such parameter".to_owned(),
            };
            let what = format!("a mask for {} of shape {:?}", tensor.path, tensor.shape);
            return Err(Error::new(ErrorKind::Model, what, why)
                .fix("make the mask from the model that is trained"));
        }
        Ok(())
    }

    /// Returns the mask as weights for an executor: 1 for trained coordinates, 0 for the others.
    ///
    /// # Errors
    /// `Model` if the mask does not fit the network.
    pub fn to_weights(&self, network: &Network) -> Result<CoordinateWeights> {
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
        CoordinateWeights::new(network, ones)
    }

    /// Returns the model with zeros at the coordinates that the mask does not keep, whether the
    /// mask is zeroing or not.
    ///
    /// # Errors
    /// `Model` if the mask does not fit the model.
    pub fn apply(&self, model: &Model) -> Result<Model> {
        self.check(model.network())?;
        let zeroed = model.network().values().into_iter().filter_map(|(parameter, mut values)| {
            let kept = &self.get(&parameter.path)?.kept;
            values.iter_mut().zip(kept).filter(|(_, kept)| !**kept).for_each(|(v, _)| *v = 0.0);
            Some((parameter.path, values))
        });
        let zeroed: std::collections::HashMap<String, Vec<f32>> = zeroed.collect();
        Ok(model.with_network(model.network().with_values(|path| zeroed.get(path).cloned())))
    }

    /// Computes the SHA-256 of the properties that a run depends on: paths, shapes, flags and
    /// zeroing, but not the origin.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        let Inner { zeroing, tensors, .. } = &*self.0;
        hash.update(format!("{zeroing}"));
        for tensor in tensors {
            hash.update(format!("{} {:?}", tensor.path, tensor.shape));
            hash.update(tensor.kept.iter().map(|&kept| u8::from(kept)).collect::<Vec<_>>());
        }
        hex(&hash.finalize())
    }

    /// Returns a mask of the coordinates that both masks keep.
    ///
    /// # Errors
    /// `Model` if the masks are for different parameters, if a tensor would keep nothing, or if
    /// only one of the masks is zeroing.
    pub fn intersect(&self, other: &Mask) -> Result<Mask> {
        self.combine(other, "and", |a, b| a && b)
    }

    /// Returns a mask of the coordinates that at least one mask keeps.
    ///
    /// # Errors
    /// `Model` if the masks are for different parameters, or only one of them is zeroing.
    pub fn union(&self, other: &Mask) -> Result<Mask> {
        self.combine(other, "or", |a, b| a || b)
    }

    fn combine(&self, other: &Mask, word: &str, keep: fn(bool, bool) -> bool) -> Result<Mask> {
        self.check_same_tensors(other)?;
        if self.is_zeroing() != other.is_zeroing() {
            let what = "a combination of a freezing and a zeroing mask";
            let why = "coordinates that are not kept can be either frozen or set to zero";
            return Err(Error::new(ErrorKind::Model, what, why).fix("call .with_zeroing() on both"));
        }
        let pairs = self.tensors().iter().zip(other.tensors());
        let tensors = pairs.map(|(a, b)| MaskTensor {
            kept: a.kept.iter().zip(&b.kept).map(|(&a, &b)| keep(a, b)).collect(),
            ..a.clone()
        });
        let (a, b) = (self.origin(), other.origin());
        let origin = MaskOrigin {
            method: format!("{} {word} {}", a.method, b.method),
            privacy: combined(&a.privacy, &b.privacy),
        };
        let mask = Self::with_origin(tensors.collect(), origin)?;
        Ok(if self.is_zeroing() { mask.with_zeroing() } else { mask })
    }

    /// Counts the coordinates on which two masks agree and differ.
    ///
    /// # Errors
    /// `Model` if the masks are for different parameters.
    pub fn overlap(&self, other: &Mask) -> Result<Overlap> {
        self.check_same_tensors(other)?;
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

    /// Computes the Jaccard index: coordinates that both keep over coordinates that at least one
    /// keeps. It is 1 for equal masks.
    ///
    /// # Errors
    /// `Model` if the masks are for different parameters.
    pub fn jaccard(&self, other: &Mask) -> Result<f64> {
        Ok(self.overlap(other)?.jaccard())
    }

    fn check_same_tensors(&self, other: &Mask) -> Result<()> {
        let (a, b) = (self.tensors(), other.tensors());
        let same = |(a, b): (&MaskTensor, &MaskTensor)| a.path == b.path && a.shape == b.shape;
        if a.len() == b.len() && a.iter().zip(b).all(same) {
            return Ok(());
        }
        let names = |tensors: &[MaskTensor]| -> String {
            let each = tensors.iter().map(|tensor| format!("{} {:?}", tensor.path, tensor.shape));
            each.collect::<Vec<_>>().join(", ")
        };
        let what = format!("masks for {} and for {}", names(a), names(b));
        Err(Error::new(ErrorKind::Model, what, "the masks are for different parameters")
            .fix("use masks of the same model and the same set of prunable parameters"))
    }
}

/// Overlap of two masks of the same parameters: numbers of coordinates on which they agree and
/// differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// Number of coordinates that both masks keep.
    pub both: usize,
    /// Number of coordinates that only the first mask keeps.
    pub only_first: usize,
    /// Number of coordinates that only the second mask keeps.
    pub only_second: usize,
    /// Number of coordinates that neither mask keeps.
    pub neither: usize,
}

impl Overlap {
    /// Computes the Jaccard index: `both` over the coordinates that at least one mask keeps.
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
            format_count(self.both),
            format_count(self.only_first),
            format_count(self.only_second),
            format_count(self.neither),
            self.jaccard()
        )
    }
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = if self.is_zeroing() { "the others set to zero" } else { "the others frozen" };
        write!(
            f,
            "{} of {} coordinates trained, {rest}: {}",
            format_count(self.kept_count()),
            format_count(self.len()),
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
