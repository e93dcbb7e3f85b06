# SPDX-License-Identifier: MIT
"""Make man pages and shell completions from the commands when a wheel is built, and the native reader of captures where
there is rustc: then the wheel is of this platform. All else is in setup.cfg."""

import os
import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

PLACES = {
    "man": "share/man/man1",
    "completion/configtron": "share/bash-completion/completions",
    "completion/_configtron": "share/zsh/site-functions",
    "completion/configtron.fish": "share/fish/vendor_completions.d",
}


class BuildWithPages(build_py):
    """Add the pages to the data files. An editable install has none: `make man` writes them to build/pages."""

    def run(self) -> None:
        if Path("native").is_dir():
            subprocess.run(["native/compile"], check=True)
        super().run()
        if self.editable_mode:
            return
        pages = Path("build/pages")
        code = f"from configtron.cli.manual import write_pages; write_pages({str(pages)!r})"
        # What pip adds for a build (click) is on PYTHONPATH, too.
        path = os.pathsep.join(filter(None, (str(Path(self.build_lib).resolve()), os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, "PYTHONPATH": path}
        subprocess.run([sys.executable, "-P", "-c", code], check=True, env=environment)
        for name, place in PLACES.items():
            found = pages / name
            files = sorted(map(str, found.iterdir())) if found.is_dir() else [str(found)]
            self.distribution.data_files.append((place, files))


class WheelOfPlatform(bdist_wheel):
    """Any Python 3 of this platform, if the native reader is in it; else any platform."""

    def get_tag(self) -> tuple[str, str, str]:
        if not any(Path(self.bdist_dir).rglob("*_native.so.1")):
            return super().get_tag()
        self.root_is_pure = False
        return "py3", "none", super().get_tag()[2]


setup(cmdclass={"build_py": BuildWithPages, "bdist_wheel": WheelOfPlatform})
