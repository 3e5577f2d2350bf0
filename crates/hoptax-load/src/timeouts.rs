//! Deadlines of connects and requests: a linked list through arrays that are indexed by slot.
//!
//! All timeouts of a trial are equal, so the order in which they are armed is the order in which they run out: a first
//! in, first out line is a priority queue here, and arming and disarming are a few stores.

const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Link {
    before: u32,
    after: u32,
    armed_at: u64,
}

/// The armed timeouts of one worker's slots; each slot has at most one.
#[derive(Debug)]
pub(crate) struct Timeouts {
    timeout: u64,
    links: Vec<Link>,
    first: u32,
    last: u32,
}

/// `before` of a slot that is not armed; the first in line has [`NONE`] there.
const DISARMED: u32 = u32::MAX - 1;

impl Timeouts {
    /// No slot armed; each timeout is `timeout` long.
    pub(crate) fn new(slots: usize, timeout: u64) -> Self {
        let link = Link { before: DISARMED, after: NONE, armed_at: 0 };
        Self { timeout, links: vec![link; slots], first: NONE, last: NONE }
    }

    /// Arms `slot` at `now`, which must not be before any earlier arming.
    pub(crate) fn arm(&mut self, slot: u32, now: u64) {
        debug_assert!(self.links[slot as usize].before == DISARMED, "slot {slot} is armed already");
        self.links[slot as usize] = Link { before: self.last, after: NONE, armed_at: now };
        match self.last {
            NONE => self.first = slot,
            last => self.links[last as usize].after = slot,
        }
        self.last = slot;
    }

    /// Disarms `slot`; one that is not armed is left alone.
    pub(crate) fn disarm(&mut self, slot: u32) {
        let Link { before, after, .. } = self.links[slot as usize];
        if before == DISARMED {
            return;
        }
        match before {
            NONE => self.first = after,
            before => self.links[before as usize].after = after,
        }
        match after {
            NONE => self.last = before,
            after => self.links[after as usize].before = before,
        }
        self.links[slot as usize].before = DISARMED;
    }

    /// When the next timeout runs out.
    pub(crate) fn next(&self) -> Option<u64> {
        (self.first != NONE).then(|| self.links[self.first as usize].armed_at.saturating_add(self.timeout))
    }

    /// Disarms and names a slot whose timeout has run out at `now`.
    pub(crate) fn expire(&mut self, now: u64) -> Option<u32> {
        let slot = self.first;
        self.next().filter(|deadline| *deadline <= now)?;
        self.disarm(slot);
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expired(timeouts: &mut Timeouts, now: u64) -> Vec<u32> {
        std::iter::from_fn(|| timeouts.expire(now)).collect()
    }

    #[test]
    fn run_out_in_the_order_of_arming() {
        let mut timeouts = Timeouts::new(4, 100);
        for (slot, now) in [(2, 10), (0, 20), (3, 20), (1, 30)] {
            timeouts.arm(slot, now);
        }
        assert_eq!(timeouts.next(), Some(110));
        assert!(expired(&mut timeouts, 109).is_empty());
        assert_eq!(expired(&mut timeouts, 120), [2, 0, 3]);
        assert_eq!(timeouts.next(), Some(130));
        assert_eq!(expired(&mut timeouts, u64::MAX), [1]);
        assert_eq!(timeouts.next(), None);
    }

    #[test]
    fn disarming_mends_the_line_wherever_it_is_cut() {
        for cut in 0..3 {
            let mut timeouts = Timeouts::new(3, 5);
            (0..3).for_each(|slot| timeouts.arm(slot, u64::from(slot)));
            timeouts.disarm(cut);
            timeouts.disarm(cut);
            timeouts.arm(cut, 9);
            let expected: Vec<u32> = (0..3).filter(|slot| *slot != cut).chain([cut]).collect();
            assert_eq!(expired(&mut timeouts, 100), expected);
        }
    }

    #[test]
    fn follows_a_plain_model_over_many_steps() {
        let mut random = crate::random::Random::new(11);
        let mut timeouts = Timeouts::new(20, 50);
        let mut model: Vec<(u64, u32)> = Vec::new();
        for now in 0..5000 {
            let slot = random.below(20) as u32;
            if random.below(3) == 0 {
                timeouts.disarm(slot);
                model.retain(|(_, other)| *other != slot);
            } else if model.iter().all(|(_, other)| *other != slot) {
                timeouts.arm(slot, now);
                model.push((now, slot));
            }
            assert_eq!(timeouts.next(), model.first().map(|(at, _)| at + 50));
            while let Some(slot) = timeouts.expire(now) {
                assert_eq!(model.remove(0).1, slot);
            }
        }
    }
}
