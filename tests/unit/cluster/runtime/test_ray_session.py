"""A cluster that a run attaches to: its address, and its refusal."""

from __future__ import annotations

import socket

import pytest
import ray
from ray.exceptions import AuthenticationError

import cluster.runtime.ray_session
from cluster.errors import LateError, RunError
from cluster.runtime.ray_session import check_reachable, ray_cluster


def test_an_address_of_ipv6_is_written_in_brackets() -> None:
    try:
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6 on loopback")
    with server:
        check_reachable(f"[::1]:{server.getsockname()[1]}")
    with pytest.raises(LateError, match="it is not host:port"):
        check_reachable("nowhere")


def test_a_refused_token_is_one_line_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(**_: object) -> None:
        raise AuthenticationError("Token authentication failed.\nmore")

    monkeypatch.setattr(ray, "init", refuses)
    monkeypatch.setattr(cluster.runtime.ray_session, "check_reachable", lambda _: None)
    with pytest.raises(RunError, match=r"refused this run .*: give the same token to all of Ray, in RAY_AUTH_TOKEN"):
        ray_cluster("192.0.2.1:6379", 1, embedded_replay=False).__enter__()
