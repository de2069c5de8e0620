"""The model card of worlds whose games are not saved as positions, in the words of the world."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cluster.configs.schema import Config
from cluster.runs.evaluation_rows import describe
from grpo_core.errors import one_line
from grpo_core.models.hub import hub_model

_CARD = """---
library_name: transformers
pipeline_tag: text-generation
{head}tags:
- {tag}
- reinforcement-learning
- grpo
- entente
---

# {title}

A language model of Entente's world `{world}`, trained by {role}-grouped GRPO (run `{run}`).

## What was measured

{measured}

[In brackets]: 95 % intervals, stratified by {role}.

## How to use it

Plain `transformers` loads it; so does `vllm serve`. `example_prompt.txt` has a prompt:

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("THIS_FOLDER")
model = AutoModelForCausalLM.from_pretrained("THIS_FOLDER")
prompt = open("THIS_FOLDER/example_prompt.txt").read()
ids = tokenizer(prompt, return_tensors="pt"{special}).input_ids
written = model.generate(ids, max_new_tokens={longest}, do_sample=False{stop})
print(tokenizer.decode(written[0, ids.shape[1]:]))
```

## How it was made

{updates} updates of {episodes} episodes, loss `{loss}`, group keys {keys}, seed {seed}. `entente.json` has the
configuration, without paths and addresses, and the summary of the whole run.
"""


def plain_card(config: Config, summary: Mapping[str, Any], version: int, license_name: str | None) -> str:
    """Return the card as Markdown with YAML front matter. Raises KeyError or TypeError for a damaged summary."""
    world, inference = config.world, config.inference
    base = None if config.policy.path is None else hub_model(config.policy.path)
    head = (f"license: {license_name}\n" if license_name else "") + (f"base_model: {base}\n" if base else "")
    facts = list(world.evaluation_facts(config.evaluation))
    rows = [
        f"- **{one_line(row['label'])}** {world.opposition(one_line(row['against']))}: "
        + describe(row, world.measured, facts)
        for row in summary.get("evaluations", [])
    ]
    stop = world.language.stop
    return _CARD.format(
        head=head,
        tag=world.name.replace("_", "-"),
        title=f"{config.run.name}, version {version}",
        world=world.name,
        role=world.role_name,
        run=config.run.name,
        measured="\n".join(rows) or "Nothing yet: the run has recorded no evaluation.",
        special=", add_special_tokens=False" if config.policy.prompt == "chat" else "",
        longest=inference.max_completion_length + inference.thinking_tokens,
        stop="" if stop is None else f', stop_strings="{stop}", tokenizer=tokenizer',
        updates=version,
        episodes=config.learner.episodes_per_update,
        loss=config.learner.loss_type,
        keys=", ".join(f"`{key}`" for key in config.grouping.declared_keys),
        seed=config.run.seed,
    )
