# SPDX-License-Identifier: MIT
from .map_maker import FixedMapMaker as FixedMapMaker
from .map_maker import MapMaker as MapMaker
from .spool import Spool as Spool
