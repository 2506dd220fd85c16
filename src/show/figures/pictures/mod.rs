//! Examples of data sets and filters of models as pictures. Begin with `examples` and `filters`.
//! `PictureGrid` draws images in rows and columns, `TextRows` texts, and `form` finds out which of
//! the two a data set is.

mod examples;
mod filters;
mod form;
mod grid;
mod lines;

pub use examples::examples;
pub use filters::{Filters, filters};

pub(super) use form::{ExampleKind, is_image_shape, load_bitmaps};
pub(super) use grid::{PictureGrid, PictureTile};
pub(super) use lines::TextRows;
