//! Calculates the number of requests due as a function of time, and the inverse: the time at which a request
//! is due.
//!
//! The number of requests due is the area under the rate. It is counted in units of 1/[`REQUEST`] request. In
//! this unit, the area is always an integer, because rates are integers (requests per million seconds), times
//! are integers (nanoseconds), and the area of a ramp is half of the product of two integers. Errors do not
//! accumulate over stages, because each time is calculated from the start of its own stage.

use hoptax_format::clock::SECOND;
use hoptax_format::spec::Rate;

/// Number of seconds in the unit of stored rates. A rate is stored as an integer number of requests per
/// million seconds.
const RATE_UNIT: f64 = 1e6;
/// Number of units in one request: 2 × nanoseconds per second × [`RATE_UNIT`]. The factor 2 is needed because
/// the area of a ramp is half of a product.
pub(super) const REQUEST: u128 = 2 * SECOND as u128 * RATE_UNIT as u128;

#[derive(Debug, Clone, Copy)]
struct Segment {
    /// Number of units that are due before this stage.
    before: u128,
    /// Start of the stage, nanoseconds. `length` is the stage's duration.
    begins: u64,
    length: u64,
    /// Rate at the start of the stage, in requests per million seconds. `to` is the rate at the end of the
    /// stage.
    from: u64,
    to: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Schedule {
    segments: Box<[Segment]>,
    total: u128,
}

impl Schedule {
    /// Creates the schedule for `rate`. A fixed rate lasts for `length` nanoseconds. Stages have their own
    /// durations.
    pub(super) fn new(rate: &Rate, length: u64) -> Self {
        let mut schedule = Self { segments: Box::default(), total: 0 };
        let whole = |rate: f64| (rate * RATE_UNIT).round() as u64;
        let mut begins = 0;
        let mut segment = |from, to, length| {
            let segment =
                Segment { before: schedule.total, begins, length, from: whole(from), to: whole(to) };
            schedule.total += segment.area();
            begins = begins.saturating_add(length);
            segment
        };
        schedule.segments = match rate {
            Rate::Fixed(rate) => [segment(*rate, *rate, length)].into(),
            Rate::Stages(stages) => {
                stages.iter().map(|stage| segment(stage.from, stage.to, stage.for_ns)).collect()
            }
        };
        schedule
    }

    /// Total number of units that are due. A position is due only if it is below this number.
    pub(super) fn total(&self) -> u128 {
        self.total
    }

    /// Returns the last time at which at most `position` units are due, or `None` if the position is beyond
    /// the end of the schedule. If this time is in a pause, it is the end of the pause, because the number of
    /// units does not change during the pause. The request is then due together with the traffic that
    /// follows.
    pub(super) fn moment(&self, position: u128) -> Option<u64> {
        if position >= self.total {
            return None;
        }
        let next = self.segments.partition_point(|segment| segment.before <= position);
        let segment = &self.segments[next - 1];
        Some(segment.begins.saturating_add(segment.moment(position - segment.before)))
    }
}

impl Segment {
    fn area(&self) -> u128 {
        u128::from(self.from + self.to) * u128::from(self.length)
    }

    /// Time from the start of the stage until `due` units are due. `due` must be less than the area of the
    /// stage.
    ///
    /// At a constant rate, the time is an exact quotient, rounded down. In a ramp, it is accurate to a
    /// nanosecond if the stage is shorter than fifty days. This is the limit of double precision. The
    /// calculation starts at the slower end of the ramp, because the formula then does not subtract large
    /// numbers.
    fn moment(&self, due: u128) -> u64 {
        if self.from == self.to {
            return (due / (2 * u128::from(self.from))) as u64;
        }
        if self.from < self.to {
            return (self.past_slow_end(due) as u64).min(self.length - 1);
        }
        let left = self.past_slow_end(self.area() - due).ceil() as u64;
        self.length - left.clamp(1, self.length)
    }

    /// Time between the slower end of a ramp and the point at which `units` units are due, counted from that
    /// end. With the slower rate `s`, the difference of rates `d` and the length `l`, it is the solution `t`
    /// of `2·s·t + d·t²/l = units`. The formula is written without subtractions.
    fn past_slow_end(&self, units: u128) -> f64 {
        let (slow, more) = (self.from.min(self.to) as f64, self.from.abs_diff(self.to) as f64);
        let units = units as f64;
        units / (slow + (slow * slow + more * (units / self.length as f64)).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::random::Random;
    use hoptax_format::spec::Stage;

    fn stages(stages: &[(f64, f64, u64)]) -> Schedule {
        let stage = |&(from, to, for_ns)| Stage { from, to, for_ns };
        Schedule::new(&Rate::Stages(stages.iter().map(stage).collect()), 0)
    }

    /// Number of units due up to `moment`, rounded up, in integer arithmetic. Returns `None` on overflow.
    fn due(segments: &[Segment], moment: u64) -> Option<u128> {
        let mut sum = 0;
        for segment in segments {
            let time = u128::from(moment.saturating_sub(segment.begins).min(segment.length));
            let (from, to) = (u128::from(segment.from), u128::from(segment.to));
            let (bend, length) = (from.abs_diff(to).checked_mul(time * time)?, u128::from(segment.length));
            sum += if to >= from {
                2 * from * time + bend.div_ceil(length)
            } else {
                2 * from * time - bend / length
            };
        }
        Some(sum)
    }

    /// Reference implementation of [`Schedule::moment`], by binary search.
    fn slowly(schedule: &Schedule, position: u128) -> Option<u64> {
        let last = schedule.segments.last().expect("a segment");
        let (mut low, mut high) = (0, last.begins + last.length);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if due(&schedule.segments, middle)? <= position { low = middle } else { high = middle }
        }
        Some(low)
    }

    #[test]
    fn a_constant_stage_is_an_exact_quotient_at_any_position() {
        let alone = Schedule::new(&Rate::Fixed(3.0), 2000 * SECOND);
        let later = stages(&[(7.0, 7.0, 10 * SECOND), (0.0, 0.0, SECOND), (3.0, 3.0, 2000 * SECOND)]);
        for index in 0..6000_u64 {
            let exact = index * SECOND / 3;
            assert_eq!(alone.moment(u128::from(index) * REQUEST), Some(exact));
            assert_eq!(later.moment(u128::from(70 + index) * REQUEST), Some(11 * SECOND + exact));
        }
        assert_eq!(alone.moment(6000 * REQUEST), None);
    }

    #[test]
    fn requests_in_a_pause_are_due_at_its_end() {
        let schedule = stages(&[(10.0, 10.0, SECOND), (0.0, 0.0, 5 * SECOND), (10.0, 10.0, SECOND)]);
        assert_eq!(schedule.moment(9 * REQUEST), Some(9 * SECOND / 10));
        assert_eq!(schedule.moment(10 * REQUEST), Some(6 * SECOND));
        let ends_idle = stages(&[(10.0, 10.0, SECOND), (0.0, 0.0, 5 * SECOND)]);
        assert_eq!(ends_idle.moment(9 * REQUEST), Some(9 * SECOND / 10));
        assert_eq!(ends_idle.moment(10 * REQUEST), None);
        let begins_idle = stages(&[(0.0, 0.0, SECOND), (10.0, 10.0, SECOND)]);
        assert_eq!(begins_idle.moment(0), Some(SECOND));
    }

    #[test]
    fn a_ramp_follows_the_square_root() {
        // The rate rises from 0/s to 1000/s in 10 s: after t seconds, 50·t² requests are due.
        let up = stages(&[(0.0, 1000.0, 10 * SECOND)]);
        assert_eq!(up.total(), 5000 * REQUEST);
        for (index, moment) in [(0, 0), (50, SECOND), (200, 2 * SECOND), (1250, 5 * SECOND)] {
            let found = up.moment(index * REQUEST).expect("due");
            assert!(found.abs_diff(moment) <= 1, "{index} at {found}");
        }
        // The ramp down is the mirror image of the ramp up. The units that are not due yet at a time equal
        // the units that were due at the mirrored time.
        let down = stages(&[(1000.0, 0.0, 10 * SECOND)]);
        for (left, moment) in [(50, 9 * SECOND), (200, 8 * SECOND), (5000, 0)] {
            let found = down.moment((5000 - left) * REQUEST).expect("due");
            assert!(found.abs_diff(moment) <= 1, "{left} left at {found}");
        }
    }

    #[test]
    fn random_stages_agree_with_a_slow_reference_and_are_in_order() {
        let mut random = Random::new(23);
        let mut compared = 0;
        for _ in 0..300 {
            let mut parts = Vec::new();
            for _ in 0..=random.below(4) {
                let highest = [0.5, 30.0, 5000.0, 1e6][random.below(4) as usize];
                let from = if random.below(3) == 0 { 0.0 } else { random.unit() * highest };
                let to = match random.below(3) {
                    0 => from,
                    1 => from + 1e-6 * random.below(50) as f64,
                    _ => random.unit() * highest,
                };
                let longest = [1000, SECOND, 600 * SECOND][random.below(3) as usize];
                parts.push((from, to, 1 + random.below(longest)));
            }
            let schedule = stages(&parts);
            if schedule.total() == 0 {
                continue;
            }
            let scale = schedule.total() >> 20;
            let mut positions: Vec<u128> = (0..40)
                .map(|_| u128::from(random.below(1 << 20)) * scale + u128::from(random.below(1000)))
                .collect();
            // Where a ramp begins or ends at rate zero, a small change of the position changes the time a
            // lot.
            positions.extend([0, 1, REQUEST, schedule.total() - 1, schedule.total() / 2]);
            positions.retain(|position| *position < schedule.total());
            positions.sort_unstable();
            let mut before = 0;
            for position in positions {
                let moment = schedule.moment(position).expect("below the total");
                let Some(expected) = slowly(&schedule, position) else { continue };
                assert!(moment.abs_diff(expected) <= 1, "{parts:?}: {position} at {moment}, not {expected}");
                assert!(moment >= before, "{parts:?}: {moment} after {before}");
                before = moment;
                compared += 1;
            }
        }
        assert!(compared > 5000, "only {compared}");
    }

    #[test]
    fn the_longest_and_the_fastest_schedules_do_not_overflow() {
        let day = 86_400 * SECOND;
        let schedule = stages(&[(0.0, 1e7, 30 * day), (1e7, 1e7, 300 * day), (1e7, 0.0, 30 * day)]);
        let mut before = 0;
        for part in 0..1000 {
            let moment = schedule.moment(schedule.total() / 1000 * part).expect("due");
            assert!(moment >= before);
            before = moment;
        }
        // The ramp down takes 30 days. The last thousandth of all requests is due in its last √(2 · 30 ·
        // 0.33) days.
        assert!((before as f64 / day as f64 - (360.0 - 19.8_f64.sqrt())).abs() < 1e-6, "{before}");
        let endless = Schedule::new(&Rate::Fixed(1e7), u64::MAX);
        assert_eq!(endless.moment(u128::from(u64::MAX / 200) * REQUEST), Some(u64::MAX / 200 * 100));
    }
}
