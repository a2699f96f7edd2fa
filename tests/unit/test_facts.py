"""Everything that is written down of a job's side and key is there again when its row is read."""

from typing import Any

import pytest
from librt.strings import BytesWriter

from tenure.core.fact import SideFact
from tenure.core.job import Options
from tenure.core.record import Ended, Failed, Progress
from tenure.engine.facts import RowReader, Rows, read_side, side_fact
from tenure.engine.job import ASIDE, Job, Lease
from tenure.engine.world import World

NOW = 1_700_000_000_000
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
EXTRAS = {"custom_id", "unique_key", "debounce_key", "depends_on", "group", "asked_run_at", "asked_expires_at", "trace"}
SIZES = {"payload_blob_bytes", "result_blob_bytes"}  # of blobs, beside their names


def made(w: World, fact: SideFact | None) -> Job:
    job = Job(5, w.spec("default", Options()), b"p", NOW, 0, 0)
    if fact is not None:
        job.side = read_side(fact)
        job.place = ASIDE if fact.aside_at else job.place
    return job


def read_again(w: World, job: Job) -> Job:
    out = BytesWriter()
    rows = Rows(out, NOW)
    rows.add(job, True)
    rows.finish()
    RowReader(w).read(out.getvalue())
    found = w.index.get(5)
    assert found is not None
    assert found.payload == b"p"
    found.place = job.place
    return found


def some(name: str) -> Any:
    return OTHERS[name] if name in OTHERS else {bool: True, int: 7, str: "x"}[SideFact.__annotations__[name]]


@pytest.mark.parametrize("name", sorted({*SideFact.__struct_fields__} - SIZES))
def test_side(name: str) -> None:
    w = World(bytes(32), 1, NOW, 0)
    fields = {name: some(name)}
    if f"{name}_bytes" in SIZES:
        fields[f"{name}_bytes"] = 1
    if name in EXTRAS:
        fields["has_extras"] = True
    fact = SideFact(**fields)
    assert fact != SideFact()
    found = read_again(w, made(w, fact))
    assert found.side is not None
    assert side_fact(found, found.side) == fact


@pytest.mark.parametrize("until", [0, NOW + 5])
@pytest.mark.parametrize("fact", [None, SideFact(reason="x")])
def test_key(until: int, fact: SideFact | None) -> None:
    w = World(bytes(32), 1, NOW, 0)
    job = made(w, fact)
    job.key = "order-1"
    job.key_until = until
    found = read_again(w, job)
    assert (found.key, found.key_until) == ("order-1", until)
    assert (found.side is None) == (fact is None)


def leased(w: World, principals: tuple[str, ...]) -> bytes:
    """The rows of a job for each, with a lease that the principal claimed."""
    out = BytesWriter()
    rows = Rows(out, NOW)
    for at, principal in enumerate(principals):
        job = Job(5 + at, w.spec("default", Options()), b"p", NOW, 0, 0)
        job.lease = Lease(30_000, 1 + at, b"token", "worker", 30_000, 0, principal)
        rows.add(job, True)
    rows.finish()
    return out.getvalue()


def principals_of(data: bytes) -> list[str]:
    w = World(bytes(32), 1, NOW, 0)
    reader = RowReader(w)
    reader.read(data)
    for id in range(5, 5 + len(reader.leases())):
        job = w.index.get(id)
        assert job is not None
        assert job.lease is not None
        assert (job.lease.token, job.lease.worker) == (b"token", "worker")
    return [lease.principal for lease in reader.leases()]


@pytest.mark.parametrize("principals", [("shop",), ("shop", "", "mill"), ("", "shop")])
def test_principal_of_a_lease(principals: tuple[str, ...]) -> None:
    assert principals_of(leased(World(bytes(32), 1, NOW, 0), principals)) == list(principals)
