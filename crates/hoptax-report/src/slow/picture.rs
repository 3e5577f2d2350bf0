//! A picture of the slowest requests: a lane for the causes, for each thread of a role, and for each CPU.

use super::trace::pieces;
use crate::words::format::Scale;
use hoptax_record::report::SlowFigures;
use hoptax_record::tail::{Doing, SlowRequest, TailCause, TailKind};
use minijinja::HtmlEscape;
use std::fmt::Write as _;

/// Sizes, in pixels.
const WIDTH: f64 = 760.0;
const LABELS: f64 = 170.0;
const LANE: f64 = 16.0;
const GAP: f64 = 3.0;
const HEAD: f64 = 18.0;

/// Shortest span that is drawn, in pixels.
const LEAST: f64 = 0.4;

/// Colours of what threads do, and of what had a CPU.
const RUNNING: &str = "#4c78a8";
const READY: &str = "#e45756";
const HELD: &str = "#9d9d9d";

/// The pictures, one below the other. Empty without slow requests.
pub(super) fn svg(one: &SlowFigures) -> String {
    one.slowest
        .iter()
        .enumerate()
        .map(|(rank, (request, causes))| of_request(rank, request, causes))
        .collect()
}

fn colour(kind: TailKind) -> &'static str {
    match kind {
        TailKind::Running => RUNNING,
        TailKind::Neighbour => "#f58518",
        TailKind::Waiting => READY,
        TailKind::Asleep => "#b279a2",
        TailKind::Connection => "#eeca3b",
        TailKind::Nobody => "#54a24b",
        TailKind::Unknown => "#bab0ac",
    }
}

/// A drawing of a request that grows by lanes.
struct Drawing {
    text: String,
    /// Pixels of a nanosecond.
    scale: f64,
    top: f64,
}

impl Drawing {
    fn lane(&mut self, name: &str) {
        let middle = self.top + LANE * 0.75;
        let name: String = name.chars().take(26).collect();
        let _ = write!(
            self.text,
            "<text x=\"0\" y=\"{middle:.1}\" font-size=\"11\" fill=\"currentColor\">{}</text>",
            HtmlEscape(&name)
        );
    }

    fn span(&mut self, (from, to): (u64, u64), colour: &str, name: &str) {
        let width = (to - from) as f64 * self.scale;
        if width < LEAST {
            return;
        }
        let (left, top, height) = (LABELS + from as f64 * self.scale, self.top, LANE - GAP);
        let us = (to - from) as f64 / 1e3;
        let _ = write!(
            self.text,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             fill=\"{colour}\"><title>{}: {}</title></rect>",
            HtmlEscape(name),
            Scale::of_us(us).value(us)
        );
    }

    fn end_lane(&mut self) {
        self.top += LANE;
    }
}

fn of_request(rank: usize, request: &SlowRequest, causes: &[TailCause]) -> String {
    let length = request.moment.response_time().max(1);
    let scale = (WIDTH - LABELS) / length as f64;
    let mut drawing = Drawing { text: String::new(), scale, top: HEAD };
    drawing.lane("cause");
    let kinds = request.pieces.iter().filter_map(|(cause, _)| Some(causes.get(*cause as usize)?.kind));
    for ((from, to, name), kind) in pieces(request, causes).into_iter().zip(kinds) {
        drawing.span((from, to), colour(kind), &name);
    }
    drawing.end_lane();
    for lane in &request.lanes {
        drawing.lane(&format!("{}: {}", lane.role.name(), lane.thread));
        for (from, to, doing) in &lane.spans {
            match doing {
                Doing::Running => drawing.span((*from, *to), RUNNING, "runs"),
                Doing::Ready => drawing.span((*from, *to), READY, "is ready, and has no CPU"),
                Doing::Asleep => {}
            }
        }
        drawing.end_lane();
    }
    for lane in &request.cpus {
        drawing.lane(&format!("CPU {}", lane.cpu));
        for (from, to, name) in &lane.spans {
            drawing.span((*from, *to), HELD, name);
        }
        drawing.end_lane();
    }
    let (height, us) = (drawing.top, length as f64 / 1e3);
    let title = format!("{}. {}", rank + 1, Scale::of_us(us).value(us));
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"Slow request {title}\"><text \
         x=\"0\" y=\"12\" font-size=\"12\" font-weight=\"bold\" fill=\"currentColor\">{title}</text>{}</svg>\n",
        drawing.text
    )
}
