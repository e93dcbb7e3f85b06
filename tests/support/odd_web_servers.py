# SPDX-License-Identifier: MIT
"""`learn serve --setup` for configurations as humans write them: after kills, without an own file, with few includes.

    python -m tests.support.odd_web_servers FOLDER

as root in namespaces of its own (`tests/support/isolation.py`), with a copy of /etc. Prints what was seen as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from configtron.model.errors import ConfigtronError
from configtron.service.outcomes.web_setup import NGINX_LOCATION, TESTS, SetupOptions, run, set_up, take_back
from tests.support.served_by_setup import configuration, own_host

SITE, MAIN = Path("/etc/nginx/sites-enabled/default"), Path("/etc/nginx/nginx.conf")
OPTIONS = SetupOptions("nginx", log_group="www-data")
# What Python reports before it touches a file.
TOUCHES = {"open", "os.rename", "os.remove", "os.truncate"}


def set_up_nginx() -> None:
    set_up(OPTIONS)


def take_nginx_back() -> None:
    take_back("nginx")


def killed_at(number: int, action: Callable[[], None]) -> bool:
    """Run an action in a child that is killed before it touches its Nth file in /etc; return whether it was."""
    child = os.fork()
    if not child:
        touched = [0]

        def touch(event: str, arguments: tuple[Any, ...]) -> None:
            if event in TOUCHES and str(arguments[0]).startswith("/etc/") and "r" not in str(arguments[1] or ""):
                touched[0] += 1
                if touched[0] == number:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(touch)
        action()
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def after_kills(action: Callable[[], None]) -> list[str]:
    """Kill an action at each file that it touches, and run it again; return what was wrong, and how many kills."""
    other = take_nginx_back if action is set_up_nginx else set_up_nginx
    action()
    wanted, wrong, number = configuration(), [], 0
    other()
    while killed_at(number + 1, action):
        number += 1
        try:
            run(TESTS["nginx"])
        except ConfigtronError as error:
            wrong.append(f"kill {number}: {error}")
        action()
        wrong += [f"kill {number}: {name}" for name, text in configuration().items() if wanted.get(name) != text]
        other()
    return [*wrong, f"{number} kills"]


def refusal(action: Callable[[], None]) -> str:
    """Return the error of an action, "" without one."""
    try:
        action()
    except ConfigtronError as error:
        return str(error)
    return ""


def main(folder: Path) -> None:
    own_host(folder)
    before = configuration()
    seen: dict[str, Any] = {"setup": after_kills(set_up_nginx)}
    take_nginx_back()
    seen["undo"] = after_kills(take_nginx_back)
    set_up_nginx()
    NGINX_LOCATION.unlink()
    seen["without own file"] = [refusal(set_up_nginx), refusal(take_nginx_back), configuration() == before]
    whole = MAIN.read_text()
    MAIN.write_text(whole.replace("include /etc/nginx/conf.d/*.conf;", ""))
    seen["without conf.d"] = refusal(set_up_nginx)
    MAIN.write_text(whole)
    seen["same"] = configuration() == before
    print(json.dumps(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
