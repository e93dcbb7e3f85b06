# SPDX-License-Identifier: MIT
from .live import LiveOptions as LiveOptions
from .live import watch_interface as watch_interface
from .proofs import proofs_of as proofs_of
from .reading import CaptureReading as CaptureReading
from .reading import connection_forms as connection_forms
from .sockets import SocketOptions as SocketOptions
from .sockets import watch_sockets as watch_sockets
from .watch_writer import WatchWriter as WatchWriter
from .watching import WATCHES_COLUMNS as WATCHES_COLUMNS
from .watching import WATCHES_SCHEMA as WATCHES_SCHEMA
from .watching import Outputs as Outputs
from .watching import WatchProgress as WatchProgress
from .watching import WatchResult as WatchResult
from .watching import find_watch as find_watch
from .watching import open_watches as open_watches
from .watching import watch_rows as watch_rows
