//! A data set: training part, test part, classes, and the hash that names it in the ledger.

use std::fmt;
use std::sync::{Arc, OnceLock};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use sha2::{Digest, Sha256};

use super::digest::{count, hex};
use super::examples::{Examples, shape_text};
use crate::{Error, Result};

/// A labelled data set for classification, cheap to clone.
///
/// ```
/// let data = epsilab::data::from_vecs(vec![0.0, 1.0, 2.0, 3.0], &[1], vec![0, 0, 1, 1], 2)?;
/// let data = data.split(0.5, 7)?;
/// assert_eq!((data.train().len(), data.test().len()), (2, 2));
/// # Ok::<(), epsilab::Error>(())
/// ```
#[derive(Clone)]
pub struct Dataset {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    source: String,
    class_names: Vec<String>,
    train: Examples,
    test: Examples,
    hash: OnceLock<String>,
    /// Hash of the data set this one was cut from; `None` if it was cut from none.
    origin: Option<String>,
}

impl Dataset {
    /// A data set of parts that were checked before; one name for each class.
    pub(super) fn new(
        name: impl Into<String>,
        source: impl Into<String>,
        class_names: Vec<String>,
        train: Examples,
        test: Examples,
    ) -> Self {
        let (name, source) = (name.into(), source.into());
        let hash = OnceLock::new();
        let inner = Inner { name, source, class_names, train, test, hash, origin: None };
        Self { inner: Arc::new(inner) }
    }

    /// Its name, for instance `MNIST`.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// One sentence: where the numbers came from.
    pub fn source(&self) -> &str {
        &self.inner.source
    }

    /// The shape of one example, for instance `[1, 28, 28]` (channels, height, width).
    pub fn shape(&self) -> &[usize] {
        self.train().shape()
    }

    /// How many classes there are; labels are below this number.
    pub fn classes(&self) -> usize {
        self.inner.class_names.len()
    }

    /// A name for each class, in the order of the labels.
    pub fn class_names(&self) -> &[String] {
        &self.inner.class_names
    }

    /// The training part: what a private method protects. Its length is the public size of the
    /// data set.
    pub fn train(&self) -> &Examples {
        &self.inner.train
    }

    /// The test part; may be empty.
    pub fn test(&self) -> &Examples {
        &self.inner.test
    }

    /// SHA-256 (hexadecimal) of the training part: shape, classes, bits of the features, labels.
    ///
    /// Names the data in the privacy ledger (by way of [`origin`](Self::origin)), so it must never
    /// change its meaning: the encoding starts with its version. Computed once, on first use.
    pub fn hash(&self) -> &str {
        self.inner.hash.get_or_init(|| hash(self.classes(), self.train()))
    }

    /// The [`hash`](Self::hash) of the data set that this one was cut from by [`split`](Self::split),
    /// [`limit`](Self::limit) or [`normalized`](Self::normalized); its own if it was cut from none.
    ///
    /// # Guarantee
    /// The privacy ledger is kept by this name: what is spent on parts of a data set adds up with
    /// what is spent on the whole, for the same people are in them.
    pub fn origin(&self) -> &str {
        self.inner.origin.as_deref().unwrap_or_else(|| self.hash())
    }

    /// Splits the training part at random: `share` of it stays for training, the rest becomes the
    /// test part (in place of the former one). Both keep at least one example.
    ///
    /// The same seed gives the same split on every machine.
    ///
    /// # Errors
    /// A share outside (0, 1), or fewer than two training examples.
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
        // Rounded, then kept in 1..len: a share of .999 of ten examples must leave a test part.
        let kept = ((share * len as f64).round() as usize).clamp(1, len - 1);
        let order = shuffled(len, seed);
        let (mut train, mut test) = (order[..kept].to_vec(), order[kept..].to_vec());
        train.sort_unstable();
        test.sort_unstable();
        let source = format!(
            "{} Its training part was split by seed {seed}: {} for training, {} for testing.",
            self.source(),
            count(kept),
            count(len - kept)
        );
        Ok(self.with_parts(source, self.train().select(&train), self.train().select(&test)))
    }

    /// The first `train` training examples (at least one) and the first `test` test examples, for
    /// quick trials. Counts beyond the data take all there is.
    ///
    /// The shorter training part has its own [`hash`](Self::hash) but the ledger of the whole.
    pub fn limit(&self, train: usize, test: usize) -> Self {
        let (train, test) = (self.train().take(train.max(1)), self.test().take(test));
        if (train.len(), test.len()) == (self.train().len(), self.test().len()) {
            return self.clone();
        }
        let source = format!(
            "{} Only the first {} training and {} test examples are used.",
            self.source(),
            count(train.len()),
            count(test.len())
        );
        self.with_parts(source, train, test)
    }

    /// Replaces every feature `x` by `(x - mean) / std`.
    ///
    /// The two numbers must be public: known from elsewhere, never measured on the private data,
    /// for that would be a release outside the ledger.
    ///
    /// # Errors
    /// A mean that is not finite, or a standard deviation that is not finite and positive.
    pub fn normalized(&self, mean: f32, std: f32) -> Result<Self> {
        if !mean.is_finite() {
            return Err(Error::setting("mean", mean, "it must be a finite number"));
        }
        if !(std.is_finite() && std > 0.0) {
            return Err(Error::setting("std", std, "it must be a finite number above 0"));
        }
        let scaled = |part: &Examples| part.map(|x| (x - mean) / std);
        let source = format!("{} Features are (x - {mean}) / {std}.", self.source());
        Ok(self.with_parts(source, scaled(self.train()), scaled(self.test())))
    }

    fn with_parts(&self, source: String, train: Examples, test: Examples) -> Self {
        let inner = Inner {
            name: self.name().to_owned(),
            source,
            class_names: self.class_names().to_vec(),
            train,
            test,
            hash: OnceLock::new(),
            origin: Some(self.origin().to_owned()),
        };
        Self { inner: Arc::new(inner) }
    }
}

/// A random order of `0..len` (Fisher-Yates on a ChaCha20 stream).
fn shuffled(len: usize, seed: u64) -> Vec<u32> {
    // Not `seed_from_u64`: its expansion is rand's affair, and a split must never change.
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    let mut rng = ChaCha20Rng::from_seed(key);
    let mut order: Vec<u32> = (0..len as u32).collect();
    for i in (1..len).rev() {
        order.swap(i, rng.random_range(0..=i as u64) as usize);
    }
    order
}

/// Version 1 of the encoding: all integers as little-endian u64, floats and labels as their
/// little-endian 32 bits.
fn hash(classes: usize, examples: &Examples) -> String {
    /// Numbers are handed over in pieces of this many: an update per number would be slow.
    const PIECE: usize = 4096;
    let mut sha = Sha256::new();
    sha.update(b"epsilab data 1\n");
    let mut integer = |n: usize| sha.update((n as u64).to_le_bytes());
    integer(examples.shape().len());
    examples.shape().iter().for_each(|&n| integer(n));
    integer(classes);
    integer(examples.len());
    let mut bytes = Vec::with_capacity(4 * PIECE);
    let mut words = |words: &mut dyn Iterator<Item = u32>| {
        bytes.clear();
        words.for_each(|w| bytes.extend_from_slice(&w.to_le_bytes()));
        sha.update(&bytes);
    };
    for piece in examples.features_flat().chunks(PIECE) {
        words(&mut piece.iter().map(|x| x.to_bits()));
    }
    for piece in examples.labels().chunks(PIECE) {
        words(&mut piece.iter().copied());
    }
    hex(&sha.finalize())
}

/// `MNIST: 60,000 training and 10,000 test examples of shape 1x28x28, 10 classes`.
impl fmt::Display for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} training and {} test examples of shape {}, {} classes",
            self.name(),
            count(self.train().len()),
            if self.test().is_empty() { "no".into() } else { count(self.test().len()) },
            shape_text(self.shape()),
            self.classes()
        )
    }
}

/// The same text as `Display`: a cell that ends in a data set shows this.
impl fmt::Debug for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::data::from_vecs;

    fn numbers(len: usize) -> Dataset {
        let x = (0..len).map(|i| i as f32).collect();
        from_vecs(x, &[1], (0..len).map(|i| (i % 3) as u32).collect(), 3).unwrap()
    }

    fn features(part: &Examples) -> Vec<u32> {
        part.features_flat().iter().map(|&x| x as u32).collect()
    }

    #[test]
    fn parts_of_a_data_set_share_its_ledger() {
        let y = (0..20).map(|i| i % 2).collect();
        let whole =
            crate::data::from_vecs((0..20).map(|i| i as f32).collect(), &[1], y, 2).unwrap();
        assert_eq!(whole.origin(), whole.hash());
        let part = whole.split(0.5, 1).unwrap().limit(5, 5);
        assert_ne!(part.hash(), whole.hash());
        assert_eq!(part.origin(), whole.hash());
        assert_eq!(part.normalized(1.0, 2.0).unwrap().origin(), whole.hash());
    }

    #[test]
    fn a_split_loses_nothing_and_keeps_labels_with_features() {
        let split = numbers(100).split(0.8, 7).unwrap();
        assert_eq!((split.train().len(), split.test().len()), (80, 20));
        let mut all = [features(split.train()), features(split.test())].concat();
        all.sort_unstable();
        assert_eq!(all, (0..100).collect::<Vec<u32>>());
        for part in [split.train(), split.test()] {
            assert!((0..part.len()).all(|i| part.label(i) == part.features(i)[0] as usize % 3));
        }
    }

    #[test]
    fn a_split_depends_on_its_seed_only_and_is_random() {
        let data = numbers(1000);
        let test = |seed| features(data.split(0.9, seed).unwrap().test());
        assert_eq!(test(1), test(1));
        assert_ne!(test(1), test(2));
        // The mean position of 100 of 1000 has standard deviation 27.4: a split that takes the
        // first or the last hundred lies 16 of them away.
        let mean = test(1).iter().sum::<u32>() as f64 / 100.0;
        assert!((mean - 499.5).abs() < 110.0, "{mean}");
    }

    #[test]
    fn the_split_of_a_seed_is_fixed_for_ever() {
        assert_eq!(features(numbers(20).split(0.75, 7).unwrap().test()), FIXED_SPLIT);
    }

    const FIXED_SPLIT: [u32; 5] = [1, 2, 3, 5, 14];

    #[test]
    fn both_parts_of_a_split_keep_an_example() {
        for (share, sizes) in [(0.001, (1, 9)), (0.999, (9, 1))] {
            let split = numbers(10).split(share, 1).unwrap();
            assert_eq!((split.train().len(), split.test().len()), sizes);
        }
    }

    #[test]
    fn impossible_splits_are_refused() {
        for share in [0.0, 1.0, -0.5, 1.5, f64::NAN, f64::INFINITY] {
            let error = numbers(10).split(share, 1).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Setting);
            assert!(error.to_string().starts_with(&format!("share = {share}")), "{error}");
        }
        assert_eq!(numbers(1).split(0.5, 1).unwrap_err().kind(), ErrorKind::Setting);
    }

    #[test]
    fn the_hash_sees_shape_classes_features_and_labels_but_not_the_test_part() {
        let make = |x: [f32; 4], shape: &[usize], y: Vec<u32>, classes| {
            from_vecs(x.to_vec(), shape, y, classes).unwrap().hash().to_string()
        };
        let base = make([0.0, 1.0, 2.0, 3.0], &[2], vec![0, 1], 2);
        assert_eq!(base.len(), 64);
        assert_eq!(base, make([0.0, 1.0, 2.0, 3.0], &[2], vec![0, 1], 2));
        assert_ne!(base, make([0.0, 1.0, 2.0, 4.0], &[2], vec![0, 1], 2));
        assert_ne!(base, make([-0.0, 1.0, 2.0, 3.0], &[2], vec![0, 1], 2));
        assert_ne!(base, make([0.0, 1.0, 2.0, 3.0], &[1, 2], vec![0, 1], 2));
        assert_ne!(base, make([0.0, 1.0, 2.0, 3.0], &[2], vec![0, 1], 3));
        assert_ne!(base, make([0.0, 1.0, 2.0, 3.0], &[2], vec![1, 0], 2));

        let split = numbers(10).split(0.5, 1).unwrap();
        assert_eq!(split.hash(), split.limit(5, 0).hash());
        assert_ne!(split.hash(), split.limit(4, 5).hash());
    }

    #[test]
    fn limiting_takes_the_first_examples_and_says_so() {
        let data = numbers(10).split(0.5, 1).unwrap();
        let few = data.limit(2, 1);
        assert_eq!(features(few.train()), features(data.train())[..2]);
        assert_eq!(features(few.test()), features(data.test())[..1]);
        assert!(few.source().contains("first 2 training and 1 test"), "{}", few.source());
        assert_eq!(data.limit(99, 99).source(), data.source());
        assert_eq!(data.limit(0, 0).train().len(), 1);
    }

    #[test]
    fn normalizing_uses_the_given_constants_and_refuses_bad_ones() {
        let data = numbers(4).normalized(1.0, 2.0).unwrap();
        assert_eq!(data.train().features_flat(), [-0.5, 0.0, 0.5, 1.0]);
        for (mean, std) in [(f32::NAN, 1.0), (0.0, 0.0), (0.0, -1.0), (0.0, f32::INFINITY)] {
            let error = numbers(4).normalized(mean, std).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Setting);
        }
    }

    #[test]
    fn the_text_is_one_line() {
        let text = "table: 1,200 training and no test examples of shape 1, 3 classes";
        assert_eq!(numbers(1200).to_string(), text);
        assert_eq!(format!("{:?}", numbers(1200)), text);
    }
}
