// SPDX-License-Identifier: MIT
//! Numbers out of bytes; the caller has checked that they are there, else it panics, which the boundary reports.
#![forbid(unsafe_code)]

fn four(data: &[u8], at: usize) -> [u8; 4] {
    data[at..at + 4].try_into().expect("four bytes")
}

pub fn u16_be(data: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([data[at], data[at + 1]])
}

pub fn u32_be(data: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(four(data, at))
}

pub fn u32_le(data: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(four(data, at))
}

pub fn u128_be(data: &[u8], at: usize) -> u128 {
    u128::from_be_bytes(data[at..at + 16].try_into().expect("sixteen bytes"))
}
