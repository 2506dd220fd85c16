//! Decodes JPEG, PNG and WebP files. The content decides the format, not the name.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits, RgbImage};

use super::completeness;

/// Largest number of pixels along a side, and in all. A small file can announce any size, so a
/// larger one counts as damaged.
const MAX_SIDE: u32 = 16_384;
const MAX_PIXELS: u64 = 64 << 20;
/// Largest number of bytes that a decoder may ask for: four channels of 16 bits per pixel.
const MAX_DECODER_BYTES: u64 = 8 * MAX_PIXELS;

/// The formats that are read, with the names that messages use.
const FORMATS: [(ImageFormat, &str); 3] =
    [(ImageFormat::Jpeg, "JPEG"), (ImageFormat::Png, "PNG"), (ImageFormat::WebP, "WebP")];

/// Decodes all pixels of a file. Grey becomes equal channels, 16 bits become 8, and alpha is
/// dropped.
///
/// # Errors
/// A description of the defect, as the end of a sentence. A panic of a decoder is an error too.
pub(super) fn decode(bytes: &[u8]) -> Result<RgbImage, String> {
    catch_unwind(AssertUnwindSafe(|| decode_unguarded(bytes)))
        .unwrap_or_else(|_| Err("the decoder failed".into()))
}

fn decode_unguarded(bytes: &[u8]) -> Result<RgbImage, String> {
    let guessed = image::guess_format(bytes).ok();
    let (format, name) = (FORMATS.into_iter())
        .find(|(format, _)| Some(*format) == guessed)
        .ok_or("neither a JPEG nor a PNG nor a WebP image")?;
    let damaged = |error: ImageError| format!("a damaged {name} image: {error}");
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_DECODER_BYTES);
    reader.limits(limits);
    let decoder = reader.into_decoder().map_err(damaged)?;
    check_size(decoder.dimensions())?;
    // The decoders fill missing pixels with grey, or stop reading after the last pixel.
    if !completeness::is_complete(format, bytes) {
        return Err(format!("a {name} image that is truncated"));
    }
    Ok(DynamicImage::from_decoder(decoder).map_err(damaged)?.into_rgb8())
}

/// Refuses images without pixels and images that are too large, before memory is taken for them.
fn check_size((width, height): (u32, u32)) -> Result<(), String> {
    if width == 0 || height == 0 {
        return Err(format!("an image of {width}x{height} pixels"));
    }
    if width.max(height) > MAX_SIDE || u64::from(width) * u64::from(height) > MAX_PIXELS {
        return Err(format!(
            "an image of {width}x{height} pixels; at most {MAX_SIDE} along a side and {MAX_PIXELS} in all \
             are read"
        ));
    }
    Ok(())
}
