# SPDX-License-Identifier: MIT
"""Clients of kernel interfaces that several edges share: clocks, network namespaces, who owns a file.

Layer 3. One client for each interface; it imports nothing of configtron but the model.
"""
