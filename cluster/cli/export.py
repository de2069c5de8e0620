"""``entente export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cluster.cli.options import Run

commands = typer.Typer()


@commands.command(
    epilog="Examples: `entente export runs/demo --out models/demo`, then "
    "`AutoModelForCausalLM.from_pretrained('models/demo')` or `vllm serve models/demo`; "
    "`entente export runs/specialists --country FRANCE --out models/france`; "
    "`entente export runs/demo --decisions --out data/demo`, then `datasets.load_dataset('data/demo', 'decisions')`"
)
def export(
    run: Run,
    out: Annotated[
        Path | None,
        typer.Option(help="New folder.", show_default="RUN/export/policy, or RUN/export/decisions with --decisions"),
    ] = None,
    decisions: Annotated[
        bool,
        typer.Option("--decisions", help="Games and decisions as parquet, instead of the policy; needs pyarrow."),
    ] = False,
    version: Annotated[
        int | None, typer.Option(min=0, help="The checkpoint to export.", show_default="the newest")
    ] = None,
    country: Annotated[
        str | None,
        typer.Option(
            metavar="POWER", help="Of a run of specialists: merge this country's adapter, instead of exporting all."
        ),
    ] = None,
    license_name: Annotated[
        str | None,
        typer.Option("--license", help="Licence in the card, such as apache-2.0; which one is yours to say."),
    ] = None,
) -> None:
    """Write a run's policy as a folder for the Hugging Face Hub, or its games and decisions as parquet.

    The policy's folder has merged weights, tokenizer, chat template and a model card with what was measured; plain
    transformers and vLLM load it. Nothing is uploaded.
    """
    import re

    from cluster.errors import RunError
    from cluster.runs.folder import RunFolder
    from cluster.runs.progress_bars import progress_bars
    from opponents.population.member import check_role

    if license_name is not None and not re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,60}", license_name):
        raise RunError(f"--license {license_name!r} is no identifier of the Hub, such as apache-2.0, mit or other")
    if decisions and (version is not None or country is not None):
        raise RunError("--version and --country choose a policy; leave them out with --decisions")
    world = RunFolder(run).stored_config().world  # before slow imports, which a wrong folder does not need
    if decisions:
        from cluster.export.decisions_folder import export_decisions

        with progress_bars() as add_bar:
            done = export_decisions(run, out or run / "export" / "decisions", add_bar, license_name=license_name)
        rows = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in done.rows.items())
        typer.echo(f"{rows} written to {done.folder}")
        return
    if country is not None:
        country = next((role for role in world.roles if role.casefold() == country.casefold()), country)
        check_role(country, world.roles, role_name=world.role_name)
    from cluster.export.policy_folder import export_policy

    with progress_bars() as add_bar:
        policy = export_policy(
            run,
            out or run / "export" / "policy",
            add_bar,
            version=version,
            country=country,
            license_name=license_name,
        )
    for damaged in policy.passed_over:
        typer.echo(f"checkpoint {damaged} is not whole: passed over", err=True)
    with_adapters = f", a base with {len(policy.specialists)} adapters (--country merges one)"
    typer.echo(
        f"version {policy.version}{with_adapters if policy.specialists else ''} written to {policy.folder}; "
        "README.md is its card"
    )
