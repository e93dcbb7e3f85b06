# SPDX-License-Identifier: MIT
"""The protocol between a manager and its agents, as values and state machines: no socket, no clock, no file.

    messages.py         every frame on the wire: typed, versioned, bounded
    map_table.py        prefix -> class as sorted columns, and their digest
    map_document.py     one version of the map as signed bytes
    agent_session.py    the agent's side: frames, ticks and results in; effects out
    manager_session.py  the manager's side

`transport/` has the sockets and the keys on disk; `configtron.service.fleet` runs both ends.
"""
