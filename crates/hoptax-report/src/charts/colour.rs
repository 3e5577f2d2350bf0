//! The colours of contenders.

use crate::model::Model;
use hoptax_record as record;
use plotters::style::RGBColor;

/// The palette of Okabe and Ito ("Color Universal Design", 2008). People with any colour vision can
/// distinguish its colours. Yellow is last, because it is faint on white. Black is left out, because direct
/// is drawn in grey.
const PALETTE: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0xf0, 0xe4, 0x42),
];
pub(super) const DIRECT: RGBColor = RGBColor(0x80, 0x80, 0x80);

/// A contender's colour. It is the same in every chart.
pub(crate) fn colour(model: &Model, label: &str) -> RGBColor {
    let gateways = model.contenders.iter().filter(|one| one.label != record::DIRECT);
    let position = gateways.enumerate().find(|(_, one)| one.label == label).map(|(index, _)| index);
    position.map_or(DIRECT, shade)
}

/// A colour of the palette. If there are more contenders than colours, the colours repeat, first in a darker
/// shade and then in a lighter shade. This gives 21 colours.
pub(super) fn shade(index: usize) -> RGBColor {
    let colour = PALETTE[index % PALETTE.len()];
    let to = |part: u8| match index / PALETTE.len() % 3 {
        0 => part,
        1 => (f64::from(part) * 0.6) as u8,
        _ => (f64::from(part) * 0.5 + 127.0) as u8,
    };
    RGBColor(to(colour.0), to(colour.1), to(colour.2))
}

pub(crate) fn css(colour: RGBColor) -> String {
    format!("#{:02x}{:02x}{:02x}", colour.0, colour.1, colour.2)
}
