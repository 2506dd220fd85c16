//! Short answers to "how do I ...?": `cargo run --example cookbook -- book/src/how-to/cookbook.md`
//! writes the page of them. Each answer is the body of a function here, so that it is compiled.

// Nothing calls the answers: most of them need data or minutes.
#![allow(dead_code)]

mod data;
mod grids;
mod models;
mod privacy;
mod runs;
#[path = "../shared/source.rs"]
mod source;
mod sparse;

use epsilab::{Error, Result};

/// Answers on one subject: the title, the source text, and question and function of each.
struct Chapter {
    title: &'static str,
    source: &'static str,
    answers: &'static [(&'static str, &'static str)],
}

const CHAPTERS: [Chapter; 6] = [
    data::CHAPTER,
    models::CHAPTER,
    privacy::CHAPTER,
    sparse::CHAPTER,
    runs::CHAPTER,
    grids::CHAPTER,
];

const INTRODUCTION: &str = "# Cookbook

How do I ...? Each answer is a cell, or part of a program, after `use epsilab::prelude::*;`. `data`
is a data set, `model` a model and `run` a finished run of an earlier cell. `lab::help()` lists what
there is, and `lab::scaffold(\"dp-sgd\")?` writes a cell to start from.

This page is written by `cargo run --example cookbook -- book/src/how-to/cookbook.md`; all code on
it is compiled by the tests.
";

fn main() -> Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "cookbook.md".into());
    let mut page = INTRODUCTION.to_owned();
    for chapter in CHAPTERS {
        page += &format!("\n## {}\n", chapter.title);
        for (question, name) in chapter.answers {
            let (words, code) = source::doc_and_body(chapter.source, name);
            assert!(!code.is_empty(), "no function {name}");
            page += &format!("\n### {question}\n\n```rust\n{code}\n```\n");
            page += &if words.is_empty() { String::new() } else { format!("\n{words}\n") };
        }
    }
    std::fs::write(&path, page).map_err(|e| Error::io(format!("writing {path}"), &e))
}
