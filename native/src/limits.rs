// SPDX-License-Identifier: MIT
//! Rows -> each connection's time, shared out by what limited it: `share_time` of `fingerprint/passive/limits.py`, which
//! has the meaning. Of each connection's rows, one pass finds what needs all of them, and a second one adds up.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

// Flags of TCP: configtron/model/nouns.py; bits and NEVER: fingerprint/passive/columns.py and connections.py.
pub const FIN: u16 = 1;
pub const SYN: u16 = 2;
pub const RST: u16 = 4;
pub const SACKED: u8 = 2;
const COUNTED: u8 = 16;
pub const NEVER: i64 = -(1 << 60);
// `LIMITS`, and the constants below them, of limits.py.
pub const LIMITS: usize = 14;
const HANDSHAKE: usize = 0;
const SERVER: usize = 1;
const CLIENT: usize = 2;
const WINDOW: usize = 3;
const SENDER: usize = 4;
const CONGESTION: usize = 5;
const TIMEOUT: usize = 6;
const PROBE: usize = 7;
const FAST: usize = 8;
const LOSS: usize = 9;
const MTU: usize = 10;
const TRIP: usize = 11;
const END: usize = 12;
const UNKNOWN: usize = 13;
// By cause (`CAUSES` of retransmissions.py): rto, tlp, fast, unneeded, other.
const OF_CAUSE: [usize; 5] = [TIMEOUT, PROBE, FAST, LOSS, LOSS];
const RTO_CAUSE: i8 = 0;
const FAST_CAUSE: i8 = 2;
const SOON_DIVISOR: i64 = 8;
const PACED_DIVISOR: i64 = 4;
const SOON_NS: i64 = 1_000_000;
pub const TIMER_NS: i64 = 90_000_000;
pub const PROBE_RTTS: f64 = 1.4;
const LEAST_FULL: i64 = 512;
const STUCK_MOST: usize = 2;
const LEVEL_FLIGHTS: i64 = 4;
const LOST_FLIGHT: i64 = 1 << 60;
const ABSENT: i64 = -1;
const LOST_MOST: i64 = 1000;
const ASKED_LOST: i64 = 2;
// Sums and differences of two times below this fit into 64 bits.
const TIME_MOST: i64 = 1 << 62;

/// Columns over rows, in the order of connections; `cause`: of a repeat (-1: none); `alive`: a keep-alive.
pub struct Rows<'a> {
    pub at: &'a [i64],
    pub frame: &'a [i64],
    pub seq: &'a [i64],
    pub ack: &'a [i64],
    pub length: &'a [i32],
    pub flags: &'a [u16],
    pub window: &'a [u16],
    pub ident: &'a [u16],
    pub bits: &'a [u8],
    pub server: &'a [u8],
    pub cause: &'a [i8],
    pub alive: &'a [u8],
}

/// Columns over connections, as `share_time` names them; `unmerged`: gaps in the identification count.
pub struct Facts<'a> {
    pub begin: &'a [i64],
    pub end: &'a [i64],
    pub ended: &'a [i64],
    pub late: &'a [i64],
    pub rtt: &'a [i64],
    pub scale: &'a [i64],
    pub segment: &'a [i64],
    pub agreed: &'a [i64],
    pub main: &'a [u8],
    pub sack: &'a [u8],
    pub opened: &'a [u8],
    pub told: &'a [u8],
    pub unmerged: &'a [u8],
}

/// Results by connection and limit; `past` by connection, in and out.
pub struct Shares<'a> {
    pub ns: &'a mut [i64],
    pub times: &'a mut [i64],
    pub first: &'a mut [i64],
    pub last: &'a mut [i64],
    /// In: after the earlier parts; out: after this one. `PAST` of limits.py.
    pub past: &'a mut [[i64; 2]],
}

/// The state at the main sender before a row: `_Flow` of limits.py. Where something was not yet seen, it is None.
#[derive(Clone, Copy, Default)]
struct State {
    tops: [i64; 2],
    acks: [i64; 2],
    /// Right edge of the window, and when the ACK that brought it came.
    heard: Option<(i64, i64)>,
    /// Who sent the last data, and when; when the main sender did, and how much.
    spoke: Option<(bool, i64)>,
    wrote: Option<(i64, i64)>,
    /// Limit and length of the main sender's last repeat; the highest number that it had sent by then.
    repeated: Option<(usize, i64)>,
    recover: i64,
    closed: bool,
    shrunk: bool,
    answered: bool,
}

/// A row that waits for the next data, and the state before it.
#[derive(Clone, Copy)]
struct Wait {
    place: usize,
    row: usize,
    at: i64,
    by_main: bool,
    before: State,
}

/// The data that ends a wait.
struct Next {
    row: usize,
    at: i64,
    by_main: bool,
    before: State,
    lost: i64,
    level: bool,
}

/// What all rows of a connection show together.
#[derive(Default)]
struct Whole {
    /// Rows of main that count, ACKs of the other side, rows of the client.
    sides: [usize; 3],
    shared: i64,
    /// Whether the IPv4 identification counts packets.
    counts: bool,
    /// Where the largest flight grew: place, bytes acknowledged, the flight.
    growths: Vec<(usize, i64, i64)>,
    /// `PAST` of limits.py, after the earlier parts.
    past: [i64; 2],
    /// Bytes acknowledged at the main sender's last data.
    final_acks: i64,
    /// Whether a loss made the congestion window smaller.
    shrunk: bool,
    /// Whether the last number sent is acknowledged.
    done: bool,
    /// A hole that full segments never fill: its place, its first number, how far it was sent.
    hole: Option<(usize, i64, i64)>,
}

/// Fill in the shares of all connections and renew `past`; None where a time is too large.
pub fn share(rows: &Rows, facts: &Facts, into: &mut Shares) -> Option<()> {
    let mut longest = 0;
    for one in 0..facts.begin.len() {
        for row in facts.begin[one]..facts.end[one] {
            let (at, first) = (rows.at[row as usize], rows.at[facts.begin[one] as usize]);
            if !(0..TIME_MOST).contains(&at.max(facts.late[one])) {
                return None;
            }
            longest = longest.max(at + late(rows, facts, one, row as usize) - first);
        }
    }
    let clipped = (i128::from(longest) + 1) * (facts.begin.len() as i128) < i128::from(TIME_MOST);
    let mut order = Vec::new();
    for one in 0..facts.begin.len() {
        sort(rows, facts, one, clipped, &mut order);
        let whole = survey(rows, facts, one, &order, into.past[one]);
        let (flight, grown) = whole.growths.last().map_or((whole.past[0], whole.past[1]), |last| (last.2, last.1));
        into.past[one] = [if whole.shrunk { LOST_FLIGHT } else { flight }, grown];
        Sharing { rows, facts, one, whole: &whole, into, now: 0, code: LIMITS, hop: None }.run(&order);
    }
    Some(())
}

fn by_main(rows: &Rows, facts: &Facts, one: usize, row: usize) -> bool {
    (rows.server[row] != 0) == (facts.main[one] != 0)
}

/// How much later the main sender sees a row.
fn late(rows: &Rows, facts: &Facts, one: usize, row: usize) -> i64 {
    if by_main(rows, facts, one, row) {
        0
    } else {
        facts.late[one]
    }
}

/// Put a connection's rows into the order in which the main sender saw them; `clipped`: none before the first row.
fn sort(rows: &Rows, facts: &Facts, one: usize, clipped: bool, order: &mut Vec<(i64, usize)>) {
    let (begin, end) = (facts.begin[one] as usize, facts.end[one] as usize);
    let first = rows.at[begin];
    let key = |at: i64| if clipped { (at - first).max(0) } else { at };
    // Each side's rows are nearly in order: they are merged, so that the sort has next to nothing to do.
    let (mut theirs, late) = (VecDeque::new(), facts.late[one]);
    order.clear();
    for row in begin..end {
        let at = rows.at[row];
        if !by_main(rows, facts, one, row) {
            theirs.push_back((at + late, row));
            continue;
        }
        while theirs.front().map_or(false, |&(earlier, _)| key(earlier) <= key(at)) {
            order.extend(theirs.pop_front());
        }
        order.push((at, row));
    }
    order.extend(theirs);
    order.sort_by_key(|&(at, row)| (key(at), row));
}

/// What a row's header says.
struct Segment {
    counts: bool,
    told: bool,
    data: bool,
    length: i64,
    end: i64,
}

fn segment(rows: &Rows, row: usize) -> Segment {
    let (flags, length) = (rows.flags[row], i64::from(rows.length[row]));
    let counts = flags & RST == 0 && (flags & SYN == 0 || rows.seq[row] == 0);
    Segment {
        counts,
        told: counts && rows.ack[row] > NEVER,
        data: counts && length > 0 && rows.alive[row] == 0,
        length,
        end: rows.seq[row] + length + i64::from(flags & (SYN | FIN) != 0),
    }
}

/// The step of the identification since the main sender's row before, and the packets missing between: `_lost`.
fn gap(rows: &Rows, facts: &Facts, one: usize, row: usize, before: Option<usize>) -> (i64, i64) {
    before.map_or((0, 0), |before| {
        let step = i64::from(rows.ident[row].wrapping_sub(rows.ident[before]));
        // How many packets a merged frame held is not known.
        (step, if i64::from(rows.length[before]) > facts.segment[one] { 0 } else { step - 1 })
    })
}

/// Whether an earlier part of the connection has counted the row.
fn counted(rows: &Rows, row: usize) -> bool {
    rows.bits[row] & COUNTED != 0
}

/// Whether a repeat shows that the congestion window became smaller.
fn shrinks(rows: &Rows, row: usize, main: bool) -> bool {
    main && !counted(rows, row) && (rows.cause[row] == RTO_CAUSE || rows.cause[row] == FAST_CAUSE)
}

/// Find what needs all rows.
fn survey(rows: &Rows, facts: &Facts, one: usize, order: &[(i64, usize)], past: [i64; 2]) -> Whole {
    let mut whole = Whole { shared: rows.at[facts.begin[one] as usize], past, ..Whole::default() };
    let (mut tops, mut acks, mut most) = ([0i64; 2], 0i64, past[0]);
    // Rows kept from an earlier part have gaps between them: what they acknowledge counts from the first row on.
    let kept = order.iter().map(|&(_, row)| row);
    let kept = kept.filter(|&row| counted(rows, row) && !by_main(rows, facts, one, row) && segment(rows, row).told);
    let kept = kept.map(|row| rows.ack[row]).max().unwrap_or(0);
    let (mut before, mut turn, mut turns, mut steady) = (None, true, 0, 0);
    let (mut first, mut sends, mut smaller): (Option<(usize, i64)>, usize, Option<(i64, i64)>) = (None, 0, None);
    let (mut sacked, mut heard, mut deaf) = (false, false, false);
    let size = facts.segment[one];
    for (place, &(_, row)) in order.iter().enumerate() {
        let (seen, main) = (segment(rows, row), by_main(rows, facts, one, row));
        let fresh = seen.end > tops[1];
        if seen.counts {
            let top = &mut tops[usize::from(!main)];
            *top = seen.end.max(*top);
        }
        if seen.told && !main {
            acks = acks.max(rows.ack[row]);
        }
        let acked = acks.max(kept);
        if main && !counted(rows, row) && tops[0] - acked > most {
            most = tops[0] - acked;
            whole.growths.push((place, acked, most));
        }
        if place == 0 && past[1] == ABSENT {
            whole.past[1] = acked;
        }
        if place == 0 || main && seen.data {
            whole.final_acks = acked;
        }
        whole.shrunk |= shrinks(rows, row, main);
        if counted(rows, row) {
            whole.shared = whole.shared.max(rows.at[row]);
        }
        whole.sides[0] += usize::from(main && seen.counts);
        whole.sides[1] += usize::from(!main && seen.told);
        whole.sides[2] += usize::from(main != (facts.main[one] != 0));
        if main {
            let (step, gap) = gap(rows, facts, one, row, before);
            if step > 0 && gap < LOST_MOST && turn {
                turns += 1;
                steady += usize::from(gap == 0);
            }
            before = Some(row);
        }
        turn = !main;
        let full = main && seen.data && seen.length >= size && size >= LEAST_FULL;
        if let Some((_, start)) = first {
            sends += usize::from(full && rows.seq[row] == start);
            if main && seen.data && !full && rows.seq[row] <= start && seen.end > start && smaller.is_none() {
                smaller = Some((acks, tops[0]));
            }
            sacked |= !main && rows.bits[row] & SACKED != 0;
            heard |= !main && fresh;
            deaf |= !main && rows.cause[row] >= 0;
        } else if full && acks <= rows.seq[row] {
            (first, sends) = (Some((place, rows.seq[row])), 1);
        }
    }
    whole.counts = steady > 0 && steady * 2 >= turns && facts.unmerged[one] != 0;
    whole.done = acks >= tops[0];
    whole.hole = first.and_then(|(place, start)| {
        let passes = sacked || (smaller.is_some() && acks > start) || (heard && !deaf);
        let (acked, sent) = smaller.unwrap_or((acks, tops[0]));
        let hole = (facts.told[one] != 0 || (sends > STUCK_MOST && passes)) && acked <= start;
        hole.then_some((place, start, sent))
    });
    whole
}

/// One connection's time being shared out.
struct Sharing<'a, 'b> {
    rows: &'a Rows<'a>,
    facts: &'a Facts<'a>,
    one: usize,
    whole: &'a Whole,
    into: &'a mut Shares<'b>,
    now: i64,
    code: usize,
    /// The frame that ends the handshake, where it travelled.
    hop: Option<i64>,
}

impl Sharing<'_, '_> {
    fn run(&mut self, order: &[(i64, usize)]) {
        let (rows, facts, one) = (self.rows, self.facts, self.one);
        let (mut state, mut waits, mut before, mut growth) = (State::default(), Vec::new(), None, 0);
        self.now = self.whole.shared;
        for (place, &(at, row)) in order.iter().enumerate() {
            let (seen, main) = (segment(rows, row), by_main(rows, facts, one, row));
            let cause = usize::try_from(rows.cause[row]).ok();
            waits.push(Wait { place, row, at, by_main: main, before: state });
            let lost = if main { gap(rows, facts, one, row, before).1 } else { 0 };
            if main {
                before = Some(row);
            }
            if seen.data || cause.is_some() {
                let lost = if self.whole.counts && lost < LOST_MOST { lost.max(0) } else { 0 };
                let level = !state.shrunk && self.level(place, &mut growth);
                let next = Next { row, at, by_main: main, before: state, lost, level };
                waits.drain(..).for_each(|wait| self.add(&wait, Some(&next), order[0].0));
            }
            if seen.counts {
                let top = &mut state.tops[usize::from(!main)];
                *top = seen.end.max(*top);
            }
            if seen.told {
                let acked = &mut state.acks[usize::from(main)];
                *acked = rows.ack[row].max(*acked);
                if !main {
                    let shift = if rows.flags[row] & SYN == 0 { facts.scale[one].max(0) } else { 0 };
                    state.heard = Some((rows.ack[row] + (i64::from(rows.window[row]) << shift), at));
                }
            }
            if seen.data {
                state.spoke = Some((main, at));
            }
            if seen.data && main {
                state.wrote = Some((at, seen.length));
            }
            if let (Some(cause), true) = (cause, main) {
                state.repeated = Some((OF_CAUSE[cause], seen.length));
                state.recover = state.recover.max(state.tops[0]);
                state.shrunk |= shrinks(rows, row, main);
            }
            state.closed |= rows.flags[row] & (FIN | RST) != 0;
            state.answered |= rows.server[row] == 0 && rows.flags[row] & SYN == 0;
        }
        waits.drain(..).for_each(|wait| self.add(&wait, None, order[0].0));
        if let Some(frame) = self.hop {
            let place = one * LIMITS + TRIP;
            self.into.first[place] = frame;
            self.into.last[place] = self.into.last[place].max(frame);
        }
    }

    /// Whether the flight stays the same while LEVEL_FLIGHTS times as much is delivered; the caller excludes losses.
    fn level(&self, place: usize, growth: &mut usize) -> bool {
        let growths = &self.whole.growths;
        while growths.get(*growth).map_or(false, |one| one.0 < place) {
            *growth += 1;
        }
        let since = growth.checked_sub(1).map(|last| growths[last]);
        let until = growths.get(*growth);
        let grew = until.filter(|one| one.0 == place).copied().or(since);
        let [flight, grown] = self.whole.past;
        let most = grew.map_or(flight, |one| one.2);
        let delivered = until.map_or(self.whole.final_acks, |one| one.1) - since.map_or(grown, |one| one.1);
        delivered > LEVEL_FLIGHTS * most
    }

    /// What the connection waited for before a row: `codes` of limits.py. `next` ends the wait; None: nothing does.
    fn limit(&self, wait: &Wait, next: Option<&Next>, first_at: i64) -> usize {
        let (rows, facts, one, whole) = (self.rows, self.facts, self.one, self.whole);
        let server = facts.main[one] != 0;
        let (rtt, size, state) = (facts.rtt[one], facts.segment[one], &wait.before);
        let turn = if server { [SERVER, CLIENT] } else { [CLIENT, SERVER] };
        let flight = state.tops[0] - state.acks[0];
        let other_flight = state.tops[1] - state.acks[1];
        let edge = state.heard.filter(|_| facts.scale[one] >= 0);
        let room = edge.map_or(i64::MAX, |(edge, _)| edge - state.tops[0]);
        let early = facts.opened[one] != 0 && whole.sides[2] > 0 && !state.answered;
        if early {
            return HANDSHAKE;
        }
        if wait.place == 0 && !wait.by_main {
            return TRIP;
        }
        if let Some((place, start, sent)) = whole.hole {
            if wait.place > place && (state.acks[0] <= start || state.acks[0] < sent.min(state.recover)) {
                return MTU;
            }
        }
        if whole.sides[0] == 0 || whole.sides[1] == 0 {
            return UNKNOWN;
        }
        let closing = flight <= 1 && other_flight <= 1;
        let repair = |(limit, length): (usize, i64)| {
            let limit = if closing && length == 0 { END } else { limit };
            // a tail loss probe shows no loss while the window is full
            if room < size && limit == PROBE {
                WINDOW
            } else {
                limit
            }
        };
        if let Some(last) = state.repeated.filter(|_| state.acks[0] < state.recover) {
            return repair(last);
        }
        let (idle, asked) = (flight <= 0, !state.spoke.map_or(false, |(main, _)| main));
        let next = match next {
            Some(next) => next,
            None => {
                let waits = state.spoke.map_or(false, |(main, _)| main != server) && !state.closed;
                return match (idle, waits, whole.done) {
                    (true, true, _) if room > 0 => SERVER,
                    (true, true, _) => WINDOW,
                    (true, false, _) => END,
                    (false, _, true) => TRIP,
                    (false, _, false) => UNKNOWN,
                };
            }
        };
        let length = i64::from(rows.length[next.row]);
        if let Some(cause) = usize::try_from(rows.cause[next.row]).ok().filter(|_| room > 0 || length > 1) {
            return repair((OF_CAUSE[cause], length));
        }
        if !next.by_main {
            return match (room <= 0, flight > 0, !asked || other_flight <= 0) {
                (true, _, _) => WINDOW,
                (_, true, _) => TRIP,
                (_, _, true) => turn[1],
                _ => UNKNOWN,
            };
        }
        if room < length.min(size) {
            return WINDOW;
        }
        let silence = next.at - next.before.spoke.map_or(first_at, |(_, at)| at);
        let patience = if rtt > 0 { PROBE_RTTS * rtt as f64 } else { TIMER_NS as f64 };
        if next.lost > (if idle && asked { ASKED_LOST } else { 0 }) && silence as f64 >= patience {
            let probe = facts.sack[one] != 0 && (next.lost == 1 || rows.seq[next.row] > state.tops[0]);
            let smaller = size < facts.agreed[one] && state.wrote.is_none();
            return if probe {
                PROBE
            } else if smaller {
                MTU
            } else {
                TIMEOUT
            };
        }
        if idle && asked {
            return turn[0];
        }
        let short = state.wrote.map_or(false, |(_, length)| length % size != 0);
        let heard = next.at - next.before.heard.map_or(0, |(_, at)| at);
        let released = heard <= rtt / SOON_DIVISOR + SOON_NS && !next.level;
        let spaced = next.before.wrote.map_or(true, |(at, _)| next.at - at <= rtt / PACED_DIVISOR + SOON_NS);
        if !short && (released || (!idle && spaced)) {
            CONGESTION
        } else {
            SENDER
        }
    }

    /// Add the time before a row to its limit.
    fn add(&mut self, wait: &Wait, next: Option<&Next>, first_at: i64) {
        let (rows, facts, one, row) = (self.rows, self.facts, self.one, wait.row);
        let code = self.limit(wait, next, first_at);
        let at = wait.at.max(self.whole.shared).min(facts.ended[one]);
        let took = at - self.now;
        self.now = at;
        // the segment that ends the handshake travels to the sender
        let ends = code == HANDSHAKE && rows.server[row] == 0 && rows.flags[row] & SYN == 0;
        let travel = if ends && !wait.by_main { took.min(facts.late[one]) } else { 0 };
        let place = one * LIMITS + code;
        self.into.ns[place] += took - travel;
        self.into.ns[one * LIMITS + TRIP] += travel;
        if !counted(rows, row) {
            let frame = rows.frame[row];
            if took > travel {
                let starts = if (TIMEOUT..=MTU).contains(&code) { rows.cause[row] >= 0 } else { code != self.code };
                self.into.times[place] += i64::from(starts);
                if self.into.first[place] < 0 {
                    self.into.first[place] = frame;
                }
                self.into.last[place] = frame;
            }
            if travel > 0 {
                self.hop = Some(frame);
            }
        }
        self.code = code;
    }
}
