"""The model card: what the policy is, what was measured, how it was made, how to use it, and its limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cluster.configs.schema import Config
from cluster.runs.evaluation_rows import rate_text
from grpo_core.errors import one_line
from grpo_core.models.hub import hub_model
from opponents.champion.shipped import shown_path

_HEAD = """---
library_name: transformers
pipeline_tag: text-generation
{license}{base}tags:
- diplomacy
- reinforcement-learning
- grpo
- entente
---

# {title}

{what} {trained}
"""

_TRAINED = "It was trained to play full seven-power Diplomacy by country-grouped GRPO with Entente{run}."
_UNTRAINED = (
    "These are the weights that a run of Entente{run} started from: no update by country-grouped GRPO has changed them."
)

_MEASURED = """
## What was measured

{table}

- **centres**: mean supply centres at the end of the game, all seven countries weighted equally; a seventh of the board
  is 4.86.
- **leads**: games in which no power had more centres at the end; ties count. **solos**: games won with 18 centres.
  **survives**: games that ended with at least one centre. **squares**: share of the squared centres, 1 for a solo,
  0.143 for seven equal players.
- [In brackets]: 95 % intervals, stratified by country; games are independent. Six seats are played by the opponent
  named, one by the policy, as each country equally often; games end after the year given.
"""

_USE = """
## How to use it

Play or measure it with Entente, which lets only legal orders be sampled:

```
entente play --seat {seat}=THIS_FOLDER --default dumbbot --until 1908 --out game.json --html game.html
entente evaluate THIS_FOLDER --against random,dumbbot --games-per-country 10 --until 1905
```

Plain `transformers` loads it too; so does `vllm serve`. {prompts} `example_prompt.txt` has one:

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("THIS_FOLDER")
model = AutoModelForCausalLM.from_pretrained("THIS_FOLDER")
prompt = open("THIS_FOLDER/example_prompt.txt").read()
ids = tokenizer(prompt, return_tensors="pt"{special}).input_ids
print(tokenizer.decode(model.generate(ids, max_new_tokens={longest}, do_sample=False)[0, ids.shape[1]:]))
```
{adapters}"""

_NOTATION = "A prompt is a position as one country sees it, in compact notation."
_NOTES = (
    " Before each order the policy reads a note on its unit's surroundings, which Entente writes and plain generation "
    "does not: the example ends with the first note, so only the first order that follows means anything."
)
_CHAT = "A prompt is a conversation through the tokenizer's chat template: rules, position and legal orders."

_ADAPTERS = """
The weights in this folder are the shared base of {count} specialists, and alone no trained policy. Each country's
adapter is in `adapter/<POWER>/`, for `peft`:

```python
from peft import PeftModel

model = PeftModel.from_pretrained(model, "THIS_FOLDER/adapter/{power}")
```

Entente uses the right adapter for each country by itself.
"""

_LIMITS = """
## Limits

- Without Entente's mask of legal orders nothing keeps the model from writing illegal orders.{decoding}
- It plays without press: it neither reads nor writes messages.
{years}- Figures hold against the opponents named, not against people.
"""


@dataclass(frozen=True, slots=True)
class CardFacts:
    """What a card tells."""

    config: Config
    summary: Mapping[str, Any]  # summary.json; empty if the run has not written it
    version: int
    country: str | None  # whose specialist is merged
    specialists: tuple[str, ...]  # the powers with an adapter in the folder
    license_name: str | None


def model_card(facts: CardFacts) -> str:
    """Return the card as Markdown with YAML front matter for the Hugging Face Hub."""
    name = facts.config.run.name
    license_line = f"license: {facts.license_name}\n" if facts.license_name else ""
    base = None if facts.config.policy.path is None else hub_model(facts.config.policy.path)
    head = _HEAD.format(
        license=license_line,
        base="" if base is None else f"base_model: {base}\n",
        title=_title(facts),
        what=_what(facts),
        trained=(_TRAINED if facts.version else _UNTRAINED).format(run="" if name == "run" else f" (run `{name}`)"),
    )
    seat = facts.country or "FRANCE"
    adapters = ""
    if facts.specialists:
        adapters = _ADAPTERS.format(count=len(facts.specialists), power=facts.specialists[0])
    inference, chat = facts.config.inference, facts.config.policy.prompt == "chat"
    notes = _NOTES if facts.config.policy.notes else ""
    use = _USE.format(
        seat=seat,
        prompts=_CHAT if chat else f"{_NOTATION}{notes}",
        special=", add_special_tokens=False" if chat else "",
        longest=inference.max_completion_length + inference.thinking_tokens,
        adapters=adapters,
    )
    decoding = years = ""
    if facts.version:
        decoding = " It was trained without one." if inference.decoding == "free" else ""
        years = f"- It was trained on games to the end of {facts.config.game.until_year}; later years are new to it.\n"
    limits = _LIMITS.format(decoding=decoding, years=years)
    return head + _measured(facts) + _made(facts) + use + limits


def _title(facts: CardFacts) -> str:
    of = f", {facts.country.title()}" if facts.country else ""
    return f"{facts.config.run.name}{of}, version {facts.version}"


def _what(facts: CardFacts) -> str:
    if facts.country:
        return f"A language model that plays {facts.country.title()}, one of the seven powers of Diplomacy."
    if facts.specialists:
        return "A base language model and one LoRA adapter for each of the seven powers of Diplomacy."
    return "A language model that writes the orders of any power in Diplomacy."


def _measured(facts: CardFacts) -> str:
    rows: Sequence[Mapping[str, Any]] = facts.summary.get("evaluations", [])
    if not rows:
        return "\n## What was measured\n\nNothing yet: the run has recorded no evaluation.\n"
    head = ["policy", "against six", "games", "to", "centres", "leads", "solos", "survives", "squares"]
    lines = [_line(head), _line(["---"] * len(head)), *(_line(_cells(row)) for row in rows)]
    text = _MEASURED.format(table="\n".join(lines))
    here = f"checkpoints/{facts.version}"
    own = [row for row in rows if row["checkpoint"] == here and row["label"] != "muted"]  # with its letters
    if not own:
        text += f"\n**None of these rows is of this version, {facts.version}.**\n"
    elif facts.country:
        text += f"\n{_country(facts.country, own)}"
    return text


def _cells(row: Mapping[str, Any]) -> list[str]:
    version = str(row["checkpoint"]).rpartition("/")[2]
    return [
        f"{row['label']} ({version})" if version.isdigit() else str(row["label"]),
        *(str(row[name]) for name in ("against", "games", "until_year")),
        f"{row['mean_centers']:.2f}{_interval(row, 'mean_centers', 2)}",
        *(rate_text(row, name) for name in ("top_rate", "win_rate", "survival_rate")),
        f"{row['sum_of_squares']:.3f}{_interval(row, 'sum_of_squares', 3)}",
    ]


def _interval(row: Mapping[str, Any], name: str, digits: int) -> str:
    bounds = row.get(f"{name}_ci95")
    return "" if bounds is None else f" [{bounds[0]:.{digits}f}, {bounds[1]:.{digits}f}]"


def _country(country: str, rows: Sequence[Mapping[str, Any]]) -> str:
    figures = []
    for row in rows:
        cell = row["by_country"].get(country)
        if cell is not None:
            mean = f"{cell['mean_centers']:.2f}{_interval(cell, 'mean_centers', 2)}"
            figures.append(f"{mean} centres against six {row['against']} ({cell.get('games', '?')} games)")
    return f"As {country.title()} alone, this version had {'; '.join(figures) or 'no games'}.\n"


def _made(facts: CardFacts) -> str:
    config, summary = facts.config, facts.summary
    updates = summary.get("updates")
    whole = "" if updates == facts.version else ", of the run" + ("" if updates is None else f" ({updates} updates)")
    known = {
        "updates of this version": facts.version,
        "updates of the run": updates,
        f"episodes learned from{whole}": summary.get("episodes"),
        f"training games{whole}": summary.get("games"),
        "game length": f"to the end of {config.game.until_year}",
        "episodes an update": config.learner.episodes_per_update,
        "loss": config.learner.loss_type,
        "group keys, from fine to coarse": ", ".join(f"`{key}`" for key in config.grouping.declared_keys),
        "opponents at the start": ", ".join(f"`{member}`" for member in config.opponents.members),
        "seed": config.run.seed,
        "started from": _start(config, facts.version),
        "imitated first": _teacher(config, summary),
        "commit": summary.get("commit"),
        "configuration": f"digest `{summary['config_digest']}`" if "config_digest" in summary else None,
        "packages": _packages(summary),
    }
    lines = [_line(["", ""]), _line(["---", "---"])]
    lines += [_line([name, str(value)]) for name, value in known.items() if value is not None]
    untouched = (
        "" if facts.version else "The weights are untouched by the run's updates, which the table describes.\n\n"
    )
    return (
        f"\n## How it was made\n\n{untouched}{chr(10).join(lines)}\n\n"
        "`entente.json` has the configuration, without paths and addresses, and the summary of the whole run.\n"
    )


def _start(config: Config, version: int) -> str:
    if config.policy.path is None:
        return f"random weights ({config.policy.architecture}, {config.policy.layers} layers)"
    method = f"LoRA, rank {config.policy.lora_r}" if config.policy.use_peft else "all weights"
    return f"`{one_line(shown_path(config.policy.path), 100)}`" + (f"; trained: {method}" if version else "")


def _teacher(config: Config, summary: Mapping[str, Any]) -> str | None:
    if not config.imitation.wanted:
        return None
    done = summary.get("imitation") or {}
    decisions = done.get("decisions")
    whose = (
        f"{config.imitation.games} games of `{config.imitation.teacher}`" if config.imitation.games else "saved games"
    )
    return whose + (f", {decisions:,} decisions" if isinstance(decisions, int) else "")


def _packages(summary: Mapping[str, Any]) -> str | None:
    versions = (summary.get("provenance") or {}).get("versions") or {}
    return ", ".join(f"{name} {one_line(version, 40)}" for name, version in versions.items()) or None


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(one_line(cell).replace('|', '/') for cell in cells)} |"
