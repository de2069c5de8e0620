"""Chat templates that lose or rewrite what was said are refused by name; thoughts begin as the tokenizer says."""

from __future__ import annotations

import pytest

from grpo_core.errors import CheckpointError
from opponents.prompts.chat_template import ChatTemplate
from services.inference.messages import Message
from services.inference.thoughts import thought_format
from tests.chat_models import SPECIAL, TEMPLATE, chat_tokenizer

LOOP = "{%- for m in messages -%}[{{ m.role }}] {{ m.content }}\n{% endfor -%}"
REFUSED = {
    "no template": (None, "has no chat template"),
    "no system message": (
        "{%- for m in messages if m.role != 'system' -%}{{ m.content }}{% endfor -%}",
        "loses or rewrites the system message",
    ),
    "stripped lines": (
        "{%- for m in messages -%}{{ m.content | replace('\n', ' ') }}{% endfor -%}",
        "loses or rewrites the system message",
    ),
    "newest first": (LOOP.replace("in messages", "in messages[::-1]"), "reorders the user message"),
    "only the last question": (
        "{%- for m in messages[-1:] -%}{{ m.content }}{% endfor -%}",
        "loses or rewrites the system message",
    ),
    "no answers": (
        "{%- for m in messages if m.role != 'assistant' -%}{{ m.content }}{% endfor -%}",
        "loses or rewrites the assistant message",
    ),
    "an own error": ("{{ raise_exception('System role not supported') }}", "fails: System role not supported"),
    "not a template": ("{% for", "fails: "),
    "other words once answered": (
        "{%- if messages | length > 2 -%}Again. {% endif -%}" + LOOP,
        "rewrites what was said before",
    ),
    "other words before an answer": (
        "{%- if not add_generation_prompt -%}Over. {% endif -%}" + LOOP,
        "rewrites what was said before",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_templates_that_lose_or_rewrite_history_are_refused(name: str) -> None:
    template, message = REFUSED[name]
    tokenizer = chat_tokenizer(template)
    tokenizer.name_or_path = "models/odd"
    with pytest.raises(CheckpointError, match=message) as error:
        ChatTemplate(tokenizer)
    assert "models/odd" in str(error.value)
    assert "\n" not in str(error.value)


def test_faithful_templates_are_taken() -> None:
    for template in (TEMPLATE, LOOP, LOOP + "{% if add_generation_prompt %}[assistant]{% endif %}"):
        assert ChatTemplate(chat_tokenizer(template)).text([{"role": "user", "content": "Well?"}])


def test_thoughts_begin_and_end_with_the_tokenizers_own_marks() -> None:
    tokenizer = chat_tokenizer()
    thought = thought_format(tokenizer, "<|im_start|>assistant\n", 8, "Orders")
    assert tokenizer.decode(thought.opening) == "<think>\n"
    assert thought.end_id == tokenizer.convert_tokens_to_ids("</think>")
    assert tokenizer.decode(thought.after_end) == "\n\n"
    assert tokenizer.decode(thought.closing) == "\n</think>\n\n"
    assert thought.longest == len(thought.opening) + 8 + len(thought.closing)
    assert thought_format(tokenizer, "<|im_start|>assistant\n<think>\n", 8, "Orders").opening == ()


def test_a_model_without_marks_thinks_in_plain_words() -> None:
    tokenizer = chat_tokenizer(special=SPECIAL[:3])
    thought = thought_format(tokenizer, "<|im_start|>assistant\n", 8, "Orders")
    assert thought.end_id is None
    assert tokenizer.decode(thought.opening) == "Thoughts:\n"
    assert tokenizer.decode(thought.closing) == "\n\nOrders:\n"


def test_a_template_with_the_date_writes_the_same_every_day() -> None:
    dated = "{{ date_string if date_string is defined }} {{ strftime_now('%Y') }}" + LOOP
    text = ChatTemplate(chat_tokenizer(dated)).text([{"role": "user", "content": "Well?"}])
    assert text.startswith("26 Jul 2024 2024[user]")


def test_a_template_that_always_thinks_gets_an_empty_thought_where_none_is_wanted() -> None:
    always = LOOP + "{% if add_generation_prompt %}[assistant]\n<think>\n{% endif %}"
    question: list[Message] = [{"role": "user", "content": "Well?"}]
    assert ChatTemplate(chat_tokenizer(always)).text(question).endswith("[assistant]\n<think>\n\n</think>\n\n")
    assert ChatTemplate(chat_tokenizer(always), thinking=True).text(question).endswith("[assistant]\n<think>\n")
