# SPDX-License-Identifier: MIT
"""`make demo-tune`: a server in the lab's kernel is tuned by each driver, watched on the wire, and put back."""
