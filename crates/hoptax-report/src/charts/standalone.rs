//! Writes a chart as a file for a web page, a pull request or a slide, with title, subtitle and source.

use super::catalogue::{Body, Drawing};
use super::ranked::Room;
use super::sheet::{ChartError, Ink, Sheet};
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

/// Background colour of a chart file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    /// White background.
    Light,
    /// Nearly black background.
    Dark,
}

/// Width of the chart, px.
const WIDTH: i32 = 960;
const HEAD: i32 = 64;
const KEY: i32 = 24;
const FOOT: i32 = 34;
/// A PNG has two dots per pixel, for high-resolution screens.
const DENSITY: i32 = 2;
/// Before a PNG is written, the chart is drawn larger by this factor in each direction. Neighbouring dots are
/// then averaged, which smooths the edges.
const OVERSAMPLING: i32 = 2;

const LIGHT: Ink = Ink {
    paper: Some(RGBColor(0xff, 0xff, 0xff)),
    text: RGBColor(0x1c, 0x21, 0x28),
    quiet: RGBColor(0x57, 0x60, 0x6a),
    grid: RGBColor(0xdd, 0xe1, 0xe6),
};
const DARK: Ink = Ink {
    paper: Some(RGBColor(0x14, 0x17, 0x1c)),
    text: RGBColor(0xe8, 0xea, 0xed),
    quiet: RGBColor(0xa2, 0xab, 0xb5),
    grid: RGBColor(0x33, 0x3a, 0x43),
};

pub(super) fn svg(drawing: &Drawing, theme: Theme) -> Result<String, ChartError> {
    let mut svg = String::new();
    let key = Key::new(drawing);
    let size = (WIDTH as u32, height(drawing, &key) as u32);
    draw(SVGBackend::with_string(&mut svg, size), drawing, &key, theme, 1)?;
    // Screen readers read the title.
    let title = format!("<title>{}</title>", minijinja::HtmlEscape(&drawing.title));
    let head = svg.find("<svg").and_then(|start| svg[start..].find('>').map(|end| start + end + 1));
    if let Some(head) = head {
        svg.insert_str(head, &title);
    }
    svg.push('\n');
    Ok(svg)
}

pub(super) fn png(drawing: &Drawing, theme: Theme) -> Result<Vec<u8>, ChartError> {
    let dots = DENSITY * OVERSAMPLING;
    let key = Key::new(drawing);
    let (width, height) = ((WIDTH * dots) as usize, (height(drawing, &key) * dots) as usize);
    let mut drawn = vec![0_u8; width * height * 3];
    let backend = BitMapBackend::with_buffer(&mut drawn, (width as u32, height as u32));
    draw(backend, drawing, &key, theme, dots)?;
    let kept = smoothed(&drawn, width, height);
    let mut file = Vec::new();
    let step = OVERSAMPLING as usize;
    let mut encoder = png::Encoder::new(&mut file, (width / step) as u32, (height / step) as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::High);
    let mut writer = encoder.write_header().map_err(ChartError::new)?;
    writer.write_image_data(&kept).map_err(ChartError::new)?;
    writer.finish().map_err(ChartError::new)?;
    Ok(file)
}

/// Reduces the drawing. Each square of dots becomes one dot, with the mean colour of the square.
fn smoothed(drawn: &[u8], width: usize, height: usize) -> Vec<u8> {
    let step = OVERSAMPLING as usize;
    let mut kept = Vec::with_capacity(drawn.len() / (step * step));
    for y in (0..height).step_by(step) {
        for x in (0..width).step_by(step) {
            for part in 0..3 {
                let dots = (0..step * step)
                    .map(|dot| u32::from(drawn[((y + dot / step) * width + x + dot % step) * 3 + part]));
                kept.push((dots.sum::<u32>() / (step * step) as u32) as u8);
            }
        }
    }
    kept
}

/// The key: the names of the lines with their colours, in as many rows as necessary.
struct Key {
    rows: Vec<Vec<(String, RGBColor)>>,
}

/// Estimated width of a letter, px. The exact width is not known, because rows are laid out before there is a
/// surface on which text can be measured.
const LETTER: i32 = 8;

impl Key {
    fn new(drawing: &Drawing) -> Self {
        let mut rows: Vec<Vec<(String, RGBColor)>> = Vec::new();
        let mut x = WIDTH;
        for (name, colour) in drawing.body.names() {
            let width = 46 + LETTER * name.chars().count() as i32;
            if x + width > WIDTH - 32 {
                rows.push(Vec::new());
                x = 0;
            }
            x += width;
            if let Some(row) = rows.last_mut() {
                row.push((name, colour));
            }
        }
        Self { rows }
    }

    fn height(&self) -> i32 {
        KEY * self.rows.len() as i32
    }

    fn draw<DB: DrawingBackend>(&self, sheet: &Sheet<DB>) -> Result<(), ChartError> {
        for (index, row) in self.rows.iter().enumerate() {
            let (mut x, y) = (16, HEAD + KEY * index as i32 + KEY / 2);
            for (name, colour) in row {
                sheet.line(&[(x, y), (x + 18, y)], colour, 3)?;
                sheet.text(name, (x + 24, y), 13, HPos::Left, &sheet.ink.text)?;
                x += 46 + LETTER * name.chars().count() as i32;
            }
        }
        Ok(())
    }
}

fn height(drawing: &Drawing, key: &Key) -> i32 {
    HEAD + key.height() + drawing.body.height() + FOOT
}

fn draw<DB: DrawingBackend>(
    backend: DB,
    drawing: &Drawing,
    key: &Key,
    theme: Theme,
    dots: i32,
) -> Result<(), ChartError> {
    let ink = if theme == Theme::Dark { DARK } else { LIGHT };
    let sheet = Sheet::new(backend, ink, dots)?;
    sheet.text(&drawing.title, (16, 24), 20, HPos::Left, &ink.text)?;
    sheet.text(&drawing.subtitle, (16, 48), 13, HPos::Left, &ink.quiet)?;
    key.draw(&sheet)?;
    let mut top = HEAD + key.height();
    match &drawing.body {
        Body::Ranked(ranked) => ranked.draw(&sheet, Room { top, width: WIDTH - 12, wide: true })?,
        Body::Panels(panels) => {
            let labels = panels.iter().map(|panel| panel.labels(&sheet)).max().unwrap_or(0);
            for panel in panels {
                panel.draw(&sheet, top, (labels, WIDTH))?;
                top += panel.height();
            }
        }
    }
    let foot = height(drawing, key) - FOOT / 2;
    sheet.text(&drawing.source, (WIDTH - 16, foot), 12, HPos::Right, &ink.quiet)?;
    sheet.present()
}
