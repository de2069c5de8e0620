"""Fresh processes of the benchmarks."""

import os

import pytest

from cluster.bench.processes import host_process, in_fresh_process

pytestmark = pytest.mark.system


def test_fresh_process_returns_its_result() -> None:
    assert in_fresh_process(pow, 3, 4) == 81


class Counter:
    """Counts in its process."""

    def __init__(self, start: int) -> None:
        self.count = start

    def add(self, number: int) -> int:
        self.count += number
        return self.count

    def variable(self, name: str) -> str | None:
        return os.environ.get(name)

    def fail(self) -> None:
        raise ValueError("as asked")

    def die(self) -> None:
        os._exit(3)


def test_host_keeps_its_object_between_calls_and_raises_its_errors() -> None:
    with host_process({"ENTENTE_TEST": "1"}, Counter, 5) as host:
        assert [host.call(Counter.add, 1), host.call(Counter.add, number=2)] == [6, 8]
        assert host.call(Counter.variable, "ENTENTE_TEST") == "1"
        assert host.pid != os.getpid()
        assert host.submit(Counter.add, 1).result(60) == 9
        with pytest.raises(ValueError, match="as asked"):
            host.call(Counter.fail)
    assert "ENTENTE_TEST" not in os.environ


def test_dead_host_is_reported_by_name() -> None:
    with (
        pytest.raises(RuntimeError, match=r"process died in Counter\.die"),
        host_process({}, Counter, 5) as host,
    ):
        host.call(Counter.die)


def test_an_error_of_the_constructor_is_raised() -> None:
    with pytest.raises(TypeError, match="start"), host_process({}, Counter):  # type: ignore[call-arg]
        pass
