# SPDX-License-Identifier: MIT
"""How late a kernel timer may fire: the timer wheel's own table.

Question   A server's timer is set to so many seconds. When may it fire at the latest?
Method     A timer goes into the level whose range holds it, and is rounded up to that level's granularity; the tick
           under way comes on top. It never fires early. The table is what the kernel's comment prints for each HZ,
           levels 0 to 3; a server's HZ is unknown from outside, so the latest of them counts.
Differs    from the reader, which computes with an eighth of the timer: this table is copied, and a test measures the
           wheel of the running kernel by a socket's receive timeout, which sends no packet.
Source     kernel/time/timer.c, comment "This results in the following granularity and range levels"; kernel/Kconfig.hz.
"""

from __future__ import annotations

# HZ -> (largest timer of the level, its granularity), both in milliseconds.
LEVELS_MS: dict[int, tuple[tuple[int, int], ...]] = {
    1000: ((63, 1), (511, 8), (4095, 64), (32767, 512)),
    300: ((210, 3), (1703, 26), (13650, 213), (109223, 1706)),
    250: ((255, 4), (2047, 32), (16383, 256), (131071, 2048)),
    100: ((630, 10), (5110, 80), (40950, 640), (327670, 5120)),
}


def late_s(timer_s: float, hz: int = 0) -> float:
    """Return seconds that a timer of `timer_s` may be late on a kernel of that HZ (0: of any)."""
    if not hz:
        return max(late_s(timer_s, each) for each in LEVELS_MS)
    # one that would end within a granule of its level's end is put a level higher (calc_wheel_index())
    grain_ms = next((grain for most, grain in LEVELS_MS[hz] if timer_s * 1000 + grain <= most), LEVELS_MS[hz][-1][1])
    return grain_ms / 1000 + 1 / hz
