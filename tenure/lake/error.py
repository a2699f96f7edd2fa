"""What a lake refuses. Each says what to do."""

from importlib.util import find_spec

from tenure.core.error import Error


class LakeNotInstalled(Error):
    """Parquet needs pyarrow, which not every user of Tenure wants."""

    status = 501

    def __init__(self) -> None:
        super().__init__("the event lake needs pyarrow, which is not installed; pip install tenure[lake]")


class LakeTaken(Error):
    """Another exporter has committed events that this one was about to commit. Nothing is doubled."""

    status = 409

    def __init__(self, title: str, number: int, writer: str) -> None:
        super().__init__(
            f"another exporter ({writer}) writes to the lake {title}: its commit {number} came first; let one server"
            " export, and give every store a lake of its own",
            number=number,
            writer=writer,
        )


class OtherStore(Error):
    """The lake holds the events of another store."""

    status = 409

    def __init__(self, title: str, held: str, own: str) -> None:
        super().__init__(
            f"the lake {title} holds the events of the store {held}, this one is {own}; give it a lake of its own",
            held=held,
            own=own,
        )


class StoreBehind(Error):
    """The store does not have what the lake has: an old copy of its file, or one that was restored over."""

    status = 409

    def __init__(self, title: str, upto: int, newest: int) -> None:
        super().__init__(
            f"the lake {title} has events up to {upto}, this store only up to {newest}: it is an old copy, or another"
            " store was restored from a backup of it and took its place; give it a lake of its own",
            upto=upto,
            newest=newest,
        )


class LakeTooNew(Error):
    """Written by a Tenure that knows more than this one."""

    status = 501

    def __init__(self, title: str, what: str, found: int, known: int) -> None:
        super().__init__(
            f"the lake {title} has {what} {found}, this Tenure knows {what} {known}; use a newer Tenure",
            found=found,
            known=known,
        )


class LakeDamaged(Error):
    """What the log or a segment says is not so."""


def check_installed() -> None:
    if find_spec("pyarrow") is None:
        raise LakeNotInstalled
