# SPDX-License-Identifier: MIT
"""Replay recordings, compared with their expected results; replay policies on simulated sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from configtron.service.lazily import lazily

if TYPE_CHECKING:
    from configtron.service.progress import StepProgress
    from configtron.service.replay.adoption import adopt, adopt_in, captures_in
    from configtron.service.replay.play_lines import PlayLines
    from configtron.service.replay.recordings import PacketOptions, PacketReplay, PlayProgress, replay_packets
    from configtron.studies.sim.session_job import JobResult
    from configtron.studies.sim.simulation import SessionOptions, replay_sessions, resume_sessions
    from configtron.studies.sim.world_export import export_world

__all__ = [
    "JobResult", "PacketOptions", "PacketReplay", "PlayLines", "PlayProgress", "SessionOptions", "StepProgress",
    "adopt", "adopt_in", "captures_in", "export_world", "replay_packets", "replay_sessions", "resume_sessions",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = lazily(
        __name__,
        {
            **dict.fromkeys(("adopt", "adopt_in", "captures_in"), "adoption"),
            **dict.fromkeys(("PacketOptions", "PacketReplay", "PlayProgress", "replay_packets"), "recordings"),
            **dict.fromkeys(("JobResult", "StepProgress"), "configtron.studies.sim.session_job"),
            **dict.fromkeys(
                ("SessionOptions", "replay_sessions", "resume_sessions"), "configtron.studies.sim.simulation"
            ),
            "PlayLines": "play_lines",
            "export_world": "configtron.studies.sim.world_export",
        },
    )
