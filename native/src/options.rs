// SPDX-License-Identifier: MIT
//! TCP options of one segment: `read_options` of `fingerprint/passive/options.py`.
#![forbid(unsafe_code)]

use crate::bytes::{u16_be, u32_be};

// Bits of `Rows.bits`, and ABSENT: fingerprint/passive/columns.py.
const STAMPED: u8 = 1;
const SACKED: u8 = 2;
const SACK_OK: u8 = 32;
const DSACKED: u8 = 64;
const ABSENT: i8 = -1;
// Odd, so that no bit of a number is lost when the next is added.
const SPREAD: u32 = 0x9E37_79B1;

/// The TCP options, as the columns of `Rows` have them; `blocks` differs, but for chance, where SACK blocks do.
pub struct Options {
    pub tsval: u32,
    pub tsecr: u32,
    pub mss: i32,
    pub wscale: i16,
    pub bits: u8,
    pub blocks: u16,
}

/// Read options until their list ends or makes no sense; `ack`: the segment's acknowledged number.
pub fn read(mut list: &[u8], ack: u32) -> Options {
    let mut found = Options { tsval: 0, tsecr: 0, mss: ABSENT.into(), wscale: ABSENT.into(), bits: 0, blocks: 0 };
    while let Some(&kind) = list.first() {
        if kind == 1 {
            list = &list[1..];
            continue;
        }
        let length = usize::from(list.get(1).copied().unwrap_or(0));
        if kind == 0 || length < 2 || length > list.len() {
            break;
        }
        let (one, rest) = list.split_at(length);
        list = rest;
        match (kind, length) {
            (8, 10) => {
                found.tsval = u32_be(one, 2);
                found.tsecr = u32_be(one, 6);
                found.bits |= STAMPED;
            }
            (2, 4) if found.mss == ABSENT.into() => found.mss = u16_be(one, 2).into(),
            (3, 3) if found.wscale == ABSENT.into() => found.wscale = one[2].into(),
            (4, 2) => found.bits |= SACK_OK,
            (5, 10..=40) => {
                let beyond = u32_be(one, 6).wrapping_sub(ack) as i32;
                found.bits |= if length == 10 && beyond <= 0 { DSACKED } else { SACKED };
                let numbers = one[2..].chunks_exact(4).map(|number| u32_be(number, 0));
                let mixed =
                    numbers.fold(0u32, |mixed, one| mixed.wrapping_add(one).wrapping_add(1).wrapping_mul(SPREAD));
                found.blocks = (mixed >> 16) as u16;
            }
            _ => {}
        }
    }
    found
}
