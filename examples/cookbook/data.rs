use super::Chapter;
use epsilab::prelude::*;

pub const CHAPTER: Chapter = Chapter {
    title: "Data",
    source: include_str!("data.rs"),
    answers: &[
        ("... try something without any file?", "without_files"),
        ("... train on my own images?", "images"),
        ("... train on a table of numbers?", "table"),
        ("... train on texts?", "texts"),
        ("... use a small part for a quick trial?", "small_part"),
        ("... look at the examples?", "look"),
    ],
};

/// The data come from no person, so what is computed from them may be published.
fn without_files() -> Result<()> {
    let digits = data::glyphs()?; // 1x28x28, drawn by code
    let pictures = data::patterns()?; // 3x32x32
    let texts = data::sentences()?;
    println!("{digits}\n{pictures}\n{texts}");
    Ok(())
}

/// A folder for each class, or `train/` and `test/` with these. Images are decoded when a batch
/// needs them, so the set may be larger than memory.
fn images() -> Result<()> {
    let data = data::image_folder("photos", &ImageOptions::size(32))?.split(0.8, 1)?;
    let model = models::simple_vgg(&data, &[16, 32], 1).seed(7).build()?;
    model.show();
    Ok(())
}

/// The second argument is the column of the label.
fn table() -> Result<()> {
    let data = data::csv("people.csv", "ill")?.split(0.8, 1)?;
    let model = models::mlp(&data, &[64]).seed(7).build()?;
    model.show();
    Ok(())
}

/// Words are hashed by default, so that the vocabulary reveals nothing of the texts.
fn texts() -> Result<()> {
    let options = data::TextOptions::default().length(64);
    let data = data::text_csv("news.csv", "topic", &["title", "body"], &options)?.split(0.8, 1)?;
    println!("{data}");
    Ok(())
}

/// Each example is chosen by a hash of its own content. The part shares the ledger of the whole.
fn small_part(data: Dataset) -> Result<()> {
    let small = data.limit(2_000, 500);
    println!("{small}");
    Ok(())
}

/// Pictures of private examples carry the badge "not covered by epsilon", and `cargo lab redact`
/// removes them.
fn look(data: Dataset) -> Result<()> {
    data.show();
    figures::examples(&data, 20)?.show();
    Ok(())
}
