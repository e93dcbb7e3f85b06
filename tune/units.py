# SPDX-License-Identifier: MIT
"""systemd units for `tune watch`, and for recovery after a crash: text, for one program path and one database.

systemd looks up a program without a path in a few fixed folders, and a virtual environment is none of them. So the
units name the program by its absolute path, and are printed where it is installed. The services may do what the
drivers need, and no more:

CAP_NET_ADMIN    routes, sysctls, the module's device, BPF programs at control groups
CAP_BPF          loading programs and maps
CAP_SYS_ADMIN    entering named network namespaces (setns), and opening BPF objects by their numbers
/proc/sys        is writable, for the driver sysctl: no ProtectKernelTunables
/sys/fs/bpf      is writable, for the pins, although the rest of the file system is not
/lib/modules     is readable, to list congestion controls: no ProtectKernelModules. The services still cannot load
                 modules, as they lack the capability and the system calls. The kernel itself loads the congestion
                 control that a profile names

Rules for this file: pure; equal arguments give equal text.
Source     systemd.exec(5), systemd.service(5), capabilities(7); checked with systemd-analyze security
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

WATCH, RECOVER, TIMER = "configtron-tune.service", "configtron-tune-recover.service", "configtron-tune-recover.timer"
# Where the units have their database, unless another one is named.
STATE = "/var/lib/configtron"
DATABASE = f"{STATE}/configtron.db"

_HARDENED = """\
# Stop this process alone: the processes that undo what is applied when its lease ends must go on.
KillMode=process
UMask=0077
LimitMEMLOCK=infinity
RuntimeDirectory=configtron-tune
RuntimeDirectoryMode=0700
RuntimeDirectoryPreserve=yes
{writes}
CapabilityBoundingSet=CAP_NET_ADMIN CAP_BPF CAP_SYS_ADMIN
AmbientCapabilities=
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
DevicePolicy=closed
DeviceAllow=/dev/configtron rw
RestrictAddressFamilies=AF_UNIX AF_NETLINK AF_INET AF_INET6
RestrictNamespaces=net
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RemoveIPC=yes
KeyringMode=private
IPAddressDeny=any
SystemCallArchitectures=native
SystemCallFilter=@system-service bpf
SystemCallFilter=~@resources @keyring @privileged
SystemCallFilter=bpf setns
SystemCallErrorNumber=EPERM
"""

_WATCH = """\
# Renews leases, freezes what others change, undoes what was left half done: configtron tune watch --help.
[Unit]
Description=configtron: watch over the tuned TCP stack
After=network-online.target
Wants=network-online.target

[Service]
Type=exec
ExecStart={command} tune watch --format jsonl
Restart=on-failure
RestartSec=1
# The exit code of a watch that was stopped by a signal.
SuccessExitStatus=130
{hardened}
[Install]
WantedBy=multi-user.target
"""

_RECOVER = """\
# Undoes leases that have ended and what was left half done: configtron tune recover --help.
[Unit]
Description=configtron: undo what a killed process or a reboot left of the tuned TCP stack
ConditionPathExists={database}

[Service]
Type=oneshot
ExecStart={command} --quiet tune recover
{hardened}"""

_TIMER = """\
# If both a command and the process that ends its lease were killed, recovery follows within ten seconds.
[Unit]
Description=configtron: look for leases of the tuned TCP stack that have ended

[Timer]
OnBootSec=1s
OnUnitInactiveSec=10s
AccuracySec=1s

[Install]
WantedBy=timers.target
"""


def units(program: Sequence[str], database: str = DATABASE) -> Mapping[str, str]:
    """Return name -> text of each unit.

    program    absolute path of the program, then its first arguments
    database   absolute path
    """
    command = " ".join(map(unit_word, (*program, "--db", database)))
    writes = "StateDirectory=configtron\nStateDirectoryMode=0700"
    if (folder := database.rpartition("/")[0]) != STATE:
        writes = f"ReadWritePaths={unit_word(folder)}"
    words = {"command": command, "database": _specifiers(database), "hardened": _HARDENED.format(writes=writes)}
    return {WATCH: _WATCH.format(**words), RECOVER: _RECOVER.format(**words), TIMER: _TIMER}


def _specifiers(text: str) -> str:
    return text.replace("%", "%%")


def unit_word(text: str) -> str:
    """Return one word of a setting's value: specifiers escaped, and quoted if systemd would split it."""
    literal = _specifiers(text).replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{literal}"' if any(letter in text for letter in " \t'\"\\;") else literal
