"""What an engine made of records has, where the campaigns once found that it had not."""

from tenure.core import bound
from tenure.core.clock import Now
from tenure.core.limit import Rate
from tenure.core.request import KEY, TENANT, Batch, Configure
from tenure.core.tenant import Context
from tenure.engine.engine import Engine
from tenure.engine.restore import Restore

SECRET = bytes(32)
START = Now(1_700_000_000_000, 0)


class Life:
    """An engine and its records."""

    def __init__(self) -> None:
        self.engine = Engine(SECRET, 1, START)
        self.engine.keep_journal()
        self.records: list[bytes] = []

    def note(self) -> None:
        self.records.append(self.engine.take())

    def enqueue(self, count: int, tenant: str = "default", **options: object) -> None:
        batch = Batch(bound.make_options(**options), [b"x"] * count)
        assert not self.engine.enqueue(Context(tenant), batch, START).errors()
        self.note()

    def configure(self, subject: int, name: str, **changes: object) -> None:
        self.engine.configure(Context(), Configure(subject, name, changes), START)
        self.note()

    def claim(self, count: int, *tenants: str) -> list[str]:
        """The tenants whose jobs were leased, in order."""
        claim = bound.make_claim(("default", "other"), count, 0, "w", None)
        found = self.engine.claim(Context(tenants=tenants), claim, START)
        self.note()
        return list(found.tenants)

    def restart(self) -> None:
        restore = Restore(SECRET, 2)
        for record in self.records:
            if record:
                restore.record(record)
        self.engine = restore.finish(START, self.engine.last_event())


def test_a_pause_of_a_prefix_holds_a_key_that_was_written_down_before_it() -> None:
    life = Life()
    life.configure(KEY, "api:", rate=Rate(10, 1_000))
    life.enqueue(2, limit_keys=("api:b",))
    assert life.claim(1) == ["default"]
    life.configure(KEY, "api:", paused_ms=20_000)
    life.restart()
    assert life.claim(1) == []


def test_tenants_have_turns_by_weight_again() -> None:
    life = Life()
    for tenant in ("a", "b", "c"):
        life.enqueue(3, tenant)
    life.configure(TENANT, "b", weight=2)
    life.restart()
    assert life.claim(4, "*").count("b") == 2
