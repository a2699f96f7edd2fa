"""docs/architecture.md has something to say of every module, and the indexes list every page."""

import re
from typing import Final

from tests.docs.page import CODE, ROOT, name_of, pages, prose_of

PAGE: Final = ROOT / "docs" / "architecture.md"
PACKAGES: Final = (
    "core",
    "engine",
    "store",
    "store/blob",
    "store/embedded",
    "wire",
    "client",
    "task",
    "worker",
    "app",
    "testing",
    "integration",
    "ops",
    "cli",
    "lake",
    "spark",
    "spark/report",
    "server",
    "server/http",
    "server/grpc",
    "transfer",
    "spark/audit",
)


def modules() -> set[str]:
    """Every module of the packages that the page describes, but for empty ones."""
    found = (path for package in PACKAGES for path in (ROOT / "tenure" / package).glob("*.py"))
    return {path.relative_to(ROOT).as_posix() for path in found if path.name != "__init__.py"}


def test_every_module_has_its_paragraph() -> None:
    opened = {found[1] for line in prose_of(PAGE) if (found := re.match(r"- \*\*`([^`]+)`\*\*", line.text))}
    assert opened == modules()


def test_every_decision_and_page_is_in_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    linked = set(re.findall(r"\]\(([^()\s#]+)", "\n".join(line.text for line in prose_of(index))))
    below = {page.relative_to(index.parent).as_posix() for page in pages() if index.parent in page.parents}
    assert below - {"README.md"} - linked == set()


def test_pages_name_no_place_of_one_machine() -> None:
    """A path that begins at the root of a file system means nothing to another reader."""
    rooted = re.compile(r"/(?:home|root|tmp|work|Users)/")
    own = [page for page in pages() if name_of(page) in ("README.md", "docs/README.md", "docs/guarantees.md")]
    for page in (*own, PAGE):
        for line in prose_of(page):
            assert not any(rooted.match(code) for code in CODE.findall(line.text)), f"{page}:{line.number}"
