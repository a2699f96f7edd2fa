"""Sides of jobs in rows: a short form for those that have nothing but a key, which loses nothing of the others."""

from typing import Any

import msgspec
import pytest
from librt.strings import BytesWriter

from tenure.core.fact import SideFact
from tenure.core.job import Options
from tenure.core.record import Ended, Failed, Progress
from tenure.engine.facts import RowReader, Rows, has_key_alone, read_side, side_fact
from tenure.engine.job import ASIDE, Job
from tenure.engine.world import World

NOW = 1_700_000_000_000
KEY: dict[str, Any] = {"has_extras": True, "idempotency_key": "order-1", "idempotent_until": NOW + 1}
OTHERS: dict[str, Any] = {
    "depends_on": (1,),
    "tags": ("a",),
    "metadata": {"a": "b"},
    "error": Failed("E", "m"),
    "history": [Ended(1, 1, "w", NOW, NOW, "failed")],
    "result": b"",
    "settled_token": b"t",
    "progress": Progress(1),
}
PAIRS = {"payload_blob": {"payload_blob_bytes": 1}, "result_blob": {"result_blob_bytes": 1}}
SIZES = {"payload_blob_bytes", "result_blob_bytes"}  # of blobs, beside their names


def some(name: str) -> Any:
    if name in OTHERS:
        return OTHERS[name]
    kind = SideFact.__annotations__[name]
    return {bool: True, int: 7, str: "x"}[kind]


def written(fact: SideFact) -> tuple[SideFact, bool]:
    """The same after it was written and read, and whether it took the short form."""
    w = World(bytes(32), 1, NOW, 0)
    job = Job(5, w.spec("default", Options()), b"p", NOW, 0, 0)
    job.side = read_side(fact)
    if fact.aside_at:
        job.place = ASIDE
    is_short = has_key_alone(job, job.side)
    out = BytesWriter()
    rows = Rows(out, NOW)
    rows.add(job, True)
    rows.finish()
    RowReader(w).read(out.getvalue())
    found = w.index.get(5)
    assert found is not None
    assert found.side is not None
    assert found.payload == b"p"
    found.place = job.place
    return side_fact(found, found.side), is_short


def test_key_alone_takes_the_short_form() -> None:
    fact = SideFact(**KEY)
    assert written(fact) == (fact, True)


def test_key_that_is_not_held_is_no_key_alone() -> None:
    fact = SideFact(has_extras=True, idempotency_key="order-1")
    assert written(fact) == (fact, False)


@pytest.mark.parametrize("name", sorted({*SideFact.__struct_fields__} - {*KEY} - SIZES))
def test_everything_else_that_a_side_has_is_written(name: str) -> None:
    fact = msgspec.structs.replace(SideFact(**KEY), **{name: some(name)}, **PAIRS.get(name, {}))
    assert written(fact) == (fact, False)
