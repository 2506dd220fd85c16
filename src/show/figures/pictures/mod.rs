//! Examples of data sets and filters of models as pictures.

mod examples;
mod filters;
mod form;
mod grid;
mod lines;

pub use examples::examples;
pub use filters::{Filters, filters};

pub(super) use form::{Form, drawn_pictures, has_pictures};
pub(super) use grid::{PictureGrid, Tile};
pub(super) use lines::TextRows;
