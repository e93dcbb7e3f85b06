# SPDX-License-Identifier: MIT
"""systemd units of the closed loop: a fleet's agent and manager, `learn serve --local`. Text, for one program path.

The agent's main process is root, with the capabilities of its drivers, and has no network; the process that it starts
changes to a user without rights before it opens a socket, for which the unit has CAP_SETUID and CAP_SETGID. The manager
has no capability and writes to its own folder alone.

Rules for this file: pure; equal arguments give equal text.
Source     systemd.exec(5); checked with systemd-analyze security
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from configtron.tune.units import STATE, unit_word

AGENT, MANAGER = "configtron-agent.service", "configtron-manager.service"
SERVE = "configtron-serve.service"
AGENT_STATE, MANAGER_STATE = "/var/lib/configtron-agent", "/var/lib/configtron-manager"
MANAGER_USER = "configtron-manager"

_SHARED = """\
# It is ready when it listens: a large database may have to be read first.
TimeoutStartSec=infinity
UMask=0077
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RemoveIPC=yes
KeyringMode=private
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
"""

_AGENT = """\
# Applies the maps of a manager, and sends it outcomes: configtron tune agent --help. Join first, see docs/fleet.md.
[Unit]
Description=configtron: agent that tunes this host's TCP stack by its manager's maps
After=network-online.target
Wants=network-online.target
ConditionPathExists={folder}/manager.json
# Tried for as long as it takes: what it lacks (a module, the log socket's folder) may come later.
StartLimitIntervalSec=0

[Service]
Type=notify
# Options by their variables, one a line, as in CONFIGTRON_TUNE_AGENT_BEACONS=127.0.0.1:9315
EnvironmentFile=-/etc/default/configtron-agent
ExecStart={command} tune agent --folder {folder}
ReadWritePaths={folder}
# Only an operator can mend an option, a database or a key that does not fit.
RestartPreventExitStatus=2
{tuner}
CapabilityBoundingSet=CAP_NET_ADMIN CAP_BPF CAP_SYS_ADMIN CAP_SETUID CAP_SETGID CAP_KILL CAP_DAC_READ_SEARCH CAP_CHOWN
SystemCallFilter=@chown bpf setns setuid setgid setgroups setreuid setregid setresuid setresgid sched_setscheduler
{shared}
[Install]
WantedBy=multi-user.target
"""

_SERVE = """\
# Tunes this host's clients by what their page loads show: configtron learn serve --help, docs/learn.md.
[Unit]
Description=configtron: tunes this host's TCP stack by its visitors' page loads
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
Type=notify
# Options by their variables, one a line, as in CONFIGTRON_LEARN_SERVE_PAGE=127.0.0.1:9316
EnvironmentFile=-/etc/default/configtron-serve
ExecStart={command} learn serve --local {options}
ReadWritePaths=-{folder}
# Only an operator can mend these: 2, option or database; 5, extra or driver; 6, another program tunes this host.
RestartPreventExitStatus=2 5 6
{tuner}
# CAP_SYS_PTRACE: open connections are tuned anew, by a copy of the web server's descriptor.
CapabilityBoundingSet=CAP_NET_ADMIN CAP_BPF CAP_SYS_ADMIN CAP_SYS_PTRACE CAP_DAC_READ_SEARCH
SystemCallFilter=bpf setns sched_setscheduler pidfd_open pidfd_getfd
{shared}
[Install]
WantedBy=multi-user.target
"""

# A process that tunes: root, with the capabilities of its drivers, in a file system that it can hardly write to.
_TUNER = """\
Restart=always
RestartSec=1
SuccessExitStatus=130
# Stop the main process alone: the watchdogs that end its leases must go on.
KillMode=process
LimitMEMLOCK=infinity
RuntimeDirectory=configtron-tune
RuntimeDirectoryMode=0700
RuntimeDirectoryPreserve=yes
StateDirectory=configtron
StateDirectoryMode=0700
# The web server's log socket, where page loads are sent too.
ReadWritePaths=-/run/configtron
AmbientCapabilities=
DevicePolicy=closed
DeviceAllow=/dev/configtron rw
RestrictAddressFamilies=AF_UNIX AF_NETLINK AF_INET AF_INET6
RestrictNamespaces=net
SystemCallFilter=@system-service bpf
SystemCallFilter=~@resources @keyring @privileged"""

_MANAGER = """\
# Gives agents their maps: configtron learn manager --help. Choose what it runs by the two words after `run`.
[Unit]
Description=configtron: manager of the agents' maps
After=network-online.target
Wants=network-online.target
# Tried for as long as it takes: a full disk has room again, a port becomes free.
StartLimitIntervalSec=0

[Service]
Type=notify
User={user}
# Options by their variables, one a line, as in CONFIGTRON_LEARN_MANAGER_RUN_METRICS=127.0.0.1:9316
EnvironmentFile=-/etc/default/configtron-manager
ExecStart={command} learn manager run --policy thompson
Restart=on-failure
RestartSec=2
SuccessExitStatus=130
# Only an operator can mend these: 2, option, database or key; 5, extra or permission; 6, another manager is obeyed.
RestartPreventExitStatus=2 5 6
StateDirectory=configtron-manager
StateDirectoryMode=0700
CapabilityBoundingSet=
# Each connection that says nothing holds one for some seconds.
LimitNOFILE=65536
AmbientCapabilities=
PrivateDevices=yes
PrivateUsers=yes
ProtectProc=invisible
ProcSubset=pid
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
SystemCallFilter=@system-service
SystemCallFilter=~@resources @privileged
# ZeroMQ ends the program if its threads may not name their scheduling, which stays the ordinary one; and looks for the
# network interface that an address is called by.
SystemCallFilter=sched_setscheduler
{shared}
[Install]
WantedBy=multi-user.target
"""


def fleet_units(program: Sequence[str]) -> Mapping[str, str]:
    """Return name -> text of the agent's and the manager's unit; `program`: absolute path, then first arguments."""
    agent = " ".join(map(unit_word, (*program, "--db", f"{STATE}/configtron.db")))
    manager = " ".join(map(unit_word, (*program, "--db", f"{MANAGER_STATE}/configtron.db")))
    return {
        AGENT: _AGENT.format(command=agent, folder=AGENT_STATE, tuner=_TUNER, shared=_SHARED),
        MANAGER: _MANAGER.format(command=manager, user=MANAGER_USER, shared=_SHARED),
    }


def serve_unit(program: Sequence[str], options: Sequence[str], folder: str) -> str:
    """Return the text of the unit `SERVE`; program: as of `fleet_units`, options: of `learn serve --local`, folder: of
    the log socket."""
    command = " ".join(map(unit_word, (*program, "--db", f"{STATE}/configtron.db")))
    words = " ".join(map(unit_word, options))
    return _SERVE.format(command=command, options=words, folder=folder, tuner=_TUNER, shared=_SHARED)
