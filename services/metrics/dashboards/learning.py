"""What the learner learns from: groups and advantages, the loss and its step, off-policy correction, mistakes."""

from __future__ import annotations

from services.metrics.dashboards.panels import PERCENT, Board, Panel, Query, Row, gauge, latest, rate

LEARNING = Board(
    "entente-learning",
    "Entente: groups and learning",
    "Who is judged against whom, what is left to learn from, and what each step does to the policy.",
    (
        Row(
            "Groups and advantages",
            (
                Panel(
                    "Samples in zero-variance groups",
                    (Query(latest("entente_zero_variance_fraction"), "in zero-variance groups"),),
                    text="Share of samples whose group has equal returns: they teach nothing. Near 1: coarser "
                    "grouping.keys, denser game.reward, or opponents closer to the learner.",
                    unit=PERCENT,
                    least=0.0,
                    most=1.0,
                    colors=((0, "green"), (0.5, "red")),
                ),
                Panel(
                    "Judged by something coarser",
                    (
                        Query(latest("entente_fallback_fraction"), "a coarser key"),
                        Query(latest("entente_running_baseline_fraction"), "a running baseline"),
                    ),
                    text="Share of samples whose first group was too small. Much of it: grouping.keys are too fine.",
                    unit=PERCENT,
                    least=0.0,
                    most=1.0,
                ),
                gauge("entente_groups", "Groups, by level of the chain", least=0.0, stacked=True),
                gauge("entente_group_size", "Mean group size, by level", least=0.0),
                gauge("entente_advantage_std", "Deviation of the advantages", least=0.0),
                gauge("entente_group_weight", "Weights of groups", least=0.0),
                Panel(
                    "Gradients of groups",
                    (
                        Query(latest("entente_gradient_conflict_fraction"), "share of pairs in conflict"),
                        Query(latest("entente_gradient_cosine"), "mean cosine of pairs"),
                    ),
                    text="With grouping.gradient_surgery: how far the groups' gradients pull apart.",
                    least=-1.0,
                    most=1.0,
                ),
                Panel(
                    "Episodes that top updates up",
                    (Query(f"60 * {rate('entente_topped_up_episodes_total')}", "a minute"),),
                    text="Episodes that replaced those of zero-variance groups (learner.top_up_episodes).",
                    least=0.0,
                ),
            ),
        ),
        Row(
            "Returns",
            (
                gauge("entente_episode_reward", "Mean return of the update's episodes", width=12),
                gauge("entente_reward_part", "Reward parts, unweighted", width=12),
            ),
        ),
        Row(
            "The step",
            (
                gauge("entente_loss", "Loss"),
                gauge("entente_grad_norm", "Gradient norm before clipping", least=0.0),
                gauge("entente_entropy", "Entropy per trained token", least=0.0),
                gauge("entente_learning_rate", "Learning rate", least=0.0),
                gauge(
                    "entente_clip_fraction",
                    "Clipped tokens",
                    unit=PERCENT,
                    least=0.0,
                    text="Share of trained tokens whose ratio was clipped. A third or more: the steps are too large, "
                    "or the episodes too old.",
                ),
                Panel(
                    "KL per trained token",
                    (
                        Query(latest("entente_kl"), "to the behaviour policy"),
                        Query(latest("entente_reference_kl"), "to the reference policy"),
                    ),
                    text="How far the policy moved from the one that played; with learner.beta, from the run's first.",
                    least=0.0,
                ),
                gauge("entente_ratio_max", "Largest importance ratio", least=0.0),
                gauge("entente_alignment_loss", "Alignment loss"),
                Panel(
                    "Off-policy weights",
                    (
                        Query(latest("entente_importance_effective_fraction"), "effective share of tokens"),
                        Query(latest("entente_importance_masked_fraction"), "dropped by the mask"),
                    ),
                    text="With learner.decoupled or an off-policy mask: what is left of a batch under its weights.",
                    unit=PERCENT,
                    least=0.0,
                    most=1.0,
                ),
                Panel(
                    "Updates that were not finite",
                    (Query(latest("entente_nonfinite_updates_total"), "in all"),),
                    text="A figure that is no finite number is left out of its update's record and counted here. A "
                    "loss or gradient that is none ends the run, with its last checkpoint and its episodes intact.",
                    least=0.0,
                ),
                Panel(
                    "Mistakes in the learner's orders",
                    (
                        Query(rate("entente_defective_orders_total"), "defective orders a second"),
                        Query(rate("entente_truncated_decisions_total"), "decisions cut off a second"),
                    ),
                    text="Unreadable, illegal or missing orders, and decisions at the length limit. None with "
                    "inference.decoding = constrained.",
                    least=0.0,
                    width=12,
                ),
            ),
        ),
    ),
)
