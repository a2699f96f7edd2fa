"""A payload or result that is kept in the blob store: the engine has its name and its size, never its bytes."""

from mypy_extensions import mypyc_attr


@mypyc_attr(acyclic=True)
class Blob:
    """One content in the blob store. Whoever names it holds it; a name is given once and never changes content."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size

    def __repr__(self) -> str:
        return f"Blob({self.name}, {self.size} bytes)"
