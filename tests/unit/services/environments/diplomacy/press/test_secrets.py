"""Powers read what is theirs alone, and no letter gives an order: whole random games with hostile letters and notes."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from opponents.prompts.chat_template import ChatTemplate
from opponents.prompts.policy_prompt import messages_of
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.press.letters import EVERYBODY, NOTES
from services.environments.diplomacy.press.sayable import partners
from services.environments.diplomacy.press.view import PressPosition
from services.environments.diplomacy.text.language import DiplomacyLanguage
from services.environments.diplomacy.text.notation import split
from services.environments.diplomacy.text.press_language import PressLanguage
from tests.chat_models import chat_tokenizer
from tests.unit.services.environments.diplomacy.press.games import hostile_text, whole_games
from tests.unit.services.environments.diplomacy.press.test_press_games import world

Lines = Mapping[str, list[str]]
PLAIN, TEMPLATE = DiplomacyLanguage(), ChatTemplate(chat_tokenizer())
SPECIAL = ("<|im_start|>", "<|im_end|>", "<think>", "</think>", "<|endoftext|>")


@dataclass
class Secrets:
    """Writes hostile letters and notes that hold a mark each, and knows who may read it."""

    rng: random.Random
    public: bool
    texts: list[str]
    readers: dict[str, tuple[str, ...]] = field(default_factory=dict)  # mark -> who may read it

    def write(self, game: DiplomacyGame) -> Lines:
        """Letters of a round, of which about half of all that are possible are written."""
        lines: dict[str, list[str]] = {}
        for power in game.to_act():
            view = game.view(power)
            assert isinstance(view, PressPosition)
            recipients = [*partners(view, power), NOTES, *([EVERYBODY] if self.public else [])]
            lines[power] = [self._line(view, to) for to in recipients if self.rng.random() < 0.5]
        return lines

    def _line(self, view: PressPosition, to: str) -> str:
        sender = view.press.reader
        mark = f"secret{len(self.readers)}x"
        self.readers[mark] = {EVERYBODY: POWERS, NOTES: (sender,)}.get(to, (sender, to))
        partner = to if to in POWERS else self.rng.choice(partners(view, sender))
        text = self.rng.choice([*self.texts, hostile_text(view, partner, self.rng, 300)])
        return f"{to} {mark}\n{text}"

    def readable(self, lines: Lines, reader: str) -> Lines:
        """The lines that the reader may read."""
        marks = {mark for mark, readers in self.readers.items() if reader in readers}
        return {
            power: [line for line in own if line.partition(" ")[2].partition("\n")[0] in marks]
            for power, own in lines.items()
        }

    def hidden_from(self, text: str, reader: str) -> bool:
        """Whether the text has no mark that the reader may not read."""
        return not any(mark in text for mark, readers in self.readers.items() if reader not in readers)


def check_prompts(view: PressPosition, unwritten: PressPosition, power: str, secrets: Secrets, public: bool) -> None:
    """Every form of the prompt is free of others' marks, and has the form of a prompt without any letter."""
    language = PressLanguage(public=public)
    notation = language.prompt(view, power)
    assert "secret" not in notation
    assert set(split(notation)) <= set(language.words())
    assert PLAIN.prompt(view, power) == PLAIN.prompt(unwritten, power)
    for cut in range(len(language.cuts) + 1):
        parts = language.sections(view, power, cut=cut)
        without = language.sections(unwritten, power, cut=cut)
        names = [part.name for part in parts if part.name not in ("letters", "earlier letters", "promises", "notes")]
        assert names == [part.name for part in without]
        assert [part.role for part in parts if part.role == "system"] == ["system"] * 3
        assert all(secrets.hidden_from(part.text, power) for part in parts)
    parts, without = language.sections(view, power), language.sections(unwritten, power)
    text = TEMPLATE.text(messages_of(parts))
    assert secrets.hidden_from(text, power)
    counts = [[shown.count(each) for each in SPECIAL] for shown in (text, TEMPLATE.text(messages_of(without)))]
    assert counts[0] == counts[1]


def check_masks(view: PressPosition, unwritten: PressPosition, power: str, public: bool) -> None:
    """Slots are those of a game without letters, with answers for partners that have proposed something."""
    language = PressLanguage(public=public)
    slots, without = language.slots(view, power), language.slots(unwritten, power)
    if view.press.writes is None:
        assert slots == without == PLAIN.slots(unwritten, power)
        return
    assert len(slots) == len(without)
    for slot, other in zip(slots, without, strict=True):
        partner = slot.alternatives[0].partition(" ")[0]
        answers = {f"{partner} ACCEPT", f"{partner} REJECT"}
        asked = partner in view.press.waiting
        assert tuple(line for line in slot.alternatives if line not in answers) == other.alternatives
        assert answers <= set(slot.alternatives) if asked else not answers & set(slot.alternatives)


@whole_games
@given(st.integers(0, 1 << 32), st.booleans(), st.lists(st.text(max_size=200), max_size=5))
def test_nobody_reads_what_is_not_theirs_whatever_is_written(seed: int, public: bool, texts: list[str]) -> None:
    rng = random.Random(seed)
    secrets, reader = Secrets(rng, public, texts), rng.choice(POWERS)
    # The game; the same with those letters alone that the reader may read; and the same without letters.
    table = world(press_public=public, until_year=1902)
    game, known, silent = (table.new_game("", "FRANCE", 0) for _ in range(3))
    bots = {power: table.make_bot(rng.choice(("random", "greedy"))) for power in POWERS}
    while not game.is_done:
        assert game.view(reader) == known.view(reader)
        acting = game.to_act()
        for power in rng.sample(acting, min(len(acting), 4)):
            view, unwritten = game.view(power), silent.view(power)
            assert isinstance(view, PressPosition)
            assert isinstance(unwritten, PressPosition)
            check_prompts(view, unwritten, power, secrets, public)
            check_masks(view, unwritten, power, public)
            for heard, unheard in game.heard_of_partners(power).values():
                assert secrets.hidden_from(f"{heard.press!r}", power)
                assert "secret" not in f"{unheard.press!r}"
        if game.takes_time:
            assert not game.orders
            seed += 1
            given_, others = (
                {power: bots[power].actions(each.view(power), power, seed) for power in each.to_act()}
                for each in (game, silent)
            )
            assert given_ == others
            for each in (game, known, silent):
                each.step(given_)
            assert game.position == silent.position
        else:
            lines = secrets.write(game)
            game.step(lines)
            known.step(secrets.readable(lines, reader))
            silent.step({})
    own = [mark for mark, readers in secrets.readers.items() if reader in readers]
    assert 0 < len(own) < len(secrets.readers)


def test_readers_do_read_what_is_theirs() -> None:
    rng = random.Random(5)
    secrets, game = Secrets(rng, public=True, texts=[]), world(press_public=True).new_game("", "FRANCE", 0)
    game.step(secrets.write(game))
    for power in POWERS:
        shown = "".join(part.text for part in PressLanguage().sections(game.view(power), power))
        assert all((mark in shown) == (power in readers) for mark, readers in secrets.readers.items())
