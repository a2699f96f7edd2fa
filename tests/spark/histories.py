"""Histories to audit: random ones from the simulation, tagged so that one query looks at all of them."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from tenure.core.clock import Now
from tenure.core.record import Event
from tenure.lake.rows import batch_of
from tests.simulation.clock import Clock
from tests.simulation.run import run_in
from tests.simulation.world import World


class Forward(Clock):
    """Nobody sets it back. A rate counts the time that passed, which a wall clock that was set back does not show."""

    def set_wall(self, by_ms: int) -> None:
        super().set_wall(max(by_ms, 0))


def simulate(seed: int, jobs: int) -> list[Event]:
    """Everything that happened in one run of the simulation, in order."""
    world = World(Random(seed), keep=True)
    world.clock = Forward()
    run_in(world, seed, jobs)
    return [event for record in world.history for event in record.events]


def table_of(events: Sequence[Event], store: int) -> pa.Table:
    table = pa.Table.from_batches([batch_of(events)])
    return table.append_column(
        pa.field("store", pa.int32(), nullable=False), pa.repeat(pa.scalar(store, pa.int32()), len(table))
    )


def write(tables: Iterable[pa.Table], path: Path) -> Path:
    pq.write_table(pa.concat_tables(tables), path)
    return path


__all__ = ["Forward", "Now", "simulate", "table_of", "write"]
