// SPDX-License-Identifier: MIT
//! Rows -> connections: the three steps of `fingerprint/passive/connections.py` and `copies.py` that go over every row
//! one after another.
#![forbid(unsafe_code)]

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

// `COUNTED` of fingerprint/passive/columns.py.
const COUNTED: u8 = 16;
// The factor of `hashed` of fingerprint/passive/columns.py, and the bits that copies.py leaves out.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
const HASH_SHIFT: u32 = 16;

/// Fill in the stable order of a column of numbers from 0.
pub fn order(numbers: &[i32], into: &mut [i64]) -> Option<()> {
    let most = numbers.iter().max().map_or(0, |&most| most as usize);
    let mut places = vec![0usize; most + 2];
    for &number in numbers {
        places[usize::try_from(number).ok()? + 1] += 1;
    }
    for number in 1..places.len() {
        places[number] += places[number - 1];
    }
    for (row, &number) in numbers.iter().enumerate() {
        let place = &mut places[number as usize];
        into[*place] = row as i64;
        *place += 1;
    }
    Some(())
}

/// Fill in the distance of each number from its connection's initial one, each step the shorter way round; a reset's
/// number is anything, so the row after it counts from the row before it.
pub fn unwrapped(numbers: &[u32], of: &[i64], initial: &[u32], resets: &[u8], into: &mut [i64]) -> Option<()> {
    let (mut now, mut last, mut walked) = (-1, 0u32, 0i64);
    for (row, &number) in numbers.iter().enumerate() {
        if of[row] != now {
            now = of[row];
            walked = i64::from(number.wrapping_sub(*initial.get(usize::try_from(now).ok()?)?) as i32);
        } else {
            let step = i64::from(number.wrapping_sub(last) as i32);
            if resets[row] != 0 {
                into[row] = walked + step;
                continue;
            }
            walked += step;
        }
        last = number;
        into[row] = walked;
    }
    Some(())
}

/// Columns of rows that are in the order of their connections.
pub struct Rows<'a> {
    pub of: &'a [i64],
    pub side: &'a [u8],
    pub seq: &'a [u32],
    pub ack: &'a [u32],
    pub flags: &'a [u16],
    pub window: &'a [u16],
    pub length: &'a [i32],
    pub tsval: &'a [u32],
    pub tsecr: &'a [u32],
    pub ident: &'a [u16],
    pub check: &'a [u16],
    pub bits: &'a [u8],
}

impl Rows<'_> {
    fn hash(&self, row: usize) -> u64 {
        let mixed = [
            u64::from(self.seq[row]),
            u64::from(self.ack[row]),
            u64::from(self.check[row]) << 16 | u64::from(self.ident[row]),
        ];
        let all = mixed.iter().fold(self.of[row] as u64, |all, word| {
            let next = (all ^ word).wrapping_mul(SPREAD);
            next ^ next >> 32
        });
        all >> HASH_SHIFT
    }

    fn alike(&self, one: usize, two: usize) -> bool {
        self.side[one] == self.side[two]
            && self.seq[one] == self.seq[two]
            && self.ack[one] == self.ack[two]
            && self.flags[one] == self.flags[two]
            && self.window[one] == self.window[two]
            && self.length[one] == self.length[two]
            && self.tsval[one] == self.tsval[two]
            && self.tsecr[one] == self.tsecr[two]
            && self.ident[one] == self.ident[two]
            && self.check[one] == self.check[two]
    }
}

/// Fill in the rows that equal an earlier one of their connection, and the nearest earlier one; return how many.
pub fn equal(rows: &Rows, earlier: &mut [i64], later: &mut [i64]) -> usize {
    // A key of chance: no capture can be made for which the table below is slow.
    let key = RandomState::new().build_hasher().finish() | 1;
    let (mut found, mut begin) = (0, 0);
    // (hash, row + 1); 0: free.
    let mut table: Vec<(u64, usize)> = Vec::new();
    while begin < rows.of.len() {
        let size = rows.of[begin..].iter().take_while(|&&of| of == rows.of[begin]).count();
        let end = begin + size;
        if size > 1 {
            let bits = (2 * size).next_power_of_two().trailing_zeros();
            table.clear();
            table.resize(1 << bits, (0, 0));
            for row in begin..end {
                let hash = rows.hash(row);
                let mut slot = (hash.wrapping_mul(key) >> (64 - bits)) as usize;
                while table[slot].1 != 0 && table[slot].0 != hash {
                    slot = (slot + 1) % table.len();
                }
                let before = table[slot].1;
                table[slot] = (hash, row + 1);
                if before != 0 && rows.bits[row] & COUNTED == 0 && rows.alike(before - 1, row) {
                    earlier[found] = before as i64 - 1;
                    later[found] = row as i64;
                    found += 1;
                }
            }
        }
        begin = end;
    }
    found
}
