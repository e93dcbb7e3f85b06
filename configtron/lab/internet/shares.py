# SPDX-License-Identifier: MIT
"""What is dealt, and in which share: Table 2 of the ConfigTron paper (2019) as packs of cards.

Differs    Table 2's top values of ICW and RWIN do not add up to 100 %: the rest is spread over values seen elsewhere.
           Its shares of MAX_FRAME_SIZE are those of effective values here: Apache announces none, and means 16384.
Source     Naseer & Benson, ConfigTron (2019), Table 2. What is not in it says so.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

Card = TypeVar("Card", bound=Hashable)
# (card, share); shares need not add up to anything.
Pack = tuple[tuple[Card, float], ...]

# Settings identifiers (RFC 9113 section 6.5.2).
HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = (
    1,
    2,
    3,
    4,
    5,
    6,
)
# A reserved identifier of the kind RFC 9113 section 5.5 has clients ignore.
UNKNOWN_SETTING = 0x0A0A

# Table 2, in per cent.
VERSIONS: Pack[str] = (("http/1.1", 44.3), ("h2", 55.7))
STREAMS: Pack[int] = ((100, 44), (128, 56))
WINDOWS: Pack[int] = ((65536, 71), (65535, 15), (1048576, 14))
OTHER_ICWS = (1, 2, 3, 6, 16, 20, 30, 32, 45)
ICWS: Pack[int] = ((10, 62), (4, 20.5), (24, 5.3), *((icw, 12.2 / len(OTHER_ICWS)) for icw in OTHER_ICWS))
SYNACK_RTOS_MS: Pack[int] = ((300, 9.2), (1000, 82.6), (3000, 8.2))
# Window of the SYN-ACK as (segments, MSS the server announces): 29200, 14600 and 42780 bytes are Table 2's.
RWINS: Pack[tuple[int, int]] = (
    ((20, 1460), 57.4), ((10, 1460), 8.2), ((31, 1380), 6.8),
    ((9, 1440), 6.0), ((44, 1460), 10.0), ((4, 1460), 4.0), ((20, 1440), 4.0), ((10, 1380), 3.6),
)  # fmt: skip
# Table 2 does not have these; Linux's default leads, the others are there to be found.
RTO_MINS_MS: Pack[int] = ((200, 86), (50, 3), (100, 3), (400, 4), (1000, 4))
CONGESTION_CONTROLS: Pack[str] = (("cubic", 70), ("reno", 12), ("bbr", 18))
# All above 146 000 bytes: an ICW of 100 segments of 1460 fits.
PAGES_BYTES: Pack[int] = ((163840, 40), (229376, 30), (327680, 30))
# nginx announces a frame size of 16777215 and nothing else can: Table 2's 81 %. The others make the 19 % of 16384.
H2_PROGRAMS: Pack[str] = (("nginx", 81), ("apache", 8), ("h2lib", 6.5), ("node", 4.5))
H1_PROGRAMS: Pack[str] = (("nginx", 74), ("apache", 16), ("h2lib", 4), ("node", 6))
FRAME_SIZE = {"nginx": 16777215, "apache": 16384, "h2lib": 16384, "node": 16384}

# Share of sites (for h2_*: of h2 sites) whose value differs in a region outside North America, per cent (Table 2).
HETEROGENEITY = {
    "http_version": 4.7, "h2_max_header_list_size": 0.0, "h2_header_table_size": 0.0, "h2_max_concurrent_streams": 1.0,
    "h2_initial_window_size": 1.9, "h2_max_frame_size": 0.0, "icw": 6.9, "synack_rto": 2.3, "rwin": 3.6,
}  # fmt: skip
# Sites whose whole answer is smaller than their window, so that only a lower bound can be reported.
SHORT_PERCENT = 2.5
# Header (about 250 bytes) and body stay below ten segments of 64 bytes, the smallest MSS a prober can ask for.
SHORT_PAGE_BYTES = 180
SHORT_MIN_ICW = 10
# nginx sites that join header and body in full segments (tcp_nopush).
NOPUSH_PERCENT = 20.0
# Apache sites that accept HTTP/2 without TLS.
H2C_PERCENT = 30.0

# Fictitious, with shares that fall like 1/rank: a few large networks, many small ones.
PROVIDERS = (
    "Northwind Edge", "Halcyon CDN", "Cobalt Cloud", "Meridian Hosting", "Brightwater Networks", "Tessera Delivery",
    "Quillon Web", "Aster Compute", "Palisade Edge", "Juniper Hill Hosting", "Larkspur Media", "Ostrava Cache",
    "Fathom Networks", "Kestrel CDN", "Mistral Sites", "Redwood Racks", "Solstice Cloud", "Umbra Hosting",
    "Vantor Systems", "Willow Digital", "Xylo Networks", "Yarrow Web", "Zephyr Edge", "Basalt Servers",
    "Cinder Hosting", "Dovetail Cloud", "Everline", "Foxglove Media", "Gantry Networks", "Hollow Oak Hosting",
)  # fmt: skip
