"""systemd units for the watch, and for what mends after a crash: text, for one program at one path and one database.

systemd looks a program without a path up in a few fixed folders, none of which is a virtual environment's, so units
name it absolutely and are printed where it is installed. What the services may do is what the drivers need and no more:

CAP_NET_ADMIN    routes, sysctls, the module's device, BPF programs at control groups
CAP_BPF          loading programs and maps
CAP_SYS_ADMIN    entering named network namespaces (setns), and BPF objects by their numbers
/proc/sys        is written by the driver sysctl: ProtectKernelTunables would keep it from that
/sys/fs/bpf      holds the pins: writable also where the rest of the file system is not
/lib/modules     is read for the congestion controls that there are: ProtectKernelModules would hide it. Modules can be
                 loaded neither with these capabilities nor with these system calls; the kernel itself loads those that
                 a profile names

Rules for this file: pure; equal arguments give equal text.
Source     systemd.exec(5), systemd.service(5), capabilities(7); judged by systemd-analyze security
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

WATCH, RECOVER, TIMER = "configtron-tune.service", "configtron-tune-recover.service", "configtron-tune-recover.timer"
# Where the units keep what they know, unless another database is named.
STATE = "/var/lib/configtron"
DATABASE = f"{STATE}/configtron.db"

_HARDENED = """\
# Keepers live on: they undo what is leased when nobody renews it any more.
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
# Renews leases, yields to other hands, mends what was left behind: configtron tune watch --help.
[Unit]
Description=configtron: watch over the tuned TCP stack
After=network-online.target
Wants=network-online.target

[Service]
Type=exec
ExecStart={command} tune watch --format jsonl
Restart=on-failure
RestartSec=1
# Its exit code when it was asked to stop.
SuccessExitStatus=130
{hardened}
[Install]
WantedBy=multi-user.target
"""

_RECOVER = """\
# Undoes leases that have ended and what was left half done: configtron tune recover --help.
[Unit]
Description=configtron: mend what a killed process or a reboot left of the tuned TCP stack
ConditionPathExists={database}

[Service]
Type=oneshot
ExecStart={command} --quiet tune recover
{hardened}"""

_TIMER = """\
# The last net: where both a command and its keeper were killed, this comes within ten seconds.
[Unit]
Description=configtron: look for leases of the tuned TCP stack that nobody keeps

[Timer]
OnBootSec=1s
OnUnitInactiveSec=10s
AccuracySec=1s

[Install]
WantedBy=timers.target
"""


def units(program: Sequence[str], database: str = DATABASE) -> Mapping[str, str]:
    """Name -> text of each unit, for a program (absolute path, then its first arguments) and an absolute database."""
    command = " ".join(map(_word, (*program, "--db", database)))
    writes = "StateDirectory=configtron\nStateDirectoryMode=0700"
    if (folder := database.rpartition("/")[0]) != STATE:
        writes = f"ReadWritePaths={_word(folder)}"
    words = {"command": command, "database": _specifiers(database), "hardened": _HARDENED.format(writes=writes)}
    return {WATCH: _WATCH.format(**words), RECOVER: _RECOVER.format(**words), TIMER: _TIMER}


def _specifiers(text: str) -> str:
    return text.replace("%", "%%")


def _word(text: str) -> str:
    """One word of a setting's value: quoted where systemd would split it, its specifiers taken literally."""
    literal = _specifiers(text).replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{literal}"' if any(letter in text for letter in " \t'\"\\;") else literal
