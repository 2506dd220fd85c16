//! Image files that are decoded when a batch needs them.

use std::path::PathBuf;
use std::sync::Arc;

use rayon::iter::Either;
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::damaged;
use super::decode::decode;
use super::resize::{Form, fit};
use crate::Result;
use crate::data::digest::hex;
use crate::data::progress::Progress;
use crate::data::unpack::{corrupt, read_packed};

/// Largest file in bytes: the size of the pixels of the largest image that is read.
const LARGEST: usize = 512 << 20;

/// Image files and the shape and scaling of their features. Cheap to clone.
#[derive(Clone)]
pub(in crate::data) struct Files {
    files: Arc<Vec<Arc<ImageFile>>>,
    form: Form,
}

struct ImageFile {
    path: PathBuf,
    /// SHA-256 of its content when the folder was opened.
    digest: [u8; 32],
}

impl Files {
    /// Reads and decodes every file once, on all threads, and keeps its hash but no pixels.
    ///
    /// # Errors
    /// One error for all files that can't be used.
    pub(super) fn open(paths: Vec<PathBuf>, form: Form) -> Result<Self> {
        let (all, progress) = (paths.len(), Progress::new("images checked", paths.len()));
        let open = |path| {
            let file = ImageFile::open(path);
            progress.one_more();
            file.map_or_else(Either::Right, |file| Either::Left(Arc::new(file)))
        };
        let (files, errors): (Vec<_>, Vec<_>) = paths.into_par_iter().partition_map(open);
        damaged::check(all, errors)?;
        Ok(Self { files: Arc::new(files), form })
    }

    /// The shape of one example.
    pub(in crate::data) fn shape(&self) -> [usize; 3] {
        self.form.shape()
    }

    /// Mean and standard deviation of the scaling.
    pub(in crate::data) fn scaling(&self) -> [f32; 2] {
        [self.form.mean, self.form.std]
    }

    /// The SHA-256 of each file, in order.
    pub(in crate::data) fn digests(&self) -> impl Iterator<Item = &[u8; 32]> {
        self.files.iter().map(|file| &file.digest)
    }

    /// A hash of the contents, independent of names, order, size and scaling.
    pub(super) fn origin(&self) -> String {
        let mut digests: Vec<&[u8; 32]> = self.digests().collect();
        digests.sort_unstable();
        let mut sha = Sha256::new();
        sha.update(b"epsilab images 1\n");
        digests.into_iter().for_each(|digest| sha.update(digest));
        hex(&sha.finalize())
    }

    /// The first `n` files, and the others.
    pub(super) fn split_at(&self, n: usize) -> [Self; 2] {
        let (first, others) = self.files.split_at(n);
        [first, others].map(|files| Self { files: Arc::new(files.to_vec()), form: self.form })
    }

    /// The files at these indices.
    pub(in crate::data) fn select(&self, positions: &[u32]) -> Self {
        let files = positions.iter().map(|&i| self.files[i as usize].clone()).collect();
        Self { files: Arc::new(files), form: self.form }
    }

    /// The same files with `(x - mean) / std` in place of every feature `x`.
    pub(in crate::data) fn scaled(&self, mean: f32, std: f32) -> Self {
        let Form { mean: inner, std: width, .. } = self.form;
        let form = Form { mean: inner + width * mean, std: width * std, ..self.form };
        Self { files: self.files.clone(), form }
    }

    /// Whether all features are finite numbers: those of black and of white images, with a margin
    /// for rounding.
    pub(in crate::data) fn are_finite(&self) -> bool {
        let Form { mean, std, .. } = self.form;
        [-1.0f32, 2.0].iter().all(|x| ((x - mean) / std).is_finite())
    }

    /// Decodes one file: its features have the length of `into`.
    pub(in crate::data) fn read(&self, id: u32, into: &mut [f32]) -> Result<()> {
        self.files[id as usize].read(&self.form, into)
    }

    /// Appends the features of these files, decoded on all threads.
    pub(in crate::data) fn decode(&self, ids: &[u32], into: &mut Vec<f32>) -> Result<()> {
        let (start, size) = (into.len(), self.shape().iter().product::<usize>());
        into.resize(start + ids.len() * size, 0.0);
        let read = (into[start..].par_chunks_mut(size).zip(ids))
            .try_for_each(|(into, &id)| self.read(id, into));
        if read.is_err() {
            into.truncate(start);
        }
        read
    }
}

impl ImageFile {
    /// Hashes and decodes a file once: only decoding shows whether it is complete.
    fn open(path: PathBuf) -> Result<Self> {
        let bytes = read_packed(&path, LARGEST)?;
        decode(&path, &bytes)?;
        Ok(Self { digest: Sha256::digest(&bytes).into(), path })
    }

    fn read(&self, form: &Form, into: &mut [f32]) -> Result<()> {
        let bytes = read_packed(&self.path, LARGEST)?;
        let digest: [u8; 32] = Sha256::digest(&bytes).into();
        if digest != self.digest {
            let what = "its content has changed since the folder was opened";
            return Err(corrupt(&self.path, what)
                .fix("don't change files while they are used; open the folder again"));
        }
        fit(&decode(&self.path, &bytes)?, form, into);
        Ok(())
    }
}
