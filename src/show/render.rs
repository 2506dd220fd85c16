//! Renders a scene as SVG or PNG through the backends of plotters.

use super::bitmap::Bitmap;
use super::font;
use super::indexed::Indexed;
use super::palette::Rgb;
use super::scene::{Align, Area, Mark, Point, Scene};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, RGBColor, ShapeStyle, TextStyle};

/// Plotters takes integer coordinates, so the SVG is drawn in tenths of a page unit.
const SVG_SCALE: f64 = 10.0;
/// The SVG backend of plotters divides font sizes by this factor.
const SVG_SIZE_PER_EM: f64 = 1.24;
/// Pixels per page unit in the PNG, for high-density screens.
const PNG_SCALE: usize = 2;
/// Oversampling factor in each direction: it smooths lines and spaces letters evenly.
const SAMPLES: usize = 2;
/// Scenes with more samples than this are drawn without oversampling.
const MOST_SAMPLES: usize = 60_000_000;
/// Pixel density of the PNG in dots per metre: two pixels per CSS pixel (192 per inch).
const DENSITY: u32 = 7559;

/// The scene as an SVG document without style sheets, scripts or links; text stays text. `label`
/// is the accessible name for screen readers.
pub(super) fn svg(scene: &Scene, label: &str) -> String {
    let size = |v: f64| (v * SVG_SCALE).round() as u32;
    let page = (size(scene.width), size(scene.height));
    // Plotters has no path and no image element, so these marks are written here.
    let mut body = String::new();
    for marks in scene.marks.chunk_by(|a, b| !is_own(a) && !is_own(b)) {
        match marks {
            [Mark::Cells { areas, colour }] => cells_path(&mut body, areas, *colour),
            [Mark::Picture { area, bitmap }] => image_element(&mut body, area, bitmap),
            others => body.push_str(&svg_body(others, page)),
        }
    }
    // The root element: page size, a finer view box, and round line joins.
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" \
         viewBox=\"0 0 {} {}\" \
         role=\"img\" aria-label=\"{}\" stroke-linejoin=\"round\">\n{body}</svg>\n",
        scene.width.round(),
        scene.height.round(),
        size(scene.width),
        size(scene.height),
        super::format::html_escape(label),
    )
}

/// Whether the SVG of a mark is written without plotters.
fn is_own(mark: &Mark) -> bool {
    matches!(mark, Mark::Cells { .. } | Mark::Picture { .. })
}

/// The SVG elements of these marks, without the root element.
fn svg_body(marks: &[Mark], page: (u32, u32)) -> String {
    let mut drawn = String::new();
    let mut backend = SVGBackend::with_string(&mut drawn, page);
    let mut brush = Brush { scale: SVG_SCALE, on: &mut backend, pixels: false };
    let done = brush.marks(marks).is_some();
    debug_assert!(done, "writing to memory");
    let _ = backend.present();
    drop(backend);
    let inner = drawn.split_once(">\n").map_or("", |(_, body)| body);
    inner.trim_end().trim_end_matches("</svg>").to_owned()
}

/// Boxes as one path in integer tenths of a page unit. Each starts relative to the previous one,
/// which takes fewer digits.
fn cells_path(out: &mut String, areas: &[Area], (r, g, b): Rgb) {
    let tenths = |v: f64| (v * SVG_SCALE).round() as i64;
    out.push_str("<path d=\"");
    let mut last = (0, 0);
    for area in areas {
        let (x, y) = (tenths(area.left), tenths(area.top));
        let (wide, high) = (tenths(area.right) - x, tenths(area.bottom) - y);
        // Closing a box returns to its corner, where the next relative move starts.
        out.push_str(&format!("m{} {}h{wide}v{high}h{}z", x - last.0, y - last.1, -wide));
        last = (x, y);
    }
    out.push_str(&format!("\" fill=\"#{r:02X}{g:02X}{b:02X}\"/>\n"));
}

/// A picture as an embedded PNG. It refers to nothing outside the document.
fn image_element(out: &mut String, area: &Area, bitmap: &Bitmap) {
    let tenths = |v: f64| (v * SVG_SCALE).round() as i64;
    let (x, y) = (tenths(area.left), tenths(area.top));
    out.push_str(&format!(
        "<image x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\" \
         image-rendering=\"pixelated\" href=\"data:image/png;base64,{}\"/>\n",
        tenths(area.right) - x,
        tenths(area.bottom) - y,
        STANDARD.encode(bitmap.png()),
    ));
}

/// The scene as a PNG file, two pixels per page unit.
pub(super) fn png(scene: &Scene) -> Vec<u8> {
    let side = |v: f64, samples: usize| v.round() as usize * PNG_SCALE * samples;
    let too_large = side(scene.width, SAMPLES) * side(scene.height, SAMPLES) > MOST_SAMPLES;
    let samples = if too_large { 1 } else { SAMPLES };
    let (wide, high) = (side(scene.width, samples), side(scene.height, samples));
    let mut buffer = vec![0u8; wide * high * 3];
    {
        let mut backend = BitMapBackend::with_buffer(&mut buffer, (wide as u32, high as u32));
        let scale = (PNG_SCALE * samples) as f64;
        let mut brush = Brush { scale, on: &mut backend, pixels: true };
        let done = brush.marks(&scene.marks).is_some();
        debug_assert!(done, "drawing to memory");
        let _ = backend.present();
    }
    let (width, height) = (wide / samples, high / samples);
    encode(&averaged(&buffer, width, height, samples), width as u32, height as u32)
}

/// Size of a PNG in CSS pixels, by its pixel density.
pub(super) fn page_size(png: &[u8]) -> Option<(u32, u32)> {
    let reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().ok()?;
    let info = reader.info();
    let dense = info.pixel_dims.is_some_and(|dims| dims.xppu >= DENSITY);
    let per_unit = if dense { PNG_SCALE as u32 } else { 1 };
    Some((info.width / per_unit, info.height / per_unit))
}

fn averaged(buffer: &[u8], width: usize, height: usize, samples: usize) -> Vec<u8> {
    if samples == 1 {
        return buffer.to_vec();
    }
    let row = width * samples * 3;
    let count = (samples * samples) as u32;
    let mut out = Vec::with_capacity(width * height * 3);
    for y in 0..height {
        for x in 0..width * 3 {
            let (pixel, channel) = (x / 3, x % 3);
            let corner = y * samples * row + pixel * samples * 3 + channel;
            let sum: u32 = (0..samples * samples)
                .map(|s| u32::from(buffer[corner + (s / samples) * row + (s % samples) * 3]))
                .sum();
            out.push(((sum + count / 2) / count) as u8);
        }
    }
    out
}

fn encode(rgb: &[u8], width: u32, height: u32) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Balanced);
    let unit = png::Unit::Meter;
    encoder.set_pixel_dims(Some(png::PixelDimensions { xppu: DENSITY, yppu: DENSITY, unit }));
    let indexed = Indexed::of(rgb).filter(|indexed| !indexed.palette.is_empty());
    let pixels = match &indexed {
        Some(Indexed { palette, pixels }) => {
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

struct Brush<'a, B> {
    on: &'a mut B,
    scale: f64,
    /// Whether the backend draws pixels. SVG viewers join lines and set text themselves.
    pixels: bool,
}

/// `None` if the backend failed; plotters does not export its error type.
type Drawn = Option<()>;

impl<B: DrawingBackend> Brush<'_, B> {
    fn marks(&mut self, marks: &[Mark]) -> Drawn {
        marks.iter().try_for_each(|mark| self.mark(mark))
    }

    fn fill(&mut self, area: &Area, colour: Rgb) -> Drawn {
        let (a, b) = (self.at((area.left, area.top)), self.at((area.right, area.bottom)));
        self.on.draw_rect(a, b, &filled(colour), true).ok()
    }

    fn mark(&mut self, mark: &Mark) -> Drawn {
        match mark {
            Mark::Fill { area, colour } => self.fill(area, *colour),
            Mark::Cells { areas, colour } => {
                areas.iter().try_for_each(|area| self.fill(area, *colour))
            }
            Mark::Picture { area, bitmap } => self.picture(area, bitmap),
            Mark::Stroke { points, colour, width } if self.pixels => {
                self.pixel_stroke(points, *colour, *width)
            }
            Mark::Stroke { points, colour, width } => {
                let width = (width * self.scale).round().max(1.0) as u32;
                let points: Vec<_> = points.iter().map(|&p| self.at(p)).collect();
                self.on.draw_path(points, &filled(*colour).stroke_width(width)).ok()
            }
            Mark::Polygon { points, colour } => {
                let points: Vec<_> = points.iter().map(|&p| self.at(p)).collect();
                self.on.fill_polygon(points, &filled(*colour)).ok()
            }
            Mark::Dot { at, radius, colour } => {
                let radius = (radius * self.scale).round() as u32;
                self.on.draw_circle(self.at(*at), radius, &filled(*colour), true).ok()
            }
            Mark::Text { at, text, size, bold, colour, align } => {
                if self.pixels {
                    return self.pixel_text(text, (*at, *align), (*size, *bold), *colour);
                }
                let h_pos = match align {
                    Align::Left => HPos::Left,
                    Align::Middle => HPos::Center,
                    Align::Right => HPos::Right,
                };
                let style = TextStyle {
                    font: font::font(size * self.scale * SVG_SIZE_PER_EM, *bold),
                    color: rgb(*colour).to_backend_color(),
                    pos: Pos::new(h_pos, VPos::Center),
                };
                self.on.draw_text(text, &style, self.at(*at)).ok()
            }
        }
    }

    /// Draws each pixel of a picture as a box.
    fn picture(&mut self, area: &Area, bitmap: &Bitmap) -> Drawn {
        let (wide, high) = (bitmap.width as f64, bitmap.height as f64);
        let corner = |x: usize, y: usize| {
            let (left, top) = (area.left + area.width() * x as f64 / wide, area.top);
            (left, top + area.height() * y as f64 / high)
        };
        for (i, &colour) in bitmap.pixels.iter().enumerate() {
            let (x, y) = (i % bitmap.width, i / bitmap.width);
            let ((left, top), (right, bottom)) = (corner(x, y), corner(x + 1, y + 1));
            self.fill(&Area { left, top, right, bottom }, colour)?;
        }
        Some(())
    }

    fn pixel_text(
        &mut self,
        text: &str,
        ((x, y), align): (Point, Align),
        (size, bold): (f64, bool),
        colour: Rgb,
    ) -> Drawn {
        let share = match align {
            Align::Left => 0.0,
            Align::Middle => 0.5,
            Align::Right => 1.0,
        };
        let left = x - share * font::width(text, size, bold);
        let base = y + size * font::X_HEIGHT / 2.0;
        let start = (left * self.scale, base * self.scale);
        let (width, height) = self.on.get_size();
        let mut drawn = Some(());
        font::paint(text, size * self.scale, bold, start, |x, y, covered| {
            let inside = (0..width as i32).contains(&x) && (0..height as i32).contains(&y);
            if inside && covered > 0.0 {
                let ink = rgb(colour).mix(f64::from(covered.min(1.0))).to_backend_color();
                drawn = drawn.and(self.on.draw_pixel((x, y), ink).ok());
            }
        });
        drawn
    }

    /// Draws a thick polyline as a bar per segment and a disc per joint. The thick lines of
    /// plotters have spikes at sharp turns, of which a noisy curve has many.
    fn pixel_stroke(&mut self, points: &[Point], colour: Rgb, width: f64) -> Drawn {
        let style = filled(colour);
        let half = width / 2.0;
        for (i, ends) in points.windows(2).enumerate() {
            let (a, b) = (ends[0], ends[1]);
            let length = (b.0 - a.0).hypot(b.1 - a.1);
            if length > 0.0 {
                let (nx, ny) = ((b.1 - a.1) / length * half, (a.0 - b.0) / length * half);
                let corners = [
                    (a.0 + nx, a.1 + ny),
                    (b.0 + nx, b.1 + ny),
                    (b.0 - nx, b.1 - ny),
                    (a.0 - nx, a.1 - ny),
                ];
                let corners: Vec<_> = corners.into_iter().map(|p| self.at(p)).collect();
                self.on.fill_polygon(corners, &style).ok()?;
            }
            let radius = (half * self.scale) as u32;
            if i > 0 && radius > 1 {
                self.on.draw_circle(self.at(a), radius, &style, true).ok()?;
            }
        }
        Some(())
    }

    fn at(&self, (x, y): Point) -> (i32, i32) {
        ((x * self.scale).round() as i32, (y * self.scale).round() as i32)
    }
}

fn rgb((r, g, b): Rgb) -> RGBColor {
    RGBColor(r, g, b)
}

fn filled(colour: Rgb) -> ShapeStyle {
    rgb(colour).filled()
}
