# SPDX-License-Identifier: MIT
"""`configtron learn explain`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from configtron.cli.learn.options import policy_option, rounded, write
from configtron.cli.settings import settings
from configtron.cli.tune.options import form_options
from configtron.model.errors import DONE

if TYPE_CHECKING:
    from configtron.learner.saved import Safety
    from configtron.model.records import Json
    from configtron.service.learning.explaining import Explained

EXPLANATION_COLUMNS = ("kind", "what", "arm", "share", "loads", "excess", "about")


@click.command(short_help="Say which profile a client gets, and why.")
@click.argument("who", metavar="PREFIX|ADDRESS|CONTEXT")
@policy_option
@click.option("--site", default="", metavar="SITE", help="For this website; else for any other than those known.")
@form_options
def explain(who: str, name: str, site: str, form: str, output_file: str) -> int:
    """Say which profile a client gets, and why: its class, what it may get and what was seen of that, which knob helps.

    A PREFIX stands for its latest 50 outcomes in the log that the policy learns from: medians of bandwidth and round
    trip, mean loss. An ADDRESS, or a prefix that no outcome is of, stands for the longest prefix that outcomes are of
    and that contains it, however that is spelt; it is said which.
    A CONTEXT is written bandwidth_kbps=5000,rtt_ms=80,loss=0.01 (site=, prefix=, device= and what else docs/fields.md
    lists of an outcome, too). Nothing is drawn or
    learned to answer. A choice is named by its knobs' values; which is whose is in JSON (`settings`). `loads` are those
    of this class and site. `excess` is expected page load time over Default's, a share; of a knob: what putting it back
    to its default would cost. Exit code 2: no outcome is of such a prefix, or a site that the policy does not know:
    leave the site out, since all of those are decided for alike.
    """
    from configtron.cli.learn.pace import Shown
    from configtron.service.learning.explaining import ExplainOptions
    from configtron.service.learning.explaining import explain as explained

    found = explained(ExplainOptions(settings().db, who, name, site), Shown())
    write(form, output_file, EXPLANATION_COLUMNS, _rows(who, found))
    return DONE


def _shown(value: float | str | None) -> Json:
    return value if isinstance(value, str) else rounded(value)


def _rows(who: str, one: Explained) -> Iterator[dict[str, Json]]:
    context, found = one.context, one.found
    seen: dict[str, Json] = {key: _shown(getattr(context, key)) for key in one.features}
    words = ", ".join(f"{key} {value}" for key, value in seen.items() if value not in (None, ""))
    next_ = f"; next is {found.runner_up} at {found.runner_up_distance:.3g}" if found.runner_up_distance else ""
    near = f"; {found.distance:.3g} from its centre{next_}" if found.distance is not None else ""
    about = (found.reason or words) + ("" if found.reason else near)
    if "=" not in who and who != context.prefix:
        about = f"{who} is in {context.prefix}: {about}"
    head: dict[str, Json] = {"kind": "class", "name": one.name, "policy": one.policy, "prefix": context.prefix}
    head |= {"what": found.class_id or "-", "loads": found.loads}
    yield head | {"site": context.site, "seen": seen, "distance": rounded(found.distance), "next": found.runner_up,
                  "next_distance": rounded(found.runner_up_distance), "about": about}  # fmt: skip
    for choice in found.choices:
        settings_: dict[str, Json] = {knob: value for knob, value in choice.profile.settings}  # type: ignore[misc]
        yield {"kind": "choice", "what": choice.profile.name, "arm": choice.arm, "share": rounded(choice.share),
               "loads": choice.loads, "excess": rounded(choice.excess), "settings": settings_}  # fmt: skip
    yield from _safety(one.safety)
    for effect in found.effects:
        setting, default = str(effect.setting), str(effect.default)
        yield {"kind": "knob", "what": f"{effect.knob}={setting}", "excess": rounded(effect.excess),
               "about": f"put back to {default}"}  # fmt: skip


def _safety(safety: Safety | None) -> Iterator[dict[str, Json]]:
    """Yield what a budget has come to, and which configurations are dropped, where one is kept."""
    if safety is None:
        return
    about = f"of a budget of {safety.budget:g}; {safety.unproven:.3g} of sessions get what is not proven"
    yield {"kind": "budget", "what": "spent", "excess": rounded(safety.spent), "about": about}
    for name in safety.dropped:
        yield {"kind": "dropped", "what": name, "about": "several times slower than Default"}
