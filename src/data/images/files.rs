//! Image files that are decoded when a batch needs them.

use std::sync::Arc;

use rayon::iter::Either;
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::combined_error;
use super::decode::decode;
use super::location::ImageLocation;
use super::options::ImageOptions;
use crate::data::digest::hex;
use crate::data::progress::ProgressPrinter;
use crate::{Error, Result};

/// Handler of an example that can't be read, by its position: with `Ok`, its features are NaN and
/// the others are read.
pub(in crate::data) type ReadErrorHandler<'a> = &'a (dyn Fn(usize, Error) -> Result<()> + Sync);

/// Image files and the shape and scaling of their features. Cheap to clone.
#[derive(Clone)]
pub(in crate::data) struct ImageFiles {
    files: Arc<Vec<Arc<ImageFile>>>,
    form: ImageOptions,
}

struct ImageFile {
    place: ImageLocation,
    /// SHA-256 of the file's content when it was opened.
    digest: [u8; 32],
}

impl ImageFiles {
    /// Reads and decodes every image once, on all threads, and keeps its hash but no pixels.
    ///
    /// # Errors
    /// One error for all images that can't be used.
    pub(super) fn open(locations: Vec<ImageLocation>, form: ImageOptions) -> Result<Self> {
        let (all, progress) =
            (locations.len(), ProgressPrinter::new("images checked", locations.len()));
        let open = |location| {
            let file = ImageFile::open(location);
            progress.increment();
            file.map_or_else(Either::Right, |file| Either::Left(Arc::new(file)))
        };
        let (files, errors): (Vec<_>, Vec<_>) = locations.into_par_iter().partition_map(open);
        combined_error::combine_errors(all, errors)?;
        Ok(Self { files: Arc::new(files), form })
    }

    /// Reads and decodes every image again.
    ///
    /// # Errors
    /// One error for all images that can't be used any more.
    pub(in crate::data) fn check(&self) -> Result<()> {
        let progress = ProgressPrinter::new("images checked", self.files.len());
        let check = |file: &Arc<ImageFile>| {
            let checked = file.decode_verified();
            progress.increment();
            checked.err()
        };
        combined_error::combine_errors(
            self.files.len(),
            self.files.par_iter().filter_map(check).collect(),
        )
    }

    /// Returns the shape of one example.
    pub(in crate::data) fn shape(&self) -> [usize; 3] {
        self.form.shape()
    }

    /// Returns the mean and standard deviation of the scaling.
    pub(in crate::data) fn scaling(&self) -> [f32; 2] {
        [self.form.mean, self.form.std]
    }

    /// Returns the SHA-256 of each file, in order.
    pub(in crate::data) fn digests(&self) -> impl Iterator<Item = &[u8; 32]> {
        self.files.iter().map(|file| &file.digest)
    }

    /// Returns a hash of the contents, independent of names, order, size and scaling.
    pub(super) fn origin(&self) -> String {
        let mut digests: Vec<_> = self.digests().collect();
        digests.sort_unstable();
        let mut sha = Sha256::new_with_prefix(b"epsilab images 1\n");
        digests.into_iter().for_each(|digest| sha.update(digest));
        hex(&sha.finalize())
    }

    /// Returns the first `n` files, and the others.
    pub(super) fn split_at(&self, n: usize) -> [Self; 2] {
        let (first, others) = self.files.split_at(n);
        [first, others].map(|files| Self { files: Arc::new(files.to_vec()), form: self.form })
    }

    /// Returns the files at these indices.
    pub(in crate::data) fn select(&self, positions: &[u32]) -> Self {
        let files = positions.iter().map(|&i| self.files[i as usize].clone()).collect();
        Self { files: Arc::new(files), form: self.form }
    }

    /// Returns the same files with `(x - mean) / std` in place of every feature `x`.
    pub(in crate::data) fn scaled(&self, mean: f32, std: f32) -> Self {
        let ImageOptions { mean: inner, std: width, .. } = self.form;
        let form = self.form.scaled(inner + width * mean, width * std);
        Self { files: self.files.clone(), form }
    }

    /// Decodes one file: its features have the length of `into`.
    pub(in crate::data) fn read(&self, id: u32, into: &mut [f32]) -> Result<()> {
        self.form.features(&self.files[id as usize].decode_verified()?, into);
        Ok(())
    }

    /// Appends the features of these files, decoded on all threads of the pool that this is called
    /// in.
    ///
    /// # Errors
    /// Those of `unread`. `into` is unchanged then.
    pub(in crate::data) fn decode(
        &self,
        ids: &[u32],
        into: &mut Vec<f32>,
        unread: ReadErrorHandler,
    ) -> Result<()> {
        let size = self.shape().iter().product();
        gather(ids, size, into, unread, |id, _, into| self.read(id, into))
    }
}

/// Appends `size` features of each example, made by `make` on all threads of the pool that this is
/// called in. The vector that `make` gets is for its own use.
///
/// # Errors
/// Those of `unread`. `into` is unchanged then.
pub(in crate::data) fn gather(
    ids: &[u32],
    size: usize,
    into: &mut Vec<f32>,
    unread: ReadErrorHandler,
    make: impl Fn(u32, &mut Vec<f32>, &mut [f32]) -> Result<()> + Sync,
) -> Result<()> {
    let start = into.len();
    into.resize(start + ids.len() * size, 0.0);
    let all = into[start..].par_chunks_mut(size).zip(ids).enumerate();
    let read = all.try_for_each_init(Vec::new, |buffer, (at, (into, &id))| {
        let made = make(id, buffer, into);
        made.or_else(|error| unread(at, error).map(|()| into.fill(f32::NAN)))
    });
    if read.is_err() {
        into.truncate(start);
    }
    read
}

impl ImageFile {
    /// Hashes and decodes an image once: only decoding shows whether it is complete.
    fn open(location: ImageLocation) -> Result<Self> {
        let bytes = location.read()?;
        decode(&bytes).map_err(|what| unusable(&location, what))?;
        Ok(Self { digest: Sha256::digest(&bytes).into(), place: location })
    }

    /// Decodes the pixels, if the file is what it was when it was opened.
    fn decode_verified(&self) -> Result<image::RgbImage> {
        let bytes = self.place.read()?;
        let digest: [u8; 32] = Sha256::digest(&bytes).into();
        if digest != self.digest {
            let what = "the file has changed since it was opened";
            return Err((self.place.corrupt(what))
                .fix("do not change files that are in use; open the data set again"));
        }
        decode(&bytes).map_err(|what| unusable(&self.place, what))
    }
}

fn unusable(location: &ImageLocation, what: String) -> Error {
    let fix = "replace or remove this file: it must be a sound JPEG, PNG or WebP image";
    location.corrupt(what).fix(fix)
}
