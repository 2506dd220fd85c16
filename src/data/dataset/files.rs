//! Data sets whose features are in files.

use super::Dataset;
use crate::Result;

impl Dataset {
    /// Returns the same data set with all features in memory. For images in files this makes
    /// training faster: each is decoded once instead of once per use, and can't fail during
    /// training. Other data sets are unchanged. [`hash`](Self::hash) and ledger stay the same, so
    /// stored runs are found. Parts split off afterwards have other hashes than parts split off
    /// before.
    ///
    /// # Errors
    /// If a file can't be read or decoded, or has changed since it was opened.
    pub fn in_memory(&self) -> Result<Self> {
        if self.train().is_in_memory() && self.test().is_in_memory() {
            return Ok(self.clone());
        }
        let (train, test) = (self.train().in_memory()?, self.test().in_memory()?);
        let moved = self.with_parts(self.source().to_owned(), train, test);
        Ok(moved.map_inner(|inner| {
            inner.hash = self.hash().to_owned().into();
            inner.test_hash = self.test_hash().to_owned().into();
        }))
    }

    /// Reads and decodes every image file again and compares it with what was opened. Nothing is
    /// checked of data in memory.
    ///
    /// A private run leaves out files that it can't read and says nothing about them. This tells
    /// the owner of the data.
    ///
    /// # Guarantee
    /// None: the error names files of private examples, and how many of them fail. Don't publish
    /// it, and do not let it decide how long a run continues.
    ///
    /// # Errors
    /// One error for all files that can't be read or have changed.
    pub fn check_files(&self) -> Result<()> {
        let parts = [self.train(), self.test()];
        parts.into_iter().filter_map(|part| part.files()).try_for_each(|files| files.check())
    }
}
