"""Properties of the tree and of the chunks."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.broadcast.plan import (
    CHUNK_BYTES,
    FAN_OUT,
    ROOT,
    Layout,
    broadcast_tree,
    reading_order,
    time_limits,
)

COUNTS = st.integers(0, 500)
FAN_OUTS = st.integers(1, 8)


@given(count=COUNTS, fan_out=FAN_OUTS)
def test_every_node_has_one_place_below_an_earlier_node(count: int, fan_out: int) -> None:
    places = broadcast_tree(count, fan_out)
    assert len(places) == count
    for number, place in enumerate(places):
        assert ROOT <= place.parent < number  # so following parents always ends at the root
        assert place.depth == (1 if place.parent == ROOT else places[place.parent].depth + 1)


@given(count=COUNTS, fan_out=FAN_OUTS)
def test_no_node_feeds_more_than_the_fan_out(count: int, fan_out: int) -> None:
    children = Counter(place.parent for place in broadcast_tree(count, fan_out))
    assert max(children.values(), default=0) <= fan_out


@given(count=st.integers(1, 500), fan_out=st.integers(2, 8))
def test_the_tree_is_as_low_as_a_tree_of_that_fan_out_can_be(count: int, fan_out: int) -> None:
    height = max(place.depth for place in broadcast_tree(count, fan_out))
    below = sum(fan_out**depth for depth in range(1, height))  # nodes that fit in a tree of one level less
    assert below < count <= below + fan_out**height
    assert height <= math.ceil(math.log(count + 1, fan_out))


def test_so_few_nodes_that_there_is_no_tree_all_read_from_the_root() -> None:
    assert {place.parent for place in broadcast_tree(FAN_OUT)} == {ROOT}
    assert {place.parent for place in broadcast_tree(FAN_OUT + 1)} != {ROOT}


@given(size=st.integers(0, 10_000), chunk_bytes=st.integers(1, 3_000))
def test_chunks_cover_the_bytes_once_in_order(size: int, chunk_bytes: int) -> None:
    layout = Layout(size, chunk_bytes)
    spans = [layout.span(index) for index in range(layout.chunks)]
    assert [position for span in spans for position in range(span.start, span.stop)] == list(range(size))
    assert all(span.stop - span.start <= chunk_bytes for span in spans)
    for outside in (-1, layout.chunks):
        with pytest.raises(IndexError):
            layout.span(outside)


def test_a_chunk_of_weights_fits_one_message_of_ray() -> None:
    assert Layout(100_000_000, CHUNK_BYTES).chunks == 24
    assert CHUNK_BYTES < 5 << 20


@given(seconds=st.dictionaries(st.text(max_size=3), st.floats(0, 100), max_size=20), more=st.sets(st.text(max_size=3)))
def test_slow_nodes_and_new_ones_come_last(seconds: dict[str, float], more: set[str]) -> None:
    order = reading_order(sorted({*seconds, *more}), seconds)
    assert sorted(order) == sorted({*seconds, *more})
    times = [seconds.get(node, math.inf) for node in order]
    assert times == sorted(times)


@given(count=st.integers(1, 200), limit_s=st.floats(0.1, 1000))
def test_patience_grows_with_depth_and_leaves_time_to_read_from_the_root(count: int, limit_s: float) -> None:
    places = broadcast_tree(count)
    limits = [time_limits(place, places, limit_s) for place in places]
    for place, limit in zip(places, limits, strict=True):
        assert 0 < limit.patience_s <= limit.leave_s == limit_s / 2 < limit.total_s == limit_s
        if place.parent != ROOT:
            assert limits[place.parent].patience_s < limit.patience_s
