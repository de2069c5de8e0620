"""Links between the repository's Markdown files, and what they become in the site."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator

_LINK = re.compile(r"\]\((?P<target>[^()\s#]+)(?P<fragment>#[^()\s]*)?(?=[)\s])")
_ELSEWHERE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|/")  # a URL, or an absolute path


def linked_paths(markdown: str, page: str) -> Iterator[str]:
    """Yield the repository paths that a page links to; ``page`` is its own path, with slashes, from the root."""
    for match in _LINK.finditer(markdown):
        if not _ELSEWHERE.match(match["target"]):
            yield _from_root(match["target"], page)


def rewrite_links(markdown: str, page: str, site_path: Callable[[str], str]) -> str:
    """Return the page with links to where ``site_path`` puts what they name; URLs and fragments of the page stay.

    ``site_path`` takes a path from the repository's root and returns one from the site's, perhaps with a fragment,
    which then replaces the link's own.
    """

    def rewritten(match: re.Match[str]) -> str:
        if _ELSEWHERE.match(match["target"]):
            return match[0]
        path, mark, fragment = site_path(_from_root(match["target"], page)).partition("#")
        end = mark + fragment or match["fragment"] or ""
        return f"]({posixpath.relpath(path, posixpath.dirname(page) or '.')}{end}"

    return _LINK.sub(rewritten, markdown)


def _from_root(target: str, page: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
