//! Images in files: folders and tar shards. They are decoded when a batch needs them. Begin with
//! `image_folder` and `tar_shards`, which list and check the images, with the settings
//! `ImageOptions`. `ImageFiles` holds the list, and `gather` reads and decodes the images of a
//! batch.

mod combined_error;
mod completeness;
mod decode;
mod files;
mod folder;
mod layout;
mod listing;
mod location;
mod options;
mod scan;
mod shards;
mod skipped;

pub(super) use files::{ImageFiles, ReadErrorHandler, gather};
pub use folder::image_folder;
pub use options::ImageOptions;
pub use shards::tar_shards;
