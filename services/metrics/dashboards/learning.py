"""The dashboard of the learner: groups and advantages, returns, the loss and the step, defective orders."""

from __future__ import annotations

from services.metrics.dashboards.panels import (
    PERCENT,
    Dashboard,
    Query,
    chart,
    gauge,
    pace,
    rate,
    row,
    share_chart,
    value,
)

LEARNING = Dashboard(
    "entente-learning",
    "Entente: groups and learning",
    "How samples are compared, how much signal is left, and what each step does to the policy.",
    (
        row(
            "Groups and advantages",
            share_chart(
                "Samples in zero-variance groups",
                value("entente_zero_variance_fraction", "in zero-variance groups"),
                text="Share of samples whose group has equal returns, so that they teach nothing. Near 1: use "
                "coarser grouping.keys, a denser game.reward, or opponents closer to the learner.",
                colors=((0, "green"), (0.5, "red")),
            ),
            share_chart(
                "Samples with a coarser baseline",
                value("entente_fallback_fraction", "a coarser key"),
                value("entente_running_baseline_fraction", "a running baseline"),
                text="Share of samples whose first group was too small. If it is high, grouping.keys are too fine.",
            ),
            gauge("entente_groups", "Groups, by level of the chain", stacked=True),
            gauge("entente_group_size", "Mean group size, by level"),
            gauge("entente_advantage_std", "Deviation of the advantages"),
            gauge("entente_group_weight", "Weights of groups"),
            chart(
                "Gradients of groups",
                value("entente_gradient_conflict_fraction", "share of pairs in conflict"),
                value("entente_gradient_cosine", "mean cosine of pairs"),
                text="With grouping.gradient_surgery: how much the groups' gradients conflict.",
                maximum=1.0,
                minimum=-1.0,
            ),
            chart(
                "Episodes from dynamic sampling",
                Query(f"60 * {pace('entente_topped_up_episodes_total')}", "a minute"),
                text="Episodes that replaced those of zero-variance groups (learner.top_up_episodes).",
            ),
        ),
        row(
            "Returns",
            gauge("entente_episode_reward", "Mean return of the update's episodes", width=12, minimum=None),
            gauge("entente_reward_part", "Reward parts, unweighted", width=12, minimum=None),
        ),
        row(
            "The step",
            gauge("entente_loss", "Loss", minimum=None),
            gauge("entente_grad_norm", "Gradient norm before clipping"),
            gauge("entente_entropy", "Entropy per trained token"),
            gauge("entente_learning_rate", "Learning rate"),
            gauge(
                "entente_clip_fraction",
                "Clipped tokens",
                unit=PERCENT,
                text="Share of trained tokens whose ratio was clipped. A third or more: the steps are too large, or "
                "the episodes too old.",
            ),
            chart(
                "KL per trained token",
                value("entente_kl", "to the behaviour policy"),
                value("entente_reference_kl", "to the reference policy"),
                text="Distance from the policy that played; with learner.beta, also from the run's first policy.",
            ),
            gauge("entente_ratio_max", "Largest importance ratio"),
            gauge("entente_alignment_loss", "Alignment loss", minimum=None),
            share_chart(
                "Off-policy weights",
                value("entente_importance_effective_fraction", "effective share of tokens"),
                value("entente_importance_masked_fraction", "dropped by the mask"),
                text="With learner.decoupled or an off-policy mask: the part of a batch that its weights leave.",
            ),
            chart(
                "Updates that were not finite",
                value("entente_nonfinite_updates_total", "in all"),
                text="A figure that is no finite number is left out of its update's record and counted here. A loss or "
                "gradient that is none ends the run, with its last checkpoint and its episodes intact.",
            ),
            chart(
                "Defects in the learner's orders",
                Query(rate("entente_defective_orders_total"), "defective orders a second"),
                Query(rate("entente_truncated_decisions_total"), "decisions cut off a second"),
                text="Unreadable, illegal or missing orders, and decisions at the length limit. None with "
                "inference.decoding = constrained.",
            ),
            chart(
                "Length of thoughts",
                value("entente_thought_tokens", "mean"),
                value("entente_thought_tokens_max", "longest"),
                text="Tokens that a policy writes before its orders, with inference.thinking_tokens, which is the most "
                "it may write: a mean near it says that thoughts are cut.",
            ),
        ),
    ),
)
