"""Stories about counts of things: shared equally, put into boxes, won and lost."""

from __future__ import annotations

from services.environments.word_problems.families.names import BOXES, NAMES, THINGS
from services.environments.word_problems.families.story import Family, Story


def _sharing(story: Story) -> None:
    """The shares are drawn first, so that every quotient is whole."""
    name, kind, box = story.draws.one(NAMES), story.draws.one(THINGS), story.draws.one(BOXES)
    friends = story.draws.whole(2, 4 + 2 * story.difficulty)
    each = story.number(6 if story.difficulty == 5 else 3)
    shared = friends * each
    kept = story.draws.whole(2, 9) if story.difficulty >= 3 else 0
    had = shared + kept
    if story.difficulty == 1:
        story.tell("has", name=name, count=had, kind=kind)
    elif story.difficulty < 4:
        more = story.draws.whole(2, had - 2)
        story.tell("has", name=name, count=had - more, kind=kind)
        story.tell("gets", name=name, more=more, kind=kind)
        story.step("all", had - more, "+", more)
    else:
        boxes = story.draws.whole(2, min(6, (had - 2) // 2))
        inside = story.draws.whole(2, (had - 2) // boxes)
        loose = had - boxes * inside
        story.tell("boxes", name=name, boxes=boxes, box=box, inside=inside, kind=kind)
        story.tell("gets", name=name, more=loose, kind=kind)
        story.step("all", story.step("packed", boxes, "*", inside), "+", loose)
    if kept:
        story.tell("keeps", name=name, kept=kept)
        story.step("shared", had, "-", kept)
    story.tell("shares rest" if kept else "shares", name=name, friends=friends)
    share = story.step("each", shared, "/", friends)
    if story.difficulty < 5:
        story.tell("ask", kind=kind)
        return
    given = story.draws.whole(2, each - 2)
    story.tell("gives", given=given, kind=kind)
    story.tell("ask left", kind=kind)
    story.step("left", share, "-", given)


SHARING = Family(
    "sharing",
    {
        "has": (
            "{name} has {count} {kind}.",
            "There are {count} {kind} on the table of {name}.",
            "{name} finds {count} {kind}.",
        ),
        "boxes": (
            "{name} has {boxes} {box} with {inside} {kind} in each.",
            "In each of {boxes} {box} {name} has {inside} {kind}.",
        ),
        "gets": (
            "Then {name} gets {more} more {kind}.",
            "{name} also buys {more} {kind}.",
            "A neighbor brings {name} {more} more {kind}.",
        ),
        "keeps": ("{name} keeps {kept} of them.", "{name} puts {kept} of them aside."),
        "shares": (
            "{name} shares them all equally among {friends} friends.",
            "All of them go to {friends} friends in equal shares.",
        ),
        "shares rest": (
            "The rest is shared equally among {friends} friends.",
            "{name} shares all others equally among {friends} friends.",
        ),
        "ask": ("How many {kind} does each friend get?", "How many {kind} are there for each friend?"),
        "gives": ("Each friend gives {given} {kind} to a sister.", "Then each friend gives away {given} {kind}."),
        "ask left": ("How many {kind} does each friend have left?", "How many {kind} are left with each friend?"),
    },
    ("all", "packed", "shared", "each", "left"),
    _sharing,
)


def _remainders(story: Story) -> None:
    """The largest multiple that fits, then what is left over; at 4 and 5 one box more for the rest."""
    name, kind, box = story.draws.one(NAMES), story.draws.one(THINGS), story.draws.one(BOXES)
    holds = story.draws.whole(3, 5 + 3 * story.difficulty)
    full = story.number(2, share=0.6)
    over = story.draws.whole(2, holds - 1)
    count = holds * full + over
    given = story.draws.whole(2, 9) if story.difficulty in (3, 5) else 0
    bought = story.draws.whole(2, count + given - 2) if story.difficulty > 1 else 0
    story.tell("has", name=name, count=count + given - bought, kind=kind)
    if bought:
        story.tell("more", name=name, bought=bought, kind=kind)
        story.step("all", count + given - bought, "+", bought)
    if given:
        story.tell("gives", name=name, given=given, kind=kind)
        story.step("all", count + given, "-", given)
    story.tell("packs", name=name, holds=holds, box=box, kind=kind)
    packed = story.step("packed", full, "*", holds)
    if story.difficulty < 4:
        story.tell("ask over", kind=kind, box=box)
        story.step("left", count, "-", packed)
        return
    story.tell("ask boxes", box=box, kind=kind)
    story.step("left", count, "-", packed)
    story.step("needed", full, "+", 1)


REMAINDERS = Family(
    "remainders",
    {
        "has": (
            "{name} has {count} {kind}.",
            "{name} counts {count} {kind}.",
            "There are {count} {kind} in the room of {name}.",
        ),
        "more": (
            "Then {name} buys {bought} more {kind}.",
            "{name} finds {bought} more {kind}.",
            "A friend brings {name} {bought} {kind}.",
        ),
        "gives": ("{name} gives {given} {kind} away.", "Of these {name} gives {given} {kind} to a friend."),
        "packs": (
            "Each of the {box} that {name} has holds {holds} {kind}.",
            "{name} packs the {kind} into {box} of {holds}.",
        ),
        "ask over": (
            "How many {kind} are left when no more {box} can be filled?",
            "How many {kind} do not fill one of the {box}?",
        ),
        "ask boxes": (
            "How many {box} are needed for all {kind}?",
            "How many {box} are used if the last one need not be full?",
        ),
    },
    ("all", "packed", "left", "needed"),
    _remainders,
)


def _gains_and_losses(story: Story) -> None:
    """One more event a difficulty; a loss is smaller than what there is."""
    name, kind = story.draws.one(NAMES), story.draws.one(THINGS)
    now = story.number(4)
    story.tell("start", name=name, count=now, kind=kind)
    for turn in range(story.difficulty + 1):
        can_lose = now >= 4
        event = story.draws.one(("wins", "finds", "loses", "gives") if can_lose else ("wins", "finds"))
        if story.difficulty >= 4 and turn == story.difficulty - 1:
            times = story.draws.whole(2, story.difficulty - 1)
            story.tell("times", name=name, times=times, kind=kind)
            now = int(story.step("now", now, "*", times))
        elif event in ("wins", "finds"):
            more = story.number()
            story.tell(event, name=name, change=more, kind=kind)
            now = int(story.step("now", now, "+", more))
        else:
            fewer = story.draws.whole(2, now - 2)
            story.tell(event, name=name, change=fewer, kind=kind)
            now = int(story.step("now", now, "-", fewer))
    story.tell("ask", name=name, kind=kind)


GAINS_AND_LOSSES = Family(
    "gains_and_losses",
    {
        "start": ("{name} starts the day with {count} {kind}.", "In the morning {name} has {count} {kind}."),
        "wins": ("Then {name} wins {change} {kind}.", "In a game {name} wins {change} {kind}."),
        "finds": ("Then {name} finds {change} {kind}.", "At home {name} finds {change} more {kind}."),
        "loses": ("Then {name} loses {change} {kind}.", "On the way {name} loses {change} {kind}."),
        "gives": ("{name} gives {change} {kind} to a friend.", "Then {name} gives away {change} {kind}."),
        "times": (
            "Then the number of {kind} that {name} has becomes {times} times as large.",
            "A prize makes it {times} times as many {kind} for {name}.",
        ),
        "ask": ("How many {kind} does {name} have now?", "How many {kind} does {name} have at the end of the day?"),
    },
    ("now",),
    _gains_and_losses,
)
