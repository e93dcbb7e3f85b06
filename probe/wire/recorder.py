# SPDX-License-Identifier: MIT
"""The pump as the campaign's loop wants it: everything that comes back is written down before it is handed on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from configtron.model.nouns import Observation, Target
from configtron.model.records import Result, result_to_json
from configtron.probe.pacing import Finished
from configtron.probe.target_session import Call
from configtron.probe.wire.journal import JOURNAL
from configtron.probe.wire.pcap import EvidenceWriter
from configtron.probe.wire.pump import Pump
from configtron.probe.wire.push import push
from configtron.probe.wire.result import named, result_of

Sink = Callable[[Sequence[Result]], None]
# Why that host at that address may not be asked; "" if it may.
Forbidden = Callable[[str, str], str]


class Recorder:
    """A pump, and the shard's folder: its journal and a pcapng a vantage."""

    def __init__(
        self,
        pump: Pump,
        folder: Path,
        files: Mapping[str, str],
        ends: Mapping[str, int],
        sink: Sink,
        forbidden: Forbidden,
    ) -> None:
        """`files`: evidence file of each vantage, as results name it; `ends`: their lengths from an earlier start."""
        self._pump, self._sink, self._forbidden = pump, sink, forbidden
        self._writers = {
            vantage: EvidenceWriter(folder / Path(file).name, name=file, resume_at=ends.get(file, 0))
            for vantage, file in files.items()
        }
        self._journal = (folder / JOURNAL).open("ab")
        self._origins: dict[str, Target] = {}

    def begin(self, trace_id: str, vantage: str, call: Call, origin: Target) -> bool:
        """Probe a target, unless its operator opted out since the run began."""
        if self._forbidden(call.target.host, call.target.address):
            self.keep([_refused(trace_id, vantage, call, origin, self.now())])
            return False
        self._origins[trace_id] = origin
        self._pump.begin(vantage, trace_id, call.target, call.probe, call.params)
        return True

    def now(self) -> float:
        """Return seconds since the epoch."""
        return self._pump.now()

    def finished(self, timeout_s: float) -> list[Finished]:
        """Return the calls that finished, read and stored."""
        results = []
        for recording in self._pump.poll(timeout_s):
            trace = recording.trace
            evidence = self._writers[trace.vantage].append(recording)
            origin = self._origins.pop(trace.id)
            results.append(result_of(trace, evidence, origin))
        if results:
            self.keep(results)
        else:
            self._sink(())
        return [Finished(result.trace_id, result.observations) for result in results]

    def keep(self, results: Sequence[Result]) -> None:
        """Evidence first, then the results that point to it, then the callbacks."""
        if not results:
            return
        for vantage in sorted({result.vantage for result in results if result.frames}):
            self._writers[vantage].flush()
        self._journal.write(b"".join(result_to_json(result).encode() + b"\n" for result in results))
        push(self._journal)
        self._sink(results)

    def close(self) -> None:
        """Close the files."""
        for writer in self._writers.values():
            writer.close()
        self._journal.close()


def _refused(trace_id: str, vantage: str, call: Call, origin: Target, now: float) -> Result:
    seen = Observation("address", None, "blocked", "", "asked not to", "N", trace_id)
    target = named(call.target, origin)
    return Result(trace_id, vantage, target, call.probe, call.params, int(now * 1e9), "blocked", observations=(seen,))
