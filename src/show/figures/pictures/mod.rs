//! Examples of data sets and filters of models as pictures. Begin with `examples` and `filters`.
//! `PictureGrid` draws images in rows and columns, `TextRows` texts, and `example_kind` finds out
//! which of the two a data set is.

mod example_kind;
mod examples;
mod filters;
mod grid;
mod text_rows;

pub use examples::examples;
pub use filters::{Filters, filters};

pub(super) use example_kind::{ExampleKind, is_image_shape, load_bitmaps};
pub(super) use grid::{PictureGrid, PictureTile};
pub(super) use text_rows::TextRows;
