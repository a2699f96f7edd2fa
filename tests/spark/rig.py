"""What the tests of the source and sink work with: a server as people start it, and queues with a history."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

import tenure
from tenure.spark.load import stage_rows
from tenure.spark.source import TenureSource
from tenure.spark.write import TenureWriter
from tests.cli.rig import ENVIRONMENT
from tests.server.process import ALONE, LISTENING

WAIT_S: Final = 60
CHILD_S: Final = 400  # on a machine that does much else
TENANTS: Final = count(1)


class Served:
    """A server process on a file, which can be stopped and started again at the same address."""

    def __init__(self, folder: Path, *arguments: str, store: str = "sqlite:///served.db", settings: str = "") -> None:
        """`settings` is what its file of settings says."""
        self.folder = folder
        self.arguments = arguments
        self.store = store
        if settings:
            (folder / "tenure.toml").write_text(settings)
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"tenure://127.0.0.1:{self.port}"

    def start(self) -> "Served":
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tenure", "serve", "--store", self.store),
                *("--tcp-port", str(self.port), *self.arguments),
            ],
            cwd=self.folder,
            env={**ENVIRONMENT, **ALONE},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._process = process
        assert process.stdout is not None
        said: list[str] = []
        for line in process.stdout:
            said.append(line)
            if found := LISTENING.search(line):
                self.port = int(found[2])
                return self
        raise AssertionError("".join(said))

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.communicate(timeout=WAIT_S)


class Shop:
    """One tenant of a server."""

    def __init__(self, url: str, tenant: str) -> None:
        self.url = url
        self.tenant = tenant

    def client(self) -> tenure.SyncClient:
        return tenure.connect_sync(self.url, tenant=self.tenant)

    def options(self, **more: str) -> dict[str, str]:
        return {"url": self.url, "tenant": self.tenant, **more}

    def source(self, **more: str) -> TenureSource:
        """As Spark makes it: names in lower case."""
        return TenureSource(CaseInsensitiveDict(self.options(**more)))

    def enqueue(self, number: int, queue: str = "orders", **fields: Any) -> list[int]:
        with self.client() as client:
            made = client.enqueue_many([b'{"n": %d}' % at for at in range(number)], queue=queue, task="pay", **fields)
        return [job.id for job in made]

    def work(self, complete: int = 0, fail: int = 0, queue: str = "orders") -> None:
        with self.client() as client:
            for at, job in enumerate(client.claim(queue, n=complete + fail, worker="w-1")):
                if at < complete:
                    client.complete(job, b'{"done": %d}' % job.id)
                else:
                    client.fail(job, "ValueError", "no such card", "Traceback ...", retryable=False)

    def count(self, queue: str = "orders") -> dict[str, int]:
        """Of the states in which there are jobs."""
        with self.client() as client:
            return {state: number for state, number in client.count(queue).get(queue, {}).items() if number}

    def payloads(self, queue: str = "orders") -> list[bytes]:
        with self.client() as client:
            found: list[bytes] = []
            while jobs := client.claim(queue, n=1_000):
                found += [job.payload for job in jobs]
            return found

    def events(self) -> list[int]:
        with self.client() as client:
            return [event.seq for event in client.events()]

    def times(self) -> list[int]:
        """Of the events, in milliseconds."""
        with self.client() as client:
            return [event.at for event in client.events()]


def settings_of(folder: Path) -> dict[str, str]:
    """Of a session that such a program makes."""
    return {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }


def run_child(module: str, folder: Path, *arguments: str) -> str:
    """A program with a session of its own, in a folder that is its last argument; answers the last line it printed."""
    ended = subprocess.run(
        [sys.executable, "-m", module, *arguments, str(folder)],
        capture_output=True,
        text=True,
        timeout=CHILD_S,
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        },
    )
    assert ended.returncode == 0, ended.stderr[-4_000:]
    return ended.stdout.splitlines()[-1]


def read_all(shop: Shop, table: str, **more: str) -> pa.Table:
    """What Spark would read, without Spark."""
    source = shop.source(table=table, **more)
    schema = source.schema()
    reader = source.reader(schema)
    batches = batches_of(reader, reader.partitions())
    return pa.Table.from_batches(batches) if batches else pa.Table.from_pylist([], schema=pa.schema([]))


def write_all(shop: Shop, tasks: list[list[pa.RecordBatch]], **options: str) -> None:
    """What Spark would write, without Spark."""
    writer = shop.source(**options).writer(from_arrow_schema(tasks[0][0].schema), False)
    assert isinstance(writer, TenureWriter)
    messages = [stage_rows(writer.writing, writer.load_id, part, task) for part, task in enumerate(tasks)]
    writer.commit([*messages])


def orders(first: int, number: int) -> pa.RecordBatch:
    numbers = range(first, first + number)
    columns = [[f"order-{at}" for at in numbers], [at / 4 for at in numbers], list(numbers)]
    schema = pa.schema([("order_id", pa.string()), ("amount", pa.float64()), ("n", pa.int64())])
    return pa.record_batch(columns, schema)


ORDERS: Final = {"queue": "orders", "task": "pay", "key": "order_id"}
Make = Callable[..., Served]


def batches_of(
    reader: DataSourceReader | DataSourceStreamReader, spans: Sequence[InputPartition]
) -> list[pa.RecordBatch]:
    """What the tasks of Spark would read, one after the other."""
    found: list[pa.RecordBatch] = []
    for span in spans:
        for batch in reader.read(span):
            assert isinstance(batch, pa.RecordBatch)
            found.append(batch)
    return found


def seqs_of(batches: list[pa.RecordBatch]) -> list[int]:
    return [seq for batch in batches for seq in batch.column("seq").to_pylist()]
