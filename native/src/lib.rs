// SPDX-License-Identifier: MIT
//! The native reader of captures. `fingerprint/capture/native.py` loads and calls it.
//!
//! Only this file has unsafe code: pointers and lengths become slices. After a panic a function returns `FAILED`, and
//! Python reads instead.
#![deny(unsafe_op_in_unsafe_fn)]

mod bytes;
mod files;
mod frames;
mod limits;
mod options;
mod repeats;
mod rows;

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// Raised whenever a function or structure below changes; Python loads no library with another number.
const ABI: i64 = 6;
const FAILED: i64 = -1;

#[no_mangle]
pub extern "C" fn configtron_abi() -> i64 {
    ABI
}

/// # Safety
/// `data` has `end` bytes; each column has `room` rows; `found` has 4 numbers: rows, place, why, bad times.
#[no_mangle]
pub unsafe extern "C" fn configtron_pcap(
    data: *const u8,
    at: usize,
    end: usize,
    big: i64,
    unit_ns: i64,
    columns: *const *mut i64,
    room: usize,
    found: *mut i64,
) -> i64 {
    let (data, found) = unsafe { (from_raw_parts(data, end), from_raw_parts_mut(found, 4)) };
    let column = |number: usize| unsafe { from_raw_parts_mut(*columns.add(number), room) };
    let mut into = files::Records { start: column(0), kept: column(1), length: column(2), at: column(3) };
    guarded(|| {
        let walked = files::pcap(data, at, big != 0, unit_ns, &mut into);
        found.copy_from_slice(&[walked.rows as i64, walked.at as i64, walked.why, walked.bad_times]);
    })
}

/// # Safety
/// As `configtron_pcap`; two columns: begins and kinds.
#[no_mangle]
pub unsafe extern "C" fn configtron_pcapng(
    data: *const u8,
    at: usize,
    end: usize,
    big: i64,
    columns: *const *mut i64,
    room: usize,
    found: *mut i64,
) -> i64 {
    let (data, found) = unsafe { (from_raw_parts(data, end), from_raw_parts_mut(found, 4)) };
    let column = |number: usize| unsafe { from_raw_parts_mut(*columns.add(number), room) };
    let (begins, kinds) = (column(0), column(1));
    guarded(|| {
        let walked = files::pcapng(data, at, big != 0, begins, kinds);
        found.copy_from_slice(&[walked.rows as i64, walked.at as i64, walked.why, walked.bad_times]);
    })
}

/// # Safety
/// `data` has `size` bytes; the five columns of frames have `count` rows. `rows` points to 18 columns and `lists` to 7,
/// all of the types of `frames.rs` and of `count` rows (`keys`: 48 bytes each). `found` has 6 numbers, and one for each
/// of `KINDS`.
#[no_mangle]
pub unsafe extern "C" fn configtron_decode(
    data: *const u8,
    size: usize,
    start: *const i64,
    kept: *const i64,
    length: *const i64,
    at: *const i64,
    link: *const i64,
    count: usize,
    first: i64,
    rows: *const *mut u8,
    lists: *const *mut u8,
    found: *mut i64,
) -> i64 {
    let frame = |column: *const i64| unsafe { from_raw_parts(column, count) };
    let data = unsafe { from_raw_parts(data, size) };
    let (start, kept, length, at, link) = (frame(start), frame(kept), frame(length), frame(at), frame(link));
    let frames = frames::Frames { data, start, kept, length, at, link, first };
    let found = unsafe { from_raw_parts_mut(found, 6 + frames::KINDS) };
    let (mut rows, mut lists) = unsafe {
        (
            frames::Rows {
                at: column(rows, 0, count),
                frame: column(rows, 1, count),
                pair: column(rows, 2, count),
                side: column(rows, 3, count),
                seq: column(rows, 4, count),
                ack: column(rows, 5, count),
                flags: column(rows, 6, count),
                window: column(rows, 7, count),
                length: column(rows, 8, count),
                tsval: column(rows, 9, count),
                tsecr: column(rows, 10, count),
                mss: column(rows, 11, count),
                wscale: column(rows, 12, count),
                ttl: column(rows, 13, count),
                tos: column(rows, 14, count),
                ident: column(rows, 15, count),
                bits: column(rows, 16, count),
                check: column(rows, 17, count),
            },
            frames::Lists {
                begin: column(lists, 0, count),
                held: column(lists, 1, count),
                size: column(lists, 2, count),
                syns: column(lists, 3, count),
                opens: column(lists, 4, count),
                others: column(lists, 5, count),
                keys: column(lists, 6, count * frames::KEY_BYTES),
            },
        )
    };
    guarded(|| {
        let read = frames::decode(&frames, &mut rows, &mut lists);
        let numbers = [read.rows, read.pairs, read.syns, read.opens, read.others, read.longer];
        for (into, number) in found.iter_mut().zip(numbers.iter().chain(&read.kinds)) {
            *into = *number as i64;
        }
    })
}

/// # Safety
/// Both columns have `count` rows.
#[no_mangle]
pub unsafe extern "C" fn configtron_order(numbers: *const i32, count: usize, into: *mut i64) -> i64 {
    let (numbers, into) = unsafe { (from_raw_parts(numbers, count), from_raw_parts_mut(into, count)) };
    let mut done = None;
    guarded(|| done = rows::order(numbers, into)) | done.map_or(FAILED, |()| 0)
}

/// # Safety
/// `initial` has `connections` rows, and the other columns have `count`.
#[no_mangle]
pub unsafe extern "C" fn configtron_unwrapped(
    numbers: *const u32,
    of: *const i64,
    resets: *const u8,
    count: usize,
    initial: *const u32,
    connections: usize,
    into: *mut i64,
) -> i64 {
    let (numbers, of) = unsafe { (from_raw_parts(numbers, count), from_raw_parts(of, count)) };
    let (resets, initial) = unsafe { (from_raw_parts(resets, count), from_raw_parts(initial, connections)) };
    let into = unsafe { from_raw_parts_mut(into, count) };
    let mut done = None;
    guarded(|| done = rows::unwrapped(numbers, of, initial, resets, into)) | done.map_or(FAILED, |()| 0)
}

/// # Safety
/// `table` points to 12 columns of the types of `rows.rs`, and to two to fill in; all have `count` rows. `found` is one
/// number.
#[no_mangle]
pub unsafe extern "C" fn configtron_equal(table: *const *mut u8, count: usize, found: *mut i64) -> i64 {
    let (rows, earlier, later) = unsafe {
        let rows = rows::Rows {
            of: column(table, 0, count),
            side: column(table, 1, count),
            seq: column(table, 2, count),
            ack: column(table, 3, count),
            flags: column(table, 4, count),
            window: column(table, 5, count),
            length: column(table, 6, count),
            tsval: column(table, 7, count),
            tsecr: column(table, 8, count),
            ident: column(table, 9, count),
            check: column(table, 10, count),
            bits: column(table, 11, count),
        };
        (rows, column(table, 12, count), column(table, 13, count))
    };
    let found = unsafe { &mut *found };
    guarded(|| *found = rows::equal(&rows, earlier, later) as i64)
}

/// # Safety
/// `rows` points to 12 columns of `count` rows, and `facts` to 13 of `connections`, of the types of `limits.rs`; `into`
/// points to four columns of `size` numbers, one for each connection and limit; `past` to two numbers a connection.
#[no_mangle]
pub unsafe extern "C" fn configtron_shares(
    rows: *const *mut u8,
    count: usize,
    facts: *const *mut u8,
    connections: usize,
    into: *const *mut u8,
    size: usize,
    past: *mut [i64; 2],
) -> i64 {
    let (rows, facts, mut into) = unsafe {
        (
            limits::Rows {
                at: column(rows, 0, count),
                frame: column(rows, 1, count),
                seq: column(rows, 2, count),
                ack: column(rows, 3, count),
                length: column(rows, 4, count),
                flags: column(rows, 5, count),
                window: column(rows, 6, count),
                ident: column(rows, 7, count),
                bits: column(rows, 8, count),
                server: column(rows, 9, count),
                cause: column(rows, 10, count),
                alive: column(rows, 11, count),
            },
            limits::Facts {
                begin: column(facts, 0, connections),
                end: column(facts, 1, connections),
                ended: column(facts, 2, connections),
                late: column(facts, 3, connections),
                rtt: column(facts, 4, connections),
                scale: column(facts, 5, connections),
                segment: column(facts, 6, connections),
                agreed: column(facts, 7, connections),
                main: column(facts, 8, connections),
                sack: column(facts, 9, connections),
                opened: column(facts, 10, connections),
                told: column(facts, 11, connections),
                unmerged: column(facts, 12, connections),
            },
            limits::Shares {
                ns: column(into, 0, size),
                times: column(into, 1, size),
                first: column(into, 2, size),
                last: column(into, 3, size),
                past: from_raw_parts_mut(past, connections),
            },
        )
    };
    let mut done = None;
    guarded(|| done = limits::share(&rows, &facts, &mut into)) | done.map_or(FAILED, |()| 0)
}

/// # Safety
/// `rows` points to 8 columns of `count` rows, `sent` to 7 of `segments`, `facts` to 4 of `connections`, of the types of
/// `repeats.rs`; `into` points to two columns of `room` numbers. Returns how many of them it fills in.
#[no_mangle]
pub unsafe extern "C" fn configtron_repeats(
    rows: *const *mut u8,
    count: usize,
    sent: *const *mut u8,
    segments: usize,
    facts: *const *mut u8,
    connections: usize,
    into: *const *mut u8,
    room: usize,
) -> i64 {
    let (rows, sent, facts, places, kinds) = unsafe {
        (
            repeats::Rows {
                at: column(rows, 0, count),
                ack: column(rows, 1, count),
                length: column(rows, 2, count),
                tsval: column(rows, 3, count),
                flags: column(rows, 4, count),
                window: column(rows, 5, count),
                bits: column(rows, 6, count),
                theirs: column(rows, 7, count),
            },
            repeats::Sent {
                row: column(sent, 0, segments),
                start: column(sent, 1, segments),
                end: column(sent, 2, segments),
                top: column(sent, 3, segments),
                old: column(sent, 4, segments),
                full: column(sent, 5, segments),
                copies: column(sent, 6, segments),
            },
            repeats::Facts {
                begin: column(facts, 0, connections),
                end: column(facts, 1, connections),
                rtt: column(facts, 2, connections),
                sack: column(facts, 3, connections),
            },
            column(into, 0, room),
            column(into, 1, room),
        )
    };
    let mut found = 0;
    guarded(|| found = repeats::find(&rows, &sent, &facts, places, kinds) as i64) + found
}

/// # Safety
/// Entry `number` of the table points to `count` values of type `T`.
unsafe fn column<'a, T>(table: *const *mut u8, number: usize, count: usize) -> &'a mut [T] {
    unsafe { from_raw_parts_mut((*table.add(number)).cast::<T>(), count) }
}

fn guarded(work: impl FnOnce()) -> i64 {
    catch_unwind(AssertUnwindSafe(work)).map_or(FAILED, |()| 0)
}

/// Have the processor load what stands at a place into its cache.
pub(crate) fn prefetch(data: &[u8], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(byte) = data.get(at) {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        unsafe { _mm_prefetch::<_MM_HINT_T0>((byte as *const u8).cast()) };
    }
}
