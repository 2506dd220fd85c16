//! Decodes JPEG, PNG and WebP files. The content decides the format, not the name.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits, RgbImage};

use super::completeness;
use crate::file::{LFS_ADVICE, LFS_POINTER, is_lfs_pointer};

/// Largest number of pixels along a side, and in all. A small file can announce any size, so a
/// larger one counts as damaged.
const MAX_SIDE: u32 = 16_384;
const MAX_PIXELS: u64 = 64 << 20;
/// Largest number of bytes that a decoder may ask for: four channels of 16 bits per pixel.
const MAX_DECODER_BYTES: u64 = 8 * MAX_PIXELS;

/// The formats that are read, with the names that messages use.
const FORMATS: [(ImageFormat, &str); 3] =
    [(ImageFormat::Jpeg, "JPEG"), (ImageFormat::Png, "PNG"), (ImageFormat::WebP, "WebP")];

/// The pixels of a file.
pub(super) struct DecodedImage {
    pub(super) pixels: RgbImage,
    /// Whether the orientation tag (EXIF) of the file turned or mirrored the image.
    pub(super) is_turned: bool,
}

/// Decodes all pixels of a file, upright as its orientation tag says. Grey becomes equal channels,
/// 16 bits become 8, and alpha is dropped.
///
/// # Errors
/// A description of the defect, as the end of a sentence. A panic of a decoder is an error too.
pub(super) fn decode(bytes: &[u8]) -> Result<DecodedImage, String> {
    catch_unwind(AssertUnwindSafe(|| decode_unguarded(bytes)))
        .unwrap_or_else(|_| Err("the decoder failed".into()))
}

fn decode_unguarded(bytes: &[u8]) -> Result<DecodedImage, String> {
    if is_lfs_pointer(bytes) {
        return Err(format!("no image ({LFS_POINTER}: {LFS_ADVICE})"));
    }
    let guessed = image::guess_format(bytes).ok();
    let (format, name) = (FORMATS.into_iter())
        .find(|(format, _)| Some(*format) == guessed)
        .ok_or("neither a JPEG nor a PNG nor a WebP image")?;
    let damaged = |error: ImageError| format!("a damaged {name} image: {error}");
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_DECODER_BYTES);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(damaged)?;
    check_size(decoder.dimensions())?;
    // The decoders fill missing pixels with grey, or stop reading after the last pixel.
    if !completeness::is_complete(format, bytes) {
        return Err(format!("a {name} image that is truncated"));
    }
    // A damaged tag says nothing; damaged pixels are an error below.
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut image = DynamicImage::from_decoder(decoder).map_err(damaged)?;
    image.apply_orientation(orientation);
    let is_turned = orientation != Orientation::NoTransforms;
    Ok(DecodedImage { pixels: image.into_rgb8(), is_turned })
}

/// Refuses images without pixels and images that are too large, before memory is taken for them.
fn check_size((width, height): (u32, u32)) -> Result<(), String> {
    if width == 0 || height == 0 {
        return Err(format!("an image of {width}x{height} pixels"));
    }
    if width.max(height) > MAX_SIDE || u64::from(width) * u64::from(height) > MAX_PIXELS {
        return Err(format!(
            "an image of {width}x{height} pixels; at most {MAX_SIDE} along a side and {MAX_PIXELS} \
             in all are read"
        ));
    }
    Ok(())
}
