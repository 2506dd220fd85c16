//! Labelled examples: one part (training or test) of a data set.

use std::fmt;
use std::sync::Arc;

use rayon::prelude::*;
use sha2::{Digest as _, Sha256};

use super::digest::{add_words, format_count};
use super::images::{ImageFiles, ReadErrorHandler};
use crate::{Error, Result};

/// Labelled examples of one shape. Cheap to clone and to [`take`](Self::take) from: features are
/// shared.
///
/// Features are `f32`, row-major (`[channels, height, width]` for images); labels are class indices
/// from 0. Features are in memory, except those of [`image_folder`](super::image_folder) and
/// [`tar_shards`](super::tar_shards), which stay in files. [`gather`](Self::gather) reads both.
/// [`features`](Self::features) and [`features_flat`](Self::features_flat) panic for files: call
/// [`Dataset::in_memory`](super::Dataset::in_memory) first, or check
/// [`is_in_memory`](Self::is_in_memory).
///
/// ```
/// use epsilab::prelude::*;
/// let data = data::from_vecs(vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0], &[2], vec![0, 1, 0], 2)?;
/// let first = data.train().take(2);
/// assert_eq!((first.len(), first.labels()), (2, &[0, 1][..]));
/// assert_eq!(first.features(1), [2.0, 3.0]);
/// let mut batch = Vec::new();
/// data.train().gather(&[2, 0], &mut batch)?; // from memory or from files
/// assert_eq!(batch, [4.0, 5.0, 0.0, 1.0]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone)]
pub struct Examples {
    shape: Arc<[usize]>,
    len: usize,
    store: FeatureStorage,
    labels: Arc<Vec<u32>>,
    /// SHA-256 of each example's file, for examples that were loaded from files into memory.
    digests: Option<Arc<Vec<Digest>>>,
}

/// SHA-256 digest.
pub(super) type Digest = [u8; 32];

/// Storage of the features.
#[derive(Clone)]
enum FeatureStorage {
    Memory(Arc<Vec<f32>>),
    Files(ImageFiles),
}

impl Examples {
    /// Creates examples from checked parts: `features.len()` is the number of labels times the
    /// product of `shape`.
    pub(super) fn new(shape: &[usize], features: Vec<f32>, labels: Vec<u32>) -> Self {
        debug_assert_eq!(features.len(), labels.len() * shape.iter().product::<usize>());
        Self::with_storage(shape, FeatureStorage::Memory(Arc::new(features)), labels)
    }

    /// Creates examples that are decoded from files on request, with one label per file.
    pub(super) fn in_files(files: ImageFiles, labels: Vec<u32>) -> Self {
        Self::with_storage(&files.shape(), FeatureStorage::Files(files), labels)
    }

    fn with_storage(shape: &[usize], store: FeatureStorage, labels: Vec<u32>) -> Self {
        let (len, labels) = (labels.len(), Arc::new(labels));
        Self { shape: shape.into(), len, store, labels, digests: None }
    }

    /// Returns the number of examples.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no examples.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the shape of one example, for instance `[1, 28, 28]`.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the features of example `i`: as many as the product of [`shape`](Self::shape).
    ///
    /// # Panics
    /// As a slice does, if `i` is not below [`len`](Self::len); and as
    /// [`features_flat`](Self::features_flat).
    pub fn features(&self, i: usize) -> &[f32] {
        let size = self.size();
        &self.features_flat()[i * size..(i + 1) * size]
    }

    /// Appends the features of the examples with these indices, in this order, from memory or from
    /// files: `[ids.len(), shape…]` row-major.
    ///
    /// # Errors
    /// If an index is not below [`len`](Self::len); if a file can't be read or decoded, or has
    /// changed since its folder was opened. `into` is unchanged then.
    pub fn gather(&self, ids: &[u32], into: &mut Vec<f32>) -> Result<()> {
        self.gather_readable(ids, into, &|_, error| Err(error))
    }

    /// Gathers examples like [`gather`](Self::gather); `unread` decides about those that can't be
    /// read.
    pub(super) fn gather_readable(
        &self,
        ids: &[u32],
        into: &mut Vec<f32>,
        unread: ReadErrorHandler,
    ) -> Result<()> {
        self.check(ids)?;
        match &self.store {
            FeatureStorage::Files(files) => files.decode(ids, into, unread),
            FeatureStorage::Memory(_) => {
                into.reserve(ids.len() * self.size());
                ids.iter().for_each(|&id| into.extend_from_slice(self.features(id as usize)));
                Ok(())
            }
        }
    }

    /// Returns the features of one example, from memory, or decoded into `buffer`. The index must
    /// be in range.
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    pub(super) fn read_one<'a>(&'a self, id: u32, buffer: &'a mut Vec<f32>) -> Result<&'a [f32]> {
        match &self.store {
            FeatureStorage::Memory(_) => Ok(self.features(id as usize)),
            FeatureStorage::Files(files) => {
                buffer.resize(self.size(), 0.0);
                files.read(id, buffer)?;
                Ok(buffer)
            }
        }
    }

    /// Checks that these indices are in range.
    pub(super) fn check(&self, ids: &[u32]) -> Result<()> {
        let wrong = ids.iter().find(|&&id| id as usize >= self.len);
        let Some(id) = wrong else { return Ok(()) };
        let why = format!("there are {} examples, counted from 0", format_count(self.len));
        Err(Error::setting("example number", id, why))
    }

    /// Returns whether all features are in memory.
    pub fn is_in_memory(&self) -> bool {
        matches!(self.store, FeatureStorage::Memory(_))
    }

    /// Returns the same examples with all features in memory.
    ///
    /// # Errors
    /// If a file can't be read or decoded, or has changed since its folder was opened.
    pub fn in_memory(&self) -> Result<Self> {
        if self.is_in_memory() {
            return Ok(self.clone());
        }
        let mut features = Vec::with_capacity(self.len * self.size());
        let ids: Vec<u32> = (0..self.len as u32).collect();
        self.gather(&ids, &mut features)?;
        let digests = Some(Arc::new(self.content_hashes()));
        Ok(Self { digests, ..Self::new(&self.shape, features, self.labels().to_vec()) })
    }

    /// Returns the label of example `i`.
    ///
    /// # Panics
    /// As a slice does, if `i` is not below [`len`](Self::len).
    pub fn label(&self, i: usize) -> usize {
        self.labels()[i] as usize
    }

    /// Returns all labels, in order.
    pub fn labels(&self) -> &[u32] {
        &self.labels[..self.len]
    }

    /// Returns all features, example after example: `[len, shape…]` row-major.
    ///
    /// # Panics
    /// If the examples are in files (see [`is_in_memory`](Self::is_in_memory)): read them by
    /// [`gather`](Self::gather), or all at once by [`in_memory`](Self::in_memory).
    pub fn features_flat(&self) -> &[f32] {
        match &self.store {
            FeatureStorage::Memory(features) => &features[..self.len * self.size()],
            FeatureStorage::Files(_) => panic!(
                "these examples are in image files: read them by gather(ids, &mut features), or \
                 load all of them first: let data = data.in_memory()?"
            ),
        }
    }

    /// Returns the files of the examples, if they are in files; at least one per example.
    pub(super) fn files(&self) -> Option<&ImageFiles> {
        match &self.store {
            FeatureStorage::Memory(_) => None,
            FeatureStorage::Files(files) => Some(files),
        }
    }

    /// Returns the first `n` examples, or all of them if there are fewer.
    pub fn take(&self, n: usize) -> Self {
        Self { len: n.min(self.len), ..self.clone() }
    }

    /// Returns a hash of each example's content: of its file if it is or was in one, otherwise of
    /// the bits of its features and of its label.
    pub(super) fn content_hashes(&self) -> Vec<Digest> {
        match (&self.store, &self.digests) {
            (FeatureStorage::Files(files), _) => files.digests().take(self.len).copied().collect(),
            (_, Some(digests)) => digests[..self.len].to_vec(),
            _ => (0..self.len).into_par_iter().map(|i| self.content_hash(i)).collect(),
        }
    }

    /// Returns how often the most frequent example occurs: the same features and label, or the same
    /// file. 1 if all differ, 0 if there is none.
    ///
    /// # Guarantee
    /// None: it is a property of the examples, for the eyes of their owner.
    pub(crate) fn most_repeated(&self) -> usize {
        let mut contents = self.content_hashes();
        contents.par_sort_unstable();
        contents.chunk_by(|a, b| a == b).map(<[_]>::len).max().unwrap_or(0)
    }

    fn content_hash(&self, i: usize) -> Digest {
        let mut sha = Sha256::new_with_prefix(b"epsilab example 1\n");
        let features = self.features(i).iter().map(|x| x.to_bits());
        add_words(&mut sha, features.chain([self.labels()[i]]));
        sha.finalize().into()
    }

    /// Returns the examples at these indices, in this order; features in memory are copied. The
    /// indices must be in range.
    pub(super) fn select(&self, positions: &[u32]) -> Self {
        let labels = positions.iter().map(|&i| self.labels()[i as usize]).collect();
        let digests = |all: &Arc<Vec<Digest>>| {
            Arc::new(positions.iter().map(|&i| all[i as usize]).collect::<Vec<_>>())
        };
        match &self.store {
            FeatureStorage::Files(files) => Self::in_files(files.select(positions), labels),
            FeatureStorage::Memory(_) => {
                let mut features = Vec::with_capacity(positions.len() * self.size());
                for &i in positions {
                    features.extend_from_slice(self.features(i as usize));
                }
                let digests = self.digests.as_ref().map(digests);
                Self { digests, ..Self::new(&self.shape, features, labels) }
            }
        }
    }

    /// Returns the same examples with every feature `x` replaced by `(x - mean) / std`.
    pub(super) fn scaled(&self, mean: f32, std: f32) -> Self {
        let labels = self.labels().to_vec();
        match &self.store {
            FeatureStorage::Files(files) => Self::in_files(files.scaled(mean, std), labels),
            FeatureStorage::Memory(_) => {
                let features = self.features_flat().iter().map(|&x| (x - mean) / std).collect();
                let digests = self.digests.clone();
                Self { digests, ..Self::new(&self.shape, features, labels) }
            }
        }
    }

    /// Returns the number of features of one example.
    fn size(&self) -> usize {
        self.shape.iter().product()
    }
}

/// Formats the examples as `60,000 examples of shape 1x28x28`.
impl fmt::Display for Examples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.len == 1 { "example" } else { "examples" };
        write!(f, "{} {noun} of shape {}", format_count(self.len), format_shape(&self.shape))
    }
}

/// The same text as `Display`, without the features.
impl fmt::Debug for Examples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Checks mean and standard deviation of a scaling.
pub(super) fn check_scale(mean: f32, std: f32) -> Result<()> {
    if !mean.is_finite() {
        return Err(Error::setting("mean", mean, "must be a finite number"));
    }
    if !(std.is_finite() && std > 0.0) {
        return Err(Error::setting("std", std, "must be a finite number above 0"));
    }
    Ok(())
}

/// Formats a shape as `1x28x28`.
pub(crate) fn format_shape(shape: &[usize]) -> String {
    shape.iter().map(usize::to_string).collect::<Vec<_>>().join("x")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three_examples() -> Examples {
        Examples::new(&[2], vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0], vec![0, 1, 0])
    }

    #[test]
    fn taking_shortens_every_view_alike() {
        let two = three_examples().take(2);
        assert_eq!((two.len(), two.labels()), (2, &[0, 1][..]));
        assert_eq!(two.features_flat(), [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(three_examples().take(9).len(), 3);
        assert!(three_examples().take(0).is_empty());
    }

    #[test]
    fn selecting_keeps_features_with_their_labels() {
        let picked = three_examples().select(&[2, 1]);
        assert_eq!(picked.features(0), [4.0, 5.0]);
        assert_eq!(picked.features(1), [2.0, 3.0]);
        assert_eq!((picked.label(0), picked.label(1)), (0, 1));
    }

    #[test]
    fn the_text_has_number_and_shape() {
        assert_eq!(three_examples().to_string(), "3 examples of shape 2");
        assert_eq!(format!("{:?}", three_examples().take(1)), "1 example of shape 2");
    }
}
