# SPDX-License-Identifier: MIT
"""Parts of the study `aln`: a world of clients, their transfers in guests, and what is made of them."""
