# SPDX-License-Identifier: MIT
"""Congestion controls of user space: pure classes, one a file, and the table of them (`table.py`).

Layer 1: no socket, no clock, no chance but what is handed in. `sending.py` asks a scheme when the next packet may
leave; the testbed puts it onto sockets (`lab/testbed/datagrams.py`), a unit test onto a scripted path.
"""
