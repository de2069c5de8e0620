"""Twenty problems written by hand, in the form of the first set of instruction variants."""

from __future__ import annotations

from fractions import Fraction

from services.environments.word_problems.problem import Question, WordProblem

FAMILY = "preset"

# The system that this world continues lists twenty such problems, and its text quotes two: the clips and the bakery.
# Their answers, 72 (48 in April, 24 in May) and 20, were checked and are right. The other eighteen were written here.
_PROBLEMS: tuple[tuple[int, str, tuple[str, ...], int | Fraction], ...] = (
    (
        1,
        "Natalia sold clips to 48 of her friends in April, and then she sold half as many clips in May. How many clips "
        "did Natalia sell altogether in April and May?",
        ("May: 48 / 2 = 24", "both months: 48 + 24 = 72"),
        72,
    ),
    (
        1,
        "A bakery made 240 cookies. If they packed 12 cookies in each box, how many boxes did they fill?",
        ("boxes: 240 / 12 = 20",),
        20,
    ),
    (1, "Sam has 15 pens and buys 9 more. How many pens does Sam have?", ("pens: 15 + 9 = 24",), 24),
    (1, "A bus has 36 seats, and 21 are taken. How many seats are free?", ("free: 36 - 21 = 15",), 15),
    (1, "Seven days make a week. How many days are 6 weeks?", ("days: 7 * 6 = 42",), 42),
    (1, "Five friends share 65 marbles equally. How many does each get?", ("each: 65 / 5 = 13",), 13),
    (
        2,
        "A notebook costs $3 and a pen costs $2. How much do 4 notebooks and 5 pens cost?",
        ("notebooks: 4 * 3 = 12", "pens: 5 * 2 = 10", "all: 12 + 10 = 22"),
        22,
    ),
    (
        2,
        "A train goes 80 km per hour for 3 hours and then 60 km per hour for 2 hours. How many km does it go?",
        ("first: 80 * 3 = 240", "then: 60 * 2 = 120", "all: 240 + 120 = 360"),
        360,
    ),
    (
        2,
        "Leo is 12 years old. His mother is 3 times as old. How old will she be in 5 years?",
        ("mother: 12 * 3 = 36", "later: 36 + 5 = 41"),
        41,
    ),
    (
        2,
        "A shirt costs $40. Its price falls by 25%. What does it cost now?",
        ("part: 40 * 25 = 1000", "less: 1000 / 100 = 10", "price: 40 - 10 = 30"),
        30,
    ),
    (
        2,
        "A room is 6 meters long and 4 meters wide. How many meters is it once around the room?",
        ("two sides: 6 + 4 = 10", "around: 2 * 10 = 20"),
        20,
    ),
    (
        2,
        "A farmer has 50 eggs and fills boxes of 6. How many eggs are left over?",
        ("packed: 8 * 6 = 48", "left: 50 - 48 = 2"),
        2,
    ),
    (
        3,
        "Mia reads 20 pages a day. After 6 days she still has 80 pages to read. How many pages does the book have?",
        ("read: 20 * 6 = 120", "all: 120 + 80 = 200"),
        200,
    ),
    (
        3,
        "Two taps fill a pool. One gives 30 liters per minute, the other 20 liters. How many minutes do 600 liters "
        "take?",
        ("together: 30 + 20 = 50", "minutes: 600 / 50 = 12"),
        12,
    ),
    (
        3,
        "A recipe for 4 people needs 3 cups of flour. How many cups are needed for 6 people?",
        ("one: 3 / 4 = 0.75", "cups: 0.75 * 6 = 4.5"),
        Fraction(9, 2),
    ),
    (
        3,
        "Ana has $100. She spends half of it on shoes and a quarter of it on a book. How much is left?",
        ("shoes: 100 / 2 = 50", "book: 100 / 4 = 25", "rest: 100 - 50 = 50", "left: 50 - 25 = 25"),
        25,
    ),
    (
        4,
        "A class has 30 children. 60% of them are girls, and 5 girls are ill. How many girls are not ill?",
        ("part: 30 * 60 = 1800", "girls: 1800 / 100 = 18", "not ill: 18 - 5 = 13"),
        13,
    ),
    (
        4,
        "A worker earns $15 an hour and $20 for each hour above 40 a week. What is the pay for a week of 46 hours?",
        ("plain: 40 * 15 = 600", "above: 46 - 40 = 6", "more: 6 * 20 = 120", "pay: 600 + 120 = 720"),
        720,
    ),
    (
        4,
        "Three numbers have the mean 14. Two of them are 9 and 17. What is the third number?",
        ("sum: 14 * 3 = 42", "rest: 42 - 9 = 33", "third: 33 - 17 = 16"),
        16,
    ),
    (
        5,
        "A tank holds 500 liters and is 40% full. A pump adds 25 liters per minute, and a leak loses 5 liters per "
        "minute. After how many minutes is the tank full?",
        (
            "part: 500 * 40 = 20000",
            "full: 20000 / 100 = 200",
            "free: 500 - 200 = 300",
            "gain: 25 - 5 = 20",
            "minutes: 300 / 20 = 15",
        ),
        15,
    ),
)

PRESETS: tuple[WordProblem, ...] = tuple(
    WordProblem(Question(text), solution, Fraction(answer), FAMILY, difficulty, number)
    for number, (difficulty, text, solution, answer) in enumerate(_PROBLEMS)
)
