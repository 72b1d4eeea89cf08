"""Whose a TCP socket of this machine is, by the kernel's own table (proc_net(5)).

Loopback is open to every user; the table says which of them has the other end. There is one on
Linux only: elsewhere, and for a socket that is not in it, nobody can tell, and that is None.
"""

from __future__ import annotations

import contextlib
import ipaddress
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

Address: TypeAlias = tuple[str, int]

_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
# Only a socket that a process holds has an owner: one that is closing is shown as root's.
_ESTABLISHED: Final = "01"
_LISTEN: Final = "0A"
_MAPPED: Final = "0000000000000000FFFF0000"
_LOOPBACK: Final = ("127.0.0.1", "::1", "0.0.0.0", "::")  # noqa: S104 - looked for, not bound


def connection_owner(local: Address, remote: Address) -> int | None:
    """Tell who has the socket that is at `local` and connected to `remote`."""
    here, there = _spellings(*local), _spellings(*remote)
    return _only(
        uid
        for at, to, state, uid in _rows()
        if state == _ESTABLISHED and at in here and to in there
    )


def listener_owner(port: int) -> int | None:
    """Tell who answers on a port of loopback; None also if several users could."""
    here = {spelled for host in _LOOPBACK for spelled in _spellings(host, port)}
    return _only(uid for at, _, state, uid in _rows() if state == _LISTEN and at in here)


def _only(uids: Iterator[int]) -> int | None:
    try:
        found = set(uids)
    except (OSError, ValueError, IndexError):
        return None
    return found.pop() if len(found) == 1 else None


def _rows() -> Iterator[tuple[str, str, str, int]]:
    """Give each socket: its own address and the other end's, its state, and its user's id."""
    for table in _TABLES:
        with contextlib.suppress(FileNotFoundError):  # a kernel without IPv6
            for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                words = line.split()
                yield words[1], words[2], words[3], int(words[7])


def _spellings(host: str, port: int) -> set[str]:
    """How the table writes an address: words of the machine's order, in hexadecimal."""
    packed = ipaddress.ip_address(host).packed
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    spelled = "".join(f"{word:08X}" for word in words)
    forms = {spelled, f"{_MAPPED}{spelled}"} if len(packed) == 4 else {spelled}
    return {f"{form}:{port:04X}" for form in forms}
