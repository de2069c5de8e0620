"""Peak memory and fresh processes."""

import os

import pytest
import torch

from cluster.bench.processes import host_process, in_fresh_process, peak_growth_mb, peak_is_measurable


@pytest.mark.skipif(not peak_is_measurable(), reason="the kernel has no peak that can be reset")
def test_the_memory_peak_counts_the_measured_work_alone() -> None:
    earlier = bytes([1]) * 150_000_000
    del earlier  # a higher peak, before the clock
    kept = bytes([1]) * 50_000_000

    def work() -> None:
        passing = bytes([2]) * 80_000_000
        del passing

    assert peak_growth_mb(work) == pytest.approx(80, abs=10)
    assert peak_growth_mb(lambda: None) < 10
    assert len(kept) == 50_000_000


@pytest.mark.skipif(not peak_is_measurable(), reason="the kernel has no peak that can be reset")
def test_memory_freed_by_a_warm_up_is_not_reused() -> None:
    def work() -> None:
        pieces = [torch.ones(5_000) for _ in range(4_000)]  # small enough for the allocator's own heap
        del pieces[:-1]

    work()
    last = torch.ones(5_000)  # lies above what was freed and keeps the heap from shrinking by itself
    assert peak_growth_mb(work) == pytest.approx(80, abs=10)
    assert peak_growth_mb(work) == pytest.approx(80, abs=10)
    assert len(last) == 5_000


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
    with host_process("counter", {"ENTENTE_TEST": "1"}, Counter, 5) as host:
        assert [host.call(Counter.add, 1), host.call(Counter.add, number=2)] == [6, 8]
        assert host.call(Counter.variable, "ENTENTE_TEST") == "1"
        assert host.pid != os.getpid()
        assert host.submit(Counter.add, 1).result(60) == 9
        with pytest.raises(ValueError, match="as asked"):
            host.call(Counter.fail)
    assert "ENTENTE_TEST" not in os.environ


def test_dead_host_is_reported_by_name() -> None:
    with (
        pytest.raises(RuntimeError, match="process 'counter' died in die"),
        host_process("counter", {}, Counter, 5) as host,
    ):
        host.call(Counter.die)


def test_an_error_of_the_constructor_is_raised() -> None:
    with pytest.raises(TypeError, match="start"), host_process("counter", {}, Counter):  # type: ignore[call-arg]
        pass
