# SPDX-License-Identifier: MIT
"""Indigo is trained in a study, which only these four names load."""

from configtron.studies.indigo.training import IndigoOptions as IndigoOptions
from configtron.studies.indigo.training import IndigoTrained as IndigoTrained
from configtron.studies.indigo.training import show_indigo as show_indigo
from configtron.studies.indigo.training import train_indigo as train_indigo
