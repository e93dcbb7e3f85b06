# SPDX-License-Identifier: MIT
"""Replay recordings, and compare what today's scripts and readers make of them with what was expected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from configtron.service.lazily import lazily

if TYPE_CHECKING:
    from configtron.service.replay.adoption import adopt, captures_in
    from configtron.service.replay.recordings import PacketOptions, PacketReplay, PlayProgress, replay_packets

__all__ = ["PacketOptions", "PacketReplay", "PlayProgress", "adopt", "captures_in", "replay_packets"]

if not TYPE_CHECKING:
    __getattr__ = lazily(
        __name__,
        {
            **dict.fromkeys(("adopt", "captures_in"), "adoption"),
            **dict.fromkeys(("PacketOptions", "PacketReplay", "PlayProgress", "replay_packets"), "recordings"),
        },
    )
