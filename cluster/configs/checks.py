"""Checks across the configuration's sections. Each raises ValueError with one line that names the keys."""

from __future__ import annotations

from cluster.configs.sections import RolloutSettings, TrainingSettings
from grpo_core.advantages.grouping import required_facts
from grpo_core.advantages.returns import EXPECTED_RETURN_FACT
from grpo_core.errors import GroupingError
from grpo_core.settings import OUTCOME_KEYS, AlignmentSettings, GroupingSettings, LearnerSettings, PolicySettings
from opponents.champion.shipped import CHAMPION
from opponents.player_names import POLICY_PREFIX, player_name
from opponents.settings import PLAYER_PREFIX, REMOTE_PREFIX, OpponentsSettings, unknown_chat_player, unknown_player
from services.environments.environment import LINEUP_FACT, POLICY_OPPONENTS_FACT, World, check_bot
from services.environments.playing import TALK_PARTS
from services.environments.registry import DEFAULT_WORLD
from services.environments.settings import EvaluationSettings
from services.settings import InferenceSettings

LINEUP_FACTS = (LINEUP_FACT, POLICY_OPPONENTS_FACT)
ROOM_FOR_ORDERS = 128  # tokens, beside notes


def check_episode_counts(learner: LearnerSettings, rollout: RolloutSettings) -> None:
    """Check that updates and topping up take whole blocks."""
    if learner.episodes_per_update % rollout.num_generations:
        raise ValueError(
            f"learner.episodes_per_update ({learner.episodes_per_update}) must be a multiple of "
            f"rollout.num_generations ({rollout.num_generations}): an update takes whole blocks"
        )
    if 0 < learner.top_up_episodes < rollout.num_generations:
        raise ValueError(
            f"learner.top_up_episodes ({learner.top_up_episodes}) is less than one block "
            f"(rollout.num_generations, {rollout.num_generations}); set more, or 0 for none"
        )


def check_prompts(policy: PolicySettings, inference: InferenceSettings, world: World) -> None:
    """Check that prompt, thought and answer have room in the context."""
    if inference.thinking_tokens and policy.prompt != "chat":
        raise ValueError(
            "inference.thinking_tokens needs policy.prompt = chat: compact notation has no words for a thought"
        )
    if policy.notes:
        check_notes(policy, inference, world)
    if inference.decoding == "coordinated" and not world.language.has_coordination:
        raise ValueError(f"inference.decoding: the world {world.name} has no coordinated answers; take constrained")
    shortest = world.language.shortest_chat_prompt if policy.prompt == "chat" else 0
    answer = inference.thinking_tokens + inference.max_completion_length
    if (1 + world.repeated_answers) * answer + shortest >= policy.context_length:
        thinking = "inference.thinking_tokens and " if inference.thinking_tokens else ""
        times = f" (once for each of {1 + world.repeated_answers} questions)" if world.repeated_answers else ""
        prompt = f" of at least {shortest} tokens" if shortest else ""
        raise ValueError(
            f"{thinking}inference.max_completion_length{times} must leave room for a prompt{prompt} in "
            f"policy.context_length ({policy.context_length})"
        )


def check_notes(policy: PolicySettings, inference: InferenceSettings, world: World) -> None:
    """Check that notes can be written before what is chosen, and have room."""
    longest = world.language.longest_notes
    if not longest:
        raise ValueError(f"policy.notes: the world {world.name} has no notes; set it to false")
    if policy.prompt != "notation" or inference.decoding == "free":
        raise ValueError("policy.notes needs policy.prompt = notation, and inference.decoding must not be free")
    if inference.max_completion_length < longest + ROOM_FOR_ORDERS:
        raise ValueError(
            f"policy.notes needs inference.max_completion_length of at least {longest + ROOM_FOR_ORDERS}, for notes "
            f"and orders, instead of {inference.max_completion_length}"
        )


def check_members(opponents: OpponentsSettings, world: World) -> None:
    """Check that every named member is a bot of the world, its champion, a saved policy or a remote player."""
    for name in opponents.members if world.has_opponents else ():
        if name == CHAMPION and has_champion(world):
            continue
        if name.startswith(PLAYER_PREFIX):
            if (player := name.removeprefix(PLAYER_PREFIX)) not in opponents.players:
                raise ValueError(f"opponents.members: {unknown_player(player, opponents.players)}")
        elif not name.startswith(REMOTE_PREFIX):
            others = f", {CHAMPION}" if has_champion(world) else ""
            check_bot("opponents.members", name, world.bots, f"{others}, player:NAME, and remote:NAME")
        elif (remote := name.removeprefix(REMOTE_PREFIX)) not in opponents.remotes:
            raise ValueError(f"opponents.members: {unknown_chat_player(remote, opponents.remotes)}")


def check_anchors(evaluation: EvaluationSettings, world: World) -> None:
    """Check that every anchor of the evaluations exists: what the world knows, and the champion in its own world."""
    if has_champion(world):
        bots = {}
        for key in ("against", "final_against"):
            bots[key] = tuple(name for name in getattr(evaluation, key) if player_name(name).saved != CHAMPION)
            for name in bots[key]:
                check_bot(f"evaluation.{key}", name, world.bots, f", {CHAMPION}, and {POLICY_PREFIX}{CHAMPION}")
        evaluation = evaluation.model_copy(update=bots)
    world.check_evaluation(evaluation)


def has_champion(world: World) -> bool:
    """Whether the champion that comes with the package plays this world."""
    return world.name == DEFAULT_WORLD and CHAMPION not in world.bots


def check_vocabulary(policy: PolicySettings, evaluation: EvaluationSettings, world: World) -> None:
    """Check that a policy that learns from nothing has the words of its prompts."""
    if policy.path is None:
        world.check_vocabulary(evaluation)


def check_specialists(
    grouping: GroupingSettings,
    alignment: AlignmentSettings,
    opponents: OpponentsSettings,
    evaluation: EvaluationSettings,
    world: World,
) -> None:
    """Check that no setting needs shared weights or one policy for all seats; for a specialist per role."""
    for key in ("against", "final_against"):
        for name in getattr(evaluation, key):
            if others := [role for role in world.evaluation_roles(evaluation, name) if role not in world.roles]:
                raise ValueError(
                    f"policy.specialists: evaluation.{key} names {name!r}, which is played as {', '.join(others)}, and "
                    "there are no specialists for them; leave it out"
                )
    if grouping.gradient_surgery != "none" or alignment.weight > 0:
        raise ValueError(
            "policy.specialists: roles share no trained weights, so that grouping.gradient_surgery and "
            "alignment have nothing to do; turn them off"
        )
    if (opponents.snapshot_every > 0 or opponents.promote_margin > 0) and opponents.lineup == "same":
        raise ValueError(
            "policy.specialists: a snapshot plays one role and cannot fill six seats; set opponents.lineup = "
            "mixed, or opponents.snapshot_every and promote_margin = 0"
        )


def check_talk_credit(
    policy: PolicySettings, inference: InferenceSettings, rollout: RolloutSettings, world: World
) -> None:
    """Check that the reward parts for talk, if any is named, can be told from probabilities under a mask."""
    part = next((name for name in TALK_PARTS if name in world.reward_weights), None)
    if part is None:
        return
    needs = {
        'inference.engine = "torch", which tells probabilities': inference.engine == "torch",
        "inference.decoding other than free": inference.decoding != "free",
        "inference.thinking_tokens = 0": not inference.thinking_tokens,
        "policy.specialists = false": not policy.specialists,
        "rollout.share_gpu_with_learner = false": not rollout.share_gpu_with_learner,
    }
    if missing := [text for text, is_met in needs.items() if not is_met]:
        raise ValueError(f"the reward part {part} needs {', '.join(missing)}")


def check_gpus(rollout: RolloutSettings, tensor_parallel_size: int, learner: TrainingSettings) -> None:
    """Check that the numbers of rollout actors and of their GPUs fit the engine and the learner."""
    if learner.activation_offloading and not learner.gpus:
        raise ValueError(
            "learner.activation_offloading needs learner.gpus = 1: activations of a learner on CPUs are in the host's "
            "memory as it is"
        )
    if rollout.gpus_per_actor > 1 and not rollout.gpus_per_actor.is_integer():
        raise ValueError(f"rollout.gpus_per_actor ({rollout.gpus_per_actor:g}) must be whole above 1")
    if rollout.max_actors is not None and rollout.max_actors < rollout.actors:
        raise ValueError(
            f"rollout.max_actors ({rollout.max_actors}) is less than rollout.actors ({rollout.actors}), the number "
            "that a run begins with and always keeps"
        )
    if rollout.share_gpu_with_learner:
        if rollout.actors != 1 or tensor_parallel_size != 1 or rollout.max_actors is not None:
            raise ValueError(
                "rollout.share_gpu_with_learner is for one GPU: set rollout.actors and "
                "inference.tensor_parallel_size to 1, and leave rollout.max_actors unset"
            )
        if rollout.gpus_per_actor != learner.gpus:
            raise ValueError(
                f"rollout.share_gpu_with_learner needs rollout.gpus_per_actor ({rollout.gpus_per_actor:g}) equal "
                f"to learner.gpus ({learner.gpus}): 1, or 0 for turns on the CPU"
            )
    elif tensor_parallel_size > 1 and rollout.gpus_per_actor != tensor_parallel_size:
        raise ValueError(
            f"rollout.gpus_per_actor ({rollout.gpus_per_actor:g}) must equal inference.tensor_parallel_size "
            f"({tensor_parallel_size}): one engine spans that many GPUs"
        )


def check_learner_processes(
    learner: TrainingSettings,
    grouping: GroupingSettings,
    alignment: AlignmentSettings,
    rollout: RolloutSettings,
) -> None:
    """Check that several processes of the learner can do what is asked."""
    if learner.processes == 1:
        return
    needs = {
        'grouping.gradient_surgery = "none"': grouping.gradient_surgery == "none",
        "alignment.weight = 0": alignment.weight == 0,
        "rollout.share_gpu_with_learner = false": not rollout.share_gpu_with_learner,
    }
    if missing := [text for text, is_met in needs.items() if not is_met]:
        raise ValueError(f"learner.processes = {learner.processes} needs {', '.join(missing)}")


def check_group_keys(grouping: GroupingSettings, learner: LearnerSettings, world: World) -> None:
    """Check that group keys name facts that episodes or turns have before they act."""
    if grouping.role_name != world.role_name:
        raise ValueError(f"grouping.role_name must be {world.role_name!r}, the word of this world")
    own, (lineup, policies) = world.episode_facts, LINEUP_FACTS
    episode_facts = (lineup, *own, policies) if world.has_opponents else own
    facts = ("task", world.role_name, *episode_facts, *(() if learner.returns == "episode" else world.turn_facts))
    try:
        required = required_facts(grouping, world.turn_facts)
    except GroupingError as error:
        raise ValueError(f"grouping: {error}") from None
    for expression, names in required.items():
        for name in names:
            if name not in facts and not (grouping.allow_outcome_keys and name in OUTCOME_KEYS):
                raise ValueError(
                    f"grouping: {expression!r} names {name!r}, and there is no such fact under learner.returns = "
                    f"{learner.returns!r}; there are {', '.join(facts)}"
                )
    parting = world.parting_facts
    for expression in grouping.declared_keys if parting else ():
        if not {part.strip() for part in expression.split("+")}.intersection(parting):
            raise ValueError(
                f"grouping.keys: games of several kinds are mixed, and {expression!r} would compare their returns with "
                f"one another; every key must name {' or '.join(parting)}: '{expression}+{parting[0]}'"
            )
    if grouping.opponent_adjusted and EXPECTED_RETURN_FACT not in facts:
        raise ValueError(f"grouping.opponent_adjusted: {_no_expected_return(learner, world)}")


def _no_expected_return(learner: LearnerSettings, world: World) -> str:
    """The reason why returns cannot be compared with the ratings' predictions."""
    lineup_key = f"{world.role_name}+{LINEUP_FACT}"
    paid = sorted(part for part, weight in world.reward_weights.items() if weight)
    undiscounted = learner.returns == "episode" or (learner.returns == "per_phase" and learner.discount == 1)
    if paid != ["sum_of_squares"] or not undiscounted:
        return (
            "ratings predict a share of the sum of squares, and returns here are in other units (game.reward "
            f"pays {', '.join(paid)}, learner.returns = {learner.returns!r}); use the key {lineup_key} instead"
        )
    return (
        f"episodes do not carry {EXPECTED_RETURN_FACT}, for their facts are text and integers and a predicted "
        f"share is a fraction; use the key {lineup_key} instead"
    )
