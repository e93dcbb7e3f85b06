# SPDX-License-Identifier: MIT
"""BPF programs that set clients' profiles, their maps' layout, and libbpf."""
