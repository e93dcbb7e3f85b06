# SPDX-License-Identifier: MIT
"""Training of the scheme `indigo` (configtron/lab/schemes/indigo.py): its network's gradient, the expert, imitation."""
