# SPDX-License-Identifier: MIT
"""Names -> addresses, as a vantage sees them: many questions at once to its resolver, from inside its namespace.

A name gives addresses or a reason: "dns:nxdomain" (no such name), "dns:no-address" (a name without such addresses),
"dns:timeout", "dns:servfail", "dns:refused", "dns:unreachable", "dns:malformed". Addresses come sorted, since their
order in an answer is the server's whim. Dropped: times to live, since a name is asked once a run; a truncated answer is
asked for again over TCP (dnspython).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_address
from itertools import islice

import dns.asyncresolver
import dns.exception
import dns.rcode
import dns.resolver

from configtron.linux.netns import inside
from configtron.model.errors import BadInput
from configtron.model.nouns import Vantage
from configtron.probe.target_session import Answer

# A try lasts as long as an answer may need over the longest path that we admit, from a name server that asks others
# first; resolv.conf(5) has 5 s. Five tries, with dnspython's pauses between them (0.1 s, doubling): where a packet in
# twenty is lost each way, one question in a hundred thousand stays unanswered; two tries leave one in a hundred.
TRY_S = 2.0
LIFETIME_S = 11.0
MOST_PORT = 65535
# Questions in flight: below the default limit of open files (1024), and gentle to a resolver.
AT_ONCE = 200
RECORDS = {4: "A", 6: "AAAA"}


def resolve(
    names: Sequence[str], vantage: Vantage, *, version: int = 4, lifetime_s: float = LIFETIME_S
) -> dict[str, Answer]:
    """Return addresses or a reason for each name, in the order of the names."""
    with inside(vantage.netns):
        answers = asyncio.run(_ask_all(names, asker(vantage.resolver, lifetime_s), RECORDS[version]))
    return dict(zip(names, answers, strict=True))


def asker(resolver: str, lifetime_s: float) -> dns.asyncresolver.Resolver:
    """Return a resolver that asks that server ("address", "address:port", "[v6]:port"), or the host's own if ""."""
    try:
        made = dns.asyncresolver.Resolver(configure=not resolver)
        if resolver:
            address, made.port = _address_and_port(resolver)
            made.nameservers = [address]
    except (dns.exception.DNSException, ValueError) as error:
        raise BadInput(f"resolver {resolver or '/etc/resolv.conf'!r}: {error}") from error
    made.timeout, made.lifetime, made.cache = min(TRY_S, lifetime_s), lifetime_s, None
    # Names are complete: a search list would turn a missing name into another host's.
    made.search, made.ndots = [], 0
    return made


def resolve_stream(
    names: Iterable[str], vantage: Vantage, *, versions: Sequence[int] = (4,), at_once: int = AT_ONCE,
    lifetime_s: float = LIFETIME_S,
) -> Iterator[tuple[str, Answer]]:  # fmt: skip
    """Yield addresses or a reason for each name, as answers come; a slow one holds up no other. Names are taken as
    there is room, so any number of them takes the same memory. It asks for one IP version after another, until
    a name has addresses.
    """
    resolver, rest = asker(vantage.resolver, lifetime_s), iter(names)
    loop = asyncio.new_event_loop()
    flying: set[asyncio.Task[tuple[str, Answer]]] = set()
    try:
        while True:
            flying |= {
                loop.create_task(_ask_versions(name, resolver, versions))
                for name in islice(rest, at_once - len(flying))
            }
            if not flying:
                return
            with inside(vantage.netns):
                ended, flying = loop.run_until_complete(asyncio.wait(flying, return_when=asyncio.FIRST_COMPLETED))
            yield from (task.result() for task in ended)
    finally:
        for task in flying:
            task.cancel()
        if flying:
            loop.run_until_complete(asyncio.wait(flying))
        loop.close()


async def _ask_versions(name: str, resolver: dns.asyncresolver.Resolver, versions: Sequence[int]) -> tuple[str, Answer]:
    answers = []
    for version in versions:
        answers.append(await _ask(name, resolver, RECORDS[version]))
        if answers[-1].addresses:
            return name, answers[-1]
    return name, answers[0]


async def _ask_all(names: Iterable[str], resolver: dns.asyncresolver.Resolver, record: str) -> list[Answer]:
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> Answer:
        async with gate:
            return await _ask(name, resolver, record)

    return await asyncio.gather(*(one(name) for name in names))


async def _ask(name: str, resolver: dns.asyncresolver.Resolver, record: str) -> Answer:
    try:
        answer = await resolver.resolve(f"{name}.", record)
        aliases = tuple(str(one[0].target) for one in answer.chaining_result.cnames)
        return Answer(tuple(sorted((str(found.address) for found in answer), key=ip_address)), aliases=aliases)
    except (dns.exception.DNSException, OSError, ValueError) as error:
        return Answer((), reason_of(error))


def reason_of(error: Exception) -> str:
    """Return the reason that an error of the resolver stands for."""
    if isinstance(error, dns.resolver.NoNameservers):
        return _refusal(error)
    return next((reason for kind, reason in REASONS if isinstance(error, kind)), "dns:malformed")


# The first row that fits an error has its reason.
REASONS: tuple[tuple[type[Exception], str], ...] = (
    (dns.resolver.NXDOMAIN, "dns:nxdomain"),
    (dns.resolver.NoAnswer, "dns:no-address"),
    (dns.exception.Timeout, "dns:timeout"),
    (OSError, "dns:unreachable"),
)


def _refusal(error: dns.resolver.NoNameservers) -> str:
    """Return why no server gave an answer: the last response's code, or that there was none."""
    tries = error.kwargs.get("errors") or ()
    for _, _, _, problem, response in reversed(tries):
        if response is not None:
            return f"dns:{dns.rcode.to_text(response.rcode()).lower()}"
        if isinstance(problem, OSError):
            return "dns:unreachable"
    return "dns:malformed"


def _address_and_port(text: str) -> tuple[str, int]:
    if text.startswith("["):
        address, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    elif text.count(":") == 1:
        address, _, port = text.partition(":")
    else:
        address, port = text, ""
    number = int(port) if port else 53
    if not 1 <= number <= MOST_PORT:
        raise ValueError(f"{number} is no port")
    return str(ip_address(address)), number
