//! One error for all damaged files of a folder.

use crate::data::digest::format_count;
use crate::{Error, ErrorKind, Result};

/// Number of files that the error names.
const TOLD: usize = 5;

/// Fails if some of `total` files have errors: with the error itself if there is one, otherwise
/// with one that names the first of them. Checking a large folder once per damaged file would take
/// long.
pub(super) fn combine_errors(total: usize, mut errors: Vec<Error>) -> Result<()> {
    let [first, _, ..] = errors.as_slice() else { return errors.pop().map_or(Ok(()), Err) };
    let alike = errors.iter().all(|error| error.kind() == first.kind());
    let kind = if alike { first.kind() } else { ErrorKind::CorruptData };
    let lines = errors.iter().take(TOLD).map(|error| {
        let text = error.to_string();
        format!("\n    {}", text.lines().next().unwrap_or_default())
    });
    let lines: String = lines.collect();
    let mut why = format!("training would silently omit these images:{lines}");
    if errors.len() > TOLD {
        why += &format!("\n    and {} others", format_count(errors.len() - TOLD));
    }
    let what =
        format!("{} of {} images can't be used", format_count(errors.len()), format_count(total));
    Err(Error::new(kind, what, why)
        .fix("replace or remove these files: each must be a sound JPEG, PNG or WebP image"))
}
