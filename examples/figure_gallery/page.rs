//! The page of the gallery, made of the source text of the figures.

use std::path::Path;

/// Title and introduction.
pub fn head() -> String {
    "# Gallery\n\nEvery kind of figure with the code that makes it, as a cell after \
     `use epsilab::prelude::*;`. In JupyterLab, in VS Code and on the pages of `cargo lab run NB \
     --interactive` most of them are interactive: points say their values, a click on a name in the \
     legend lets the other curves fade, and some have a slider. `figure.save(\"NAME.svg\")` writes \
     one to a file.\n\nThis page is written by `cargo run --example figure_gallery -- \
     docs/gallery`.\n"
        .to_owned()
}

/// The figure `name`: its doc comment, picture and code. `source` is the file that defines it.
pub fn section(source: &str, name: &str, folder: &Path) -> String {
    let (words, code) = parts(source, name);
    let folder = folder.file_name().unwrap_or_default().to_string_lossy();
    format!(
        "\n### {}\n\n{words}\n\n![{name}]({folder}/{name}.svg)\n\n```rust\n{code}\n```\n",
        name.replace('_', " ")
    )
}

/// The doc comment and the body of a function in a source file, without its last `Ok(())`.
fn parts(source: &str, name: &str) -> (String, String) {
    let (before, after) = source.split_once(&format!("fn {name}() ")).unwrap_or_default();
    let words = before.lines().rev().map_while(|line| line.strip_prefix("/// "));
    let mut words: Vec<&str> = words.collect();
    words.reverse();
    let body = after.split_once("{\n").unwrap_or_default().1;
    let body = body.split("\n}\n").next().unwrap_or_default();
    let code: Vec<&str> = body
        .lines()
        .map(|line| line.strip_prefix("    ").unwrap_or(line))
        .filter(|line| *line != "Ok(())")
        .collect();
    (words.join("\n"), code.join("\n"))
}
