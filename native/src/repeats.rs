// SPDX-License-Identifier: MIT
//! Segments of one side that it sent again: `retransmissions` of `fingerprint/passive/retransmissions.py`, which has the
//! meaning, in one pass over each connection.
#![forbid(unsafe_code)]

use crate::limits::{FIN, NEVER, PROBE_RTTS, RST, SACKED, SYN, TIMER_NS};

// Bits of fingerprint/passive/columns.py.
const STAMPED: u8 = 1;
const DSACKED: u8 = 64;
// Indices in `KINDS`, and the constants of retransmissions.py.
const RTO: i64 = 0;
const TLP: i64 = 1;
const FAST: i64 = 2;
const UNNEEDED: i64 = 3;
const OTHER: i64 = 4;
const REORDERED: i64 = 5;
const HOLE: i64 = 6;
const OVERTAKEN_RTTS: f64 = 0.75;
const OVERTAKEN_NS: f64 = 3_000_000.0;

/// Columns over rows, in the order of connections.
pub struct Rows<'a> {
    pub at: &'a [i64],
    pub ack: &'a [i64],
    pub length: &'a [i32],
    pub tsval: &'a [u32],
    pub flags: &'a [u16],
    pub window: &'a [u16],
    pub bits: &'a [u8],
    pub theirs: &'a [u8],
}

/// The side's segments: `Sent` of retransmissions.py; `copies`: cut otherwise on another interface.
pub struct Sent<'a> {
    pub row: &'a [i64],
    pub start: &'a [i64],
    pub end: &'a [i64],
    pub top: &'a [i64],
    pub old: &'a [u8],
    pub full: &'a [u8],
    pub copies: &'a [u8],
}

/// Columns over connections: first row, row after the last, round trip (ns, 0: unknown), whether SACK was agreed.
pub struct Facts<'a> {
    pub begin: &'a [i64],
    pub end: &'a [i64],
    pub rtt: &'a [i64],
    pub sack: &'a [u8],
}

/// The other side's acknowledgements so far: `Acked`.
struct Acked {
    una: i64,
    duplicates: i64,
    heard: Option<i64>,
    closed: bool,
}

/// The side's last segment: its payload, and whether the other's window was closed before it.
#[derive(Default)]
struct Last {
    length: i32,
    closed: bool,
}

/// A segment that repeats, or leaves a hole: `_Event`, with the silence before it.
struct Event {
    start: i64,
    end: i64,
    top: i64,
    at: i64,
    silence: i64,
    una: i64,
    duplicates: i64,
    tsval: u32,
    stamped: bool,
    rtt: i64,
    sack: bool,
}

/// The holes of one side of a connection (begin, end, time, stamp), and its recovery: `_Recovery`.
struct Recovery {
    holes: Vec<(i64, i64, i64, u32)>,
    recover: i64,
    repaired: i64,
    probed: i64,
}

/// Fill in the numbers of segments in `sent` that repeat or leave a hole, and their kinds; return how many.
pub fn find(rows: &Rows, sent: &Sent, facts: &Facts, places: &mut [i64], kinds: &mut [i64]) -> usize {
    let (mut found, mut number) = (0, 0);
    for one in 0..facts.begin.len() {
        let (begin, end) = (facts.begin[one] as usize, facts.end[one] as usize);
        let mut acked = Acked { una: NEVER, duplicates: 0, heard: None, closed: false };
        let mut recovery = Recovery { holes: Vec::new(), recover: NEVER, repaired: NEVER, probed: NEVER };
        let (mut last, mut previous) = (Last::default(), 0);
        for row in begin..end {
            if rows.theirs[row] != 0 {
                hear(rows, row, &mut acked);
                continue;
            }
            if sent.row.get(number) != Some(&(row as i64)) {
                continue;
            }
            let (start, stop, top) = (sent.start[number], sent.end[number], sent.top[number]);
            let hole = start > top && top > NEVER;
            let probed = start == top - 1 && stop > top && last.length == 1 && last.closed;
            let again = sent.old[number] != 0 && stop > 1 && !probed && sent.copies[number] == 0;
            if hole || again {
                let at = rows.at[row];
                let heard = acked.heard.unwrap_or(rows.at[begin]).min(at);
                let event = Event {
                    start,
                    end: stop,
                    top,
                    at,
                    silence: at - heard.max(previous),
                    una: acked.una,
                    duplicates: acked.duplicates,
                    tsval: rows.tsval[row],
                    stamped: rows.bits[row] & STAMPED != 0,
                    rtt: facts.rtt[one],
                    sack: facts.sack[one] != 0,
                };
                places[found] = number as i64;
                kinds[found] = if hole { recovery.open(&event) } else { recovery.classify(&event) };
                found += 1;
            }
            last = Last { length: rows.length[row], closed: acked.closed };
            if sent.full[number] != 0 {
                previous = rows.at[row];
            }
            number += 1;
        }
    }
    found
}

/// Take an acknowledgement of the other side in: `acked_before`.
fn hear(rows: &Rows, row: usize, acked: &mut Acked) {
    let (ack, flags, bits) = (rows.ack[row], rows.flags[row], rows.bits[row]);
    if ack <= NEVER {
        return;
    }
    let plain = rows.length[row] == 0 && flags & (SYN | FIN | RST) == 0 && bits & DSACKED == 0;
    if ack > acked.una {
        (acked.una, acked.duplicates) = (ack, 0);
    } else {
        acked.duplicates += i64::from((plain && ack == acked.una) || bits & SACKED != 0);
    }
    acked.heard = Some(rows.at[row]);
    acked.closed = rows.window[row] == 0;
}

impl Recovery {
    fn open(&mut self, event: &Event) -> i64 {
        self.holes.push((event.top, event.start, event.at, event.tsval));
        HOLE
    }

    fn classify(&mut self, event: &Event) -> i64 {
        if self.overtaken(event) {
            REORDERED
        } else {
            self.cause(event)
        }
    }

    /// Fill the hole that the segment lies in; return whether it is no repeat: `_overtaken`.
    fn overtaken(&mut self, event: &Event) -> bool {
        let after = self.holes.partition_point(|hole| hole.0 <= event.start);
        let place = match after.checked_sub(1) {
            Some(place) if event.start < self.holes[place].1 => place,
            _ => return false,
        };
        let (low, high, seen_at, seen_tsval) = self.holes[place];
        let rest = [(low, event.start), (event.end, high)];
        let parts = rest.iter().filter(|part| part.0 < part.1).map(|part| (part.0, part.1, seen_at, seen_tsval));
        self.holes.splice(place..=place, parts);
        let older = if event.stamped { event.tsval.wrapping_sub(seen_tsval) as i32 } else { 0 };
        let soon = if event.rtt > 0 { OVERTAKEN_RTTS * event.rtt as f64 } else { OVERTAKEN_NS };
        older < 0 || (older == 0 && ((event.at - seen_at) as f64) < soon)
    }

    fn cause(&mut self, event: &Event) -> i64 {
        let fresh = event.duplicates == 0;
        if event.end <= event.una {
            return UNNEEDED;
        }
        let patience = if event.rtt > 0 { PROBE_RTTS * event.rtt as f64 } else { TIMER_NS as f64 };
        let tail = event.end == event.top && event.sack && fresh && self.probed != event.top;
        if tail && event.silence as f64 >= patience {
            self.probed = event.top;
            return TLP;
        }
        let expired = event.silence >= TIMER_NS + event.rtt;
        if expired && event.start <= event.una.max(1) {
            self.recover = event.top;
            return RTO;
        }
        if event.start < self.recover && fresh {
            return RTO;
        }
        if !fresh || (event.start < self.repaired && !expired) {
            self.repaired = self.repaired.max(event.top);
            return FAST;
        }
        if expired {
            RTO
        } else {
            OTHER
        }
    }
}
