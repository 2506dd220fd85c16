//! The page of the gallery, made of the source text of the figures.

use super::source::doc_and_body;
use std::path::Path;

/// Title and introduction.
pub fn introduction() -> String {
    "# Gallery\n\nEvery kind of figure with the code that makes it, as a cell after \
     `use epsilab::prelude::*;`. In JupyterLab, in VS Code and on the pages of `cargo lab run NB \
     --interactive` most of them are interactive: points say their values, a click on a name in the \
     legend lets the other curves fade, and some have a slider. `figure.save(\"NAME.svg\")` writes \
     one to a file.\n\nThis page is written by `cargo run --example figure_gallery -- \
     book/src/reference/gallery`.\n"
        .to_owned()
}

/// The figure `name`: its doc comment, picture and code. `source` is the file that defines it.
pub fn section(source: &str, name: &str, folder: &Path) -> String {
    let (words, code) = doc_and_body(source, name);
    let folder = folder.file_name().unwrap_or_default().to_string_lossy();
    format!(
        "\n### {}\n\n{words}\n\n![{name}]({folder}/{name}.svg)\n\n```rust\n{code}\n```\n",
        name.replace('_', " ")
    )
}
