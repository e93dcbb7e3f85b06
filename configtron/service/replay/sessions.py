# SPDX-License-Identifier: MIT
"""Sessions are simulated by a study, which only these names load."""

from configtron.service.progress import StepProgress as StepProgress
from configtron.studies.sim.session_job import JobResult as JobResult
from configtron.studies.sim.simulation import SessionOptions as SessionOptions
from configtron.studies.sim.simulation import replay_sessions as replay_sessions
from configtron.studies.sim.simulation import resume_sessions as resume_sessions
from configtron.studies.sim.world_export import export_world as export_world
