"""What is read of an answer's body, and what a player makes of odd text in it."""

from __future__ import annotations

import json
import math
import tracemalloc
from collections.abc import Iterator

import pytest

from opponents.players.chat_answer import LONGEST_LINE, MOST_LINES, correction, order_lines
from services.environments.diplomacy.rules.orders import Defect, parse
from services.inference.chat_endpoint.answers import MOST_TOKENS, InvalidAnswerError, Refusal, read_answer, read_error
from tests.unit.services.inference.chat_endpoint.hostile_endpoint import (
    GOOD,
    HostileEndpoint,
    choice,
    completion,
    http,
)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[HostileEndpoint]:
    with HostileEndpoint(price_per_million_prompt_tokens=2.0) as running:
        yield running


@pytest.mark.parametrize("piece", [b"{}", b"1", b'{"message":{}}'])
def test_an_answer_of_very_many_choices_is_refused_without_much_memory(piece: bytes) -> None:
    body = b'{"choices":[' + b",".join([piece] * 20_000) + b"]}"
    tracemalloc.start()
    try:
        with pytest.raises(InvalidAnswerError, match="choices"):
            read_answer(body)
        assert tracemalloc.get_traced_memory()[1] < 50 * len(body)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("written", "counted"),
    [
        ("0", 0),
        ("7", 7),
        (str(MOST_TOKENS), MOST_TOKENS),
        (str(MOST_TOKENS + 1), None),
        ("9" * 4000, None),
        ("-1", None),
        ("-0", 0),
        ("1.0", None),
        ("1e3", None),
        ("1e999", None),
        ("NaN", None),
        ("Infinity", None),
        ("-Infinity", None),
        ("true", None),
        ('"7"', None),
        ("null", None),
        ("[7]", None),
        ('{"value": 7}', None),
    ],
)
def test_tokens_count_only_as_plausible_whole_numbers(
    endpoint: HostileEndpoint, written: str, counted: int | None
) -> None:
    usage = f'{{"prompt_tokens": {written}, "completion_tokens": 5}}'
    body = completion(usage="USAGE").replace('"USAGE"', usage)
    answer = read_answer(body.encode())
    assert (answer.prompt_tokens, answer.completion_tokens) == (counted, 5)
    outcome = endpoint.decide(http(body))
    assert outcome.error is None
    assert outcome.counted["prompt_tokens"] == (counted or 0)
    assert outcome.counted["completion_tokens"] == 5
    assert outcome.counted["usage_unknown"] == (counted is None)
    assert outcome.counted["cost"] == pytest.approx((counted or 0) * 2e-6)
    assert all(math.isfinite(value) and value >= 0 for value in outcome.counted.values())


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r"\ud83d", "\ufffd"),
        (r"\uDE00", "\ufffd"),
        (r"\ud83d\u0041", "\ufffdA"),
        (r"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (r"\ud83d\ude00", "\U0001f600"),
        (r"\ud83d \\ud83d", "\ufffd \\ud83d"),
    ],
)
def test_half_of_a_surrogate_pair_costs_its_letter_alone(endpoint: HostileEndpoint, written: str, read: str) -> None:
    body = choice(message={"content": f"{GOOD}\nTEXT"}).replace("TEXT", written)
    assert read_answer(body.encode()).text == f"{GOOD}\n{read}"
    assert endpoint.decide(http(body)).error is None


def test_half_of_a_surrogate_pair_excuses_nothing_else() -> None:
    half = rb'{"choices": [{"message": {"content": "\ud83d"}}], "more": '
    for rest in (b"[" * 30_000, b"", b"[1}", b"9}}"):
        with pytest.raises(InvalidAnswerError, match="Invalid JSON"):
            read_answer(half + rest)
    with pytest.raises(InvalidAnswerError, match="choices"):
        read_answer(rb'{"choices": "\ud83d"}')


@pytest.mark.parametrize("usage", [None, [], "many", 7, {}, [{"prompt_tokens": 1}], {"prompt_tokens": {}}])
def test_usage_of_another_form_is_unknown(usage: object) -> None:
    answer = read_answer(completion(usage=usage).encode())
    assert (answer.text, answer.prompt_tokens, answer.completion_tokens) == (GOOD, None, None)


def test_an_error_is_read_in_every_form_that_servers_write() -> None:
    for body, explanation, code in (
        ({"error": {"message": "too\nlong.", "code": "x"}}, "too long", "x"),
        ({"error": {"message": "too long", "code": 400}}, "too long", ""),
        ({"object": "error", "message": "too long", "code": 40303}, "too long", ""),
        ({"error": "too long"}, "too long", ""),
        ({"detail": [{"loc": ["body", "seed"]}]}, "{'detail': [{'loc': ['body', 'seed']}]}", ""),
        ({"error": {"message": "", "type": "x"}}, "{'message': '', 'type': 'x'}", ""),
        ("too long", "too long", ""),
        (["too long"], "['too long']", ""),
        (None, "None", ""),
    ):
        assert read_error(400, json.dumps(body).encode()) == Refusal(400, explanation, code)
    assert read_error(500, b"<p>Bad \xff gateway</p>") == Refusal(500, "<p>Bad \ufffd gateway</p>", "")
    assert read_error(500, b"") == Refusal(500, "", "")
    assert read_error(200, b'{"choices": 1}') is None
    assert read_error(200, b"<p>Hello</p>") is None


# One answer each, of nearly a megabyte; a line of marks took a time that grew with its square.
LONG_TEXTS = {
    "lines of orders": "A PAR H\n" * 100_000,
    "lines that are nearly orders": "a par -> bur!\n" * 60_000,
    "empty lines": "\n" * 450_000,
    "one line of marks": "x" + "*" * 900_000 + "x",
    "one line of spaces": "- " + " " * 900_000 + "x",
    "one line of digits": "1" * 900_000,
    "ends of reasoning": "</think>" * 110_000,
    "escape codes": "\x1b[2J\x07\x00\u202e" * 35_000,
}


@pytest.mark.parametrize("name", LONG_TEXTS)
def test_a_text_of_any_length_is_read_in_bounded_time_and_corrected_in_a_bounded_request(
    endpoint: HostileEndpoint, name: str
) -> None:
    asked = len(endpoint.requests)
    outcome = endpoint.decide(http(choice(message={"content": LONG_TEXTS[name]})))
    assert outcome.error is None
    assert outcome.decision is not None
    assert len(outcome.decision.actions) <= 1
    assert outcome.counted["defects"] <= MOST_LINES + 3
    # The text without an order in it is answered by one correction, which quotes its end.
    assert len(endpoint.requests) == asked + 2
    assert all(len(request) < 250_000 for request in endpoint.requests[asked:])


def test_orders_after_long_reasoning_are_read() -> None:
    assert order_lines("Let me think.\n" * 100_000 + GOOD).endswith(GOOD)
    assert len(order_lines("x" * 10_000)) == LONGEST_LINE


def test_a_correction_quotes_a_bounded_number_of_defects(endpoint: HostileEndpoint) -> None:
    parsed = parse(order_lines("no order\n" * 5000), endpoint.position, "FRANCE", repair=True)
    assert len(parsed.defects) == MOST_LINES + 3
    assert Defect("A PAR", "missing") in parsed.defects
    _, complaint = correction("no order", parsed.defects)
    assert complaint["content"].count("no order: unreadable") == 40
