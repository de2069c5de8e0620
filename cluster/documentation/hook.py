"""The hook that mkdocs.yml names: gives MkDocs the pages, files and navigation of the site."""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from cluster.documentation.site import make_site
from grpo_core.errors import EntenteError


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add everything that is made from the repository. Raises PluginError, in one line, for a link that is broken."""
    try:
        site = make_site(Path(config.config_file_path).resolve().parent)
    except EntenteError as error:
        raise PluginError(str(error)) from None
    for path, text in site.pages.items():
        files.append(File.generated(config, path, content=text))
    for path, file in site.files.items():
        files.append(File.generated(config, path, abs_src_path=str(file)))
    config.nav = site.nav
    return files
