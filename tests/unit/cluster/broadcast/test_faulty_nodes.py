"""Whole broadcasts over simulated links: how long they take, and lost or slow nodes that hold up no other."""

from __future__ import annotations

import pytest

from cluster.bench.broadcast.simulated_nodes import Fault, Link, Outcome, plain_loop, simulate
from cluster.broadcast.plan import CHUNK_BYTES, FAN_OUT, Layout, broadcast_tree, reading_order

SIZE = 40_000_000
NODES = 14  # three full levels below the root
LIMIT_S = 30.0
CHUNKS = Layout(SIZE, CHUNK_BYTES).chunks
ALONE_S = SIZE / Link().upload  # one copy over one link


def got_all(outcome: Outcome) -> list[bool]:
    return [each is not None for each in outcome.received]


def test_the_tree_takes_two_copies_over_a_link_and_the_loop_as_many_as_there_are_nodes() -> None:
    tree, loop = simulate(broadcast_tree(NODES), SIZE), simulate(plain_loop(NODES), SIZE)
    assert all(got_all(tree))
    assert all(got_all(loop))
    assert loop.seconds == pytest.approx(NODES * ALONE_S, rel=0.01)
    # Each further level waits for one chunk.
    assert FAN_OUT * ALONE_S < tree.seconds < FAN_OUT * ALONE_S * (1 + 3 / CHUNKS)
    assert loop.sent[0] == NODES * CHUNKS
    assert max(tree.sent) == FAN_OUT * CHUNKS
    assert sum(tree.sent) == NODES * CHUNKS


def test_one_receiver_takes_as_long_as_a_copy_takes() -> None:
    assert simulate(broadcast_tree(1), SIZE).seconds == pytest.approx(ALONE_S, rel=0.01)


@pytest.mark.parametrize("silent", [True, False])
@pytest.mark.parametrize("lost", [0, 5])
def test_a_node_lost_in_the_middle_holds_up_no_other(lost: int, silent: bool) -> None:
    places = broadcast_tree(NODES)
    outcome = simulate(places, SIZE, faults={lost: Fault(after=3, silent=silent)}, limit_s=LIMIT_S)
    received = [each for each in outcome.received if each is not None]
    assert len(received) == NODES  # the lost one had read all before; it stopped sending
    children = {number for number, place in enumerate(places) if place.parent == lost}
    assert {number for number, each in enumerate(outcome.received) if each and each.left} == children
    healthy = simulate(places, SIZE)
    patience_s = LIMIT_S / 2 if silent else 0.0
    assert outcome.seconds < patience_s + 3 * healthy.seconds


def test_a_node_that_receives_nothing_does_not_keep_weights_from_the_others() -> None:
    outcome = simulate(broadcast_tree(NODES), SIZE, links={0: Link(download=1e3)}, limit_s=LIMIT_S)
    assert got_all(outcome) == [False] + [True] * (NODES - 1)
    assert outcome.seconds < LIMIT_S


def test_a_slow_node_holds_up_others_once_at_most() -> None:
    slow = Link(upload=2e6, download=2e6)
    outcome = simulate(broadcast_tree(NODES), SIZE, links={0: slow}, limit_s=LIMIT_S)
    seconds = {f"{number:02}": each.seconds for number, each in enumerate(outcome.received) if each is not None}
    others = [value for name, value in seconds.items() if name != "00"]
    assert max(others) < LIMIT_S
    # The next broadcast has it at the end of the tree.
    order = reading_order(sorted({*seconds, "00"}), seconds)
    place = order.index("00")
    again = simulate(broadcast_tree(NODES), SIZE, links={place: slow}, limit_s=LIMIT_S)
    rest = [each.seconds for number, each in enumerate(again.received) if each is not None and number != place]
    assert len(rest) == NODES - 1
    assert max(rest) == pytest.approx(simulate(broadcast_tree(NODES), SIZE).seconds, rel=0.05)
