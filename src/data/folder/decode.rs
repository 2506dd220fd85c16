//! Decodes PNG and JPEG files. The content decides the format, not the name.

use std::any::Any;
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use png::{ColorType, Transformations};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use crate::Result;
use crate::data::unpack::corrupt;

/// Largest number of pixels along a side and in all. A small file can announce any size, so a
/// larger one counts as damaged.
const LONGEST: usize = 16_384;
const MOST: usize = 64 << 20;

/// Pixels, row-major, with 1 to 4 values each: grey, grey and alpha, RGB, RGB and alpha.
pub(super) struct Picture {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) values: usize,
    pub(super) pixels: Vec<u8>,
}

/// Decodes all pixels of a file.
pub(super) fn decode(path: &Path, bytes: &[u8]) -> Result<Picture> {
    guarded(path, || if is_png(bytes) { png(bytes) } else { jpeg(bytes) })
}

/// Decodes with errors as texts; a panic of a decoder is an error too.
fn guarded<T>(path: &Path, job: impl FnOnce() -> std::result::Result<T, String>) -> Result<T> {
    let panicked = |_: Box<dyn Any + Send>| Err("the decoder gave up".into());
    catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(panicked).map_err(|what| {
        corrupt(path, what).fix("replace or remove this file: it must be a sound PNG or JPEG image")
    })
}

fn is_png(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x89PNG\r\n\x1a\n")
}

fn check_size(width: usize, height: usize) -> std::result::Result<(), String> {
    if width == 0 || height == 0 {
        return Err(format!("an image of {width}x{height} pixels"));
    }
    if width.max(height) > LONGEST || width * height > MOST {
        return Err(format!(
            "an image of {width}x{height} pixels; at most {LONGEST} along a side and {MOST} in all \
             are read"
        ));
    }
    Ok(())
}

fn damaged(error: png::DecodingError) -> String {
    format!("a damaged PNG image: {error}")
}

type Png<'a> = png::Reader<Cursor<&'a [u8]>>;

fn png_reader(bytes: &[u8]) -> std::result::Result<Png<'_>, String> {
    let mut decoder = png::Decoder::new(Cursor::new(bytes));
    decoder.set_transformations(Transformations::normalize_to_color8());
    let header = decoder.read_header_info().map_err(damaged)?;
    check_size(header.width as usize, header.height as usize)?;
    decoder.read_info().map_err(damaged)
}

fn png(bytes: &[u8]) -> std::result::Result<Picture, String> {
    let mut reader = png_reader(bytes)?;
    let size = reader.output_buffer_size().ok_or("a PNG image too large for this machine")?;
    let mut pixels = vec![0; size];
    let frame = reader.next_frame(&mut pixels).map_err(damaged)?;
    // Reading up to the end marker finds files that are truncated after the pixels.
    reader.finish().map_err(damaged)?;
    let values = match frame.color_type {
        ColorType::Grayscale | ColorType::Indexed => 1,
        ColorType::GrayscaleAlpha => 2,
        ColorType::Rgb => 3,
        ColorType::Rgba => 4,
    };
    pixels.truncate(frame.buffer_size());
    let (width, height) = (frame.width as usize, frame.height as usize);
    Ok(Picture { width, height, values, pixels })
}

fn jpeg_reader(bytes: &[u8]) -> std::result::Result<JpegDecoder<ZCursor<&[u8]>>, String> {
    if !bytes.starts_with(b"\xff\xd8") {
        return Err("neither a PNG nor a JPEG image".into());
    }
    let options = DecoderOptions::default()
        .set_max_width(usize::from(u16::MAX))
        .set_max_height(usize::from(u16::MAX))
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(|e| format!("a damaged JPEG image: {e:?}"))?;
    let info = decoder.info().ok_or("a JPEG image without a header")?;
    check_size(usize::from(info.width), usize::from(info.height))?;
    Ok(decoder)
}

fn jpeg(bytes: &[u8]) -> std::result::Result<Picture, String> {
    let mut decoder = jpeg_reader(bytes)?;
    // The decoder fills missing pixels with grey, so the end marker is looked for after the last
    // scan: its two bytes can't occur within a scan, and those of a preview come earlier.
    let scan = bytes.windows(2).rposition(|pair| pair == [0xff, 0xda]).unwrap_or(0);
    if !bytes[scan..].windows(2).any(|pair| pair == [0xff, 0xd9]) {
        return Err("a JPEG image that is truncated".into());
    }
    let pixels = decoder.decode().map_err(|e| format!("a damaged JPEG image: {e:?}"))?;
    let (width, height) = decoder.dimensions().ok_or("a JPEG image without a size")?;
    if pixels.len() != width * height * 3 {
        return Err("a JPEG image of a kind that can't be read".into());
    }
    Ok(Picture { width, height, values: 3, pixels })
}
