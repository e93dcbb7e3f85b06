# SPDX-License-Identifier: MIT
"""Pools of servers, and the pool of each client: routing chooses the settings that no connection can have by itself.

Question   The version of HTTP and its SETTINGS belong to a server process. How does a prefix get those of its profile?
Method     A pool is a set of servers set up alike: HotCloud's template, written as a profile of web knobs. A prefix
           goes to the first pool that serves all web knobs of its profile; one whose profile has none, and every client
           that no prefix holds, goes to the default pool (HotCloud's, for unknown prefixes).
Reads as   A map file of the server that stands in front: nginx `geo`, HAProxy `map_ip`, or ours for Apache, which has
           no map by prefix (`tune/router/lookup.py`). All three take the longest prefix.
Fails as   `BadInput` for a profile that no pool serves.
Differs    from HotCloud: pools are named by their operator, and none is started or resized here.
Source     HC section 3; CT section 5; ngx_stream_geo_module; HAProxy configuration manual 2.6 section 7.3.1 (map_ip)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_network

from configtron.model.errors import BadInput
from configtron.model.knobs import KERNEL, KNOBS
from configtron.model.nouns import Profile, Value
from configtron.model.tuning import Reach, Rules
from configtron.tune.rules import MAPPED_BITS, canonical
from configtron.tune.unsupported import UNSUPPORTED

# Knobs that a server's own configuration decides, not the kernel.
WEB_LAYERS = ("web", "http2")
# A pool's name stands bare in three servers' configurations.
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,62}")

# Ranges of a SETTINGS value (RFC 9113 section 6.5.2): any, a window, a frame.
ANY, WINDOW, FRAME = (0, (1 << 32) - 1), (0, (1 << 31) - 1), (16384, (1 << 24) - 1)
BY_POOL = "by the pool that the connection is led to, whose servers are set up so"
NOT_BY_APACHE = f"{BY_POOL}; not behind Apache, which answers the client itself"


def _chosen(knob: str) -> Reach:
    return Reach(knob, values=KNOBS[knob].values or (0, 1), note=NOT_BY_APACHE)


def _counted(knob: str, span: tuple[int, int]) -> Reach:
    return Reach(knob, least=span[0], most=span[1], note=NOT_BY_APACHE)


REACHES: Mapping[str, Reach] = {
    reach.knob: reach
    for reach in (
        Reach("http_version", values=("http/1.1", "h2"),
              note="by the pool that the connection is led to; behind Apache, which answers itself, only to its pools"),
        *map(_chosen, ("tls_version", "ocsp_stapling", "dynamic_record_sizing", "h2_push", "http11_pipelining")),
        _counted("h2_header_table_size", ANY),
        _counted("h2_max_concurrent_streams", ANY),
        _counted("h2_initial_window_size", WINDOW),
        _counted("h2_max_frame_size", FRAME),
        _counted("h2_max_header_list_size", ANY),
    )
}  # fmt: skip
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(KERNEL, "the kernel's, not the server's; drivers kmod, ebpf, route and sysctl"),
    **{knob: why for knob, why in UNSUPPORTED.items() if knob not in REACHES},
    "tcp_low_latency": "no kernel since Linux 4.14 reads it",
}


@dataclass(frozen=True, slots=True)
class Pool:
    """Servers that are set up alike. The template's settings are web knobs."""

    name: str
    template: Profile

    def serves(self, wanted: Mapping[str, Value]) -> bool:
        """Return whether it is set up as wanted."""
        offered = dict(self.template.settings)
        return all(offered.get(knob) == value for knob, value in wanted.items())


def pool_of(written: str) -> Pool:
    """Parse a pool, NAME or NAME:KNOB=VALUE,KNOB=VALUE. Errors: `BadInput`."""
    name, _, settings = written.partition(":")
    if not NAME.fullmatch(name):
        why = "a name is letters, digits and _ . - after a letter"
        raise BadInput(f"pool {written!r}: {why}; write NAME:KNOB=VALUE,...")
    return Pool(name, Profile(name, tuple(_setting(name, part) for part in settings.split(",") if part)))


def _setting(pool: str, part: str) -> tuple[str, Value]:
    knob, equals, value = part.partition("=")
    if not equals or knob not in KNOBS or KNOBS[knob].layer not in WEB_LAYERS:
        known = ", ".join(name for name, row in KNOBS.items() if row.layer in WEB_LAYERS)
        raise BadInput(f"pool {pool}: {part!r} sets no knob of a web server; write KNOB=VALUE, KNOB one of {known}")
    return knob, int(value) if value.isdigit() else value


def web(profile: Profile) -> dict[str, Value]:
    """Return the settings of a profile that a pool decides."""
    return {knob: value for knob, value in profile.settings if knob in KNOBS and KNOBS[knob].layer in WEB_LAYERS}


def for_kernel(rules: Rules) -> Rules:
    """Return the rules for drivers, without the settings that a pool decides."""
    rest = {
        name: Profile(name, tuple(setting for setting in profile.settings if setting[0] not in web(profile)))
        for name, profile in rules.profiles.items()
    }
    return replace(rules, profiles=rest)


@dataclass(frozen=True, slots=True)
class Routing:
    """Prefix -> name of a pool, in the order of the file; `default` for all others."""

    pools: Mapping[str, str]
    default: str


def routing(rules: Rules, pools: Sequence[Pool], default: str = "") -> Routing:
    """Return the pool of each prefix; the default pool is `default`, else the first. Errors: `BadInput`."""
    names = [pool.name for pool in pools]
    if not pools or len(set(names)) != len(names):
        raise BadInput("name each pool once: --pool NAME:http_version=h2 --pool OTHER:http_version=http/1.1")
    if default and default not in names:
        raise BadInput(f"no pool is called {default!r}; there is: {', '.join(names)}")
    fallback = default or names[0]
    chosen = {name: _choose(profile, pools, fallback) for name, profile in rules.profiles.items()}
    last = chosen[rules.default] if rules.default and web(rules.profiles[rules.default]) else fallback
    return Routing({canonical(prefix): chosen[name] for prefix, name in sorted(rules.prefixes.items())}, last)


def _choose(profile: Profile, pools: Sequence[Pool], default: str) -> str:
    wanted = web(profile)
    if not wanted:
        return default
    for pool in pools:
        if pool.serves(wanted):
            return pool.name
    asked = ", ".join(f"{knob}={value}" for knob, value in wanted.items())
    offers = "; ".join(f"{p.name}: {', '.join(f'{k}={v}' for k, v in p.template.settings) or 'nothing'}" for p in pools)
    raise BadInput(f"profile {profile.name}: no pool serves {asked} (there is {offers}); add one: --pool NAME:{asked}")


def nginx(routed: Routing) -> Iterator[str]:
    """Yield lines for `geo $pool { include FILE; }`."""
    yield f"default {routed.default};"
    yield from (f"{prefix} {pool};" for prefix, pool in routed.pools.items())


def pairs(routed: Routing) -> Iterator[str]:
    """Yield lines of prefix and pool; everything else is in the two widest prefixes."""
    yield from (f"{prefix} {routed.default}" for prefix in ("0.0.0.0/0", "::/0") if prefix not in routed.pools)
    yield from (f"{prefix} {pool}" for prefix, pool in routed.pools.items())


def haproxy(routed: Routing) -> Iterator[str]:
    """Yield lines of `pairs`, IPv4 prefixes twice: a socket of both families has an IPv4 client as ::ffff:a.b.c.d."""
    for line in pairs(routed):
        yield line
        prefix, _, pool = line.partition(" ")
        network = ip_network(prefix)
        if network.version == 4:
            yield f"::ffff:{network.network_address}/{MAPPED_BITS + network.prefixlen} {pool}"


FORMS = {"nginx": nginx, "apache": pairs, "haproxy": haproxy}


def map_text(server: str, routed: Routing) -> str:
    """Return the whole map file of a server."""
    head = "# Which pool serves which clients. Made by `configtron tune router`; changes by hand are written over."
    return "\n".join([head, *FORMS[server](routed)]) + "\n"


EXAMPLES = {
    "nginx": """stream {{
    geo $configtron_pool {{ include {map}; }}
    upstream {pool} {{ server 192.0.2.10:443; }}  # one for each pool
    server {{ listen 443; listen [::]:443; proxy_pass $configtron_pool; }}
}}
""",
    "haproxy": """frontend clients
    mode tcp
    bind :::443 v4v6
    use_backend %[src,map_ip({map})]
backend {pool}  # one for each pool
    mode tcp
    server first 192.0.2.10:443
""",
    "apache": """RewriteEngine on
RewriteMap pools "prg:{python} -P -m configtron.tune.router.lookup {map}"
RewriteRule ^/(.*)$ balancer://${{pools:%{{REMOTE_ADDR}}|{pool}}}/$1 [P]
<Proxy balancer://{pool}>  # one for each pool; h2:// where it speaks HTTP/2
    BalancerMember http://192.0.2.10
</Proxy>
""",
}
