"""Checkpoints: manifest, configuration, tokenizer, weights and states, loaded as the learner and the actors do."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path

from cluster.configs.loader import load_config
from tests.fuzz.contract import Case, Kind, command
from tests.fuzz.mutations import changed, edit
from tests.fuzz.run_folder import copy_to

JSON_FILES = (
    "manifest.json",
    "config.json",
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "trainer_state.json",
    "generation_config.json",
)
WEIGHTS = ("model.safetensors", "optimizer.safetensors")
EXTRA = (
    ("model.safetensors.index.json", {"weight_map": {"model.norm.weight": "../../../../etc/passwd"}}),
    ("model.safetensors.index.json", {"weight_map": {"model.norm.weight": "model.safetensors"}, "metadata": {}}),
    ("special_tokens_map.json", {"eos_token": {"content": "<eos>"}}),
    ("added_tokens.json", {"<odd>": 1 << 40}),
    ("chat_template.json", {"chat_template": "{{ 1/0 }}"}),
    ("adapter/FRANCE/adapter_config.json", {"r": 1}),
    ("adapter_config.json", {"base_model_name_or_path": "/etc"}),
    ("preprocessor_config.json", {}),
    ("vocab.json", {}),
)
KEYS = (
    (
        "auto_map",
        {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model", "AutoTokenizer": ["evil.T", None]},
    ),
    ("model_type", "gpt2"),
    ("model_type", "no_such"),
    ("model_type", "t5"),
    ("architectures", ["GPT2ForCausalLM"]),
    ("num_hidden_layers", 10**9),
    ("hidden_size", 10**12),
    ("head_dim", 10**9),
    ("head_dim", 0),
    ("vocab_size", 10**12),
    ("num_attention_heads", 0),
    ("num_key_value_heads", 3),
    ("rope_parameters", {"rope_type": "yarn", "factor": 1e300}),
    ("rope_parameters", {"rope_type": "no"}),
    ("hidden_act", "no_such"),
    ("quantization_config", {"quant_method": "bitsandbytes"}),
    ("quantization_config", 3),
    ("dtype", "int8"),
    ("dtype", "no_such"),
    ("layer_types", ["no_such"]),
    ("layer_types", ["full_attention"] * 9),
    ("tie_word_embeddings", True),
    ("pad_token_id", 10**9),
    ("eos_token_id", 10**9),
    ("eos_token_id", [[1]]),
    ("id2label", {"0": 1}),
    ("num_labels", 10**10),
    ("max_position_embeddings", 0),
    ("max_position_embeddings", 10**15),
    ("max_position_embeddings", 60_000),
    ("n_positions", 60_000),
    ("model_type", "gpt_neo"),
    ("rms_norm_eps", "x"),
    ("tokenizer_class", "Evil"),
    ("tokenizer_class", "GPT2Tokenizer"),
    ("eos_token", None),
    ("eos_token", {"content": 3}),
    ("model_max_length", -1),
    ("extra_special_tokens", {"a": []}),
    ("is_encoder_decoder", True),
    ("attn_implementation", "flash_attention_2"),
    ("_attn_implementation", "no_such"),
    ("transformers_version", "99"),
    ("clean_up_tokenization_spaces", "x"),
    ("added_tokens_decoder", {"x": {"content": "y"}}),
    ("added_tokens_decoder", {"99999999999": {"content": "y"}}),
    ("padding_side", "up"),
    ("use_sliding_window", True),
    ("sliding_window", -1),
    ("attention_dropout", 7),
    ("use_cache", "x"),
    ("chunk_size_feed_forward", -1),
)
USES = ("resume", "play", "engine", "model", "manifest", "policy")


def cases(rng: random.Random) -> Iterator[Case]:
    """One file edited, a known key set, or a file added; mostly with checksums that fit, then one use of the folder."""
    while True:
        seed, how = rng.randrange(1 << 30), rng.random()
        file = rng.choice(JSON_FILES if how < 0.85 else WEIGHTS)
        key = rng.choice(KEYS) if 0.4 < how < 0.7 and file not in ("manifest.json", "trainer_state.json") else None
        extra = rng.choice(EXTRA) if how > 0.93 else None
        use = rng.choice(USES)
        name = f"{extra} added" if extra else f"{file}: {key or f'seed {seed}'}"
        yield Case(f"{name}, then {use}", (file, key, extra, seed, rng.random() < 0.75, use))


def run(case: Case, folder: Path, shared: object) -> None:
    """Damage the newest checkpoint of a copied run, and use it."""
    file, key, extra, seed, sealed, use = case.input
    run_dir, rng = copy_to(folder), random.Random(seed)
    damage(run_dir / "checkpoints" / "2", file, key, extra, rng)
    if sealed:
        seal(run_dir / "checkpoints" / "2")
    asyncio.run(USERS[use](run_dir, rng)) if use == "policy" else USERS[use](run_dir, rng)


def damage(checkpoint: Path, file: str, key: tuple[str, object] | None, extra: object, rng: random.Random) -> None:
    """Make one change in a checkpoint's folder."""
    if extra:
        name, document = extra  # type: ignore[misc]
        target = checkpoint / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(document if rng.random() < 0.6 else changed(rng, document)[1]))
    elif key:
        path = checkpoint / file
        path.write_text(json.dumps({**json.loads(path.read_text()), key[0]: key[1]}))
    elif file in WEIGHTS and rng.random() < 0.5:
        edit_header(rng, checkpoint / file)
    else:
        edit(rng, checkpoint / file, "bytes" if file in WEIGHTS else "json")


def edit_header(rng: random.Random, path: Path) -> None:
    """Change the header of a safetensors file, which is JSON before the tensors."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    _, header = changed(rng, json.loads(data[8 : 8 + length]))
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])


def seal(checkpoint: Path) -> None:
    """Write the manifest's checksums again, as one who made the files up would."""
    try:
        if not (checkpoint / "manifest.json").is_file() or (checkpoint / "manifest.json").stat().st_size > 1 << 24:
            return
        manifest = json.loads((checkpoint / "manifest.json").read_text())
        for name in list(manifest["files"]):
            path = checkpoint / name
            if path.is_file() and path.stat().st_size < 1 << 24:
                manifest["files"][name] = {
                    "bytes": path.stat().st_size,
                    "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                }
        (checkpoint / "manifest.json").write_text(json.dumps(manifest))
    except (OSError, ValueError, KeyError, TypeError, RecursionError, AttributeError):
        return  # it is damaged already


def _resume(run_dir: Path, rng: random.Random) -> None:
    from cluster.actors.learner import LearnerWorker
    from services.replay.memory_buffer import MemoryBuffer

    LearnerWorker(load_config(run_dir / "config.toml"), str(run_dir), MemoryBuffer(group_timeout_s=60), True)


def _play(run_dir: Path, rng: random.Random) -> None:
    command("play", "--seat", f"FRANCE={run_dir}", "--default", "hold", "--until", 1901, "--out", run_dir / "game.json")


def _engine(run_dir: Path, rng: random.Random) -> None:
    from cluster.runtime.engines import make_engine

    make_engine(load_config(run_dir / "config.toml"), run_dir / "checkpoints" / "2")


def _model(run_dir: Path, rng: random.Random) -> None:
    command(
        "doctor", "smoke", "--set", f"policy.path={run_dir / 'checkpoints' / '2'}", "--run-dir", run_dir.parent / "x"
    )


def _manifest(run_dir: Path, rng: random.Random) -> None:
    from grpo_core.checkpoints.folders import latest_checkpoint, passed_over, prune_checkpoints

    latest_checkpoint(run_dir)
    passed_over(run_dir, 0)
    prune_checkpoints(run_dir, 1)
    command("doctor", "--run", run_dir)


async def _policy(run_dir: Path, rng: random.Random) -> None:
    from cluster.evaluation.players.opening import open_policy
    from opponents.players.chat_players import ChatPlayers
    from services.environments.diplomacy.game import DiplomacyGame

    player = open_policy(str(run_dir / "checkpoints" / "2"), ChatPlayers({}))
    await player.act(DiplomacyGame(1901).position, "FRANCE", 0)


USERS = {"resume": _resume, "play": _play, "engine": _engine, "model": _model, "manifest": _manifest, "policy": _policy}
KIND = Kind("checkpoint folders", cases, run, quick=15)
