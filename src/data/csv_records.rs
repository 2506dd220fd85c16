//! Reads CSV files record by record, with the limits and the origin that all readers share.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;

use ::csv::{Position, Reader, ReaderBuilder, StringRecord};

use super::decompressed_file::{self, MAX_FEATURES, corrupt};
use super::digest::format_count;
use super::origin::CellHasher;
use super::table::csv_error;
use crate::Result;

/// Limits in bytes: a small packed file can unpack to any size.
#[derive(Clone, Copy)]
struct Limits {
    record: u64,
    /// Largest unpacked file.
    file: u64,
}

const LIMITS: Limits = Limits { record: 16 << 20, file: 8 << 30 };

/// The records of a file, plain or gzip.
pub(super) struct CsvRecords<'a> {
    path: &'a Path,
    reader: Reader<LimitedReader<Box<dyn Read>>>,
    record: StringRecord,
    cells: CellHasher,
}

impl<'a> CsvRecords<'a> {
    /// Opens a CSV file of this format.
    pub(super) fn open(path: &'a Path, format: &ReaderBuilder) -> Result<Self> {
        Self::limited(path, format, LIMITS)
    }

    fn limited(path: &'a Path, format: &ReaderBuilder, limits: Limits) -> Result<Self> {
        let from = decompressed_file::open_decompressed(path)?.from;
        let reader = format.from_reader(LimitedReader { from, limits, read: 0, record_at: 0 });
        Ok(Self { path, reader, record: StringRecord::new(), cells: CellHasher::new() })
    }

    /// Returns the names of the columns, from the first line.
    pub(super) fn columns(&mut self) -> Result<Vec<String>> {
        let header = self.reader.headers().map_err(|e| csv_error(self.path, &e))?;
        let name = |cell: &str| cell.trim_start_matches('\u{feff}').trim().to_owned();
        Ok(header.iter().map(name).collect())
    }

    /// Reads the next record and its line number; `numbers` is the number of features made of the
    /// records before.
    pub(super) fn next(&mut self, numbers: usize) -> Result<Option<(u64, &StringRecord)>> {
        self.reader.get_mut().record_at = self.reader.position().byte();
        let more = self.reader.read_record(&mut self.record);
        if !more.map_err(|e| csv_error(self.path, &e))? {
            return Ok(None);
        }
        let line = self.record.position().map_or(0, Position::line);
        if numbers > MAX_FEATURES {
            let what = format!(
                "the rows above line {line} make more than {} features, the largest number that is \
                 kept in memory",
                format_count(MAX_FEATURES)
            );
            return Err(corrupt(self.path, what).fix("give fewer rows, columns or words per text"));
        }
        self.cells.add_row(self.record.iter());
        Ok(Some((line, &self.record)))
    }

    /// Returns the origin of all cells that were read.
    pub(super) fn origin(self) -> String {
        self.cells.finish()
    }
}

/// A reader that fails where a record or the file exceeds its limit.
struct LimitedReader<R> {
    from: R,
    limits: Limits,
    read: u64,
    /// Offset of the current record.
    record_at: u64,
}

impl<R: Read> Read for LimitedReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(into)?;
        self.read += n as u64;
        if self.read > self.limits.file {
            return Err(io::Error::other(TooLong { what: "file", most: self.limits.file }));
        }
        if self.read.saturating_sub(self.record_at) > self.limits.record {
            return Err(io::Error::other(TooLong { what: "record", most: self.limits.record }));
        }
        Ok(n)
    }
}

/// The error for a record or file over its limit.
#[derive(Debug)]
pub(super) struct TooLong {
    what: &'static str,
    most: u64,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, most } = self;
        write!(
            f,
            "a {what} of more than {} bytes, the largest that is read",
            format_count(*most as usize)
        )
    }
}

impl std::error::Error for TooLong {}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn table(rows: usize) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.csv");
        std::fs::write(&path, format!("x,y\n{}", "1,2\n".repeat(rows))).unwrap();
        (folder, path)
    }

    fn read(path: &Path, limits: Limits) -> Result<usize> {
        let mut records = CsvRecords::limited(path, &ReaderBuilder::new(), limits)?;
        let mut rows = 0;
        while records.next(0)?.is_some() {
            rows += 1;
        }
        Ok(rows)
    }

    #[test]
    fn a_long_file_of_short_records_is_limited_by_its_own_limit_only() {
        let (_folder, path) = table(50_000);
        assert_eq!(read(&path, Limits { record: 10_000, file: 1 << 20 }).unwrap(), 50_000);
        let error = read(&path, Limits { record: 10_000, file: 100_000 }).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::CorruptData);
        assert!(error.to_string().contains("a file of more than 100,000 bytes"), "{error}");
        assert!(error.advice().contains("split it"), "{error}");
    }

    #[test]
    fn the_features_of_all_rows_are_limited() {
        let (_folder, path) = table(1);
        let mut records = CsvRecords::open(&path, &ReaderBuilder::new()).unwrap();
        let error = records.next(MAX_FEATURES + 1).unwrap_err();
        assert!(error.to_string().contains("above line 2"), "{error}");
    }
}
