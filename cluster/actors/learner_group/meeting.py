"""How the processes of a learner find one another."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib import metadata
from typing import Any

import psutil

from cluster.actors.learner_group.failures import of_process
from cluster.errors import RunError

_INTERFACE_VARIABLES = {"GLOO_SOCKET_IFNAME": "", "NCCL_SOCKET_IFNAME": "="}  # "=": NCCL else takes a name's beginning
_PACKAGES = ("entente", "torch", "numpy")  # that an update's numbers come from


@dataclass(frozen=True, slots=True)
class Meeting:
    """Where rank 0 waits for its peers, and how long each of them waits."""

    host: str  # an address of rank 0's node
    port: int
    ranks: int
    join_timeout_s: float
    exchange_timeout_s: float


def software() -> dict[str, str]:
    """Return the versions that all processes of a learner must have alike."""
    return {name: metadata.version(name) for name in _PACKAGES}


def check_same_software(others: Sequence[Mapping[str, str]]) -> None:
    """Raise RunError if a process after the first (``others``, by rank from 1) has other versions than this one."""
    own = software()
    for rank, theirs in enumerate(others, 1):
        if theirs != own:
            shown = [", ".join(f"{name} {version}" for name, version in each.items()) for each in (theirs, own)]
            raise RunError(
                f"{of_process(rank)} has {shown[0]}, and process 0 has {shown[1]}: install the same on all nodes"
            )


def opened(host: str, ranks: int, join_timeout_s: float, exchange_timeout_s: float) -> tuple[Meeting, Any]:
    """Open a meeting on a free port of ``host`` alone; returns it and rank 0's ``torch.distributed.Store``."""
    import torch.distributed

    dist: Any = torch.distributed  # which does not export it to type checkers
    listener = socket.create_server((host, 0))
    port = int(listener.getsockname()[1])
    limit = timedelta(seconds=join_timeout_s)
    # The store owns the socket from now on.
    store = dist.TCPStore(
        host, port, ranks, is_master=True, timeout=limit, wait_for_workers=False, master_listen_fd=listener.detach()
    )
    return Meeting(host, port, ranks, join_timeout_s, exchange_timeout_s), store


def entered(meeting: Meeting) -> Any:
    """Return a peer's ``torch.distributed.Store``."""
    import torch.distributed

    dist: Any = torch.distributed  # which does not export it to type checkers
    limit = timedelta(seconds=meeting.join_timeout_s)
    place = (meeting.host, meeting.port, meeting.ranks)
    return dist.TCPStore(*place, is_master=False, timeout=limit, wait_for_workers=False)


def use_interface_of(address: str) -> None:
    """Exchange through the network interface that has this node's address, unless the environment names another.

    Otherwise gloo takes the one that the host's name leads to, which on many machines is the loopback.
    """
    for name, addresses in psutil.net_if_addrs().items():
        if any(each.address == address for each in addresses):
            for variable, exactly in _INTERFACE_VARIABLES.items():
                os.environ.setdefault(variable, exactly + name)
            return
