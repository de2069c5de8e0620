"""Peak memory."""

import pytest
import torch

from cluster.bench.processes import peak_growth_mb, peak_is_measurable


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
