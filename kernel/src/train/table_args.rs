//! Options of a table: what its columns are.

use std::path::{Path, PathBuf};

use epsilab::data::{self, Dataset, MissingRule, TableSchema};
use epsilab::{Error, Result};

/// Options of the columns of a table.
#[derive(clap::Args, Clone, Debug, Default, PartialEq)]
pub struct TableArgs {
    /// Column of a table that names the class [default: label]
    #[arg(long, value_name = "COLUMN")]
    label: Option<String>,
    /// Leave a column of a table out; may be repeated
    #[arg(long, value_name = "COLUMN")]
    ignore: Vec<String>,
    /// Public list of the texts of a column: one feature each, and one for all others; may be
    /// repeated
    #[arg(long, value_name = "COLUMN=A,B,C")]
    category: Vec<String>,
    /// Public range of a column of numbers, which becomes 0 to 1; may be repeated
    #[arg(long, value_name = "COLUMN=LOW..HIGH")]
    scale: Vec<String>,
    /// What stands for missing values of a column: a number, or flag for a feature of its own; may
    /// be repeated
    #[arg(long, value_name = "COLUMN=VALUE|flag")]
    missing: Vec<String>,
    /// Separator of the cells of a table: one character, or tab [default: that of its first line]
    #[arg(long, value_name = "CHARACTER")]
    separator: Option<String>,
    /// File with the kinds of all columns, as --save-schema writes it
    #[arg(long, value_name = "FILE.json")]
    schema: Option<PathBuf>,
    /// Write the kinds of all columns, declared and inferred, to a file
    #[arg(long, value_name = "FILE.json")]
    save_schema: Option<PathBuf>,
    /// Take every number of the label column as the name of a class, also if they look like a
    /// quantity
    #[arg(long)]
    as_classes: bool,
}

impl TableArgs {
    /// Returns the options with whether they are given.
    pub fn given(&self) -> [(&'static str, bool); 9] {
        [
            ("--label", self.label.is_some()),
            ("--ignore", !self.ignore.is_empty()),
            ("--category", !self.category.is_empty()),
            ("--scale", !self.scale.is_empty()),
            ("--missing", !self.missing.is_empty()),
            ("--separator", self.separator.is_some()),
            ("--schema", self.schema.is_some()),
            ("--save-schema", self.save_schema.is_some()),
            ("--as-classes", self.as_classes),
        ]
    }

    /// Reads a table.
    ///
    /// # Errors
    /// Kind `Setting` for an option that can't be read; as [`data::TableReader::read`].
    pub fn read(&self, path: &Path) -> Result<Dataset> {
        let mut table = data::table(path);
        if let Some(schema) = &self.schema {
            table = table.schema(TableSchema::load(schema)?);
        }
        if let Some(label) = &self.label {
            table = table.label(label);
        }
        if let Some(separator) = &self.separator {
            table = table.separator(parse_separator(separator)?);
        }
        if self.as_classes {
            table = table.as_classes();
        }
        table = self.ignore.iter().fold(table, |table, column| table.ignore(column));
        for text in &self.category {
            let (column, values) = split("--category", text, "sex=Female,Male")?;
            table = table.category(column, values.split(','));
        }
        for text in &self.scale {
            let (column, range) = split("--scale", text, "age=0..100")?;
            let ends = range.split_once("..").map(|(low, high)| {
                (low.trim().parse(), high.trim_start_matches('=').trim().parse())
            });
            let Some((Ok(low), Ok(high))) = ends else {
                return Err(unreadable("--scale", text, "age=0..100"));
            };
            table = table.scale(column, low..=high);
        }
        for text in &self.missing {
            let (column, rule) = split("--missing", text, "age=0 or age=flag")?;
            let rule = match (rule, rule.parse()) {
                ("flag", _) => MissingRule::Flag,
                (_, Ok(value)) => MissingRule::Value(value),
                _ => return Err(unreadable("--missing", text, "age=0 or age=flag")),
            };
            table = table.missing(column, rule);
        }
        let data = table.read()?;
        eprintln!("{}", data.source());
        if let (Some(path), Some(schema)) = (&self.save_schema, data.schema()) {
            schema.save(path)?;
            eprintln!("wrote the schema {}", path.display());
        }
        Ok(data)
    }
}

/// Splits the text of an option at its first equals sign: column and value.
///
/// # Errors
/// Kind `Setting` for a text without one.
fn split<'a>(option: &str, text: &'a str, example: &str) -> Result<(&'a str, &'a str)> {
    let (column, value) = text.split_once('=').ok_or_else(|| unreadable(option, text, example))?;
    Ok((column.trim(), value.trim()))
}

fn unreadable(option: &str, text: &str, example: &str) -> Error {
    Error::setting(option, text, "a column needs a value that can be read")
        .fix(format!("for instance {option} {example}"))
}

/// Reads a separator.
///
/// # Errors
/// Kind `Setting` for a text that is no single character.
fn parse_separator(text: &str) -> Result<char> {
    let mut characters = text.chars();
    match (text, characters.next(), characters.next()) {
        ("tab" | "\\t", ..) => Ok('\t'),
        (_, Some(one), None) => Ok(one),
        _ => Err(Error::setting("--separator", text, "cells are separated by one character")
            .fix("for instance --separator ';' or --separator tab")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_declare_the_columns() {
        let folder = tempfile::tempdir().unwrap();
        let (path, schema) = (folder.path().join("t.csv"), folder.path().join("s.json"));
        std::fs::write(&path, "id;sex;age;price\n7;F;20;1,5\n9;M;?;2\n").unwrap();
        let args = TableArgs {
            label: Some("price".into()),
            ignore: vec!["id".into()],
            category: vec!["sex=F, M".into()],
            scale: vec!["age=0..=80".into()],
            missing: vec!["age=flag".into()],
            save_schema: Some(schema.clone()),
            as_classes: true,
            ..TableArgs::default()
        };
        let data = args.read(&path).unwrap();
        assert_eq!(data.train().features(0), [1.0, 0.0, 0.0, 0.25, 0.0]);
        assert_eq!(data.train().features(1), [0.0, 1.0, 0.0, 0.0, 1.0]);
        let again = TableArgs { schema: Some(schema), as_classes: true, ..TableArgs::default() };
        assert_eq!(again.read(&path).unwrap().hash(), data.hash());
        for args in [
            TableArgs { scale: vec!["age=0-80".into()], ..args.clone() },
            TableArgs { missing: vec!["age=mean".into()], ..args.clone() },
            TableArgs { category: vec!["sex".into()], ..args.clone() },
            TableArgs { separator: Some("::".into()), ..args },
        ] {
            let error = args.read(&path).unwrap_err().to_string();
            assert!(error.contains("--"), "{error}");
        }
    }
}
