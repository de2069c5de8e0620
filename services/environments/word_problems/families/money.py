"""Stories about money: buying with change, prices of one and of many, mixtures."""

from __future__ import annotations

from fractions import Fraction

from services.environments.word_problems.families.names import GOODS, NAMES, THINGS
from services.environments.word_problems.families.story import Family, Story


def _buying(story: Story) -> None:
    """Two steps for the first thing and the change; two more for each other kind; one for a coupon."""
    name = story.draws.one(NAMES)
    kinds = story.draws.some(THINGS, (1, 2, 2, 3, 3)[story.difficulty - 1])
    bought = [(story.number(share=0.5), story.draws.whole(2, 5 + 3 * story.difficulty), kind) for kind in kinds]
    total = sum(count * price for count, price, _ in bought)
    coupon = story.draws.whole(2, total // 2) if story.difficulty in (3, 5) else 0
    money = total - coupon + story.number()
    story.tell("money", name=name, money=money)
    for count, price, kind in bought:
        story.tell("buys", name=name, count=count, price=price, kind=kind)
    if coupon:
        story.tell("coupon", name=name, coupon=coupon)
    story.tell("ask", name=name)
    owed = story.step("cost", bought[0][0], "*", bought[0][1])
    for count, price, _ in bought[1:]:
        owed = story.step("total", owed, "+", story.step("cost", count, "*", price))
    if coupon:
        owed = story.step("total", owed, "-", coupon)
    story.step("money left", money, "-", owed)


BUYING = Family(
    "buying",
    {
        "money": (
            "{name} has ${money}.",
            "{name} goes to the shop with ${money}.",
            "In the bag of {name} there is ${money}.",
        ),
        "buys": (
            "{name} buys {count} {kind} at ${price} each.",
            "{name} pays for {count} {kind}, and each costs ${price}.",
            "{name} takes {count} {kind} for ${price} each.",
        ),
        "coupon": ("A coupon takes ${coupon} off the total.", "The shop takes ${coupon} off the bill of {name}."),
        "ask": (
            "How much money is left?",
            "How many dollars does {name} have left?",
            "How much change does {name} get?",
        ),
    },
    ("cost", "total", "money left"),
    _buying,
)


def _unit_prices(story: Story) -> None:
    name, kind = story.draws.one(NAMES), story.draws.one(THINGS)
    pack, wanted = story.draws.some(range(2, 6 + 4 * story.difficulty), 2)
    unit = story.draws.whole(2, 4 + 4 * story.difficulty)
    story.tell("pack", pack=pack, kind=kind, cost=pack * unit)
    one = story.step("one", pack * unit, "/", pack)
    paid = story.step("cost", one, "*", wanted)
    if story.difficulty == 1:
        story.tell("ask", name=name, wanted=wanted, kind=kind)
        return
    fee = story.number()
    story.tell("fee", fee=fee)
    paid = story.step("total", paid, "+", fee)
    if story.difficulty == 2:
        story.tell("ask with fee", name=name, wanted=wanted, kind=kind)
        return
    # Sold again: the price of one is above what it cost.
    extra = story.draws.whole(2, 6) * wanted + (-int(paid)) % wanted
    sale = (int(paid) + extra) // wanted
    story.tell("sells", name=name, wanted=wanted, kind=kind, sale=sale)
    gain = story.step("gain", story.step("income", wanted, "*", sale), "-", paid)
    if story.difficulty == 3:
        story.tell("ask gain")
        return
    weeks = story.draws.whole(3, 9)
    story.tell("weeks", name=name, weeks=weeks)
    saved = story.step("gain", gain, "*", weeks)
    if story.difficulty == 4:
        story.tell("ask weeks", weeks=weeks)
        return
    spent = story.draws.whole(2, int(saved) - 1)
    story.tell("spends", name=name, spent=spent)
    story.tell("ask left", name=name, weeks=weeks)
    story.step("money left", saved, "-", spent)


UNIT_PRICES = Family(
    "unit_prices",
    {
        "pack": (
            "A pack of {pack} {kind} costs ${cost}.",
            "{pack} {kind} cost ${cost}.",
            "For ${cost} one gets {pack} {kind}.",
        ),
        "fee": ("Each order has a fee of ${fee}.", "There is a fee of ${fee} for one order."),
        "ask": ("How much do {wanted} {kind} cost?", "What does {name} pay for {wanted} {kind}?"),
        "ask with fee": (
            "How much does {name} pay for one order of {wanted} {kind}?",
            "What is the total for {name}, with the fee, if the order has {wanted} {kind}?",
        ),
        "sells": (
            "{name} orders {wanted} {kind} at this price and sells all of them for ${sale} each.",
            "At this price {name} orders {wanted} {kind}, and then sells each for ${sale}.",
        ),
        "ask gain": ("How much money is gained?", "How many dollars are gained?"),
        "weeks": ("{name} does the same in each of {weeks} weeks.", "For {weeks} weeks {name} does this once a week."),
        "ask weeks": ("How much money is gained in the {weeks} weeks?", "What is the gain after {weeks} weeks?"),
        "spends": ("Then {name} spends ${spent} of the gain.", "Of the gain {name} then gives away ${spent}."),
        "ask left": (
            "How much of the gain of {weeks} weeks is left?",
            "How much of it does {name} keep after {weeks} weeks?",
        ),
    },
    ("one", "cost", "total", "income", "gain", "money left"),
    _unit_prices,
)


def _mixtures(story: Story) -> None:
    """The price of a mixture; the weights add up to a number that ends every quotient within two decimals."""
    name = story.draws.one(NAMES)
    kinds = story.draws.some(GOODS, 2 if story.difficulty < 4 else 3)
    weight = story.draws.one(((4, 5), (5, 10), (10, 20), (20, 25), (25, 50))[story.difficulty - 1])
    cuts = sorted(story.draws.some(range(1, weight), len(kinds) - 1))
    parts = [high - low for low, high in zip([0, *cuts], [*cuts, weight], strict=True)]
    prices = [story.draws.whole(2, 5 + 5 * story.difficulty) for _ in kinds]
    for kind, part, price in zip(kinds, parts, prices, strict=True):
        story.tell("part", name=name, kind=kind, part=part, price=price)
    total = story.step("cost", parts[0], "*", prices[0])
    for part, price in zip(parts[1:], prices[1:], strict=True):
        total = story.step("total", total, "+", story.step("cost", part, "*", price))
    if story.difficulty == 1:
        story.tell("ask total", name=name)
        return
    if story.difficulty == 5:
        fee = story.draws.whole(2, 40)
        story.tell("fee", fee=fee)
        total = story.step("total", total, "+", fee)
    mixed: int | Fraction = parts[0]
    for part in parts[1:]:
        mixed = story.step("weight", mixed, "+", part)
    unit = story.step("price", total, "/", mixed)
    if story.difficulty == 2:
        story.tell("ask", name=name)
        return
    bag = story.draws.whole(2, 9)
    story.tell("ask bag", bag=bag)
    story.step("cost", unit, "*", bag)


MIXTURES = Family(
    "mixtures",
    {
        "part": (
            "{name} takes {part} kg of {kind} at ${price} per kg.",
            "{name} puts in {part} kg of {kind}, which costs ${price} per kg.",
            "Into the mix {name} puts {part} kg of {kind} for ${price} per kg.",
        ),
        "fee": ("The bags for the whole mix cost ${fee}.", "The whole mix also needs bags for ${fee}."),
        "ask total": ("How much does the mix cost?", "What does {name} pay for the whole mix?"),
        "ask": ("What is the price of one kg of the mix?", "How much does the mix of {name} cost per kg?"),
        "ask bag": ("What is the price of {bag} kg of the mix?", "How much do {bag} kg of the mix cost?"),
    },
    ("cost", "total", "weight", "price"),
    _mixtures,
)
