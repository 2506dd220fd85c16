//! CSV files, record by record: one door for all that read them, so that all name and limit alike.

use std::io::Read;
use std::path::Path;

use ::csv::{Position, Reader, ReaderBuilder, StringRecord};

use super::origin::Cells;
use super::table::csv_error;
use super::unpack;
use crate::Result;

/// The records of a file, plain or gzip.
pub(super) struct Records<'a> {
    path: &'a Path,
    reader: Reader<Box<dyn Read>>,
    record: StringRecord,
    cells: Cells,
}

impl<'a> Records<'a> {
    /// Those of a file as `format` says it is.
    pub(super) fn open(path: &'a Path, format: &ReaderBuilder) -> Result<Self> {
        let reader = format.from_reader(unpack::open(path)?.from);
        Ok(Self { path, reader, record: StringRecord::new(), cells: Cells::new() })
    }

    /// The names of the columns, from the first line.
    pub(super) fn columns(&mut self) -> Result<Vec<String>> {
        let header = self.reader.headers().map_err(|e| csv_error(self.path, &e))?;
        let name = |cell: &str| cell.trim_start_matches('\u{feff}').trim().to_owned();
        Ok(header.iter().map(name).collect())
    }

    /// The next record and its line; its cells are as they stand in the file.
    pub(super) fn next(&mut self) -> Result<Option<(u64, &StringRecord)>> {
        let more = self.reader.read_record(&mut self.record);
        if !more.map_err(|e| csv_error(self.path, &e))? {
            return Ok(None);
        }
        self.cells.add(self.record.iter());
        Ok(Some((self.record.position().map_or(0, Position::line), &self.record)))
    }

    /// The name of all cells that were read.
    pub(super) fn origin(self) -> String {
        self.cells.name()
    }
}
