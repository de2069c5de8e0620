"""Stories about relations of numbers: ages and percentages."""

from __future__ import annotations

from services.environments.word_problems.families.names import NAMES, THINGS
from services.environments.word_problems.families.story import Family, Story


def _ages(story: Story) -> None:
    """Ages stay below 100 years at every difficulty; more people and more years come in."""
    first, second, third = story.draws.some(NAMES, 3)
    age = story.draws.whole(4, 10 + 2 * story.difficulty)
    older = story.draws.whole(2, 12)
    story.tell("age", name=first, age=age)
    if story.difficulty == 1:
        story.tell("older", name=second, other=first, years=older)
        story.tell("ask age", name=second)
        story.step("age", age, "+", older)
        return
    times = story.draws.whole(2, 3)
    story.tell("times", name=second, other=first, times=times)
    second_age = story.step("age", age, "*", times)
    if story.difficulty == 2:
        story.tell("ask sum", name=first, other=second)
        story.step("sum", age, "+", second_age)
        return
    younger = story.draws.whole(4, int(second_age) - 2)
    younger -= (younger - age - 2 * int(second_age)) % 3  # the mean of the three is whole
    story.tell("younger", name=third, other=second, years=younger)
    third_age = story.step("age", second_age, "-", younger)
    if story.difficulty == 3:
        story.tell("ask three")
        story.step("sum", story.step("sum", age, "+", second_age), "+", third_age)
        return
    later = story.draws.whole(2, 20)
    ages = [story.step("later", now, "+", later) for now in (age, second_age, third_age)]
    if story.difficulty == 4:
        story.tell("ask later", years=later)
        story.step("sum", story.step("sum", ages[0], "+", ages[1]), "+", ages[2])
        return
    total = story.step("sum", story.step("sum", ages[0], "+", ages[1]), "+", ages[2])
    story.tell("ask mean", years=later)
    story.step("mean", total, "/", 3)


AGES = Family(
    "ages",
    {
        "age": ("{name} is {age} years old.", "The age of {name} is {age}."),
        "older": (
            "{name} is {years} years older than {other}.",
            "When {other} was born, {name} was {years} years old.",
        ),
        "times": (
            "{name} is {times} times as old as {other}.",
            "The age of {name} is {times} times the age of {other}.",
        ),
        "younger": ("{name} is {years} years younger than {other}.", "{name} was born {years} years after {other}."),
        "ask age": ("How old is {name}?", "What is the age of {name}?"),
        "ask sum": ("How old are {name} and {other} together?", "What is the sum of the ages of {name} and {other}?"),
        "ask three": ("How old are the three together?", "What is the sum of the three ages?"),
        "ask later": (
            "How old will the three be together in {years} years?",
            "In {years} years, what will be the sum of the three ages?",
        ),
        "ask mean": (
            "What will be the mean of the three ages in {years} years?",
            "In {years} years, what will be the mean age of the three?",
        ),
    },
    ("age", "sum", "later", "mean"),
    _ages,
)


def _percentages(story: Story) -> None:
    """Counts are multiples of 100 / gcd(100, percent), so that no part of a thing is left over."""
    name, kind = story.draws.one(NAMES), story.draws.one(THINGS)
    percent, whole = story.draws.one(((50, 2), (10, 10), (25, 4), (20, 5)))
    if story.difficulty >= 3:
        percent, whole = story.draws.one(((30, 10), (40, 5), (60, 5), (75, 4), (15, 20), (35, 20)))
    count = whole * story.number(2, (1.0, 0.8, 0.4, 0.2, 0.1)[story.difficulty - 1])
    more = 0
    if story.difficulty >= 4:
        more = story.draws.whole(2, count - 2)
        story.tell("has", name=name, count=count - more, kind=kind)
        story.tell("gets", name=name, more=more, kind=kind)
        story.step("all", count - more, "+", more)
    else:
        story.tell("has", name=name, count=count, kind=kind)
    story.tell("part", percent=percent, kind=kind)
    part = story.step("red", story.step("product", count, "*", percent), "/", 100)
    if story.difficulty == 1:
        story.tell("ask part", kind=kind)
        return
    rest = story.step("not red", count, "-", part)
    if story.difficulty == 2:
        story.tell("ask rest", kind=kind)
        return
    if story.difficulty < 5:
        price = story.draws.whole(2, 9)
        story.tell("ask price", kind=kind, price=price)
        story.step("price", rest, "*", price)
        return
    high, low = sorted(story.draws.some(range(2, 12), 2), reverse=True)
    story.tell("prices", high=high, low=low)
    story.tell("ask cost", kind=kind)
    paid = story.step("price", part, "*", high)
    story.step("total", paid, "+", story.step("price", rest, "*", low))


PERCENTAGES = Family(
    "percentages",
    {
        "has": ("{name} has {count} {kind}.", "There are {count} {kind} in the shop of {name}."),
        "gets": ("Then {more} more {kind} come in.", "{name} gets {more} more {kind}."),
        "part": ("{percent}% of the {kind} are red.", "Of all these {kind}, {percent}% are red."),
        "ask part": ("How many {kind} are red?", "How many red {kind} are there?"),
        "ask rest": ("How many {kind} are not red?", "How many of the {kind} have another color?"),
        "ask price": (
            "What do the {kind} that are not red cost at ${price} each?",
            "At ${price} each, how much do the {kind} of another color cost?",
        ),
        "prices": (
            "A red one costs ${high}, and each of the others ${low}.",
            "The red ones cost ${high} each, all others ${low} each.",
        ),
        "ask cost": ("How much do all {kind} cost?", "How many dollars do all the {kind} cost?"),
    },
    ("all", "product", "red", "not red", "price", "total"),
    _percentages,
)
