// SPDX-License-Identifier: MIT
//! Frames -> rows, for the plain ones: IPv4 or IPv6 with a whole TCP segment behind a link header and tags.
//!
//! The meaning is that of `fingerprint/passive/headers.py`. Frames that surely hold no TCP, and that most captures have
//! (ARP, UDP that is no tunnel, ICMP that names no MTU, spanning tree), are counted. For any other frame (a tunnel, a
//! fragment, an extension header, cut or malformed) the reader returns its number, and Python reads it.
#![forbid(unsafe_code)]

use crate::bytes::{u128_be, u16_be, u32_be};
use crate::options;
use std::collections::HashMap;

// Bits of `Rows.bits`, and ABSENT: fingerprint/passive/columns.py.
const CUT: u8 = 4;
const DF: u8 = 8;
const TCP: u8 = 6;
const SYN: u8 = 2;
const RST: u8 = 4;
// Bytes of a pair's key: `KEY` of fingerprint/passive/columns.py.
pub const KEY_BYTES: usize = 40;
// Slots of the table of recent keys; a power of two.
const RECENT: usize = 1 << 12;
const TAGS_MOST: usize = 8;

/// Counters of frames that are no TCP, in the order of `NOT_TCP` of fingerprint/capture/native.py.
#[derive(Clone, Copy)]
enum Kind {
    Arp,
    Lldp,
    NotIp,
    Icmp,
    Udp,
    Quic,
    Wireguard,
    Openvpn,
    Esp,
}
pub const KINDS: usize = Kind::Esp as usize + 1;
/// Why a frame gives no row: it is counted as that kind, or (`None`) Python has to read it.
type Odd = Option<Kind>;

/// Frames of a buffer, as `Frames` of fingerprint/passive/columns.py has them.
pub struct Frames<'a> {
    pub data: &'a [u8],
    pub start: &'a [i64],
    pub kept: &'a [i64],
    pub length: &'a [i64],
    pub at: &'a [i64],
    pub link: &'a [i64],
    /// Number of the first frame, with its file's number.
    pub first: i64,
}

/// Columns as `Rows` has them.
pub struct Rows<'a> {
    pub at: &'a mut [i64],
    pub frame: &'a mut [i64],
    pub pair: &'a mut [i32],
    pub side: &'a mut [u8],
    pub seq: &'a mut [u32],
    pub ack: &'a mut [u32],
    pub flags: &'a mut [u16],
    pub window: &'a mut [u16],
    pub length: &'a mut [i32],
    pub tsval: &'a mut [u32],
    pub tsecr: &'a mut [u32],
    pub mss: &'a mut [i32],
    pub wscale: &'a mut [i16],
    pub ttl: &'a mut [u8],
    pub tos: &'a mut [u8],
    pub ident: &'a mut [u16],
    pub bits: &'a mut [u8],
    pub check: &'a mut [u16],
}

/// Lists beside the rows; each has room for all frames of the buffer.
pub struct Lists<'a> {
    /// Of each row: where its payload begins, how much of that was captured, bytes of the TCP header.
    pub begin: &'a mut [i64],
    pub held: &'a mut [i64],
    pub size: &'a mut [i64],
    /// Rows of SYNs, and rows whose payload may open a stream.
    pub syns: &'a mut [i64],
    pub opens: &'a mut [i64],
    /// Frames that Python has to read.
    pub others: &'a mut [i64],
    /// Keys of the buffer's pairs, in the order of their first segments.
    pub keys: &'a mut [u8],
}

/// How many entries each list has; `longer`: rows whose packet claims more bytes than the frame had on the wire.
#[derive(Default)]
pub struct Counts {
    pub rows: usize,
    pub pairs: usize,
    pub syns: usize,
    pub opens: usize,
    pub others: usize,
    pub longer: usize,
    pub kinds: [usize; KINDS],
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Key {
    version: u8,
    low: (u128, u16),
    high: (u128, u16),
}

impl Key {
    fn write(&self, into: &mut [u8]) {
        into[0..2].copy_from_slice(&u16::from(self.version).to_ne_bytes());
        into[2..4].copy_from_slice(&self.low.1.to_le_bytes());
        into[4..6].copy_from_slice(&self.high.1.to_le_bytes());
        into[6..8].fill(0);
        into[8..24].copy_from_slice(&self.low.0.to_be_bytes());
        into[24..40].copy_from_slice(&self.high.0.to_be_bytes());
    }

    fn slot(&self) -> usize {
        let ports = u64::from(self.low.1) << 16 | u64::from(self.high.1);
        let mixed = (self.low.0 as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
            ^ (self.high.0 as u64).wrapping_mul(0xC2B2_AE3D_27D4_EB4F)
            ^ ports.wrapping_mul(0x1656_67B1_9E37_79F9);
        (mixed >> 40) as usize % RECENT
    }
}

/// Numbers of pairs of ends. `recent` finds the latest pairs in one step; `known` has a random hash, so that no crafted
/// capture makes it slow.
struct Numbers {
    recent: Vec<(Key, i32)>,
    known: HashMap<Key, i32>,
}

impl Numbers {
    fn of(&mut self, key: &Key, keys: &mut [u8]) -> i32 {
        let slot = &mut self.recent[key.slot()];
        if slot.0 == *key {
            return slot.1;
        }
        let next = self.known.len();
        let number = *self.known.entry(*key).or_insert_with(|| {
            key.write(&mut keys[next * KEY_BYTES..(next + 1) * KEY_BYTES]);
            next as i32
        });
        *slot = (*key, number);
        number
    }
}

/// What an IP header says: where in the frame TCP begins and the packet ends.
struct Packet {
    tcp_at: usize,
    end: i64,
    longer: bool,
    ttl: u8,
    tos: u8,
    ident: u16,
    df: bool,
    version: u8,
    source: u128,
    destination: u128,
}

/// Fill in the rows of plain frames.
pub fn decode(frames: &Frames, rows: &mut Rows, lists: &mut Lists) -> Counts {
    let mut found = Counts::default();
    let mut numbers = Numbers { recent: vec![(Key::default(), 0); RECENT], known: HashMap::new() };
    // A frame without a link type is left out: its record is broken, or a filter refused it.
    for number in (0..frames.start.len()).filter(|&number| frames.link[number] >= 0) {
        match segment(frames, number, rows, lists, &mut found, &mut numbers) {
            Ok(()) => {}
            Err(Some(kind)) => found.kinds[kind as usize] += 1,
            Err(None) => {
                lists.others[found.others] = number as i64;
                found.others += 1;
            }
        }
    }
    found.pairs = numbers.known.len();
    found
}

/// Fill in the row of one frame, or say why it has none.
fn segment(
    frames: &Frames,
    number: usize,
    rows: &mut Rows,
    lists: &mut Lists,
    found: &mut Counts,
    numbers: &mut Numbers,
) -> Result<(), Odd> {
    let start = usize::try_from(frames.start[number]).map_err(|_| None)?;
    let kept = usize::try_from(frames.kept[number]).map_err(|_| None)?;
    let frame = frames.data.get(start..start.checked_add(kept).ok_or(None)?).ok_or(None)?;
    let at = network_at(frame, frames.link[number])?;
    let packet = packet(frame, at, frames.length[number])?;
    let header = frame.get(packet.tcp_at..).filter(|rest| rest.len() >= 20).ok_or(None)?;
    let size = usize::from(header[12] >> 4) * 4;
    let length = packet.end - packet.tcp_at as i64 - size as i64;
    if size < 20 || length < 0 {
        return Err(None);
    }
    let row = found.rows;
    let whole = header.len() >= size;
    let flags = header[13];
    let read = options::read(if whole { &header[20..size] } else { &[] }, u32_be(header, 8));
    let (from, to) = ((packet.source, u16_be(header, 0)), (packet.destination, u16_be(header, 2)));
    let from_high = from > to;
    let (low, high) = if from_high { (to, from) } else { (from, to) };
    rows.at[row] = frames.at[number];
    rows.frame[row] = frames.first + number as i64;
    rows.pair[row] = numbers.of(&Key { version: packet.version, low, high }, lists.keys);
    rows.side[row] = u8::from(from_high);
    rows.seq[row] = u32_be(header, 4);
    rows.ack[row] = u32_be(header, 8);
    rows.flags[row] = u16::from(flags) | u16::from(header[12] & 15) << 8;
    rows.window[row] = u16_be(header, 14);
    rows.length[row] = length as i32;
    rows.tsval[row] = read.tsval;
    rows.tsecr[row] = read.tsecr;
    rows.mss[row] = read.mss;
    rows.wscale[row] = read.wscale;
    rows.ttl[row] = packet.ttl;
    rows.tos[row] = packet.tos;
    rows.ident[row] = packet.ident;
    rows.bits[row] = read.bits | if whole { 0 } else { CUT } | if packet.df { DF } else { 0 };
    rows.check[row] = u16_be(header, 16) ^ read.blocks;
    let begin = start + packet.tcp_at + size;
    let held = if flags & RST == 0 { i64::from(length as i32).min(header.len() as i64 - size as i64) } else { 0 };
    lists.begin[row] = begin as i64;
    lists.held[row] = held;
    lists.size[row] = size as i64;
    if flags & SYN != 0 {
        lists.syns[found.syns] = row as i64;
        found.syns += 1;
    }
    if held >= 4 && opens(&frames.data[begin..]) {
        lists.opens[found.opens] = row as i64;
        found.opens += 1;
    }
    found.longer += usize::from(packet.longer);
    found.rows += 1;
    Ok(())
}

/// Where the IP packet of a frame begins: `network_at` of fingerprint/passive/link.py.
fn network_at(frame: &[u8], link: i64) -> Result<usize, Odd> {
    let (field, mut at) = match link {
        1 => (12, 14),
        113 => (14, 16),
        276 => (0, 20),
        0 | 108 => return Ok(4),
        101 | 12 | 14 | 228 | 229 => return Ok(0),
        109 => return Ok(12),
        226 => return Ok(24),
        _ => return Err(None),
    };
    if frame.len() < at {
        return Err(None);
    }
    let mut kind = u16_be(frame, field);
    for _ in 0..TAGS_MOST {
        at += match kind {
            0x0800 | 0x86DD => return Ok(at),
            0x0806 => return Err(Some(Kind::Arp)),
            0x88CC => return Err(Some(Kind::Lldp)),
            // A length, and LLC follows: only its access points of SNAP and IP can hold TCP.
            0..=0x05FF if frame.len() >= at + 2 && !matches!(&frame[at..at + 2], b"\xaa\xaa" | b"\x06\x06") => {
                return Err(Some(Kind::NotIp))
            }
            0x8100 | 0x88A8 | 0x9100 | 0x9200 => 4,
            0x8926 => 6,
            0x8909 | 0x893F => 8,
            _ => return Err(None),
        };
        if frame.len() < at {
            return Err(None);
        }
        kind = u16_be(frame, at - 2);
    }
    Err(None)
}

/// Read an IP header that a TCP header follows directly.
fn packet(frame: &[u8], at: usize, length: i64) -> Result<Packet, Odd> {
    let ip = frame.get(at..).ok_or(None)?;
    let on_wire = length.checked_sub(at as i64).ok_or(None)?;
    let (place, stated, protocol) = match ip.first().ok_or(None)? >> 4 {
        4 if ip.len() >= 20 && u16_be(ip, 6) & 0x3FFF == 0 => {
            (usize::from(ip[0] & 15) * 4, i64::from(u16_be(ip, 2)), ip[9])
        }
        6 if ip.len() >= 40 => (40, i64::from(u16_be(ip, 4)), ip[6]),
        _ => return Err(None),
    };
    let four = ip[0] >> 4 == 4;
    let end = if stated == 0 { on_wire } else { stated + if four { 0 } else { 40 } };
    if place < 20 || end < place as i64 {
        return Err(None);
    }
    if protocol != TCP {
        return Err(not_tcp(four, protocol, ip.get(place..).ok_or(None)?));
    }
    let address = |at: usize| if four { u128::from(u32_be(ip, at)) } else { u128_be(ip, at) };
    Ok(Packet {
        tcp_at: at + place,
        end: at as i64 + end,
        longer: end > on_wire,
        ttl: if four { ip[8] } else { ip[7] },
        tos: if four { ip[1] } else { (u32_be(ip, 0) >> 20) as u8 },
        ident: if four { u16_be(ip, 4) } else { 0 },
        df: four && ip[6] & 0x40 != 0,
        version: ip[0] >> 4,
        source: address(if four { 12 } else { 8 }),
        destination: address(if four { 16 } else { 24 }),
    })
}

/// The kind of a packet by the first bytes after its IP header; `None` for what is, or may be, a tunnel.
fn not_tcp(four: bool, protocol: u8, data: &[u8]) -> Odd {
    match (four, protocol) {
        (true, 1) | (false, 58) => {
            let too_big: &[u8] = if four { b"\x03\x04" } else { b"\x02\x00" };
            Some(Kind::Icmp).filter(|_| data.len() >= 2 && !data.starts_with(too_big))
        }
        // `KIND_BY_PORT` of fingerprint/passive/udp_tunnels.py: the destination's port counts first.
        (_, 17) if data.len() > 8 => [u16_be(data, 2), u16_be(data, 0)]
            .iter()
            .find_map(|port| match port {
                443 => Some(Some(Kind::Quic)),
                51820 => Some(Some(Kind::Wireguard)),
                1194 => Some(Some(Kind::Openvpn)),
                4500 => Some(Some(Kind::Esp)),
                4789 | 4790 | 8472 | 6081 | 2152 | 6080 | 1701 | 37008 => Some(None),
                _ => None,
            })
            // A packet without a tunnel's header begins with its version.
            .unwrap_or_else(|| Some(Kind::Udp).filter(|_| !matches!(data[8] >> 4, 4 | 6))),
        _ => None,
    }
}

/// Whether a payload opens a stream that is kept: `_opens` of fingerprint/passive/heads.py. `data` goes on after the
/// payload; as in Python, a short payload is compared together with the bytes after it.
fn opens(data: &[u8]) -> bool {
    let byte = |at: usize| data.get(at).copied().unwrap_or(0);
    match byte(0) {
        0 => byte(1) == 0 && byte(3) == 4 && byte(4) == 0,
        0x15 | 0x16 => {
            let word = u32::from_be_bytes([byte(0), byte(1), byte(2), byte(3)]);
            match word >> 8 & 0xFF_FFFC {
                0x16_0300 => true,
                0x15_0300 => word & 0xFF == 0 && byte(4) == 2 && byte(5) == 1,
                _ => false,
            }
        }
        b'G' | b'H' | b'P' | b'O' => {
            let words: [&[u8]; 7] = [b"GET ", b"HEAD", b"POST", b"PUT ", b"OPTI", b"HTTP", b"PRI "];
            words.iter().any(|word| data.starts_with(word))
        }
        _ => false,
    }
}
