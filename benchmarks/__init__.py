# SPDX-License-Identifier: MIT
"""What measures the product; `--help` of one that parses no options of its own prints what its file says of itself."""

import ast
import sys
from pathlib import Path

if sys.argv[0] == "-m" and {"-h", "--help"} & {*sys.argv[1:]}:
    path = Path(__file__).parents[1].joinpath(*sys.orig_argv[sys.orig_argv.index("-m") + 1].split("."))
    text = next(one for one in (path.with_suffix(".py"), path / "__main__.py") if one.exists()).read_text()
    if "argparse" not in text:
        print(ast.get_docstring(ast.parse(text)))
        sys.exit()
