// SPDX-License-Identifier: MIT
//! Frames -> rows, for the plain ones: IPv4 or IPv6 with a whole TCP segment behind link headers, tags and tunnels.
//!
//! The meaning is that of `fingerprint/passive/headers.py`, `link.py` and `tunnel_headers.py`. Frames that surely hold no
//! TCP, and that most captures have (ARP, UDP that is no tunnel, ICMP that names no MTU, spanning tree), are counted. For
//! any other frame (a fragment, an extension header, cut or malformed) the reader returns its number, and Python reads it.
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
pub const KEY_BYTES: usize = 48;
// Slots of the table of recent keys; a power of two.
const RECENT: usize = 1 << 12;
// Limits of nested headers: fingerprint/passive/tunnels.py and link.py.
const NESTED_MOST: usize = 8;
const TAG_LATEST: usize = 96;
// Link types: LINKTYPE_*. Ethernet types of what follows: fingerprint/passive/link.py and tunnel_headers.py.
const ETHERNET: i64 = 1;
const PPP: i64 = 9;
const RAW: i64 = 101;
const MPLS: i64 = 219;
const ETHER_IP4: u16 = 0x0800;
const ETHER_IP6: u16 = 0x86DD;
const ETHER_ARP: u16 = 0x0806;
const ETHER_LLDP: u16 = 0x88CC;
const ETHER_MPLS: u16 = 0x8847;
const ETHER_MPLS2: u16 = 0x8848;
const ETHER_PPP: u16 = 0x880B;
const ETHER_BRIDGED: u16 = 0x6558;
const PPPOE: u16 = 0x8864;
const PPPOE_CONTROL: u16 = 0x8863;
const ERSPAN: u16 = 0x88BE;
const ERSPAN3: u16 = 0x22EB;
// Bytes behind a header in UDP or GRE that are looked at together; a shorter packet is Python's.
const LOOK: usize = 40;

/// Counters of frames that are no TCP, and of tunnels, in the order of `KINDS` of fingerprint/capture/native.py.
#[derive(Clone, Copy)]
enum Kind {
    Arp,
    Lldp,
    NotIp,
    Icmp,
    Udp,
    PppoeControl,
    IpInUdp,
    Vxlan,
    Geneve,
    GtpU,
    Gue,
    L2tp,
    Tzsp,
    IpInIp,
    SixInFour,
    Gre,
    Ethernet,
    EtherIp,
    Mpls,
    Quic,
    Wireguard,
    Openvpn,
    Esp,
}
pub const KINDS: usize = Kind::Esp as usize + 1;
/// Why a frame gives no row: it is counted as that kind, or (`None`) Python has to read it.
type Odd = Option<Kind>;
/// A tunnel: its counter, bytes of its header, link type of what follows.
type Tunnel = (Kind, usize, i64);

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

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    version: u8,
    low: (u128, u16),
    high: (u128, u16),
    net: u64,
}

impl Key {
    fn write(&self, into: &mut [u8]) {
        into[0..2].copy_from_slice(&u16::from(self.version).to_ne_bytes());
        into[2..4].copy_from_slice(&self.low.1.to_le_bytes());
        into[4..6].copy_from_slice(&self.high.1.to_le_bytes());
        into[6..8].fill(0);
        into[8..24].copy_from_slice(&self.low.0.to_be_bytes());
        into[24..40].copy_from_slice(&self.high.0.to_be_bytes());
        into[40..48].copy_from_slice(&self.net.to_le_bytes());
    }

    fn slot(&self) -> usize {
        let ports = u64::from(self.low.1) << 16 | u64::from(self.high.1);
        let mixed = (self.low.0 as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
            ^ (self.high.0 as u64).wrapping_mul(0xC2B2_AE3D_27D4_EB4F)
            ^ (ports ^ self.net.rotate_left(32)).wrapping_mul(0x1656_67B1_9E37_79F9);
        (mixed >> 40) as usize % RECENT
    }
}

/// Numbers of pairs of ends. `recent` (number + 1; 0: none) finds the latest pairs in one step; `known` has a random
/// hash, so that no crafted capture makes it slow.
struct Numbers {
    recent: Vec<u32>,
    seen: Vec<Key>,
    known: HashMap<Key, u32>,
}

impl Numbers {
    fn of(&mut self, key: &Key, keys: &mut [u8]) -> i32 {
        let slot = &mut self.recent[key.slot()];
        if *slot > 0 && self.seen[*slot as usize - 1] == *key {
            return *slot as i32 - 1;
        }
        let (seen, next) = (&mut self.seen, self.known.len());
        let number = *self.known.entry(*key).or_insert_with(|| {
            key.write(&mut keys[next * KEY_BYTES..(next + 1) * KEY_BYTES]);
            seen.push(*key);
            next as u32
        });
        *slot = number + 1;
        number as i32
    }
}

/// What an IP header says: which protocol it holds, where in the frame that begins and the packet ends.
struct Packet {
    protocol: u8,
    next_at: usize,
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
    let mut numbers = Numbers { recent: vec![0; RECENT], seen: Vec::new(), known: HashMap::new() };
    let mut opened = Vec::new();
    // A frame without a link type is left out: its record is broken, or a filter refused it.
    for number in (0..frames.start.len()).filter(|&number| frames.link[number] >= 0) {
        opened.clear();
        let read = segment(frames, number, rows, lists, &mut found, &mut numbers, &mut opened);
        if let Err(None) = read {
            lists.others[found.others] = number as i64;
            found.others += 1;
            continue;
        }
        for kind in opened.drain(..).chain(read.err().flatten()) {
            found.kinds[kind as usize] += 1;
        }
    }
    found.pairs = numbers.known.len();
    found
}

/// Fill in the row of one frame, or say why it has none; its tunnels go to `opened`.
fn segment(
    frames: &Frames,
    number: usize,
    rows: &mut Rows,
    lists: &mut Lists,
    found: &mut Counts,
    numbers: &mut Numbers,
    opened: &mut Vec<Kind>,
) -> Result<(), Odd> {
    let start = usize::try_from(frames.start[number]).map_err(|_| None)?;
    let kept = usize::try_from(frames.kept[number]).map_err(|_| None)?;
    let frame = frames.data.get(start..start.checked_add(kept).ok_or(None)?).ok_or(None)?;
    let (packet, net) = innermost(frame, frames.link[number], frames.length[number], opened)?;
    let header = frame.get(packet.next_at..).filter(|rest| rest.len() >= 20).ok_or(None)?;
    let size = usize::from(header[12] >> 4) * 4;
    let length = packet.end - packet.next_at as i64 - size as i64;
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
    rows.pair[row] = numbers.of(&Key { version: packet.version, low, high, net }, lists.keys);
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
    let begin = start + packet.next_at + size;
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

/// Headers that name a network: number, bits of the name, and bits behind it in its word (`NETWORKS` of columns.py).
type Names = (u64, u32, u32);
const VLAN: Names = (1, 12, 16);
const LABEL: Names = (2, 20, 12);

/// The network behind one more header: `in_network` of fingerprint/passive/columns.py.
fn in_network(net: u64, (kind, bits, shift): Names, word: u32) -> u64 {
    let name = u64::from(word >> shift) & ((1 << bits) - 1);
    if name > 0 {
        net << (bits + 3) | name << 3 | kind
    } else {
        net
    }
}

/// The innermost IP packet of a frame, which holds TCP, and its network.
fn innermost(frame: &[u8], link: i64, length: i64, opened: &mut Vec<Kind>) -> Result<(Packet, u64), Odd> {
    let (mut begin, mut link, mut net) = (0, link, 0);
    for _ in 0..=NESTED_MOST {
        let at = begin + network_at(frame.get(begin..).ok_or(None)?, link, &mut net)?;
        let packet = packet(frame, at, length)?;
        if packet.protocol == TCP {
            return Ok((packet, net));
        }
        let (kind, size, inner) = tunnel(&packet, frame.get(packet.next_at..).ok_or(None)?)?;
        // Byte 4 of the tunnel's header stands behind UDP's eight bytes. GRE's key is optional; PPTP has a length there.
        let byte = |at: usize| frame[packet.next_at + at];
        let (names, place) = match kind {
            Kind::Vxlan => ((3, 24, 8), 12),
            Kind::Geneve => ((4, 24, 8), 12),
            Kind::Gre if byte(0) & 0x20 != 0 && byte(1) & 7 == 0 => ((5, 32, 0), 4 + 4 * usize::from(byte(0) >> 7)),
            Kind::GtpU => ((6, 32, 0), 12),
            _ => ((0, 0, 0), 0),
        };
        if place > 0 {
            net = in_network(net, names, u32_be(frame, packet.next_at + place));
        }
        opened.push(kind);
        begin = packet.next_at + size;
        link = inner;
    }
    Err(None)
}

/// Where the IP packet of a frame begins: `network_at` of fingerprint/passive/link.py.
fn network_at(frame: &[u8], link: i64, net: &mut u64) -> Result<usize, Odd> {
    let (mut kind, mut at) = match link {
        ETHERNET => (word(frame, 12)?, 14),
        113 => (word(frame, 14)?, 16),
        276 => (word(frame, 0)?, 20),
        PPP => (ETHER_PPP, 0),
        MPLS => (ETHER_MPLS, 0),
        0 | 108 => return Ok(4),
        RAW | 12 | 14 | 228 | 229 => return Ok(0),
        109 => return Ok(12),
        226 => return Ok(24),
        _ => return Err(None),
    };
    let mut tags_only = true;
    while frame.len() >= at {
        let size = match kind {
            ETHER_IP4 | ETHER_IP6 => return Ok(at),
            ETHER_ARP => return Err(Some(Kind::Arp)),
            ETHER_LLDP => return Err(Some(Kind::Lldp)),
            PPPOE_CONTROL => return Err(Some(Kind::PppoeControl)),
            // A length, and LLC follows: only its access points of SNAP and IP can hold TCP.
            0..=0x05FF if tags_only && !matches!(word(frame, at)?, 0xAAAA | 0x0606) => {
                return Err(Some(Kind::NotIp));
            }
            0x8100 | 0x88A8 | 0x9100 | 0x9200 | ETHER_MPLS | ETHER_MPLS2 => 4,
            0x8926 => 6,
            0x8909 | 0x893F | PPPOE => 8,
            ETHER_PPP => 2,
            _ => return Err(None),
        };
        if at > TAG_LATEST {
            return Err(None);
        }
        at += size;
        let next = word(frame, at - 2)?;
        match kind {
            0x8100 | 0x88A8 | 0x9100 | 0x9200 => *net = in_network(*net, VLAN, u32::from(word(frame, at - 4)?) << 16),
            ETHER_MPLS | ETHER_MPLS2 => *net = in_network(*net, LABEL, u32_be(frame, at - 4)),
            _ => (),
        }
        let (number, label) = (matches!(kind, PPPOE | ETHER_PPP), matches!(kind, ETHER_MPLS | ETHER_MPLS2));
        tags_only &= !number && !label;
        (kind, at) = match (number, label) {
            (true, _) => after_number(frame, at, next)?,
            (_, true) => after_label(frame, at, next)?,
            _ => (next, at),
        };
    }
    Err(None)
}

/// The Ethernet type behind PPP's protocol number, and where that packet begins.
fn after_number(frame: &[u8], mut at: usize, mut number: u16) -> Result<(u16, usize), Odd> {
    if number == 0xFF03 {
        at += 2;
        number = word(frame, at - 2)?;
    }
    if number & 0x0100 != 0 {
        at -= 1;
        number >>= 8;
    }
    match number {
        0x0021 => Ok((ETHER_IP4, at)),
        0x0057 => Ok((ETHER_IP6, at)),
        0x0281 => Ok((ETHER_MPLS, at)),
        0x8000..=0xFFFF => Ok((PPPOE_CONTROL, at)),
        _ => Err(None),
    }
}

/// The Ethernet type of what follows a label whose lower half is `low`, and where that begins.
fn after_label(frame: &[u8], at: usize, low: u16) -> Result<(u16, usize), Odd> {
    if low & 0x0100 == 0 {
        return Ok((ETHER_MPLS, at));
    }
    match word(frame, at)? {
        0x4000..=0x4FFF => Ok((ETHER_IP4, at)),
        0x6000..=0x6FFF => Ok((ETHER_IP6, at)),
        first => {
            let at = at + if first == 0 { 18 } else { 14 };
            Ok((word(frame, at - 2)?, at))
        }
    }
}

/// Two bytes; a frame without them is Python's.
fn word(frame: &[u8], at: usize) -> Result<u16, Odd> {
    frame.get(at..at + 2).map(|two| u16_be(two, 0)).ok_or(None)
}

/// Read an IP header that no extension header follows.
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
    let address = |at: usize| if four { u128::from(u32_be(ip, at)) } else { u128_be(ip, at) };
    Ok(Packet {
        protocol,
        next_at: at + place,
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

/// The tunnel that a packet is, or its counter; `data` follows its IP header.
fn tunnel(packet: &Packet, data: &[u8]) -> Result<Tunnel, Odd> {
    match (packet.version, packet.protocol) {
        (4, 1) | (6, 58) => {
            let too_big: &[u8] = if packet.version == 4 { b"\x03\x04" } else { b"\x02\x00" };
            Err(Some(Kind::Icmp).filter(|_| data.len() >= 2 && !data.starts_with(too_big)))
        }
        (_, 17) => in_udp(data),
        (_, 47) => in_gre(data),
        (_, number @ (4 | 41)) if matches!(word(data, 0)? >> 12, 4 | 6) => {
            Ok((if number == 4 { Kind::IpInIp } else { Kind::SixInFour }, 0, RAW))
        }
        (_, 97) if data.starts_with(b"\x30\x00") => Ok((Kind::EtherIp, 2, ETHERNET)),
        (_, 137) => Ok((Kind::Mpls, 0, MPLS)),
        (_, 143) => Ok((Kind::Ethernet, 0, ETHERNET)),
        _ => Err(None),
    }
}

/// The tunnel that a packet in GRE is: `_gre` of fingerprint/passive/tunnel_headers.py.
fn in_gre(data: &[u8]) -> Result<Tunnel, Odd> {
    let head = data.get(..LOOK).ok_or(None)?;
    let (kind, version) = (u16_be(head, 2), head[1] & 7);
    if head[0] & 0x4F != 0 || (version == 1) != (kind == ETHER_PPP) || version > 1 {
        return Err(None);
    }
    let optional = (head[0] >> 7) + (head[0] >> 5 & 1) + (head[0] >> 4 & 1) + (head[1] >> 7) * version;
    let size = 4 + 4 * usize::from(optional);
    let (more, link) = match kind {
        ETHER_IP4 | ETHER_IP6 => (0, RAW),
        ETHER_MPLS | ETHER_MPLS2 => (0, MPLS),
        ETHER_PPP => (0, PPP),
        ETHER_BRIDGED => (0, ETHERNET),
        ERSPAN => (usize::from(head[0] >> 4 & 1) * 8, ETHERNET),
        ERSPAN3 if head[size + 10] & 0x7C == 0 => (12 + 8 * usize::from(head[size + 11] & 1), ETHERNET),
        _ => return Err(None),
    };
    Ok((Kind::Gre, size + more, link))
}

/// The counter of a UDP port: `KIND_BY_PORT` of fingerprint/passive/tunnel_headers.py; and whether servers answer from it.
fn by_port(port: u16) -> Option<(Kind, bool)> {
    match port {
        443 => Some((Kind::Quic, true)),
        51820 => Some((Kind::Wireguard, true)),
        1194 => Some((Kind::Openvpn, true)),
        4500 => Some((Kind::Esp, true)),
        1701 => Some((Kind::L2tp, true)),
        4789 | 4790 | 8472 => Some((Kind::Vxlan, false)),
        6081 => Some((Kind::Geneve, false)),
        2152 => Some((Kind::GtpU, false)),
        6080 => Some((Kind::Gue, false)),
        37008 => Some((Kind::Tzsp, false)),
        _ => None,
    }
}

/// The tunnel that a UDP packet is, or its counter: `frames_within` of fingerprint/passive/tunnel_headers.py.
fn in_udp(data: &[u8]) -> Result<Tunnel, Odd> {
    let body = data.get(8..).filter(|body| !body.is_empty()).ok_or(None)?;
    let answer = || by_port(u16_be(data, 0)).filter(|found| found.1);
    let kind = by_port(u16_be(data, 2)).or_else(answer).map(|found| found.0);
    let (valid, size, link) = match kind {
        Some(Kind::Quic | Kind::Wireguard | Kind::Openvpn | Kind::Esp) => return Err(kind),
        Some(kind) => header(kind, body.get(..LOOK).ok_or(None)?),
        // A packet without a tunnel's header begins with its version.
        None => (matches!(body[0] >> 4, 4 | 6), 0, RAW),
    };
    if !valid {
        return Err(Some(Kind::Udp));
    }
    let inner = body.get(size..).ok_or(None)?;
    let fits = match link {
        // A type that is not listed here is Python's to judge.
        ETHERNET => match word(inner, 12)? {
            3..=0x05FF | ETHER_IP4 | ETHER_IP6 | ETHER_ARP | ETHER_LLDP | ETHER_MPLS | ETHER_MPLS2 => true,
            0x8100 | 0x88A8 | 0x9100 | 0x9200 | 0x8926 | 0x8909 | 0x893F | PPPOE | PPPOE_CONTROL => true,
            _ => return Err(None),
        },
        RAW => {
            let ip = inner.get(..10).ok_or(None)?;
            let (length, protocol) = match ip[0] {
                0x45..=0x4F => (usize::from(u16_be(ip, 2)), ip[9]),
                0x60..=0x6F => (usize::from(u16_be(ip, 4)) + 40, ip[6]),
                _ => return Err(Some(Kind::Udp)),
            };
            length + size + 8 == usize::from(u16_be(data, 4)) && (kind.is_some() || protocol == TCP)
        }
        _ => true,
    };
    if fits {
        Ok((kind.unwrap_or(Kind::IpInUdp), 8 + size, link))
    } else {
        Err(Some(Kind::Udp))
    }
}

/// Whether a tunnel's header in UDP is valid, its bytes, and the link type of what follows; `head` has `LOOK` bytes.
fn header(kind: Kind, head: &[u8]) -> (bool, usize, i64) {
    let [first, second] = [head[0], head[1]];
    let bit = |shift: u8| usize::from(first >> shift & 1);
    match kind {
        Kind::Vxlan => {
            let generic = first & 4 != 0;
            let valid = first & 0x79 == 8 && (!generic || matches!(head[3], 1..=3));
            (valid, 8, if generic && head[3] < 3 { RAW } else { ETHERNET })
        }
        Kind::Geneve => {
            let follows = u16_be(head, 2);
            let valid = matches!(follows, ETHER_BRIDGED | ETHER_IP4 | ETHER_IP6) && first < 64 && second & 63 == 0;
            (valid, 8 + 4 * usize::from(first), if follows == ETHER_BRIDGED { ETHERNET } else { RAW })
        }
        Kind::GtpU => {
            let mut size = if first & 7 != 0 { 12 } else { 8 };
            for _ in 0..4 {
                let place = size.min(LOOK - 1);
                size += if first & 4 != 0 && head[place - 1] != 0 { usize::from(head[place]) * 4 } else { 0 };
            }
            (first & 0xF8 == 0x30 && second == 255, size, RAW)
        }
        Kind::Gue => {
            let bare = first >> 6 == 1;
            let valid = bare || (first < 32 && matches!(second, 4 | 41));
            (valid, if bare { 0 } else { 4 + 4 * usize::from(first) }, RAW)
        }
        Kind::L2tp => {
            let size = 6 + 2 * bit(6) + 4 * bit(3);
            let valid = first & 0xB4 == 0 && second == 2;
            (valid, size + bit(1) * (2 + usize::from(head[size + 1])), PPP)
        }
        _ => (head.starts_with(&[1, 0, 0, 1, 1]), 5, ETHERNET),
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
