//! Figures, tables and live displays, and the output sink that shows them.
//!
//! Figures are pure functions of plain values. They give a [`MimeBundle`]: the same content in
//! several formats (always text; SVG and PNG for figures, HTML for tables and prose).
//! [`display()`] sends a bundle to the sink of this process: the Epsilab kernel, a stock evcxr
//! kernel, or a terminal. This module neither trains nor reads data. The caller passes the values,
//! so the caller is responsible for what they reveal. A panel that was computed from private data
//! outside the ledger carries the badge [`NOT_COVERED`].
//!
//! Begin with `chart` and `sink`. The modules by subject:
//!
//! - content: `chart`, `series`, `table`, `bars`, `heat_map`, `histogram`, `tiles`, `multiples`,
//!   `bitmap`, `run_chart`, `live_run`, and `figures`, which makes figures of them;
//! - drawing: `figure`, `figure_card`, `layout`, `plot`, `axis`, `panel_header`, `scene`, `font`,
//!   `palette`, `method_style`;
//! - formats: `bundle`, `coverage`, `render`, `indexed_image`, `vega`, `text_chart`, `markup`,
//!   `format`, `save`;
//! - display: `sink`, `socket`, `live`.
//!
//! ```
//! use epsilab::show::{Chart, Panel, Series};
//!
//! let chart = Chart::new("Learning rate")
//!     .panel(Panel::new("rate").series(Series::line("cosine", [(0.0, 1.0), (10.0, 0.5)])))
//!     .x_label("step");
//! assert!(chart.text().contains("rate"));
//! assert!(chart.svg().starts_with("<svg"));
//! ```

mod axis;
mod bars;
mod bitmap;
mod bundle;
mod chart;
mod coverage;
mod figure;
mod figure_card;
pub mod figures;
mod font;
pub mod format;
mod heat_map;
mod histogram;
mod indexed_image;
mod layout;
mod live;
mod live_run;
pub(crate) mod markup;
mod method_style;
mod multiples;
pub(crate) mod palette;
mod panel_header;
mod plot;
mod render;
mod run_chart;
mod save;
mod scene;
mod series;
mod sink;
#[cfg(unix)]
mod socket;
mod table;
mod text_chart;
mod tiles;
mod vega;

pub use bundle::MimeBundle;
pub use chart::{Chart, NOT_COVERED, Panel};
pub use coverage::Coverage;
pub use figure::Figure;
pub use live::LiveDisplay;
pub use live_run::{LiveRun, run_figure};
pub(crate) use live_run::{figure_from_record, replay, run_coverage, run_files};
pub use run_chart::{RunSnapshot, run_bundle, run_chart};
pub use series::Series;
pub(crate) use sink::CELL_ENV_VARS;
#[doc(hidden)]
pub use sink::begin_cell;
pub use sink::{clear_output, display, progress, with_capture};
pub(crate) use sink::{display_note, display_value};
pub use table::Table;
