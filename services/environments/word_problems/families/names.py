"""People, things and places of the stories."""

from __future__ import annotations

NAMES = (
    "Ada", "Ben", "Clara", "David", "Elif", "Femi", "Grace", "Hugo", "Ines", "Jonas", "Kofi", "Lena", "Mei", "Nadia",
    "Omar", "Paula", "Quinn", "Rosa", "Sami", "Tara", "Uma", "Victor", "Wanda", "Yusuf", "Zoe",
)  # fmt: skip
# Plural: counts in the stories are at least 2.
THINGS = (
    "apples", "balls", "books", "buttons", "candles", "cards", "cookies", "cups", "eggs", "flowers", "lemons",
    "marbles", "muffins", "pears", "pencils", "plates", "shells", "stamps", "stickers", "toys",
)  # fmt: skip
MADE = ("balls", "books", "buttons", "candles", "cards", "cups", "pencils", "plates", "stamps", "stickers", "toys")
BOXES = ("boxes", "bags", "baskets", "crates", "trays")
GOODS = ("rice", "flour", "nuts", "tea", "sugar", "beans")  # by the kilogram
VEHICLES = ("car", "bus", "train", "truck", "boat")
GROUNDS = ("garden", "field", "meadow", "yard", "park")
FLOWERS = ("flowers", "roses", "tulips", "lilies", "daisies")
WORKSHOPS = ("factory", "workshop", "mill", "plant")

LISTED = frozenset({*NAMES, *THINGS, *BOXES, *GOODS, *VEHICLES, *GROUNDS, *FLOWERS, *WORKSHOPS})
