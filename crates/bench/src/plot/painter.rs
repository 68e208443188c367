//! A few primitives over plotters, in units that bitmaps scale.

use super::FAMILY;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontFamily, FontTransform};

/// Why painting failed.
pub(super) struct Failure(pub String);

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for Failure {
    fn from(error: DrawingAreaErrorKind<E>) -> Failure {
        Failure(error.to_string())
    }
}

/// A point in units.
pub(super) type At = (f64, f64);

/// Where the given point is in a text.
#[derive(Clone, Copy)]
pub(super) enum Align {
    Left,
    Middle,
    Right,
}

/// A text's looks.
#[derive(Clone, Copy)]
pub(super) struct Text {
    pub size: f64,
    pub colour: RGBColor,
    pub align: Align,
    /// Reads from bottom to top.
    pub upright: bool,
}

impl Text {
    pub(super) fn new(size: f64) -> Text {
        Text { size, colour: INK, align: Align::Left, upright: false }
    }
    pub(super) fn align(self, align: Align) -> Text {
        Text { align, ..self }
    }
    pub(super) fn colour(self, colour: RGBColor) -> Text {
        Text { colour, ..self }
    }
    pub(super) fn upright(self) -> Text {
        Text { upright: true, ..self }
    }
}

/// Nearly black.
pub(super) const INK: RGBColor = RGBColor(0x22, 0x22, 0x28);
/// For what may be overlooked.
pub(super) const FAINT: RGBColor = RGBColor(0x6a, 0x6a, 0x72);
/// Grid lines.
pub(super) const GRID: RGBColor = RGBColor(0xe3, 0xe3, 0xe8);

/// Colours that people with any colour vision tell apart (Okabe and Ito, 2008), darkest first on white.
pub(super) const SERIES: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x44, 0x44, 0x44),
];

/// What a picture is painted on.
pub(super) trait Canvas {
    /// Fills everything with white.
    fn clear(&self) -> Result<(), Failure>;
    fn rectangle(&self, from: At, to: At, colour: RGBColor, filled: bool) -> Result<(), Failure>;
    fn line(&self, points: &[At], colour: RGBColor, width: u32) -> Result<(), Failure>;
    fn area(&self, points: &[At], colour: RGBColor, opacity: f64) -> Result<(), Failure>;
    fn dot(&self, at: At, radius: f64, colour: RGBColor) -> Result<(), Failure>;
    /// `at` is at half the text's height.
    fn text(&self, text: &str, at: At, looks: Text) -> Result<(), Failure>;
    /// Width of a text in units.
    fn width(&self, text: &str, size: f64) -> f64;
}

/// A canvas that is one of plotters' drawing areas.
pub(super) struct Painter<B: DrawingBackend> {
    pub area: DrawingArea<B, Shift>,
    pub scale: i32,
}

impl<B: DrawingBackend> Painter<B> {
    pub(super) fn finish(&self) -> Result<(), Failure> {
        self.area.present().map_err(Failure::from)
    }

    fn at(&self, (x, y): At) -> (i32, i32) {
        ((x * f64::from(self.scale)).round() as i32, (y * f64::from(self.scale)).round() as i32)
    }
}

impl<B: DrawingBackend> Canvas for Painter<B> {
    fn clear(&self) -> Result<(), Failure> {
        Ok(self.area.fill(&WHITE)?)
    }

    fn rectangle(&self, from: At, to: At, colour: RGBColor, filled: bool) -> Result<(), Failure> {
        let style = ShapeStyle { color: colour.to_rgba(), filled, stroke_width: self.scale as u32 };
        Ok(self.area.draw(&Rectangle::new([self.at(from), self.at(to)], style))?)
    }

    fn line(&self, points: &[At], colour: RGBColor, width: u32) -> Result<(), Failure> {
        let style = colour.stroke_width(width * self.scale as u32);
        let points: Vec<(i32, i32)> = points.iter().map(|p| self.at(*p)).collect();
        Ok(self.area.draw(&PathElement::new(points, style))?)
    }

    fn area(&self, points: &[At], colour: RGBColor, opacity: f64) -> Result<(), Failure> {
        let points: Vec<(i32, i32)> = points.iter().map(|p| self.at(*p)).collect();
        Ok(self.area.draw(&Polygon::new(points, colour.mix(opacity)))?)
    }

    fn dot(&self, at: At, radius: f64, colour: RGBColor) -> Result<(), Failure> {
        let radius = (radius * f64::from(self.scale)).round() as i32;
        Ok(self.area.draw(&Circle::new(self.at(at), radius, colour.filled()))?)
    }

    fn text(&self, text: &str, at: At, looks: Text) -> Result<(), Failure> {
        let font = (FontFamily::Name(FAMILY), looks.size * f64::from(self.scale)).into_font();
        let font = if looks.upright { font.transform(FontTransform::Rotate270) } else { font };
        let horizontal = match looks.align {
            Align::Left => HPos::Left,
            Align::Middle => HPos::Center,
            Align::Right => HPos::Right,
        };
        let style = font.color(&looks.colour).pos(Pos::new(horizontal, VPos::Center));
        Ok(self.area.draw(&plotters::element::Text::new(text.to_owned(), self.at(at), style))?)
    }

    fn width(&self, text: &str, size: f64) -> f64 {
        let font = (FontFamily::Name(FAMILY), size * f64::from(self.scale)).into_font();
        font.box_size(text).map_or(0.0, |(width, _)| f64::from(width) / f64::from(self.scale))
    }
}

/// Ticks of a logarithmic axis between two values: 1, 2, 5, 10 ..., or powers of ten when those are many.
pub(super) fn ticks(from: f64, to: f64) -> Vec<f64> {
    let mut all = Vec::new();
    for exponent in from.log10().floor() as i32..=to.log10().ceil() as i32 {
        all.extend([1.0, 2.0, 5.0].map(|step| step * 10f64.powi(exponent)));
    }
    all.retain(|tick| *tick >= from * 0.999 && *tick <= to * 1.001);
    if all.len() > 10 {
        all.retain(|tick| (tick.log10() - tick.log10().round()).abs() < 1e-6);
    }
    all
}

/// A number for people, without trailing zeros.
pub(super) fn short(number: f64) -> String {
    let text = match number.abs() {
        n if n >= 100.0 || n == 0.0 => format!("{number:.0}"),
        n if n >= 10.0 => format!("{number:.1}"),
        n if n >= 1.0 => format!("{number:.2}"),
        _ => format!("{number:.3}"),
    };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}
