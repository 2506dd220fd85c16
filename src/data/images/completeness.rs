//! Finds image files that are truncated, by the end that each format marks.

use image::ImageFormat;

/// Returns whether the file reaches to the end of its image. Bytes after that end are allowed.
pub(super) fn is_complete(format: ImageFormat, bytes: &[u8]) -> bool {
    match format {
        ImageFormat::Jpeg => jpeg(bytes),
        ImageFormat::Png => png(bytes),
        ImageFormat::WebP => webp(bytes),
        _ => false,
    }
}

/// Returns whether a JPEG file has its end marker after the last scan: its two bytes can't occur
/// within a scan, and those of a preview come earlier.
fn jpeg(bytes: &[u8]) -> bool {
    let scan = bytes.windows(2).rposition(|pair| pair == [0xff, 0xda]).unwrap_or(0);
    bytes[scan..].windows(2).any(|pair| pair == [0xff, 0xd9])
}

/// Returns whether a PNG file is complete: chunks of a length, a kind, the data and a checksum
/// follow each other up to one of kind IEND.
fn png(bytes: &[u8]) -> bool {
    let mut rest = bytes.get(8..).unwrap_or_default();
    while let Some(([a, b, c, d, kind @ ..], data)) = rest.split_first_chunk::<8>() {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        let Some(next) = data.get(length.saturating_add(4)..) else { return false };
        if kind == b"IEND" {
            return true;
        }
        rest = next;
    }
    false
}

/// Returns whether a WebP file is complete: the length of everything behind the first eight bytes
/// is in bytes 4 to 7.
fn webp(bytes: &[u8]) -> bool {
    let length = bytes.get(4..8).and_then(|length| length.try_into().ok());
    length.is_some_and(|length| bytes.len() - 8 >= u32::from_le_bytes(length) as usize)
}
