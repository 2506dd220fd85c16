//! Reports of runs and grids as one file: HTML, Markdown or LaTeX. Begin with `Report`, a list of
//! sections: `run` and `grid` write the sections, and `html`, `markdown` and `latex` the files.
//! `export` writes ledgers without identifying the data.

pub(super) mod export;
mod grid;
mod html;
mod latex;
mod markdown;
mod run;
#[cfg(test)]
mod tests;

use std::path::Path;

use super::{RunList, RunSelector};
use crate::grid::GridResult;
use crate::program;
use crate::show::{Coverage, MimeBundle, NOT_COVERED, Table, format};
use crate::store::{RunStore, StoredReportData, home};
use crate::train::Run;
use crate::{Error, Result};

/// A report of a run or of a grid: guarantee, results, figures, settings, the entries of the
/// ledger, software, and how to repeat it.
///
/// ```no_run
/// # use epsilab::prelude::*;
/// # fn report(run: &Run) -> Result<()> {
/// run.report()?.save("report.html")?;
/// run.report()?.covered().save("public/report.md")?;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantee
/// Each part states what it reveals of private data ([`Coverage`]), and what no epsilon covers
/// carries a badge: the training loss of a private run, results of runs without privacy or in study
/// mode. [`covered`](Self::covered) leaves these parts out. A report has no hashes of data and no
/// names of runs, which are made of them.
#[derive(Clone, Debug)]
pub struct Report {
    title: String,
    sections: Vec<Section>,
}

/// A section. The first one of a report has no heading.
#[derive(Clone, Debug)]
struct Section {
    heading: &'static str,
    blocks: Vec<Block>,
}

#[derive(Clone, Debug)]
enum Block {
    /// Prose, in which each line is a paragraph.
    Prose(String, Coverage),
    Table(Table),
    Figure(Box<MimeBundle>),
    /// Text that is shown verbatim: a file, such as a plan, or a command.
    Code(String, Coverage),
}

impl Block {
    fn prose(text: impl Into<String>, coverage: Coverage) -> Self {
        Self::Prose(text.into(), coverage)
    }

    fn figure(bundle: MimeBundle) -> Self {
        Self::Figure(Box::new(bundle))
    }

    /// Returns the paragraphs of prose, after its badge, with a blank line between them.
    fn paragraphs(text: &str, coverage: Coverage, escaped: fn(&str) -> String) -> String {
        let badge = (coverage == Coverage::NotCovered).then_some(NOT_COVERED);
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let all: Vec<String> = badge.into_iter().chain(lines).map(escaped).collect();
        all.join("\n\n") + "\n"
    }
    fn coverage(&self) -> Coverage {
        match self {
            Self::Prose(_, coverage) | Self::Code(_, coverage) => *coverage,
            Self::Table(table) => table.stated_coverage(),
            Self::Figure(bundle) => bundle.coverage,
        }
    }

    /// Returns the block without the parts that no epsilon covers, if anything is left.
    fn covered(self) -> Option<Self> {
        match self {
            block if block.coverage() < Coverage::Unmarked => Some(block),
            Self::Figure(bundle) => bundle.covered_part.map(Self::Figure),
            _ => None,
        }
    }
}

impl Run {
    /// Returns a report of this run.
    ///
    /// # Errors
    /// `Ledger` if the ledger of its data is damaged; `Io` if it can't be read.
    pub fn report(&self) -> Result<Report> {
        let data = StoredReportData {
            record: self.record().clone(),
            mask: self.mask(),
            model: Some(self.model()),
            warnings: self.warnings().to_vec(),
        };
        run::report(&data, &RunStore::open(home())?)
    }
}

impl RunList {
    /// Returns a report of a stored run of this list, finished or not. It reads neither model nor
    /// data, so it can't know whether the initial parameters and the data are public, and treats
    /// both as private. [`Run::report`] knows more.
    ///
    /// # Errors
    /// `MissingData` if no run or more than one matches, or the run is not stored; `CorruptData` if
    /// its record can't be read; `Ledger` if the ledger of its data is damaged or does not charge
    /// it.
    pub fn report(&self, run: impl Into<RunSelector>) -> Result<Report> {
        run::stored(&RunStore::open(home())?, &self.get(run)?.id)
    }
}

impl GridResult {
    /// Returns a report of this grid.
    ///
    /// # Errors
    /// `CorruptData` if a stored run of the grid can't be read, `MissingData` if it was removed.
    pub fn report(&self) -> Result<Report> {
        grid::report(self, &RunStore::open(home())?)
    }
}

impl Report {
    fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), sections: Vec::new() }
    }

    /// Adds a section, unless it has no blocks.
    fn section(mut self, heading: &'static str, blocks: impl IntoIterator<Item = Block>) -> Self {
        let blocks: Vec<Block> = blocks.into_iter().collect();
        if !blocks.is_empty() {
            self.sections.push(Section { heading, blocks });
        }
        self
    }

    /// Returns the report with the command that repeats it, and the file that the command reads.
    #[must_use]
    #[doc(hidden)]
    pub fn repeated_by(
        mut self,
        description: impl Into<String>,
        command: impl Into<String>,
        file: impl Into<String>,
    ) -> Self {
        let blocks = vec![
            Block::prose(description, Coverage::Public),
            Block::Code(command.into(), Coverage::Public),
            Block::Code(file.into(), Coverage::Public),
        ];
        let software = self.sections.iter().position(|section| section.heading == SOFTWARE);
        let at = software.unwrap_or(self.sections.len());
        self.sections.insert(at, Section { heading: REPEAT, blocks });
        self
    }

    /// Returns the report without the parts that no epsilon covers: the parts of a figure, or
    /// whole blocks. A line at the end of the first section says how many were left out.
    #[must_use]
    pub fn covered(self) -> Self {
        let is_removed = |block: &&Block| block.coverage() >= Coverage::Unmarked;
        let removed = self.blocks().filter(is_removed).count();
        let mut report = Self::new(self.title);
        for Section { heading, blocks } in self.sections {
            report = report.section(heading, blocks.into_iter().filter_map(Block::covered));
        }
        if removed > 0 {
            let parts = format::pluralise(removed, "part");
            let text = format!("Left out: {parts} of this report that no epsilon covers.");
            let note = Block::prose(text, Coverage::Public);
            match report.sections.first_mut().filter(|first| first.heading.is_empty()) {
                Some(first) => first.blocks.push(note),
                None => report.sections.insert(0, Section { heading: "", blocks: vec![note] }),
            }
        }
        report
    }

    /// Returns the coverage of the whole report: what it reveals of private data.
    pub fn coverage(&self) -> Coverage {
        self.blocks().map(Block::coverage).max().unwrap_or(Coverage::Public)
    }

    fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.sections.iter().flat_map(|section| &section.blocks)
    }

    /// Returns the report as an HTML page that loads nothing and has no scripts.
    pub fn html(&self) -> String {
        html::page(self)
    }

    /// Returns the report as Markdown, with figures as text.
    pub fn markdown(&self) -> String {
        markdown::document(self, None)
    }

    /// Writes the report to a file: an HTML page for a name that ends in `.html`, Markdown for
    /// `.md`, a LaTeX document for `.tex`. The figures of the last two are files in a folder beside
    /// it, `report_files` for `report.md`; a page contains its figures. Existing files are
    /// replaced.
    ///
    /// # Errors
    /// `Setting` for another ending, `Io` if a file can't be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let folder = format!("{stem}_files");
        let (text, figures) = match ending.as_str() {
            "html" => (html::page(self), None),
            "md" => (markdown::document(self, Some(&folder)), Some("svg")),
            "tex" => (latex::document(self, &folder), Some("png")),
            _ => {
                let why = "the file extension is not a format of reports";
                return Err(Error::setting("path", path.display(), why)
                    .fix("end the name in .html, .md or .tex"));
            }
        };
        let parent = path.parent().unwrap_or(Path::new(""));
        if let Some(format) = figures {
            for (number, bundle) in self.figures().enumerate() {
                bundle.save(parent.join(&folder).join(figure_name(number, format)))?;
            }
        }
        MimeBundle::text(text.trim_end()).save_text(path)
    }

    fn figures(&self) -> impl Iterator<Item = &MimeBundle> {
        self.blocks().filter_map(|block| match block {
            Block::Figure(bundle) => Some(&**bundle),
            _ => None,
        })
    }

    pub(crate) fn bundle(&self) -> MimeBundle {
        let headings = self.sections.iter().map(|section| section.heading);
        let headings: Vec<&str> = headings.filter(|heading| !heading.is_empty()).collect();
        MimeBundle::prose(format!(
            "A report: {}\nSections: {}\nWrite it by .save(\"report.html\"), or .md, .tex; \
             .covered() first leaves out what no epsilon covers.",
            self.title,
            headings.join(", ")
        ))
        .with_coverage(Coverage::Public)
    }
}

const REPEAT: &str = "How to repeat it";
const SOFTWARE: &str = "Software";

/// Returns the name of the file of a figure, counted from 0.
fn figure_name(number: usize, format: &str) -> String {
    format!("figure_{}.{format}", number + 1)
}

/// Returns the block on the software that wrote the report, and that the runs were trained with.
fn software(trained_with: &[String]) -> Block {
    let mut text = match trained_with {
        [] => "The software of the training was not recorded.".to_owned(),
        all => format!("Trained with: {}.", all.join("; ")),
    };
    text += &format!("\nThis report was written by {}.", program::software_versions());
    Block::prose(text, Coverage::Public)
}
