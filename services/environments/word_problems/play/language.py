"""How word problems are written: an instruction and questions in, free text with a final answer out."""

from __future__ import annotations

from collections.abc import Sequence

from services.environments.language import Language, Section
from services.environments.playing import Answer
from services.environments.word_problems.instructions import STOP, chat_messages, prompt_text, with_thought
from services.environments.word_problems.play.game import Conversation


class WordProblemLanguage(Language):
    """Tags in plain prompts, messages for chat models; a completion ends with ``</response>``."""

    has_masks = False
    stop = STOP
    shortest_chat_prompt = 120
    example = "3 * 4 = 12"
    word_pattern = r"</?[a-z]+>|[A-Za-z]+|[0-9]|\n|[^\sA-Za-z0-9]"
    joins = (
        (r" (?=[.,:?%])", ""),
        (r"(?<=\$) ", ""),
        (r"(?<=[0-9]) (?=[0-9])", ""),
        (r"(?<=[0-9]\.) (?=[0-9])", ""),
        (r" (?=</?[a-z]+>)", ""),
        (r"(?<=[a-z]>) ", ""),
    )

    def words(self) -> Sequence[str]:
        """All words of prompts and worked solutions."""
        from services.environments.word_problems.vocabulary import words

        return words()

    def prompt(self, view: Conversation, seat: str) -> str:
        """The instruction of the variant, then questions and replies."""
        return prompt_text(seat, view.questions, view.replies)

    def sections(self, view: Conversation, seat: str, *, thinking: bool = False, cut: int = 0) -> Sequence[Section]:  # noqa: ARG002
        """The same as a conversation; the instruction always asks for a thought, in tags without ``thinking``."""
        names = {"system": "instruction", "user": "question", "assistant": "reply"}
        messages = chat_messages(seat, view.questions, view.replies, thinking=thinking)
        return [Section(names[message["role"]], message["role"], message["content"]) for message in messages]

    def slots(self, view: Conversation, seat: str) -> None:
        """Any text may be written."""

    def parse(self, text: str, view: Conversation, seat: str, thought: str = "") -> Answer:  # noqa: ARG002
        """The whole completion is the action, a thought that was written before it in its tags."""
        return Answer((with_thought(text, thought),))
