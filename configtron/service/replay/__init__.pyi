# SPDX-License-Identifier: MIT
from .adoption import adopt as adopt
from .adoption import adopt_in as adopt_in
from .adoption import captures_in as captures_in
from .play_lines import PlayLines as PlayLines
from .recordings import PacketOptions as PacketOptions
from .recordings import PacketReplay as PacketReplay
from .recordings import PlayProgress as PlayProgress
from .recordings import replay_packets as replay_packets
from .sessions import JobResult as JobResult
from .sessions import SessionOptions as SessionOptions
from .sessions import StepProgress as StepProgress
from .sessions import export_world as export_world
from .sessions import replay_sessions as replay_sessions
from .sessions import resume_sessions as resume_sessions
