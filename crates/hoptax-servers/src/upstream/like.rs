//! Bodies that compress like real text and JSON. They are always the same.
//!
//! Words are drawn with Zipf's frequencies: the n-th word is n times as rare as the first one.

use hoptax_format::random::Random;
use hoptax_record::plan::BodyKind;
use std::fmt::Write as _;

/// Seed of the bodies. The bytes spell "body".
const SEED: u64 = 0x626f_6479;

const WORDS: &str = "the of and to in a is that for it was on are as with they be at one have this from by \
    not word but what some we can out other were all there when use your how each she which do their time \
    if will way about many then them write would like so these her long make thing see him two has look \
    more day could go come did number sound no most people my over know water than call first who may down \
    side been now find any new work part take get place made live where after back little only round man \
    year came show every good me give our under name very through just form sentence great think say help \
    low line differ turn cause much mean before move right boy old too same tell does set three want air \
    well also play small end put home read hand port large spell add even land here must big high such \
    follow act why ask men change went light kind off need house picture try again animal point mother \
    world near build self earth father head stand own page should country found answer school grow study \
    still learn plant cover food sun four between state keep eye never last let thought city tree cross \
    farm hard start might story saw far sea draw left late run while press close night real life few north \
    open seem together next white children begin got walk example ease paper group always music those both \
    mark often letter until mile river car feet care second book carry took science eat room friend began \
    idea fish mountain stop once base hear horse cut sure watch color face wood main enough plain girl \
    usual young ready above ever red list though feel talk bird soon body dog family direct pose leave song \
    measure door product black short numeral class wind question happen complete ship area half rock order \
    fire south problem piece told knew pass since top whole king space heard best hour better true during \
    hundred five remember step early hold west ground interest reach fast verb sing listen six table travel \
    less morning ten simple several vowel toward war lay against pattern slow center love person money \
    serve appear road map rain rule govern pull cold notice voice unit power town fine certain fly fall";

/// A body of this kind with exactly this many bytes.
pub(super) fn body(kind: BodyKind, size: usize) -> Vec<u8> {
    let mut source = Source::new();
    match kind {
        BodyKind::Text => source.text(size),
        BodyKind::Json => source.json(size),
    }
}

struct Source {
    random: Random,
    words: Vec<&'static str>,
    /// For each word, the sum of the weights up to it.
    weights: Vec<f64>,
}

impl Source {
    fn new() -> Self {
        let words: Vec<&str> = WORDS.split_whitespace().collect();
        let mut sum = 0.0;
        let weights = (1..=words.len()).map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        });
        Self { random: Random::new(SEED), weights: weights.collect(), words }
    }

    fn word(&mut self) -> &'static str {
        let at = self.random.unit() * self.weights[self.weights.len() - 1];
        self.words[self.weights.partition_point(|weight| *weight <= at).min(self.words.len() - 1)]
    }

    /// A sentence of 4 to 20 words.
    fn sentence(&mut self) -> String {
        let mut text = String::new();
        for at in 0..4 + self.random.below(17) {
            let word = self.word();
            match at {
                0 => text.extend(word[..1].to_uppercase().chars().chain(word[1..].chars())),
                _ => text.extend([if self.random.below(12) == 0 { ", " } else { " " }, word]),
            }
        }
        text + "."
    }

    /// Paragraphs of about five sentences.
    fn text(&mut self, size: usize) -> Vec<u8> {
        let mut text = String::new();
        while text.len() < size {
            text += &self.sentence();
            text += if self.random.below(5) == 0 { "\n\n" } else { " " };
        }
        text.truncate(size);
        text.into_bytes()
    }

    /// One object of a list, as an interface returns it.
    fn object(&mut self, id: usize) -> String {
        let (first, last, city) = (self.word(), self.word(), self.word());
        let (amount, day) = (self.random.below(1_000_000), self.random.below(28) + 1);
        let (month, second) = (self.random.below(12) + 1, self.random.below(86_400));
        let is_active = self.random.below(3) > 0;
        let mut text = String::new();
        let _ = write!(
            text,
            "{{\"id\":{},\"name\":\"{first} {last}\",\"email\":\"{first}.{last}@example.com\",\
             \"city\":\"{city}\",\
             \"active\":{is_active},\"amount\":{}.{:02},\
             \"created\":\"2026-{month:02}-{day:02}T{:02}:{:02}:{:02}Z\",\
             \"tags\":[\"{}\",\"{}\"],\"links\":{{\"self\":\"/users/{}\"}}}}",
            100_000 + id,
            amount / 100,
            amount % 100,
            second / 3600,
            second / 60 % 60,
            second % 60,
            self.word(),
            self.word(),
            100_000 + id,
        );
        text
    }

    /// A list of objects. A string fills the space that no object fits into. A single byte is a digit.
    fn json(&mut self, size: usize) -> Vec<u8> {
        if size < 2 {
            return b"1"[..size].to_vec();
        }
        let mut text = String::from("[");
        for id in 0.. {
            let object = self.object(id);
            // The comma and the closing bracket.
            if text.len() + object.len() + 2 > size {
                break;
            }
            if id > 0 {
                text.push(',');
            }
            text += &object;
        }
        let comma = if text.len() > 1 { "," } else { "" };
        match (size - text.len() - 1).checked_sub(comma.len() + 2) {
            Some(left) => {
                let words = String::from_utf8(self.text(left)).unwrap_or_default().replace('\n', " ");
                text.extend([comma, "\"", &words, "\""]);
            }
            None => text.extend(std::iter::repeat_n(' ', size - text.len() - 1)),
        }
        text.push(']');
        text.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write as _;

    /// The share that remains after `gzip -6`, in per cent.
    fn compressed(body: &[u8]) -> f64 {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
        encoder.write_all(body).expect("in memory");
        100.0 * encoder.finish().expect("in memory").len() as f64 / body.len() as f64
    }

    #[test]
    fn bodies_have_their_size_and_json_can_be_read() {
        for size in (0..600).chain([1024, 10_000, 65_536]) {
            let [text, json] = [BodyKind::Text, BodyKind::Json].map(|kind| body(kind, size));
            assert_eq!((text.len(), json.len()), (size, size));
            assert!(text.is_ascii());
            assert!(size == 0 || serde_json::from_slice::<serde_json::Value>(&json).is_ok(), "{size}");
            assert_eq!(body(BodyKind::Json, size), json, "always the same");
        }
    }

    #[test]
    fn bodies_compress_like_real_ones() {
        for (kind, stated) in
            [(BodyKind::Text, "text to 51, 41 and 36 %"), (BodyKind::Json, "JSON to 39, 23 and 19 %")]
        {
            let share = |size: usize| format!("{:.0}", compressed(&body(kind, size)));
            let [one, ten, hundred] = [1 << 10, 10 << 10, 100 << 10].map(share);
            assert_eq!(
                format!("{} to {one}, {ten} and {hundred} %", stated.split(' ').next().unwrap()),
                stated
            );
            let page = include_str!("../../../../docs/reference/plan.md").replace("\n ", "");
            assert!(page.contains(stated), "docs/reference/plan.md should say {stated}");
        }
        for (kind, range) in [(BodyKind::Text, 25.0..40.0), (BodyKind::Json, 10.0..20.0)] {
            let share = compressed(&body(kind, 100 << 10));
            assert!(range.contains(&share), "{kind:?}: {share}");
        }
    }
}
