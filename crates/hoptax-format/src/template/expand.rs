//! Expands templates into bytes, for each request, without allocating.

use super::error::TemplateError;
use super::files::Files;
use super::parse::{self, Piece, TemplatePart};
use super::place::{self, Place};
use crate::random::Random;
use base64::{Engine as _, engine::general_purpose::STANDARD};

/// Makes this stream of random numbers different from other streams that use the same seed.
const TEMPLATES: u64 = 0x7465_6d70_6c61_7465;

/// Maximum length of a 64-bit number in decimal, including its sign.
const LONGEST_NUMBER: usize = 20;
const UUID: usize = 36;

/// A compiled text: a list of steps that write the text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Bytes(Vec<u8>),
    Seq,
    Uuid,
    /// The lowest possible number, and the number of higher numbers that are possible.
    Random(i64, u64),
    /// Index of the source.
    Line(usize),
    Base64(Program),
}

impl Program {
    /// Appends `text`, which must be valid in `place`.
    ///
    /// # Errors
    /// See [`super::check`].
    pub fn push_template(
        &mut self,
        text: &str,
        place: Place,
        files: &Files<'_>,
    ) -> Result<(), TemplateError> {
        let pieces = parse::pieces(text)?;
        place::check(&pieces, place, files)?;
        self.push_pieces(&pieces, files);
        Ok(())
    }

    fn push_pieces(&mut self, pieces: &[Piece<'_>], files: &Files<'_>) {
        for piece in pieces {
            let step = match &piece.part {
                TemplatePart::Text(text) => {
                    self.push_bytes(text.as_bytes());
                    continue;
                }
                TemplatePart::Seq => Step::Seq,
                TemplatePart::Uuid => Step::Uuid,
                TemplatePart::Random(low, high) => Step::Random(*low, high.wrapping_sub(*low) as u64),
                TemplatePart::Line(source) => Step::Line(files.index(*source).expect("checked before")),
                TemplatePart::Base64(inner) => {
                    let mut program = Program::default();
                    program.push_pieces(inner, files);
                    Step::Base64(program)
                }
            };
            self.steps.push(step);
        }
    }

    /// Appends bytes that are the same in every request.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        if let Some(Step::Bytes(last)) = self.steps.last_mut() {
            last.extend_from_slice(bytes);
        } else if !bytes.is_empty() {
            self.steps.push(Step::Bytes(bytes.to_vec()));
        }
    }

    /// The output of this program, if it is the same for every request.
    #[inline]
    pub fn fixed(&self) -> Option<&[u8]> {
        match self.steps.as_slice() {
            [] => Some(&[]),
            [Step::Bytes(bytes)] => Some(bytes),
            _ => None,
        }
    }

    /// Maximum length of the output, bytes.
    pub fn longest(&self, files: &Files<'_>) -> usize {
        let longest = |step: &Step| match step {
            Step::Bytes(bytes) => bytes.len(),
            Step::Seq | Step::Random(..) => LONGEST_NUMBER,
            Step::Uuid => UUID,
            Step::Line(source) => {
                files.sources[*source].lines.iter().map(|line| line.len()).max().unwrap_or(0)
            }
            Step::Base64(inner) => in_base64(inner.longest(files)),
        };
        self.steps.iter().map(longest).sum()
    }

    fn add_usage(&self, usage: &mut Usage, files: &Files<'_>) {
        for step in &self.steps {
            match step {
                Step::Seq => usage.seq = true,
                Step::Line(source) => {
                    let file = files.sources[*source].first;
                    if !usage.files.contains(&file) {
                        usage.files.push(file);
                    }
                }
                Step::Base64(inner) => inner.add_usage(usage, files),
                Step::Bytes(_) | Step::Uuid | Step::Random(..) => {}
            }
        }
    }

    /// Appends the output for the current values.
    pub fn write(&self, values: &mut Values<'_>, out: &mut Vec<u8>) {
        for step in &self.steps {
            match step {
                Step::Bytes(bytes) => out.extend_from_slice(bytes),
                Step::Seq => push_decimal(out, values.seq),
                Step::Uuid => push_uuid(out, &mut values.random),
                Step::Random(low, beyond) => {
                    let above = match beyond.checked_add(1) {
                        Some(count) => values.random.below(count),
                        None => values.random.next_u64(),
                    };
                    push_signed(out, low.wrapping_add(above as i64));
                }
                Step::Line(source) => {
                    let source = &values.files.sources[*source];
                    out.extend_from_slice(source.lines[values.next_line[source.first]].as_bytes());
                }
                Step::Base64(inner) => {
                    let start = out.len();
                    inner.write(values, out);
                    encode_tail(out, start, &mut values.plain);
                }
            }
        }
    }
}

/// Which counters and files a request uses. They must be advanced after the request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    seq: bool,
    /// Index of the first source of each file.
    files: Vec<usize>,
}

impl Usage {
    /// The counters and files that `programs` use together.
    pub fn of<'p>(programs: impl IntoIterator<Item = &'p Program>, files: &Files<'_>) -> Self {
        let mut usage = Self::default();
        programs.into_iter().for_each(|program| program.add_usage(&mut usage, files));
        usage
    }
}

/// Current values of the templates of one worker.
#[derive(Debug)]
pub struct Values<'a> {
    files: &'a Files<'a>,
    seq: u64,
    /// Distance between two successive numbers or lines that this worker uses. It equals the number of
    /// workers.
    step: u64,
    /// Index of the next line of each file, at the index of the file's first source.
    next_line: Vec<usize>,
    random: Random,
    /// Buffer for text that must be encoded in base64.
    plain: Vec<u8>,
}

impl<'a> Values<'a> {
    /// Creates the initial values for worker `index` of `workers`. `longest` is the maximum length of a text
    /// that must be encoded in base64.
    pub fn new(files: &'a Files<'a>, (index, workers): (u32, u32), seed: u64, longest: usize) -> Self {
        Self {
            files,
            seq: u64::from(index),
            step: u64::from(workers),
            next_line: files
                .sources
                .iter()
                .map(|values| index as usize % values.lines.len().max(1))
                .collect(),
            random: Random::stream(seed ^ TEMPLATES, u64::from(index)),
            plain: Vec::with_capacity(longest),
        }
    }

    /// Advances the counters and files that a request used, for the next request.
    #[inline]
    pub fn advance(&mut self, usage: &Usage) {
        if usage.seq {
            self.seq += self.step;
        }
        for &file in &usage.files {
            let lines = self.files.sources[file].lines.len() as u64;
            self.next_line[file] = ((self.next_line[file] as u64 + self.step) % lines) as usize;
        }
    }
}

/// Length of `bytes` bytes after encoding them in base64, with padding.
fn in_base64(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// Replaces `out[start..]` by its base64 encoding. `plain` is a buffer that this function may overwrite.
fn encode_tail(out: &mut Vec<u8>, start: usize, plain: &mut Vec<u8>) {
    plain.clear();
    plain.extend_from_slice(&out[start..]);
    let length = in_base64(plain.len());
    out.resize(start + length, 0);
    let written = STANDARD.encode_slice(&plain, &mut out[start..]).expect("there is room for all of it");
    debug_assert_eq!(written, length);
}

/// Appends a number in decimal.
#[inline]
pub fn push_decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; LONGEST_NUMBER];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

fn push_signed(out: &mut Vec<u8>, number: i64) {
    if number < 0 {
        out.push(b'-');
    }
    push_decimal(out, number.unsigned_abs());
}

/// Appends a UUID (RFC 9562 §5.4). It consists of 122 random bits, the version and the variant.
fn push_uuid(out: &mut Vec<u8>, random: &mut Random) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bits = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
    let bits = bits & !(0xf << 76) & !(0b11 << 62) | 4 << 76 | 0b10 << 62;
    let mut text = [b'-'; UUID];
    let mut at = 0;
    for (index, byte) in bits.to_be_bytes().into_iter().enumerate() {
        at += usize::from(matches!(index, 4 | 6 | 8 | 10));
        text[at] = HEX[usize::from(byte >> 4)];
        text[at + 1] = HEX[usize::from(byte & 0xf)];
        at += 2;
    }
    out.extend_from_slice(&text);
}
