// SPDX-License-Identifier: MIT
//! Where a buffer's packets are: `walk` of `fingerprint/capture/pcap.py` and of `fingerprint/capture/packet_blocks.py`.
#![forbid(unsafe_code)]

use crate::bytes::{u32_be, u32_le};
use crate::prefetch;

const RECORD: usize = 16;
// No frame is longer: fingerprint/capture/pcap.py.
const RECORD_MOST: u32 = 1 << 22;
const NS: i64 = 1_000_000_000;
// Kinds of pcapng blocks, and bytes of one at most: fingerprint/capture/packet_blocks.py.
const SECTION: u32 = 0x0A0D_0D0A;
const PACKETS: [u32; 3] = [2, 3, 6];
const BLOCK_MOST: u32 = 1 << 23;

/// Columns of records, a row each; as long as there may be rows.
pub struct Records<'a> {
    pub start: &'a mut [i64],
    pub kept: &'a mut [i64],
    pub length: &'a mut [i64],
    pub at: &'a mut [i64],
}

/// Rows filled in, where the walk stopped, and why; packets whose fraction of a second is a second or more.
pub struct Walked {
    pub rows: usize,
    pub at: usize,
    pub why: i64,
    pub bad_times: i64,
}

/// The buffer ends within a record or block.
pub const MORE: i64 = 0;
/// The next record or block makes no sense.
pub const BROKEN: i64 = 1;
/// A block that is no packet comes next.
pub const BLOCK: i64 = 2;

/// Fill in the records of a pcap file that lie whole in the buffer, from `at` on.
pub fn pcap(data: &[u8], mut at: usize, big: bool, unit_ns: i64, into: &mut Records) -> Walked {
    let word = if big { u32_be } else { u32_le };
    let (mut rows, mut why, mut bad_times) = (0, MORE, 0);
    while let Some(head) = data.get(at..).filter(|rest| rest.len() >= RECORD) {
        let size = word(head, 8);
        if size as usize > head.len() - RECORD {
            why = if size > RECORD_MOST { BROKEN } else { MORE };
            break;
        }
        if rows == into.start.len() {
            break;
        }
        let fraction = i64::from(word(head, 4)) * unit_ns;
        bad_times += i64::from(fraction >= NS);
        // The headers that `frames.rs` reads next, and the next record if it is as long as this one.
        for ahead in [64, 128, 2 * (RECORD + size as usize)] {
            prefetch(head, ahead);
        }
        into.start[rows] = (at + RECORD) as i64;
        into.kept[rows] = i64::from(size);
        into.length[rows] = i64::from(word(head, 12));
        into.at[rows] = i64::from(word(head, 0)) * NS + fraction;
        rows += 1;
        at += RECORD + size as usize;
    }
    Walked { rows, at, why, bad_times }
}

/// Fill in where packet blocks of a pcapng file begin, from `at` on, and their kinds, up to a block of another kind.
pub fn pcapng(data: &[u8], mut at: usize, big: bool, begins: &mut [i64], kinds: &mut [i64]) -> Walked {
    let word = if big { u32_be } else { u32_le };
    let (mut rows, mut why) = (0, MORE);
    while let Some(head) = data.get(at..).filter(|rest| rest.len() >= 12) {
        let (kind, size) = (word(head, 0), word(head, 4));
        let broken = kind != SECTION && (size < 12 || size > BLOCK_MOST || size % 4 != 0);
        if broken || !PACKETS.contains(&kind) {
            why = if broken { BROKEN } else { BLOCK };
            break;
        }
        if size as usize > head.len() || rows == begins.len() {
            break;
        }
        if word(head, size as usize - 4) != size {
            why = BROKEN;
            break;
        }
        begins[rows] = at as i64;
        kinds[rows] = i64::from(kind);
        rows += 1;
        at += size as usize;
    }
    Walked { rows, at, why, bad_times: 0 }
}
