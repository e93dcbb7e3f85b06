# SPDX-License-Identifier: MIT
"""A fleet as a library: the manager of many agents, the agent of one host, and what the two are run by.

    MapMaker   what a manager asks for maps: rows in, maps out
    Spool      what an agent's reader of outcomes hands its rows to

It needs the extra `fleet`. Errors are those of `configtron.model.errors`.
"""

from lazy_loader import attach_stub

# The public names are in `__init__.pyi`; each is imported at its first use.
__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
