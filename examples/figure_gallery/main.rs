//! Every kind of figure, with the code that makes it: `cargo run --example figure_gallery -- DIR`.
//!
//! Writes `DIR/NAME.svg` for each figure and the page `DIR.md` (`book/src/reference/gallery.md` is
//! written by `-- book/src/reference/gallery`). With `--all` also `NAME.png` and, where the figure
//! has one, the Vega-Lite specification `NAME.vl.json`. Runs are trained on generated data, in
//! about a minute, and are charged to the ledger of that data.

mod attacks;
mod evaluation;
mod grids;
mod masks;
mod page;
mod privacy;
mod runs;
#[path = "../shared/source.rs"]
mod source;

use epsilab::prelude::*;
use epsilab::show::{MimeBundle, with_capture};
use std::path::PathBuf;

/// Figures of one kind and the source text of their code.
struct Chapter {
    title: &'static str,
    source: &'static str,
    figures: &'static [(&'static str, FigureFn)],
}

/// Makes a figure and shows it.
type FigureFn = fn() -> Result<()>;

const CHAPTERS: &[Chapter] = &[
    privacy::CHAPTER,
    runs::CHAPTER,
    evaluation::CHAPTER,
    masks::CHAPTER,
    grids::CHAPTER,
    attacks::CHAPTER,
];

fn main() -> Result<()> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let all = words.iter().any(|word| word == "--all");
    words.retain(|word| word != "--all");
    let folder = PathBuf::from(words.first().map_or("gallery", String::as_str));
    let mut page = page::introduction();
    for chapter in CHAPTERS {
        page += &format!("\n## {}\n", chapter.title);
        for (name, make) in chapter.figures {
            let figure = capture_figure(*make)?;
            figure.save(folder.join(format!("{name}.svg")))?;
            if all {
                figure.save(folder.join(format!("{name}.png")))?;
            }
            if all && figure.vega_lite.is_some() {
                figure.save(folder.join(format!("{name}.vl.json")))?;
            }
            page += &page::section(chapter.source, name, &folder);
            eprintln!("{name}");
        }
    }
    let path = folder.with_extension("md");
    std::fs::write(&path, page)
        .map_err(|e| Error::io(format!("writing {}", path.display()), &e))?;
    println!("{} and the figures in {}", path.display(), folder.display());
    Ok(())
}

/// The last figure that `make` shows.
fn capture_figure(make: FigureFn) -> Result<MimeBundle> {
    let mut made = Ok(());
    let figures = with_capture(|| made = make());
    made?;
    figures.into_iter().rfind(|bundle| bundle.svg.is_some()).ok_or_else(|| {
        Error::new(ErrorKind::Model, "a function of the gallery", "it shows no figure")
    })
}
