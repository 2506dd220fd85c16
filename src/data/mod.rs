//! Data sets: public files, synthetic data, and the user's own tables, texts and images; splits,
//! Poisson sampling and augmentation.
//!
//! A [`Dataset`] has a training part, a test part (which may be empty) and a number of classes. It
//! is cheap to clone. Its [`Dataset::origin`] identifies the people in it in the privacy ledger.
//! Nothing here downloads anything, and no feature is scaled by statistics of the data: a mean or a
//! maximum of private data would be a release that no accountant counts.
//!
//! ```
//! use epsilab::prelude::*;
//! // Drawn by code: 100 digits for training and 20 for testing.
//! let digits = data::glyphs_with(100, 20, 1)?;
//! assert_eq!((digits.train().len(), digits.test().len()), (100, 20));
//! assert_eq!((digits.shape(), digits.classes()), (&[1, 28, 28][..], 10));
//! // Your own: the features of all examples, the shape of one, labels and number of classes.
//! let own = data::from_vecs(vec![0.1, 0.2, 0.3, 0.4], &[2], vec![0, 1], 2)?;
//! assert_eq!(own.train().features(1), [0.3, 0.4]);
//! # Ok::<(), Error>(())
//! ```

mod augment;
pub(crate) mod batch_source;
mod canvas;
mod cifar;
mod csv_records;
mod dataset;
mod dataset_file;
mod dead_leaves;
mod decompressed_file;
mod device_examples;
pub(crate) mod digest;
mod examples;
mod glyphs;
mod idx;
mod images;
mod known_datasets;
mod mnist;
mod origin;
mod patterns;
mod population;
pub(crate) mod prefetcher;
mod progress;
mod public_data;
pub mod sampler;
mod sentences;
mod shuffled;
mod signed_distance;
mod synthetic;
mod table;
mod text;

pub use augment::Augment;
pub use cifar::{cifar10, cifar10_in, cifar10_or_patterns, cifar100, cifar100_in};
pub use dataset::Dataset;
pub use dead_leaves::dead_leaves;
pub use device_examples::DeviceExamples;
pub use examples::Examples;
pub(crate) use examples::format_shape;
pub use glyphs::{drawn_digits, glyphs, glyphs_with};
pub use images::{ImageOptions, image_folder, tar_shards};
pub use known_datasets::{DatasetAvailability, available};
pub use mnist::{fashion_mnist, fashion_mnist_in, mnist, mnist_in, mnist_or_glyphs};
pub use patterns::{patterns, patterns_with};
pub use population::Population;
pub use public_data::PublicData;
pub use sampler::PoissonSampler;
pub use sentences::{sentences, sentences_with};
pub(crate) use shuffled::ShuffledSampler;
pub use table::{
    ColumnKind, ColumnSchema, MissingRule, TableReader, TableSchema, csv, from_vecs, idx,
    idx_with_classes, table,
};
pub use text::{TextOptions, Vocabulary, ag_news, ag_news_in, from_texts, text_csv, tokenize};
