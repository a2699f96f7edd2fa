"""What the tests of workers on executors work with: a queue on a server, and one task of Spark without Spark."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Final

import tenure
from tenure.core.record import JobRecord
from tenure.core.request import Filter
from tenure.spark.address import Address
from tenure.spark.partition import Part, run_partition
from tenure.spark.workers import read_work, share

NUMBERS: Final = count(1)
QUEUE: Final = "work"
WAIT_S: Final = 30


class Workshop:
    """One tenant of a server, and its queue."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.tenant = f"workshop-{next(NUMBERS)}"

    @contextmanager
    def client(self) -> Iterator[tenure.SyncClient]:
        with tenure.connect_sync(self.url, tenant=self.tenant) as client:
            yield client

    def put(self, *payloads: Any, **fields: Any) -> list[int]:
        with self.client() as client:
            made = client.enqueue_many(
                [json.dumps(payload).encode() for payload in payloads], **{"queue": QUEUE, "task": "count", **fields}
            )
        assert not any(job.error for job in made)
        return [job.id for job in made]

    def run(self, handler: Any, *, jobs: int | None = None, token_file: str = "", **options: Any) -> Part:
        """What one task does, here."""
        work = read_work(QUEUE, handler, Address(self.url, self.tenant, token_file), **{"until": "empty", **options})
        return run_partition(share(work, 0, 1, jobs), 0)

    def get(self, id: int) -> JobRecord:
        with self.client() as client:
            return client.get(id)

    def results(self) -> dict[int, Any]:
        """Of the completed jobs, by id."""
        with self.client() as client:
            found = client.find(Filter(QUEUE), limit=1_000).jobs
        return {job.id: _read(job.result) for job in found if job.state == "completed"}

    def counts(self) -> dict[str, int]:
        """Of the states in which there are jobs."""
        with self.client() as client:
            return {state: number for state, number in client.count(QUEUE)[QUEUE].items() if number}


def _read(result: bytes | None) -> Any:
    return None if result is None else json.loads(result)


def until(condition: Callable[[], bool]) -> None:
    """Looks until it holds."""
    pause = threading.Event()
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end
        pause.wait(0.02)
