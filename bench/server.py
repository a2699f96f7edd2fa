"""The server over loopback, beside a bare echo server on the same loop with the same frames.

    make bench BENCH=server ARGS=--quick

Server, echo and load generator are processes of their own. Every figure of the server stands beside the echo's, taken
in turns in the same run. The machine's own pace changes by half within a minute, so turns are short, and a ratio is the
median of those of the turns, each of two measurements in a row; it may differ a little from that of the two medians
beside it. Where single round trips are timed, the loops of the servers have a
core of their own and the generator another one, if there are two: else the scheduler may put one server on the core of
the generator and the other not, and the two are not the same measurement any more.
"""

import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
import uvloop

from bench.report import Report, arguments, percentile
from tenure.client.clock import read_clock
from tenure.client.remote import RemoteStore
from tenure.core.request import Claim, Pick, Settle
from tenure.core.state import SETTLE_COMPLETE
from tenure.core.tenant import Context
from tenure.engine import engine
from tenure.wire.frame import PublicFrames

DATA = bytes(64)
TURNS = 15
TURNS_OF_RATES = 25
WAITING_MAX = 3_000_000
CORES = sorted(os.sched_getaffinity(0))


def packed(**fields: object) -> bytes:
    body = msgspec.msgpack.encode(fields)
    return len(body).to_bytes(4) + body


class Line(asyncio.Protocol):
    """A connection of the load generator."""

    def __init__(self) -> None:
        self._frames = PublicFrames()
        self._waiting: list[asyncio.Future[bytes]] = []
        self.transport: asyncio.Transport
        self.on_answer: Callable[[bytes], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        for body in self._frames.feed(data):
            if self.on_answer is not None:
                self.on_answer(body)
            else:
                self._waiting.pop(0).set_result(body)

    def ask(self, request: bytes) -> "asyncio.Future[bytes]":
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self.transport.write(request)
        return future


async def connect(port: int) -> Line:
    _, line = await asyncio.get_running_loop().create_connection(Line, "127.0.0.1", port)
    return line


@contextmanager
def on(core: int) -> Iterator[None]:
    """The generator on this core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def apart() -> AbstractContextManager[None]:
    """The generator on a core that no pinned server is on."""
    return on(CORES[-1])


@contextmanager
def process(*command: str, pinned: bool = False) -> Iterator[int]:
    """A server of ours; it says its port on the first line, and ends with its input. Pinned is its loop, and none of
    its other threads."""
    started = subprocess.Popen(
        [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert started.stdout is not None
        port = int(started.stdout.readline())
        os.sched_setaffinity(started.pid, {CORES[0]} if pinned else CORES)
        yield port
    finally:
        started.terminate()
        started.wait(30)


@contextmanager
def served(mode: str, pinned: bool = False) -> Iterator[int]:
    folder = Path(tempfile.mkdtemp(prefix="tenure-bench-"))
    try:
        command = ("-m", "bench.served", f"sqlite:///{folder}/jobs.db?durability={mode}")
        with process(*command, pinned=pinned) as port:
            yield port
    finally:
        shutil.rmtree(folder)


# One at a time.


async def round_trips(line: Line, request: bytes, count: int) -> list[float]:
    spent: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        await line.ask(request)
        spent.append(time.perf_counter() - began)
    return spent


def paired(own: list[float], other: list[float]) -> float:
    """The median of the ratios of two measurements in a row."""
    return statistics.median(a / b for a, b in zip(own, other, strict=True))


async def measure_single(report: Report, mode: str, port: int, echo_port: int, count: int) -> None:
    push = packed(cmd="PUSH", queue="single", data=DATA, reqId=1)
    pull = packed(cmd="PULL", queue="single", timeout=0, reqId=1)
    line, echo = await connect(port), await connect(echo_port)
    await line.ask(packed(cmd="HELLO", reqId=1))
    pushes: list[list[float]] = []
    pulls: list[list[float]] = []
    echoes: list[list[float]] = []
    for _ in range(TURNS):
        echoes.append(await round_trips(echo, push, count))
        pushes.append(await round_trips(line, push, count))
        pulls.append(await round_trips(line, pull, count))
    for name, found in (("push", pushes), ("pull", pulls)):
        for share, label in ((0.5, "p50"), (0.99, "p99")):
            own = [percentile(turn, share) * 1e6 for turn in found]
            other = [percentile(turn, share) * 1e6 for turn in echoes]
            beside = statistics.median(other)
            report.add(f"server.{name}.{label}.{mode}", statistics.median(own), "us", beside, paired(own, other))


async def rate_of(lines: list[Line], request: bytes, seconds: float) -> float:
    """Every connection has one request under way."""
    done = 0
    until = time.perf_counter() + seconds

    async def run(line: Line) -> None:
        nonlocal done
        while time.perf_counter() < until:
            await line.ask(request)
            done += 1

    began = time.perf_counter()
    await asyncio.gather(*(run(line) for line in lines))
    return done / (time.perf_counter() - began)


async def measure_connections(report: Report, mode: str, port: int, echo_port: int, seconds: float) -> None:
    push = packed(cmd="PUSH", queue="conn10", data=DATA, reqId=1)
    lines = [await connect(port) for _ in range(10)]
    echoes = [await connect(echo_port) for _ in range(10)]
    own: list[float] = []
    other: list[float] = []
    for _ in range(TURNS_OF_RATES):
        other.append(await rate_of(echoes, push, seconds))
        own.append(await rate_of(lines, push, seconds))
    rate, reference = statistics.median(own), statistics.median(other)
    report.add(f"server.push.conn10.{mode}", rate, "jobs/s", reference, paired(own, other))


# Batches.


async def pushed_per_second(port: int, size: int, jobs: int) -> float:
    """Two batches in flight on one connection, encoded beforehand."""
    line = await connect(port)
    await line.ask(packed(cmd="HELLO", reqId=1))
    request = packed(cmd="PUSHB", queue=f"batch{size}", jobs=[{"data": DATA}] * size, packed=True, reqId=1)
    rounds = max(jobs // size, 2)
    began = time.perf_counter()
    flying = [line.ask(request), line.ask(request)]
    for _ in range(rounds - 2):
        await flying.pop(0)
        flying.append(line.ask(request))
    for each in flying:
        await each
    rate = rounds * size / (time.perf_counter() - began)
    await line.ask(packed(cmd="DRAIN", queue=f"batch{size}", reqId=1))
    line.transport.close()
    return rate


async def measure_batches(report: Report, mode: str, quick: bool) -> None:
    reference = 0.0
    for size in (1, 10, 100, 1_000, 10_000):
        jobs = min(size * (2_000 if size < 100 else 20_000), WAITING_MAX) // (10 if quick else 1)
        found: list[float] = []
        for _ in range(1 if quick else 3):
            with served(mode) as port:
                found.append(await pushed_per_second(port, size, jobs))
        rate = statistics.median(found)
        reference = reference or rate
        report.add(f"server.push.batch.{size}.{mode}", rate, "jobs/s", reference, rate / reference)


# Work.


async def fill(line: Line, queue: str, jobs: int) -> None:
    request = packed(
        cmd="PUSHB", queue=queue, jobs=[{"data": DATA}] * 1_000, packed=True, remove_on_complete=True, reqId=1
    )
    for _ in range(jobs // 1_000):
        await line.ask(request)


async def measure_process(report: Report, mode: str, port: int, jobs: int) -> None:
    line, other = await connect(port), await connect(port)
    for each in (line, other):
        await each.ask(packed(cmd="HELLO", reqId=1))
    raw: list[float] = []
    through: list[float] = []
    for _ in range(3):
        await fill(line, "noop", jobs)
        raw.append(await processed_raw(line, other, jobs))
        await fill(line, "noop", jobs)
        through.append(await processed_by_client(port, jobs))
    reference = statistics.median(raw)
    report.add(f"server.process.noop.{mode}", reference, "jobs/s", 400_000, reference / 400_000)
    rate = statistics.median(through)
    report.add(f"server.process.client.{mode}", rate, "jobs/s", reference, rate / reference)


class Pulled(msgspec.Struct):
    claimed: msgspec.Raw


class Columns(msgspec.Struct, array_like=True):
    token: bytes
    ids: list[int]


_pulled = msgspec.msgpack.Decoder(Pulled).decode
_columns = msgspec.msgpack.Decoder(Columns).decode


async def processed_raw(line: Line, other: Line, jobs: int) -> float:
    """Two batches under way: while one is acknowledged the next is on its way. Each on a line of its own, for answers
    come in any order and are not looked into here."""
    pull = packed(cmd="PULLB", queue="noop", count=1_000, timeout=0, packed=True, reqId=1)
    done = 0
    began = time.perf_counter()
    coming = line.ask(pull)
    while done < jobs:
        body = await coming
        coming = line.ask(pull)
        columns = _columns(_pulled(body).claimed)
        done += len(columns.ids)
        if not columns.ids:
            break
        acknowledged = other.ask(packed(cmd="ACKB", ids=columns.ids, token=columns.token, reqId=2))
    await coming
    await acknowledged
    return done / (time.perf_counter() - began)


async def processed_by_client(port: int, jobs: int) -> float:
    store = RemoteStore(("127.0.0.1", port))
    context = Context()
    await store.open(read_clock())
    claim = Claim((Pick("noop"),), n=1_000)
    done = 0
    began = time.perf_counter()
    settling: asyncio.Task[Any] | None = None
    coming = asyncio.create_task(store.claim(context, claim, read_clock()))
    while done < jobs:
        found = await coming
        if not found.ids:
            break
        coming = asyncio.create_task(store.claim(context, claim, read_clock()))
        if settling is not None:
            await settling
        settle = Settle(SETTLE_COMPLETE, found.ids, [found.token] * len(found.ids))
        settling = asyncio.create_task(store.settle(context, settle, read_clock()))
        done += len(found.ids)
    if settling is not None:
        await settling
    rate = done / (time.perf_counter() - began)
    await coming
    await store.close()
    return rate


# Waiting.


async def measure_wake(report: Report, mode: str, port: int, echo_port: int, count: int) -> None:
    worker, producer, echo = await connect(port), await connect(port), await connect(echo_port)
    pull = packed(cmd="PULL", queue="wake", timeout=60_000, reqId=1)
    push = packed(cmd="PUSH", queue="wake", data=DATA, reqId=1)
    spent: list[float] = []
    echoes: list[float] = []
    for _ in range(count):
        echoes += await round_trips(echo, push, 1)
        waiting = worker.ask(pull)
        await producer.ask(packed(cmd="PING", reqId=1))
        began = time.perf_counter()
        pushed = producer.ask(push)
        await waiting
        spent.append(time.perf_counter() - began)
        await pushed
    own, other = statistics.median(spent) * 1e6, statistics.median(echoes) * 1e6
    report.add(f"server.wake.p50.{mode}", own, "us", other, own / other)


async def measure_waiters(report: Report, mode: str, port: int, seconds: float) -> None:
    """A thousand workers wait: pushes elsewhere do not feel them, and a push to them wakes one. Each turn begins with
    pushes that do not count: the store is busy with those of a moment ago, and was idle while workers were woken."""
    push = packed(cmd="PUSH", queue="waiters", data=DATA, reqId=1)
    lines = [await connect(port) for _ in range(10)]
    workers: list[Line] = []
    without: list[float] = []
    with_them: list[float] = []
    for _ in range(TURNS_OF_RATES):
        await rate_of(lines, push, seconds)
        without.append(await rate_of(lines, push, seconds))
        while len(workers) < 1_000:
            workers.append(await connect(port))
        pulls = [worker.ask(packed(cmd="PULL", queue="idle", timeout=600_000, reqId=1)) for worker in workers]
        await lines[0].ask(packed(cmd="PING", reqId=1))
        await rate_of(lines, push, seconds)
        with_them.append(await rate_of(lines, push, seconds))
        for _ in pulls:
            await lines[0].ask(packed(cmd="PUSH", queue="idle", data=DATA, reqId=1))
        await asyncio.gather(*pulls)
    rate, reference = statistics.median(with_them), statistics.median(without)
    report.add(f"server.push.waiters.{mode}", rate, "jobs/s", reference, paired(with_them, without))


async def main() -> None:
    chosen = arguments(__doc__)
    report = Report(chosen.json)
    build = "compiled" if engine.__file__.endswith(".so") else "interpreted"
    report.note(f"# server: {build} build")
    quick = chosen.quick
    with process("-m", "bench.echo", pinned=True) as echo_port:
        for mode in ("relaxed", "fsync"):
            os.sync()
            with served(mode, pinned=True) as port, apart():
                await measure_single(report, mode, port, echo_port, 100 if quick else 700)
                await measure_connections(report, mode, port, echo_port, 0.05 if quick else 0.25)
                await measure_wake(report, mode, port, echo_port, 300 if quick else 1_000)
                await measure_waiters(report, mode, port, 0.05 if quick else 0.25)
            with served(mode) as port:
                await measure_process(report, mode, port, 100_000 if quick else 1_000_000)
            await measure_batches(report, mode, quick)


if __name__ == "__main__":
    uvloop.run(main())
