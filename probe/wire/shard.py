"""A shard of a campaign, performed: names resolved, calls made, results and evidence laid into one folder.

The folder is the journal: `results.jsonl` (one `Result` a line) and a pcapng a vantage. A result is written after the
packets it was read from, so whatever a kill leaves behind is whole up to some result, and performing the same shard in
the same folder again asks only what is missing. The same code runs in this process and in a laboratory's guest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from pathlib import Path

from configtron.errors import BadInput
from configtron.fingerprint import read
from configtron.nouns import Observation, Target, Trace, Vantage
from configtron.probe.blocklist import Blocklist
from configtron.probe.campaign import Answer, Call, Finished, Journey, Readings, journey, name_of, run
from configtron.probe.provider import provider
from configtron.probe.spacing import Spacing
from configtron.probe.targets import Source, order
from configtron.probe.wire.certificate import organisation
from configtron.probe.wire.pcap import EvidenceWriter
from configtron.probe.wire.pump import Pump
from configtron.probe.wire.push import push
from configtron.probe.wire.resolve import resolve
from configtron.records import Result, result_from_json, result_to_json

JOURNAL = "results.jsonl"
# As many bytes as journeys have ended since the shard was last begun: the cheapest thing to watch from outside.
ENDED = "ended"
# Redirects to other names are rare, and their name servers are other people's.
LOOKUPS_AT_ONCE = 4
Sink = Callable[[Sequence[Result]], None]


@dataclass(frozen=True, slots=True)
class Shard:
    """What to ask, of whom, from where, how fast. `name` is the folder's within the run; rates are starts a second.

    versions  IP versions to ask for, best first
    special   whether IANA's special-purpose ranges are blocked (a laboratory's addresses are among them)
    """

    name: str
    targets: tuple[Target, ...]
    vantages: tuple[Vantage, ...]
    tests: tuple[str, ...]
    profile: str
    rate: float
    host_rate: float
    network_rate: float
    concurrency: int
    seed: int
    agent: str
    first_port: int
    last_port: int
    versions: tuple[int, ...] = (4,)
    special: bool = True
    blocked: tuple[Source, ...] = ()
    allowed: tuple[Source, ...] | None = None

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps(asdict(self), sort_keys=True)


def shard_from_json(text: str) -> Shard:
    """The shard that `to_json` wrote."""
    try:
        row = json.loads(text)
        row["targets"] = tuple(Target(**t) for t in row["targets"])
        row["vantages"] = tuple(Vantage(**v) for v in row["vantages"])
        row["tests"], row["versions"] = tuple(row["tests"]), tuple(row["versions"])
        row["blocked"] = tuple(Source(*s) for s in row["blocked"])
        row["allowed"] = None if row["allowed"] is None else tuple(Source(*s) for s in row["allowed"])
        return Shard(**row)
    except (ValueError, TypeError, KeyError) as error:
        raise BadInput(f"not a shard: {type(error).__name__}: {error}") from error


def journal(folder: Path) -> list[Result]:
    """The results in a folder; a line that a kill cut short is cut off the file."""
    path = folder / JOURNAL
    if not path.exists():
        return []
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        with path.open("r+b") as file:
            file.truncate(whole)
    return [result_from_json(line) for line in data[:whole].decode().splitlines()]


def perform(
    shard: Shard,
    folder: Path,
    sink: Sink = lambda results: None,
    on_end: Callable[[], None] = lambda: None,
    go_on: Callable[[], bool] = lambda: True,
) -> None:
    """Do what is still missing of a shard.

    sink     gets each batch of new results once it is in the journal, and an empty one now and then while none come
    on_end   is called when a target is finished from one vantage
    go_on    is asked before a target is begun; False lets only those under way finish
    """
    folder.mkdir(parents=True, exist_ok=True)
    stored = journal(folder)
    done = {result.trace_id: result.observations for result in stored}
    blocklist = Blocklist(shard.blocked, allowed=shard.allowed, special=shard.special)
    ports = range(shard.first_port, shard.last_port + 1)
    pump = Pump(shard.vantages, ports=ports, seed=shard.seed, agent=shard.agent)
    lane = _Lane(pump, folder, shard, stored, sink)
    lookups = _Lookups(shard, blocklist)
    try:
        addressed = _addresses(shard, blocklist, done, lane)
        for _ in range(len(shard.targets) * len(shard.vantages) - len(addressed)):
            on_end()
        journeys = takewhile(lambda journey: go_on(), _journeys(shard, addressed))
        spacing = Spacing(shard.rate, shard.host_rate, shard.network_rate)
        run(journeys, lane, spacing, done, lookups, concurrency=shard.concurrency, on_end=lambda v, t: on_end())
    finally:
        lookups.close()
        pump.close()
        lane.close()


def _journeys(shard: Shard, addressed: dict[tuple[str, str], Target]) -> Iterator[tuple[str, Target, Journey]]:
    """Target by target, each seen from all vantages in turn: what is compared is measured at about the same time."""
    tests = frozenset(shard.tests)
    for target in order(shard.targets, shard.seed):
        for vantage in shard.vantages:
            known = addressed.get((vantage.name, name_of(target)))
            if known is not None:
                yield vantage.name, known, journey(known, tests, shard.profile)


class _Lane:
    """The pump as the campaign's loop wants it; everything that comes back is written down before it is handed on."""

    def __init__(self, pump: Pump, folder: Path, shard: Shard, stored: Sequence[Result], sink: Sink) -> None:
        self._pump, self._sink = pump, sink
        ends: dict[str, int] = {}
        for result in stored:
            ends[result.evidence_file] = max(result.evidence_end, ends.get(result.evidence_file, 0))
        self._files = {v.name: f"{shard.name}/{v.name}.pcapng" for v in shard.vantages}
        self._writers = {
            name: EvidenceWriter(folder / Path(file).name, resume_at=ends.get(file, 0))
            for name, file in self._files.items()
        }
        self._journal = (folder / JOURNAL).open("ab")
        self._origins: dict[str, Target] = {}

    def begin(self, trace_id: str, vantage: str, call: Call, origin: Target) -> None:
        self._origins[trace_id] = origin
        self._pump.begin(vantage, trace_id, call.target, call.probe, call.params)

    def now(self) -> float:
        return self._pump.now()

    def finished(self, timeout_s: float) -> list[Finished]:
        results = []
        for recording in self._pump.poll(timeout_s):
            trace = recording.trace
            evidence = self._writers[trace.vantage].append(recording)
            origin = self._origins.pop(trace.id)
            target = replace(trace.target, host=origin.host, port=origin.port, tag=origin.tag)
            results.append(
                Result(
                    trace.id, trace.vantage, target, trace.probe, trace.params, trace.started_at, trace.ending,
                    trace.tainted, self._files[trace.vantage], evidence.offset, evidence.end, evidence.first_frame,
                    evidence.frames, (*read(trace), *_provider(trace, origin)),
                )
            )  # fmt: skip
        if results:
            self.keep(results)
        else:
            self._sink(())
        return [Finished(result.trace_id, result.observations) for result in results]

    def keep(self, results: Sequence[Result]) -> None:
        """Evidence first, then the results that point to it, then whoever wants to know."""
        if not results:
            return
        for vantage in sorted({result.vantage for result in results if result.frames}):
            self._writers[vantage].flush()
        self._journal.write(b"".join(result_to_json(result).encode() + b"\n" for result in results))
        push(self._journal)
        self._sink(results)

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
        self._journal.close()


def _provider(trace: Trace, origin: Target) -> tuple[Observation, ...]:
    """Who runs the site, from a trace that saw a certificate."""
    if trace.session is None or not trace.session.certificate:
        return ()
    named = organisation(trace.session.certificate)
    method = "certificate organisation" if named else "registered domain"
    return (Observation("provider", provider(origin.host, named), None, "", method, "C", trace.id),)


def _addresses(
    shard: Shard, blocklist: Blocklist, done: dict[str, Readings], lane: _Lane
) -> dict[tuple[str, str], Target]:
    """Targets with an address, by (vantage, name). What has none, or may not be asked, ends here with its reason."""
    found: dict[tuple[str, str], Target] = {}
    for vantage in shard.vantages:
        asked = [t for t in shard.targets if f"{vantage.name}/{name_of(t)}/dns.1" not in done]
        names = sorted({t.host for t in asked if not t.address and not blocklist.host(t.host)})
        answers = _resolved(names, vantage, shard.versions)
        results = []
        for target in shard.targets:
            trace_id = f"{vantage.name}/{name_of(target)}/dns.1"
            readings = done.get(trace_id)
            if readings is None:
                seen = _address(target, answers.get(target.host), blocklist, vantage, trace_id)
                results.append(_lookup_result(trace_id, vantage.name, target, seen, lane.now()))
            else:
                seen = readings[0]
            if seen.value is not None:
                found[vantage.name, name_of(target)] = replace(target, address=str(seen.value))
        lane.keep(results)
    return found


def _resolved(names: Sequence[str], vantage: Vantage, versions: Sequence[int]) -> dict[str, Answer]:
    """Addresses of the best IP version that a name has; the first version's reason if it has none."""
    found: dict[str, Answer] = {}
    for version in versions:
        missing = [name for name in names if name not in found or not found[name].addresses]
        for name, answer in (resolve(missing, vantage, version=version) if missing else {}).items():
            if answer.addresses or name not in found:
                found[name] = answer
    return found


def _address(
    target: Target, answer: Answer | None, blocklist: Blocklist, vantage: Vantage, trace_id: str
) -> Observation:
    addresses = (target.address,) if target.address else answer.addresses if answer is not None else ()
    reason = answer.reason if answer is not None else ""
    allowed = [address for address in addresses if not blocklist.address(address)]
    if blocklist.host(target.host) or addresses and not allowed:
        reason = "blocked"
    elif allowed and not any(_reachable(vantage, address) for address in allowed):
        reason = "no-source-address"
    allowed = [address for address in allowed if _reachable(vantage, address)]
    method = "as given" if target.address else "DNS"
    if not allowed or reason:
        return Observation("address", None, reason or "dns:no-address", "", method, "N", trace_id)
    return Observation("address", allowed[0], None, "", method, "C", trace_id)


def _lookup_result(trace_id: str, vantage: str, target: Target, seen: Observation, now: float) -> Result:
    address = str(seen.value) if seen.value is not None else target.address
    ending = seen.reason or "done"
    return Result(
        trace_id, vantage, replace(target, address=address), "dns", (), int(now * 1e9), ending, observations=(seen,)
    )


class _Lookups:
    """Names met on the way: resolved from the same vantage, once, beside the loop, and checked like all others."""

    def __init__(self, shard: Shard, blocklist: Blocklist) -> None:
        self._vantages = {vantage.name: vantage for vantage in shard.vantages}
        self._versions, self._blocklist = shard.versions, blocklist
        self._threads = ThreadPoolExecutor(LOOKUPS_AT_ONCE, "lookup")
        self._asked: dict[tuple[str, str], Future[Answer]] = {}

    def __call__(self, vantage: str, host: str) -> Answer | None:
        if (vantage, host) not in self._asked:
            self._asked[vantage, host] = self._threads.submit(self._answer, self._vantages[vantage], host)
        asked = self._asked[vantage, host]
        return asked.result() if asked.done() else None

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _answer(self, vantage: Vantage, host: str) -> Answer:
        if self._blocklist.host(host):
            return Answer((), "blocked")
        answer = _resolved([host], vantage, self._versions)[host]
        allowed = tuple(a for a in answer.addresses if not self._blocklist.address(a) and _reachable(vantage, a))
        return Answer(allowed, answer.reason or ("blocked" if answer.addresses and not allowed else ""))


def _reachable(vantage: Vantage, address: str) -> bool:
    """Whether the vantage has a source address of that IP version."""
    return bool(vantage.source_address6 if ":" in address else vantage.source_address)
