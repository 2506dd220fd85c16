//! Data sets derived from another one, whose ledger they share.

use super::{Dataset, partition};
use crate::data::digest::format_count;
use crate::data::examples::{Examples, check_scale};
use crate::{Error, ErrorKind, Result};

impl Dataset {
    /// Splits the training part at random: each example stays in it with probability `share`, and
    /// the others become the test part, which replaces the former one.
    ///
    /// A hash of the seed and of an example's own content decides its part, so equal seeds give
    /// equal splits on every machine, and duplicates of an example are in the same part. The sizes
    /// of the parts are random; [`source`](Self::source) states them.
    ///
    /// # Guarantee
    /// Adding or removing an example leaves all others in their parts: the parts of neighbouring
    /// data sets differ by at most that example (neighbours: one example added or removed). So a
    /// run on a part costs the whole no more than it costs the part, and the ledger of the whole is
    /// charged. This does not hold for one example zeroed out or replaced, which may move to the
    /// other part: the guarantee of a run on disjoint batches is about the part alone. The sizes of
    /// the parts count as public, as that of the whole does.
    ///
    /// # Errors
    /// A share outside (0, 1), fewer than two training examples, or a part that is empty by chance.
    pub fn split(&self, share: f64, seed: u64) -> Result<Self> {
        let len = self.train().len();
        if !(share > 0.0 && share < 1.0) {
            let why = "the fraction of training examples must be above 0 and below 1";
            return Err(Error::setting("share", share, why).fix("for instance .split(0.8, 7)"));
        }
        if len < 2 {
            let why = "a split needs one example for each of its two parts";
            return Err(Error::setting("training examples", len, why).fix("give more examples"));
        }
        let key = partition::partition_key(&self.inner.split_key, "split", seed);
        let [train, test] = partition::partition_examples(self.train(), &key, share);
        if train.is_empty() || test.is_empty() {
            let part = if train.is_empty() { "training" } else { "test" };
            let why = format!(
                "each of {} examples is selected with that probability; the {part} part is empty",
                format_count(len)
            );
            return Err(Error::setting("share", share, why).fix("use another share or seed"));
        }
        let source = format!(
            "{} Its training part was split by seed {seed}: {} for training, {} for testing.",
            self.source(),
            format_count(train.len()),
            format_count(test.len())
        );
        let parts = (self.train().select(&train), self.train().select(&test));
        Ok(self.with_parts(source, parts.0, parts.1).map_inner(|inner| {
            inner.split_key = key;
            inner.about.test_split_off = true;
        }))
    }

    /// Limits the data set to about `train` of the training examples and the first `test` test
    /// examples, for quick trials; all of them if there are fewer.
    ///
    /// Each of N training examples is kept with probability `train / N` (at least 1 / N), decided
    /// by a hash of its own content, so the selection is the same on every machine. The number of
    /// kept examples is random, with mean `train` and standard deviation at most its square root,
    /// and may be zero; [`train().len()`](Self::train) and [`source`](Self::source) state it. The
    /// result has its own [`hash`](Self::hash) but the ledger of the whole.
    ///
    /// # Guarantee
    /// As [`split`](Self::split): adding or removing an example changes the selection of no other.
    /// (Keeping exactly `train` examples would replace a removed example by another one, which the
    /// add-or-remove-one relation of the ledger does not cover.) The size N of the whole counts as
    /// public: neighbours are compared at the same probability.
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
                format_count(test.len())
            );
            return self.with_parts(source, self.train().clone(), test);
        }
        let key = partition::partition_key(&self.inner.split_key, "limit", 0);
        let share = train.max(1) as f64 / all.0 as f64;
        let [kept, _] = partition::partition_examples(self.train(), &key, share);
        let source = format!(
            "{} Only {} of {} training examples, chosen by their content with probability \
             {share:.4}, and the first {} test examples are used.",
            self.source(),
            format_count(kept.len()),
            format_count(all.0),
            format_count(test.len())
        );
        let kept = self.train().select(&kept);
        self.with_parts(source, kept, test).map_inner(|inner| inner.split_key = key)
    }

    /// Replaces every feature `x` by `(x - mean) / std`.
    ///
    /// Both values must be public. Computing them from the private data would be a release that no
    /// ledger counts.
    ///
    /// # Errors
    /// A mean that is not finite, a standard deviation that is not finite and positive, or a text
    /// data set, whose features are token ids.
    pub fn normalized(&self, mean: f32, std: f32) -> Result<Self> {
        check_scale(mean, std)?;
        if self.vocabulary().is_some() {
            let what = format!("{} holds token ids", self.name());
            let why = "scaling would change the ids, and so the words";
            return Err(Error::new(ErrorKind::Setting, what, why).fix("do not scale texts"));
        }
        let scaled = |part: &Examples| part.scaled(mean, std);
        let source = format!("{} Features are (x - {mean}) / {std}.", self.source());
        Ok(self.with_parts(source, scaled(self.train()), scaled(self.test())))
    }
}
