//! Renders a scene as SVG or PNG.
//!
//! The SVG is written mark by mark, and `tiny-skia` fills and strokes the same marks for the PNG.
//! Plotters would not do: it lays out axes and legends of its own, and its back ends have no paths,
//! no dashes, no pictures, no names for screen readers and, for pixels, no smooth edges.

use super::bitmap::Bitmap;
use super::font;
use super::format::html_escape;
use super::indexed_image::IndexedImage;
use super::palette::{Rgb, hex};
use super::scene::{Align, Mark, Point, Rect, Scene, TextStyle};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tiny_skia::{
    FillRule, LineJoin, Paint, Path, PathBuilder, Pixmap, Stroke, StrokeDash, Transform,
};

/// Pixels per page unit in the PNG, for high-density screens.
const PNG_SCALE: u32 = 2;
/// Pixel density of the PNG in dots per metre: two pixels per CSS pixel (192 per inch).
const PIXELS_PER_METRE: u32 = 7559;

/// Returns the scene as an SVG document without style sheets, scripts or links; text stays text.
/// `label` is the accessible name for screen readers.
pub(super) fn svg(scene: &Scene, label: &str) -> String {
    let body: String = scene.marks.iter().map(element).collect();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" \
         viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\" font-family=\"{}\" \
         stroke-linejoin=\"round\">\n{body}</svg>\n",
        scene.width.round(),
        scene.height.round(),
        tenths(scene.width),
        tenths(scene.height),
        html_escape(label),
        font::FONT_FAMILY,
    )
}

/// Returns a length in tenths of a page unit, the unit of the view box: coordinates are integers.
fn tenths(length: f64) -> i64 {
    (length * 10.0).round() as i64
}

/// Returns the SVG element of a mark.
fn element(mark: &Mark) -> String {
    match mark {
        Mark::Fill { area, colour } => {
            format!("<rect {} fill=\"{}\"/>\n", frame(area), hex(*colour))
        }
        Mark::Cells { areas, colour } => {
            format!("<path d=\"{}\" fill=\"{}\"/>\n", boxes(areas), hex(*colour))
        }
        // An embedded PNG refers to nothing outside the document.
        Mark::Picture { area, bitmap } => format!(
            "<image {} preserveAspectRatio=\"none\" image-rendering=\"pixelated\" \
             href=\"data:image/png;base64,{}\"/>\n",
            frame(area),
            STANDARD.encode(bitmap.encode_png()),
        ),
        Mark::Stroke { points, colour, width, dash } => {
            let dash = dash.map_or(String::new(), |(dash, gap)| {
                format!(" stroke-dasharray=\"{} {}\"", tenths(dash), tenths(gap))
            });
            format!(
                "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{dash} points=\"{}\"/>\n",
                hex(*colour),
                tenths(*width).max(1),
                corners(points),
            )
        }
        Mark::Polygon { points, colour } => {
            format!("<polygon fill=\"{}\" points=\"{}\"/>\n", hex(*colour), corners(points))
        }
        Mark::Dot { at: (x, y), radius, colour } => format!(
            "<circle cx=\"{}\" cy=\"{}\" r=\"{}\" fill=\"{}\"/>\n",
            tenths(*x),
            tenths(*y),
            tenths(*radius),
            hex(*colour),
        ),
        Mark::Text { at: (x, y), text, style } => format!(
            "<text x=\"{}\" y=\"{}\" dy=\"0.5ex\" text-anchor=\"{}\" font-size=\"{}\" \
             fill=\"{}\"{}>\n{}\n</text>\n",
            tenths(*x),
            tenths(*y),
            match style.align {
                Align::Left => "start",
                Align::Middle => "middle",
                Align::Right => "end",
            },
            tenths(style.size),
            hex(style.colour),
            if style.bold { " font-weight=\"bold\"" } else { "" },
            html_escape(text),
        ),
    }
}

/// Returns the attributes of a box. Its edges are rounded, so that adjacent boxes leave no seam.
fn frame(area: &Rect) -> String {
    let (x, y) = (tenths(area.left), tenths(area.top));
    let (width, height) = (tenths(area.right) - x, tenths(area.bottom) - y);
    format!("x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"")
}

/// Returns the path of many boxes. Each starts relative to the previous one, which takes fewer
/// digits.
fn boxes(areas: &[Rect]) -> String {
    let mut path = String::new();
    let mut last = (0, 0);
    for area in areas {
        let (x, y) = (tenths(area.left), tenths(area.top));
        let (wide, high) = (tenths(area.right) - x, tenths(area.bottom) - y);
        // Closing a box returns to its corner, where the next relative move starts.
        path += &format!("m{} {}h{wide}v{high}h{}z", x - last.0, y - last.1, -wide);
        last = (x, y);
    }
    path
}

/// Returns the value of an attribute `points`.
fn corners(points: &[Point]) -> String {
    let all: Vec<String> =
        points.iter().map(|(x, y)| format!("{},{}", tenths(*x), tenths(*y))).collect();
    all.join(" ")
}

/// Returns the scene as a PNG file, two pixels per page unit.
pub(super) fn png(scene: &Scene) -> Vec<u8> {
    let side = |length: f64| (length.round() as u32 * PNG_SCALE).max(1);
    let (width, height) = (side(scene.width), side(scene.height));
    let Some(mut canvas) = Pixmap::new(width, height) else { return Vec::new() };
    scene.marks.iter().for_each(|mark| draw(&mut canvas, mark));
    // The card covers the whole picture, so no pixel is transparent.
    let pixels = canvas.pixels().iter();
    let rgb: Vec<u8> = pixels.flat_map(|p| [p.red(), p.green(), p.blue()]).collect();
    encode_png(&rgb, width, height)
}

/// Draws a mark. Coordinates are those of the page.
fn draw(canvas: &mut Pixmap, mark: &Mark) {
    match mark {
        Mark::Fill { area, colour } => fill(canvas, cells_path(&[*area]), *colour),
        Mark::Cells { areas, colour } => fill(canvas, cells_path(areas), *colour),
        Mark::Picture { area, bitmap } => picture(canvas, area, bitmap),
        Mark::Stroke { points, colour, width, dash } => {
            let dash =
                dash.and_then(|(dash, gap)| StrokeDash::new(vec![dash as f32, gap as f32], 0.0));
            let width = *width as f32;
            let stroke = Stroke { width, dash, line_join: LineJoin::Round, ..Stroke::default() };
            if let Some(path) = polyline(points).finish() {
                let scale = Transform::from_scale(PNG_SCALE as f32, PNG_SCALE as f32);
                canvas.stroke_path(&path, &paint(*colour), &stroke, scale, None);
            }
        }
        Mark::Polygon { points, colour } => fill(canvas, polyline(points).finish(), *colour),
        Mark::Dot { at: (x, y), radius, colour } => {
            let circle = PathBuilder::from_circle(*x as f32, *y as f32, *radius as f32);
            fill(canvas, circle, *colour);
        }
        Mark::Text { at, text, style } => draw_text(canvas, *at, text, style),
    }
}

fn fill(canvas: &mut Pixmap, path: Option<Path>, colour: Rgb) {
    let scale = Transform::from_scale(PNG_SCALE as f32, PNG_SCALE as f32);
    if let Some(path) = path {
        canvas.fill_path(&path, &paint(colour), FillRule::Winding, scale, None);
    }
}

/// Draws each pixel of a picture as a box.
fn picture(canvas: &mut Pixmap, area: &Rect, bitmap: &Bitmap) {
    let (wide, high) = (area.width() / bitmap.width as f64, area.height() / bitmap.height as f64);
    for (i, &colour) in bitmap.pixels.iter().enumerate() {
        let left = area.left + wide * (i % bitmap.width) as f64;
        let top = area.top + high * (i / bitmap.width) as f64;
        let pixel = Rect { left, top, right: left + wide, bottom: top + high };
        fill(canvas, cells_path(&[pixel]), colour);
    }
}

fn draw_text(canvas: &mut Pixmap, (x, y): Point, text: &str, style: &TextStyle) {
    let share = match style.align {
        Align::Left => 0.0,
        Align::Middle => 0.5,
        Align::Right => 1.0,
    };
    let left = x - share * font::text_width(text, style.size, style.bold);
    let base = y + style.size * font::X_HEIGHT_EM / 2.0;
    fill(canvas, font::outline(text, style.size, style.bold, (left, base)), style.colour);
}

fn paint((red, green, blue): Rgb) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color_rgba8(red, green, blue, 255);
    paint
}

/// Returns boxes as a path, with edges at whole pixels.
fn cells_path(areas: &[Rect]) -> Option<Path> {
    let snap = |v: f64| ((v * f64::from(PNG_SCALE)).round() / f64::from(PNG_SCALE)) as f32;
    let mut path = PathBuilder::new();
    for area in areas {
        let [left, top, right, bottom] = [area.left, area.top, area.right, area.bottom].map(snap);
        if let Some(rect) = tiny_skia::Rect::from_ltrb(left, top, right, bottom) {
            path.push_rect(rect);
        }
    }
    path.finish()
}

fn polyline(points: &[Point]) -> PathBuilder {
    let mut path = PathBuilder::new();
    for (i, (x, y)) in points.iter().enumerate() {
        match i {
            0 => path.move_to(*x as f32, *y as f32),
            _ => path.line_to(*x as f32, *y as f32),
        }
    }
    path
}

/// Returns the size of a PNG in CSS pixels, by its pixel density.
pub(super) fn css_size(png: &[u8]) -> Option<(u32, u32)> {
    let reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().ok()?;
    let info = reader.info();
    let dense = info.pixel_dims.is_some_and(|dims| dims.xppu >= PIXELS_PER_METRE);
    let per_unit = if dense { PNG_SCALE } else { 1 };
    Some((info.width / per_unit, info.height / per_unit))
}

fn encode_png(rgb: &[u8], width: u32, height: u32) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Balanced);
    let unit = png::Unit::Meter;
    encoder.set_pixel_dims(Some(png::PixelDimensions {
        xppu: PIXELS_PER_METRE,
        yppu: PIXELS_PER_METRE,
        unit,
    }));
    let indexed = IndexedImage::quantise(rgb).filter(|indexed| !indexed.palette.is_empty());
    let pixels = match &indexed {
        Some(IndexedImage { palette, pixels }) => {
            encoder.set_color(png::ColorType::Indexed);
            let palette: Vec<u8> = palette.iter().flat_map(|&(r, g, b)| [r, g, b]).collect();
            encoder.set_palette(palette);
            // Differences of indices mean nothing.
            encoder.set_filter(png::Filter::NoFilter);
            pixels
        }
        None => {
            encoder.set_color(png::ColorType::Rgb);
            rgb
        }
    };
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(pixels));
    debug_assert!(written.is_ok(), "writing to memory");
    file
}
