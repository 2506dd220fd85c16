//! Data sets made from others: they keep the ledger of the whole.

use super::{Dataset, parts};
use crate::data::digest::count;
use crate::data::examples::Examples;
use crate::{Error, ErrorKind, Result};

impl Dataset {
    /// Splits the training part at random: about `share` of it stays for training, the rest becomes
    /// the test part (in place of the former one).
    ///
    /// Each example goes to its part by a hash of the seed and of its own content, so the same seed
    /// gives the same split on every machine, and examples that are alike in features and label
    /// stay together. How many come to each part is up to chance; [`source`](Self::source) says it.
    ///
    /// # Guarantee
    /// Adding an example to the whole, or removing one, moves no other from part to part: the parts
    /// of two such data sets differ by that example at most. So what is spent on a part is spent on
    /// the whole, for neighbours that differ by one added or removed example, and so the ledger
    /// adds it up. The sizes of the parts count as public, as that of the whole does.
    ///
    /// # Errors
    /// A share outside (0, 1), fewer than two training examples, or chance leaving a part empty.
    pub fn split(&self, share: f64, seed: u64) -> Result<Self> {
        let len = self.train().len();
        if !(share > 0.0 && share < 1.0) {
            let why = "the share that stays for training must lie between 0 and 1, both excluded";
            return Err(Error::setting("share", share, why).fix("for instance .split(0.8, 7)"));
        }
        if len < 2 {
            let why = "a split needs one example for each of its two parts";
            return Err(Error::setting("training examples", len, why).fix("give more examples"));
        }
        let key = parts::key(&self.inner.cuts, "split", seed);
        let [train, test] = parts::chosen(self.train(), &key, share);
        if train.is_empty() || test.is_empty() {
            let part = if train.is_empty() { "training" } else { "test" };
            let why = format!(
                "of {} examples, each kept with that probability, none came to the {part} part",
                count(len)
            );
            return Err(Error::setting("share", share, why).fix("take another share or seed"));
        }
        let source = format!(
            "{} Its training part was split by seed {seed}: {} for training, {} for testing.",
            self.source(),
            count(train.len()),
            count(test.len())
        );
        let parts = (self.train().select(&train), self.train().select(&test));
        let split = self.with_parts(source, parts.0, parts.1).cut_by(key);
        Ok(split.changed(|inner| inner.test_split_off = true))
    }

    /// About `train` of the training examples and the first `test` test examples, for quick trials.
    /// Counts beyond the data take all there is.
    ///
    /// Of N training examples each is kept with probability `train / N`, by a hash of its own
    /// content: the same ones on every machine. How many these are,
    /// [`train().len()`](Self::train) and [`source`](Self::source) say: `train` up to chance (give
    /// or take about its square root), so that of a few there may be none. The smaller training
    /// part has its own [`hash`](Self::hash) but the ledger of the whole.
    ///
    /// # Guarantee
    /// As [`split`](Self::split): an example that is added to the whole or removed from it moves no
    /// other one. Keeping exactly `train` of them would let another one in for each that is
    /// removed, and the ledger of the whole would promise too much. The size of the whole, N,
    /// counts as public: neighbours are compared at one and the same probability.
    pub fn limit(&self, train: usize, test: usize) -> Self {
        let all = (self.train().len(), self.test().len());
        if train >= all.0 && test >= all.1 {
            return self.clone();
        }
        let test = self.test().take(test);
        if train >= all.0 {
            let source = format!(
                "{} Only the first {} test examples are used.",
                self.source(),
                count(test.len())
            );
            return self.with_parts(source, self.train().clone(), test);
        }
        let key = parts::key(&self.inner.cuts, "limit", 0);
        let share = train.max(1) as f64 / all.0 as f64;
        let [kept, _] = parts::chosen(self.train(), &key, share);
        let source = format!(
            "{} Only {} of {} training examples, chosen by their content with probability \
             {share:.4}, and the first {} test examples are used.",
            self.source(),
            count(kept.len()),
            count(all.0),
            count(test.len())
        );
        self.with_parts(source, self.train().select(&kept), test).cut_by(key)
    }

    /// Replaces every feature `x` by `(x - mean) / std`.
    ///
    /// The two numbers must be public: known from elsewhere, never measured on the private data,
    /// for that would be a release outside the ledger.
    ///
    /// # Errors
    /// A mean that is not finite, or a standard deviation that is not finite and positive; a text
    /// data set, whose features are numbers of words.
    pub fn normalized(&self, mean: f32, std: f32) -> Result<Self> {
        if !mean.is_finite() {
            return Err(Error::setting("mean", mean, "it must be a finite number"));
        }
        if !(std.is_finite() && std > 0.0) {
            return Err(Error::setting("std", std, "it must be a finite number above 0"));
        }
        if self.vocabulary().is_some() {
            let what = format!("{} holds token ids", self.name());
            let why = "they are numbers of words: scaled, they would name other words or none";
            return Err(Error::new(ErrorKind::Setting, what, why).fix("leave texts as they are"));
        }
        let scaled = |part: &Examples| part.scaled(mean, std);
        let source = format!("{} Features are (x - {mean}) / {std}.", self.source());
        Ok(self.with_parts(source, scaled(self.train()), scaled(self.test())))
    }

    /// The same data set with all features in memory. A folder of images that fits there trains
    /// much faster so: each file is decoded once instead of once per use, and can't break in the
    /// middle of training. Others are unchanged. The numbers are the same, so [`hash`](Self::hash)
    /// and ledger are too, and a run that was stored is found; parts cut afterwards have other
    /// hashes than parts cut before.
    ///
    /// # Errors
    /// If a file can't be read or decoded, or has changed since the folder was opened.
    pub fn in_memory(&self) -> Result<Self> {
        if self.train().is_in_memory() && self.test().is_in_memory() {
            return Ok(self.clone());
        }
        let (train, test) = (self.train().in_memory()?, self.test().in_memory()?);
        let hash = self.hash().to_owned();
        Ok(self.with_parts(self.source().to_owned(), train, test).with_hash(hash))
    }
}
