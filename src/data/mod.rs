//! Data: readers of real files, data drawn by code, tables, texts and folders of images of one's
//! own, splits, samplers, augmentation.
//!
//! A [`Dataset`] is a training part, a test part (maybe empty) and how many classes there are. It
//! is cheap to clone and its [`Dataset::origin`] names the people in it in the privacy ledger.
//! Nothing here downloads anything, and nothing is ever scaled by statistics of the data itself:
//! a mean or a maximum of private data would be a release that no accountant sees.

mod augment;
mod cifar;
mod dataset;
mod digest;
mod drawn;
mod examples;
mod find;
mod folder;
mod glyphs;
mod idx;
mod mnist;
mod on_device;
mod origin;
mod patterns;
mod progress;
mod records;
pub mod sampler;
mod sentences;
mod table;
mod text;
mod unpack;

pub use augment::Augment;
pub use cifar::{cifar10, cifar10_in, cifar10_or_patterns, cifar100, cifar100_in};
pub use dataset::Dataset;
pub use examples::Examples;
pub use find::{Available, available};
pub use folder::{ImageOptions, image_folder};
pub use glyphs::{glyphs, glyphs_with};
pub use mnist::{fashion_mnist, fashion_mnist_in, mnist, mnist_in, mnist_or_glyphs};
pub use on_device::OnDevice;
pub use patterns::{patterns, patterns_with};
pub use sampler::PoissonSampler;
pub use sentences::{sentences, sentences_with};
pub use table::{csv, from_vecs, idx, idx_with_classes};
pub use text::{TextOptions, Vocabulary, ag_news, ag_news_in, from_texts, text_csv, tokens};
