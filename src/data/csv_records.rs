//! Reads CSV files record by record, with the limits and the origin that all readers share.

use std::fmt;
use std::io::{self, Cursor, Read};
use std::path::Path;

use ::csv::{Position, Reader, ReaderBuilder, StringRecord};

use super::decompressed_file::{self, MAX_FEATURES, cannot_read, corrupt};
use super::digest::format_count;
use super::origin::CellHasher;
use crate::{Error, Result};

/// Limits in bytes: a small packed file can unpack to any size.
#[derive(Clone, Copy)]
struct Limits {
    record: u64,
    /// Largest unpacked file.
    file: u64,
}

const LIMITS: Limits = Limits { record: 16 << 20, file: 8 << 30 };

/// Separators that a header is searched for, the first of those that occur equally often.
const SEPARATORS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// Largest number of bytes that are searched for the header.
const HEADER_BYTES: usize = 1 << 20;
const CHUNK_BYTES: usize = 1 << 16;

/// Beginnings of files that are no text, and what to do.
const BINARY_FORMATS: [(&[u8], &str, &str); 5] = [
    (
        b"PAR1",
        "a Parquet file",
        "save it as CSV, for instance with pandas.read_parquet(…).to_csv(…)",
    ),
    (b"PK\x03\x04", "a spreadsheet or a zip archive", "save the table as CSV, and read that file"),
    (b"\xd0\xcf\x11\xe0", "a spreadsheet", "save the table as CSV, and read that file"),
    (b"\xff\xfe", "UTF-16 text", "save the file as UTF-8"),
    (b"\xfe\xff", "UTF-16 text", "save the file as UTF-8"),
];

/// The records of a file, plain or gzip.
pub(super) struct CsvRecords<'a> {
    path: &'a Path,
    reader: Reader<LimitedReader<Box<dyn Read>>>,
    record: StringRecord,
    cells: CellHasher,
    separator: u8,
    /// Lines that the reader did not count: comments above the header, and the line feed after the
    /// carriage return of the record before.
    uncounted_lines: u64,
}

/// Beginning of a file: its header line, and what follows from it.
struct Header {
    /// The bytes that were read, from the header on.
    bytes: Vec<u8>,
    comment_lines: u64,
    separator: u8,
    /// Whether lines end with carriage return and line feed.
    has_carriage_returns: bool,
}

impl Header {
    /// Reads the beginning of a file, up to the end of its header line.
    fn read(path: &Path, from: &mut dyn Read) -> Result<Self> {
        let mut bytes = Vec::new();
        loop {
            let before = bytes.len();
            let chunk = from.take(CHUNK_BYTES as u64).read_to_end(&mut bytes);
            chunk.map_err(|e| csv_io_error(path, &e))?;
            let is_whole = bytes.len() == before || bytes.len() > HEADER_BYTES;
            if let Some(header) = Self::parse(path, &bytes, is_whole)? {
                return Ok(header);
            }
        }
    }

    /// Returns the header if its line has ended, or if no more is read.
    fn parse(path: &Path, bytes: &[u8], is_whole: bool) -> Result<Option<Self>> {
        if let Some((_, what, fix)) =
            BINARY_FORMATS.iter().find(|(start, ..)| bytes.starts_with(start))
        {
            return Err(corrupt(path, format!("this is {what}, not a text table")).fix(*fix));
        }
        let mut rest = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut comment_lines = 0;
        while rest.starts_with(b"#") {
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { break };
            rest = &rest[end + 1..];
            comment_lines += 1;
        }
        let mut is_quoted = false;
        let is_end = |byte: &u8| {
            is_quoted ^= *byte == b'"';
            *byte == b'\n' && !is_quoted
        };
        let end = match rest.iter().position(is_end) {
            Some(end) => end,
            None if is_whole => rest.len(),
            None => return Ok(None),
        };
        let line = &rest[..end];
        if line.contains(&0) {
            let what = "the header has a zero byte, so the file is not text";
            return Err(corrupt(path, what).fix("give a CSV file in UTF-8"));
        }
        Ok(Some(Self {
            separator: separator(line),
            has_carriage_returns: line.ends_with(b"\r"),
            comment_lines,
            bytes: rest.to_vec(),
        }))
    }
}

/// Returns the separator that occurs most often in a header, outside of quotes.
fn separator(line: &[u8]) -> u8 {
    let mut is_quoted = false;
    let mut counts = [0; SEPARATORS.len()];
    for byte in line {
        is_quoted ^= *byte == b'"';
        if let Some(i) = SEPARATORS.iter().position(|separator| separator == byte)
            && !is_quoted
        {
            counts[i] += 1;
        }
    }
    let most = counts.iter().max().copied().unwrap_or(0);
    let first = counts.iter().position(|count| *count == most).unwrap_or(0);
    SEPARATORS[first]
}

impl<'a> CsvRecords<'a> {
    /// Opens a CSV file of this format.
    pub(super) fn open(path: &'a Path, format: &ReaderBuilder) -> Result<Self> {
        Self::limited(path, format, LIMITS)
    }

    /// Opens a table with a header, which may have a byte order mark and comment lines above it.
    /// The header tells the separator, unless it is given.
    pub(super) fn open_table(path: &'a Path, separator: Option<u8>) -> Result<Self> {
        let mut from = decompressed_file::open_decompressed(path)?.from;
        let header = Header::read(path, &mut *from)?;
        let separator = separator.unwrap_or(header.separator);
        let whole: Box<dyn Read> = Box::new(Cursor::new(header.bytes).chain(from));
        let mut format = ReaderBuilder::new();
        let records = Self::from_reader(path, format.delimiter(separator), whole, LIMITS);
        let uncounted_lines = header.comment_lines + u64::from(header.has_carriage_returns);
        Ok(Self { uncounted_lines, separator, ..records })
    }

    fn limited(path: &'a Path, format: &ReaderBuilder, limits: Limits) -> Result<Self> {
        let from = decompressed_file::open_decompressed(path)?.from;
        Ok(Self::from_reader(path, format, from, limits))
    }

    fn from_reader(
        path: &'a Path,
        format: &ReaderBuilder,
        from: Box<dyn Read>,
        limits: Limits,
    ) -> Self {
        let reader = format.from_reader(LimitedReader { from, limits, read: 0, record_at: 0 });
        let (record, cells) = (StringRecord::new(), CellHasher::new());
        Self { path, reader, record, cells, separator: b',', uncounted_lines: 0 }
    }

    /// Returns whether numbers may have a decimal comma, because it separates no cells.
    pub(super) fn has_decimal_commas(&self) -> bool {
        self.separator != b','
    }

    /// Returns the names of the columns, from the first line.
    pub(super) fn columns(&mut self) -> Result<Vec<String>> {
        let header = self.reader.headers().map_err(|e| csv_error(self.path, &e, 0))?;
        Ok(header.iter().map(|cell| cell.trim().to_owned()).collect())
    }

    /// Reads the next record and its line number; `numbers` is the number of features made of the
    /// records before.
    pub(super) fn next(&mut self, numbers: usize) -> Result<Option<(u64, &StringRecord)>> {
        let Some(line) = self.advance()? else { return Ok(None) };
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

    /// Reads the next record and its line number, without adding it to the origin.
    pub(super) fn next_unhashed(&mut self) -> Result<Option<(u64, &StringRecord)>> {
        Ok(self.advance()?.map(|line| (line, &self.record)))
    }

    /// Reads the next record, and returns the number of its first line.
    fn advance(&mut self) -> Result<Option<u64>> {
        self.reader.get_mut().record_at = self.reader.position().byte();
        let more = self.reader.read_record(&mut self.record);
        if !more.map_err(|e| csv_error(self.path, &e, self.uncounted_lines))? {
            return Ok(None);
        }
        let line = self.record.position().map_or(0, Position::line) + self.uncounted_lines;
        Ok(Some(line))
    }

    /// Returns the origin of all cells that were read.
    pub(super) fn origin(self) -> String {
        self.cells.finish()
    }
}

/// Returns the error of reading a record; `uncounted` lines are above those that the reader counts.
fn csv_error(path: &Path, e: &::csv::Error, uncounted: u64) -> Error {
    let line = |at: &Position| format!("line {}: ", at.line() + uncounted);
    let line = e.position().map_or_else(String::new, line);
    match e.kind() {
        ::csv::ErrorKind::Io(io) if io.get_ref().is_some_and(|why| why.is::<TooLong>()) => {
            let what = format!("{line}{io}");
            corrupt(path, what).fix(
                "check that every quote is closed and that the file is the right one; if so, split \
                 it, or read it with your own code and use data::from_vecs",
            )
        }
        ::csv::ErrorKind::Io(io) => csv_io_error(path, io),
        ::csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            let what = format!("{line}{len} cells, but the header has {expected_len}");
            corrupt(path, what).fix("give each row as many cells as the header; quote commas")
        }
        ::csv::ErrorKind::Utf8 { .. } => {
            corrupt(path, format!("{line}not UTF-8 text")).fix("save the file as UTF-8")
        }
        _ => corrupt(path, format!("{line}{e}")).fix("check that this is a CSV file"),
    }
}

/// Returns the error of reading bytes.
fn csv_io_error(path: &Path, e: &io::Error) -> Error {
    // All but errors of the file system are about the content.
    if matches!(
        e.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData
    ) {
        return corrupt(path, "the gzip stream is truncated or damaged");
    }
    cannot_read(path, e)
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
struct TooLong {
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
