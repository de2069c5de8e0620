"""Stories about measures: speed, time and distance, rectangles, rates of work."""

from __future__ import annotations

from services.environments.word_problems.families.names import FLOWERS, GROUNDS, MADE, NAMES, VEHICLES, WORKSHOPS
from services.environments.word_problems.families.story import Family, Story


def _distances(story: Story) -> None:
    """Legs of a way; at 4 what remains of it, at 5 the hours that the rest takes."""
    name, vehicle = story.draws.one(NAMES), story.draws.one(VEHICLES)
    legs = [
        (story.draws.whole(10, 20 + 12 * story.difficulty), story.draws.whole(2, 3 + story.difficulty))
        for _ in range((1, 2, 3, 3, 4)[story.difficulty - 1])
    ]
    for number, (speed, hours) in enumerate(legs):
        story.tell("leg" if number == 0 else "next", name=name, vehicle=vehicle, speed=speed, hours=hours)
    far = story.step("distance", legs[0][0], "*", legs[0][1])
    for speed, hours in legs[1:]:
        far = story.step("so far", far, "+", story.step("distance", speed, "*", hours))
    if story.difficulty < 4:
        story.tell("ask", name=name)
        return
    speed, hours = story.draws.whole(10, 70), story.draws.whole(2, 9)
    story.tell("way", way=far + speed * hours)
    rest = story.step("rest", far + speed * hours, "-", far)
    if story.difficulty == 4:
        story.tell("ask rest", name=name)
        return
    story.tell("ask hours", name=name, speed=speed)
    story.step("hours", rest, "/", speed)


DISTANCES = Family(
    "distances",
    {
        "leg": (
            "{name} travels by {vehicle} at {speed} km per hour for {hours} hours.",
            "The {vehicle} of {name} goes {speed} km per hour for {hours} hours.",
        ),
        "next": (
            "Then it is {speed} km per hour for {hours} hours.",
            "After that {name} goes {speed} km per hour for {hours} hours.",
        ),
        "way": ("The whole way has {way} km.", "It is {way} km from the start to the end."),
        "ask": ("How many km does {name} go?", "How far does {name} go in km?"),
        "ask rest": ("How many km are left?", "How far does {name} still have to go in km?"),
        "ask hours": (
            "How many hours does the rest take at {speed} km per hour?",
            "At {speed} km per hour, how many hours does {name} still need?",
        ),
    },
    ("distance", "so far", "rest", "hours"),
    _distances,
)


def _rectangles(story: Story) -> None:
    ground, kind = story.draws.one(GROUNDS), story.draws.one(FLOWERS)
    share = 1.0 if story.difficulty <= 2 else 0.5
    long, wide = sorted((story.number(4, share), story.number(3, share)), reverse=True)
    long += long == wide
    story.tell("sides", ground=ground, long=long, wide=wide)
    if story.difficulty == 1:
        story.tell("ask area", ground=ground)
        story.step("area", long, "*", wide)
        return
    if story.difficulty == 2:
        story.tell("ask fence", ground=ground)
        story.step("around", 2, "*", story.step("two sides", long, "+", wide))
        return
    area = story.step("area", long, "*", wide)
    inner_long, inner_wide = story.draws.whole(2, long - 1), story.draws.whole(2, wide - 1)
    story.tell("pond", ground=ground, long=inner_long, wide=inner_wide)
    pond = story.step("pond", inner_long, "*", inner_wide)
    free = story.step("free", area, "-", pond)
    if story.difficulty == 3:
        story.tell("ask free", ground=ground)
        return
    dense = story.draws.whole(2, 9)
    story.tell("dense", dense=dense, kind=kind)
    count = story.step("all", free, "*", dense)
    if story.difficulty == 4:
        story.tell("ask all", kind=kind)
        return
    price = story.draws.whole(2, 9)
    story.tell("price", price=price, kind=kind)
    story.tell("ask cost", kind=kind)
    story.step("cost", count, "*", price)


RECTANGLES = Family(
    "rectangles",
    {
        "sides": (
            "A {ground} is {long} meters long and {wide} meters wide.",
            "The sides of a {ground} are {long} meters and {wide} meters.",
        ),
        "ask area": (
            "What is the area of the {ground} in square meters?",
            "How many square meters does the {ground} have?",
        ),
        "ask fence": (
            "How many meters of fence go around the {ground}?",
            "How many meters is it once around the {ground}?",
        ),
        "pond": (
            "In the {ground} there is a pond of {long} by {wide} meters.",
            "A pond in it is {long} meters long and {wide} meters wide.",
        ),
        "ask free": (
            "How many square meters of the {ground} are free?",
            "How many square meters does the {ground} have without the pond?",
        ),
        "dense": (
            "On each free square meter there are {dense} {kind}.",
            "Each square meter without water gets {dense} {kind}.",
        ),
        "ask all": ("How many {kind} are there?", "How many {kind} is that?"),
        "price": ("Each of the {kind} costs ${price}.", "The {kind} cost ${price} each."),
        "ask cost": ("How much do all {kind} cost?", "How many dollars do all the {kind} cost?"),
    },
    ("area", "two sides", "around", "pond", "free", "all", "cost"),
    _rectangles,
)


def _work_rates(story: Story) -> None:
    """Machines that work together; at 4 the hours that an order takes, at 5 with things in store."""
    shop, kind, name = story.draws.one(WORKSHOPS), story.draws.one(MADE), story.draws.one(NAMES)
    rate, hours = story.number(3, 0.5), story.draws.whole(2, 4 + story.difficulty)
    machines = story.draws.whole(2, 4 + story.difficulty)
    if story.difficulty == 1:
        story.tell("one", shop=shop, rate=rate, kind=kind)
        story.tell("ask", hours=hours, kind=kind)
        story.step("made", rate, "*", hours)
        return
    story.tell("some", shop=shop, machines=machines, rate=rate, kind=kind)
    together = story.step("per hour", machines, "*", rate)
    if story.difficulty >= 3:
        other = story.number(2, 0.5)
        story.tell("other", name=name, other=other, kind=kind)
        together = story.step("per hour", together, "+", other)
    if story.difficulty < 4:
        story.tell("ask", hours=hours, kind=kind)
        story.step("made", together, "*", hours)
        return
    store = story.number(5) if story.difficulty == 5 else 0
    order = together * hours + store
    story.tell("order", order=order, kind=kind)
    if store:
        story.tell("store", store=store)
        order = story.step("to make", order, "-", store)
    story.tell("ask hours", kind=kind)
    story.step("hours", order, "/", together)


WORK_RATES = Family(
    "work_rates",
    {
        "one": ("A machine in a {shop} makes {rate} {kind} per hour.", "In one hour a {shop} makes {rate} {kind}."),
        "some": (
            "A {shop} has {machines} machines, and each makes {rate} {kind} per hour.",
            "Each of the {machines} machines in a {shop} makes {rate} {kind} per hour.",
        ),
        "other": ("{name} makes {other} more {kind} per hour by hand.", "By hand {name} adds {other} {kind} per hour."),
        "ask": ("How many {kind} are made in {hours} hours?", "How many {kind} are there after {hours} hours?"),
        "order": ("An order asks for {order} {kind}.", "A shop wants {order} {kind}."),
        "store": ("There are {store} of them in store already.", "It takes {store} of them from the store."),
        "ask hours": (
            "How many hours of work does the order need?",
            "How many hours does it take to make the {kind} that the order needs?",
        ),
    },
    ("made", "per hour", "to make", "hours"),
    _work_rates,
)
