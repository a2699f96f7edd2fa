"""One task of Spark as a worker, called without Spark, against a server in a process of its own."""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tenure
from tenure.client.loop import LoopThread
from tenure.core.error import Forbidden, InvalidRequest, Unauthenticated
from tenure.server.auth import hash_token
from tenure.spark.address import Address
from tenure.spark.caller import Caller
from tenure.spark.handler import open_handler
from tenure.spark.partition import Run
from tenure.spark.workers import read_work
from tests.cli.rig import ENVIRONMENT, ROOT, serving
from tests.spark.tasks import double, double_all
from tests.spark.workshop import QUEUE, WAIT_S, Workshop, until


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("served")) as found:
        yield found


@pytest.fixture
def workshop(url: str) -> Workshop:
    return Workshop(url)


@contextmanager
def running(workshop: Workshop, handler: Any, **options: Any) -> Iterator[Run]:
    """A task whose inside can be looked at while its handler runs."""
    work = read_work(QUEUE, handler, Address(workshop.url, workshop.tenant), **{"until": "empty", **options})
    caller = Caller(open_handler(work.handler, asyncio.Runner().run))
    loop = LoopThread("test")
    run = Run(work, "w-1", loop, caller)
    try:
        loop.run(run.open())
        yield run
    finally:
        loop.run(run.close())
        loop.stop()
        caller.close()


def numbers(count: int) -> list[dict[str, int]]:
    return [{"n": number} for number in range(count)]


# Forms.


def by_row(payload: dict[str, int]) -> int:
    return payload["n"] * 2


async def by_row_awaited(payload: dict[str, int]) -> int:
    await asyncio.sleep(0)
    return payload["n"] * 2


def by_list(payloads: list[dict[str, int]]) -> list[int]:
    return [payload["n"] * 2 for payload in payloads]


def by_pandas(table: pd.DataFrame) -> pd.Series:
    return table["n"] * 2


def by_series(n: pd.Series) -> pd.Series:
    return n * 2


def by_arrow(table: pa.Table) -> pa.ChunkedArray:
    return pc.multiply(table.column("n"), 2)


def by_arrays(n: pa.Array) -> pa.Array:
    return pc.multiply(n, 2)


@pytest.mark.parametrize("handler", [by_row, by_row_awaited, by_list, by_pandas, by_series, by_arrow, by_arrays])
def test_each_form_of_handler_gives_each_job_its_result(workshop: Workshop, handler: Any) -> None:
    ids = workshop.put(*numbers(20))
    part = workshop.run(handler, batch=8)
    assert workshop.results() == {id: 2 * number for number, id in enumerate(ids)}
    assert (part.claimed, part.completed, part.failed, part.released) == (20, 20, 0, 0)
    is_single = handler in (by_row, by_row_awaited)
    assert part.calls == (20 if is_single else 3)


def test_form_can_be_said_instead_of_annotated(workshop: Workshop) -> None:
    ids = workshop.put({"n": 1}, {"n": 2})
    workshop.run(lambda table: table["n"] + table.index, form="pandas")
    assert workshop.results() == {ids[0]: 1 + ids[0], ids[1]: 2 + ids[1]}


def test_rows_of_a_table_become_objects_and_vectors_lists(workshop: Workshop) -> None:
    def embed(table: pd.DataFrame) -> pd.DataFrame:
        vectors = [np.array([number, number / 2]) for number in table["n"]]
        return pd.DataFrame({"vector": vectors, "size": np.int64(2)}, index=table.index)

    ids = workshop.put({"n": 1}, {"n": 2})
    workshop.run(embed)
    assert workshop.results() == {
        ids[0]: {"vector": [1.0, 0.5], "size": 2},
        ids[1]: {"vector": [2.0, 1.0], "size": 2},
    }


def test_results_that_carry_ids_may_come_in_another_order(workshop: Workshop) -> None:
    ids = workshop.put(*numbers(5))
    workshop.run(lambda table: (table["n"] * 2).sort_values(ascending=False), form="pandas", jobs=3, batch=3)
    workshop.run(lambda table: table.take([1, 0]), form="arrow")
    assert workshop.results() == {id: (2 * at if at < 3 else {"n": at}) for at, id in enumerate(ids)}


def test_task_of_an_app_is_called_by_its_signature(workshop: Workshop) -> None:
    [good] = workshop.put({"number": 4}, task="tests.double")
    [bad] = workshop.put({"number": "four"}, task="tests.double")
    [other] = workshop.put({"number": 4}, task="another")
    part = workshop.run(double)
    assert workshop.results() == {good: [8, good]}
    assert workshop.get(bad).reason == "undecodable"
    assert workshop.get(other).state == "ready"
    assert (part.completed, part.failed) == (1, 1)
    with workshop.client() as client:
        assert [item.data for item in client.logs(good)] == [b"twice 4"]


def test_batch_task_of_an_app_takes_the_items_together(workshop: Workshop) -> None:
    ids = workshop.put({"item": 1}, {"item": -1}, {"item": 3}, task="tests.double_all", max_attempts=1)
    part = workshop.run(double_all)
    assert workshop.results() == {ids[0]: 2, ids[2]: 6}
    assert workshop.get(ids[1]).reason == "permanent"
    assert part.calls == 1


def test_handler_with_a_context_knows_its_job(workshop: Workshop) -> None:
    def handler(ctx: tenure.Context, payload: dict[str, int]) -> list[object]:
        ctx.progress(50, "half")
        return [ctx.job.id, ctx.job.task, ctx.attempt, payload["n"]]

    [id] = workshop.put({"n": 7})
    workshop.run(handler)
    assert workshop.results() == {id: [id, "count", 1, 7]}
    progress = workshop.get(id).progress
    assert progress is not None
    assert progress.percent == 50


# Errors.


def test_row_that_raises_fails_alone(workshop: Workshop) -> None:
    def handler(payload: dict[str, int]) -> int:
        match payload["n"]:
            case 0:
                raise ValueError("zero has no meaning")
            case 1:
                raise tenure.Permanent("never")
            case 2:
                raise tenure.Snooze("1h")
            case 3:
                return object()  # type: ignore[return-value]
            case 4:
                raise tenure.Cancel
            case 5:
                raise SystemExit(3)
        return payload["n"]

    ids = workshop.put(*numbers(7), max_attempts=2, backoff=tenure.Backoff.fixed("1h"))
    part = workshop.run(handler)
    zero, never, later, unwritable, cancelled, exited, good = [workshop.get(id) for id in ids]
    assert zero.state == "retrying"
    assert zero.error is not None
    assert (zero.error.type, zero.error.message) == ("ValueError", "zero has no meaning")
    assert "zero has no meaning" in zero.error.trace
    assert "/tenure/spark/" not in zero.error.trace
    assert (never.state, never.reason) == ("failed", "permanent")
    assert (later.state, later.attempt) == ("scheduled", 0)
    assert (unwritable.state, unwritable.reason) == ("failed", "permanent")
    assert cancelled.state == "cancelled"
    assert exited.state == "retrying"
    assert (good.state, good.result) == ("completed", b"6")
    assert (part.completed, part.failed, part.snoozed, part.cancelled) == (1, 4, 1, 1)


def test_what_a_handler_of_many_raises_is_every_jobs(workshop: Workshop) -> None:
    def handler(payloads: list[dict[str, int]]) -> list[int]:
        raise OSError("the model is gone")

    workshop.put(*numbers(3), max_attempts=1)
    part = workshop.run(handler)
    assert workshop.counts() == {"failed": 3}
    assert (part.failed, part.calls) == (3, 1)


def test_exception_in_a_list_fails_its_job_alone(workshop: Workshop) -> None:
    ids = workshop.put(*numbers(3), max_attempts=1)
    workshop.run(lambda payloads: [1, ValueError("two"), tenure.Snooze("1h")], form="list")
    assert [workshop.get(id).state for id in ids] == ["completed", "failed", "scheduled"]


def test_wrong_number_of_values_fails_the_batch(workshop: Workshop) -> None:
    [id, _] = workshop.put(*numbers(2), max_attempts=1)
    workshop.run(lambda table: table["n"][:1], form="pandas")
    error = workshop.get(id).error
    assert error is not None
    assert error.message == "a handler of 2 jobs gives as many values, not 1"


def test_payload_that_cannot_be_read_fails_without_its_neighbours(workshop: Workshop) -> None:
    good, scalar, short, strange = workshop.put({"n": 3}, 3, {"m": 3}, {"n": 3, "job_id": 3})
    [unknown] = workshop.put({"n": 3}, codec="secret")
    workshop.run(by_series)
    assert workshop.results() == {good: 6}
    for id in (scalar, short, strange, unknown):
        assert workshop.get(id).reason == "undecodable"


def test_schema_keeps_what_does_not_fit_it_out(workshop: Workshop) -> None:
    good, missing, bad = workshop.put({"n": 1, "more": "x"}, {}, {"n": "one"})

    def handler(table: pa.Table) -> list[list[object]]:
        return [[str(table.schema.field("n").type), number] for number in table.column("n").to_pylist()]

    workshop.run(handler, schema=pa.schema([("n", pa.int16())]))
    assert workshop.results() == {good: ["int16", 1], missing: ["int16", None]}
    assert workshop.get(bad).reason == "undecodable"


def test_result_that_is_too_large_is_a_dead_letter(workshop: Workshop) -> None:
    [id] = workshop.put({"n": 1})
    part = workshop.run(lambda _: "x" * 2_000_000, form="rows")
    assert workshop.get(id).state == "failed"
    assert (part.completed, part.failed) == (0, 1)


# Leases.


def test_lease_is_kept_while_a_handler_runs_longer_than_it(workshop: Workshop) -> None:
    def handler(payloads: list[dict[str, int]]) -> list[int]:
        before = [workshop.get(id).lease_until for id in ids]
        until(lambda: all(workshop.get(id).lease_until > old + 2_000 for id, old in zip(ids, before, strict=True)))
        return [1] * len(payloads)

    ids = workshop.put(*numbers(2))
    part = workshop.run(handler, lease="2s")
    assert [workshop.get(id).attempt for id in ids] == [1, 1]
    assert (part.completed, part.lost) == (2, 0)


def test_lease_is_kept_while_a_handler_holds_the_interpreter(workshop: Workshop) -> None:
    """C code that never lets go of the lock: nothing else runs in the handler's process."""

    def handler(payloads: list[dict[str, int]]) -> list[int]:
        ctypes.PyDLL(None).usleep(4_500_000)
        return [1] * len(payloads)

    ids = workshop.put(*numbers(2))
    part = workshop.run(handler, lease="2s")
    assert [workshop.get(id).attempt for id in ids] == [1, 1]
    assert part.completed == 2


def test_job_that_is_cancelled_meanwhile_has_no_result(workshop: Workshop) -> None:
    ids = workshop.put(*numbers(3))

    def handler(payload: dict[str, int]) -> int:
        if payload["n"] == 1:
            with workshop.client() as client:
                client.cancel(ids[1])
        return payload["n"]

    part = workshop.run(handler)
    assert [workshop.get(id).state for id in ids] == ["completed", "cancelled", "completed"]
    assert (part.completed, part.cancelled) == (2, 1)


def test_job_that_is_cancelled_before_its_turn_is_not_run(workshop: Workshop, tmp_path: Path) -> None:
    """The fourth job waits until the sixth, leased with it and waiting behind it, was cancelled."""
    ids = workshop.put(*numbers(8))

    def handler(payload: dict[str, int]) -> None:
        (tmp_path / str(payload["n"])).touch()
        if payload["n"] == 3:
            until(lambda: (tmp_path / "cancelled").exists())

    def cancel(run: Run) -> None:
        until((tmp_path / "3").exists)
        [attempt] = [each for each in run._running if each.id == ids[5]]
        with workshop.client() as client:
            client.cancel(attempt.id)
        until(lambda: bool(attempt.stop) and run._caller.progress.allowed < 4)
        (tmp_path / "cancelled").touch()

    with running(workshop, handler) as run:
        canceller = threading.Thread(target=cancel, args=[run])
        canceller.start()
        run.go_on()
        canceller.join()
    assert sorted(int(file.name) for file in tmp_path.iterdir() if file.name != "cancelled") == [0, 1, 2, 3, 4, 6, 7]
    assert workshop.counts() == {"completed": 7, "cancelled": 1}


def test_result_of_a_lost_lease_is_not_taken(workshop: Workshop) -> None:
    """Somebody else has the job by the time that its result comes: it is fenced off by its token."""
    [id] = workshop.put({"n": 1}, lease="1s")

    def handler(payloads: list[dict[str, int]]) -> list[str]:
        with workshop.client() as client:
            client.discard(id)
            client.replay(id)
            until(lambda: bool(client.claim(QUEUE, worker="somebody else", lease="1h")))
        return ["late"]

    part = workshop.run(handler)
    assert workshop.get(id).state == "running"
    assert (part.completed, part.lost + part.cancelled) == (0, 1)


def test_what_was_not_begun_is_released_when_the_task_is_interrupted(workshop: Workshop) -> None:
    task = os.getpid()

    def handler(payloads: list[dict[str, int]]) -> list[int]:
        os.kill(task, signal.SIGINT)
        time.sleep(WAIT_S)
        return [0] * len(payloads)

    ids = workshop.put(*numbers(3))
    with pytest.raises(KeyboardInterrupt):
        workshop.run(handler)
    assert workshop.counts() == {"ready": 3}
    assert [workshop.get(id).attempt for id in ids] == [0, 0, 0]


def test_rows_that_were_done_by_then_have_their_results(workshop: Workshop) -> None:
    task = os.getpid()

    def handler(payload: dict[str, int]) -> int:
        if payload["n"] == 5:
            until(lambda: workshop.get(ids[2]).state == "completed")  # the claim of 0, of 1 and 2, and of 3 to 6
            os.kill(task, signal.SIGINT)
            time.sleep(WAIT_S)
        return payload["n"]

    ids = workshop.put(*numbers(9))
    with pytest.raises(KeyboardInterrupt):
        workshop.run(handler)
    assert workshop.results() == {id: number for number, id in enumerate(ids[:5])}
    assert {workshop.get(id).attempt for id in ids[5:]} == {0}


def test_slow_rows_are_given_back_instead_of_held(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    def handler(payload: dict[str, int]) -> int:
        time.sleep(0.02)
        return payload["n"]

    monkeypatch.setattr("tenure.spark.caller.HOLD_S", 0.05)
    monkeypatch.setattr("tenure.spark.partition.Pace.ran", lambda pace, *_: setattr(pace, "count", 7))
    workshop.put(*numbers(7))
    part = workshop.run(handler)
    assert workshop.counts() == {"completed": 7}
    assert part.released > 0
    assert part.claimed == part.completed + part.released


def test_death_of_the_task_loses_nothing_and_neighbours_stay_alive(workshop: Workshop) -> None:
    """A job that kills the task that runs it: its neighbours lose an attempt with it, and none is a dead letter."""
    ids = workshop.put(*numbers(6), max_attempts=2, backoff=tenure.Backoff.fixed(0))
    command = [sys.executable, "-m", "tests.spark.killed", workshop.url, workshop.tenant]
    for _ in range(2):
        died = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, timeout=WAIT_S, capture_output=True, text=True)
        assert died.returncode == -signal.SIGKILL, died.stderr
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, timeout=WAIT_S, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert workshop.results() == {id: number for number, id in enumerate(ids) if number != 2}
    killer = workshop.get(ids[2])
    assert (killer.state, killer.attempt) == ("failed", 2)


# Handlers that take long, hang or die.


@pytest.mark.slow
def test_timeout_does_not_run_out_in_line(workshop: Workshop) -> None:
    """Each takes 40 ms of 500 ms; together they take several times as much."""

    def handler(payload: dict[str, int]) -> int:
        time.sleep(0.04)
        return payload["n"]

    workshop.put(*numbers(60), timeout="500ms", max_attempts=1)
    part = workshop.run(handler)
    assert workshop.counts() == {"completed": 60}
    assert part.failed == 0


def test_quick_jobs_with_a_timeout_are_claimed_together(workshop: Workshop) -> None:
    workshop.put(*numbers(200), timeout="1h", max_attempts=1)
    with running(workshop, by_row) as run:
        run.go_on()
        assert run._pace.count > 50
    assert workshop.counts() == {"completed": 200}


def hangs_on_one(payload: dict[str, int]) -> int:
    if payload["n"] == 3:
        time.sleep(3_600)
    return payload["n"]


def test_handler_that_never_returns_is_stopped_by_its_timeout(workshop: Workshop) -> None:
    """And its neighbours, leased with it, go on and spend nothing."""
    plain = workshop.put(*numbers(3))
    [hung] = workshop.put({"n": 3}, timeout="300ms", max_attempts=1)
    behind = workshop.put(*({"n": number} for number in range(4, 9)), max_attempts=1)
    part = workshop.run(hangs_on_one)
    job = workshop.get(hung)
    assert (job.state, job.reason) == ("failed", "timed_out")
    assert set(workshop.results()) == {*plain, *behind}
    assert {workshop.get(id).attempt for id in plain + behind} == {1}
    assert (part.completed, part.failed) == (8, 1)


def test_handler_of_many_is_stopped_when_all_its_jobs_timed_out(workshop: Workshop) -> None:
    def handler(payloads: list[dict[str, int]]) -> list[int]:
        time.sleep(3_600)
        return []

    workshop.put(*numbers(3), timeout="300ms", max_attempts=1)
    part = workshop.run(handler)
    assert workshop.counts() == {"failed": 3}
    assert part.failed == 3


@pytest.mark.slow
def test_handler_that_does_not_listen_is_killed(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    def handler(payload: dict[str, int]) -> int:
        while payload["n"] == 0:
            try:
                time.sleep(3_600)
            except BaseException:
                pass
        return payload["n"]

    monkeypatch.setattr("tenure.spark.caller.STOP_S", 0.2)
    [hung, fine] = workshop.put(*numbers(2), max_attempts=1)
    with running(workshop, handler) as run:
        canceller = threading.Timer(0.5, lambda: _cancel(workshop, hung))
        canceller.start()
        run.go_on()
        canceller.join()
    assert workshop.get(hung).state == "cancelled"
    assert workshop.results() == {fine: 1}


def _cancel(workshop: Workshop, id: int) -> None:
    with workshop.client() as client:
        client.cancel(id)


def test_end_of_the_duration_ends_the_call(workshop: Workshop) -> None:
    """What runs then, and what waits behind it, is given back unspent."""
    ids = workshop.put(*({"n": 3} for _ in range(3)))
    began = time.monotonic()
    part = workshop.run(hangs_on_one, until="bound", duration="500ms", stop="200ms")
    assert time.monotonic() - began < WAIT_S / 2
    assert workshop.counts() == {"ready": 3}
    assert [workshop.get(id).attempt for id in ids] == [0, 0, 0]
    assert part.completed == 0


def dies_of_some(payload: dict[str, int]) -> int:
    if payload["n"] % 3 == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return payload["n"]


def test_jobs_that_kill_their_process_fail_alone_however_many_they_are(workshop: Workshop) -> None:
    """Of more of them than Spark tries a task: the task never dies of a job."""
    ids = workshop.put(*numbers(20), max_attempts=1)
    part = workshop.run(dies_of_some)
    assert workshop.results() == {id: number for number, id in enumerate(ids) if number % 3}
    assert part.failed == 7
    error = workshop.get(ids[0]).error
    assert error is not None
    assert error.type == "tenure.worker.processes.ProcessDied"
    assert "SIGKILL" in error.message


def test_call_that_kills_its_process_is_made_again_in_halves(workshop: Workshop) -> None:
    """Its neighbours spend no attempt, and it takes few calls to find it."""

    def handler(payloads: list[dict[str, int]]) -> list[int]:
        if any(payload["n"] == 77 for payload in payloads):
            os._exit(3)
        return [payload["n"] for payload in payloads]

    ids = workshop.put(*numbers(256), max_attempts=1)
    part = workshop.run(handler)
    assert workshop.results() == {id: number for number, id in enumerate(ids) if number != 77}
    assert {workshop.get(id).attempt for id in ids[:5]} == {1}
    assert part.calls == 1 + 2 * 8
    error = workshop.get(ids[77]).error
    assert error is not None
    assert error.message == "the handler ended its process with 3"


def test_jobs_on_their_last_attempt_share_a_call_unless_their_executor_died(workshop: Workshop) -> None:
    """A call that raised costs no single calls afterwards."""
    mark = Path(tempfile.mkdtemp()) / "raised"

    def handler(payloads: list[dict[str, int]]) -> list[int]:
        if not mark.exists():
            mark.touch()
            raise OSError("the model is gone")
        return [payload["n"] for payload in payloads]

    workshop.put(*numbers(50), max_attempts=2, backoff=tenure.Backoff.fixed(0))
    part = workshop.run(handler, until="done")
    assert workshop.counts() == {"completed": 50}
    assert part.calls < 10  # a claim may find some of them only


# When it is over.


def test_it_is_done_when_jobs_that_failed_have_been_tried_again(workshop: Workshop) -> None:
    tried: set[int] = set()

    def handler(payload: dict[str, int]) -> int:
        if payload["n"] not in tried:
            tried.add(payload["n"])
            raise OSError("not yet")
        return payload["n"]

    workshop.put(*numbers(3), backoff=tenure.Backoff.fixed("100ms"))
    part = workshop.run(handler, until="done")
    assert workshop.counts() == {"completed": 3}
    assert (part.completed, part.failed) == (3, 3)


def test_jobs_of_other_tasks_are_not_waited_for(workshop: Workshop) -> None:
    workshop.put({"n": 1}, task="mine")
    workshop.put({"n": 1}, task="theirs")
    part = workshop.run(by_row, tasks=["mine"], until="done")
    assert part.completed == 1
    assert workshop.counts() == {"completed": 1, "ready": 1}


def test_number_of_jobs_is_a_bound(workshop: Workshop) -> None:
    workshop.put(*numbers(10))
    assert workshop.run(by_list, jobs=4, until="bound").completed == 4
    assert workshop.counts() == {"completed": 4, "ready": 6}


def test_duration_is_a_bound(workshop: Workshop) -> None:
    workshop.put(*numbers(2))
    assert workshop.run(by_list, until="bound", duration="300ms").completed == 2


def test_new_jobs_are_waited_for_up_to_the_bound(workshop: Workshop) -> None:
    later = threading.Timer(0.3, workshop.put, [{"n": 1}])
    later.start()
    try:
        assert workshop.run(by_row, until="bound", jobs=1).completed == 1
    finally:
        later.join()


# Tokens and refusals.


def test_token_is_read_from_its_file_by_the_task(tmp_path: Path) -> None:
    grants = {"all": ["worker", "producer"], "work": ["worker"]}
    (tmp_path / "tenure.toml").write_text(
        "".join(
            f"[server.tokens.{name}]\nsha256 = '{hash_token(name * 16)}'\nroles = {roles}\n"
            for name, roles in grants.items()
        )
    )
    file = tmp_path / "token"
    with serving(tmp_path) as url:
        workshop = Workshop(url)
        with pytest.raises(Unauthenticated):
            workshop.run(by_row)
        with pytest.raises(InvalidRequest, match="readable where Spark's tasks run"):
            workshop.run(by_row, token_file=str(tmp_path / "missing"))
        file.write_text("all" * 16 + "\n")
        assert workshop.run(by_row, token_file=str(file), until="done").claimed == 0
        file.write_text("work" * 16)
        assert workshop.run(by_row, token_file=str(file)).claimed == 0
        with pytest.raises(Forbidden, match='until="empty" does not'):
            workshop.run(by_row, token_file=str(file), until="done")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"form": "frames"}, "it must be one of rows, list, pandas, series, arrow, arrays"),
        ({"until": "soon"}, "it must be one of done, empty, bound"),
        ({"batch": 0}, "batch: 0 is not accepted"),
        ({"batch": 10_001}, "from 1 to 10000"),
        ({"lease": "10ms"}, "lease"),
        ({"worker": ""}, "worker"),
        ({"schema": pa.schema([("n", pa.int64())])}, "it is for handlers of tables"),
    ],
)
def test_wrong_values_are_refused_before_anything_runs(
    workshop: Workshop, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message):
        workshop.run(by_row, **change)


@pytest.mark.parametrize("url", ["memory://", "sqlite:///jobs.db", "tenure://me:secret@127.0.0.1:1"])
def test_only_a_server_can_be_named_and_no_secret(url: str) -> None:
    with pytest.raises(InvalidRequest, match="url") as refused:
        Workshop(url).run(by_row)
    assert "secret" not in str(refused.value)


def test_task_that_executors_cannot_find_is_refused(workshop: Workshop) -> None:
    app = tenure.App("memory://")

    @app.task
    def hidden() -> None: ...

    with pytest.raises(InvalidRequest, match="executors have to find it"):
        workshop.run(hidden)


def test_worker_leaves_when_it_is_over(workshop: Workshop) -> None:
    def handler(payload: dict[str, int]) -> list[str]:
        with workshop.client() as client:
            return [name for name in client.configure("worker", "*") if name.startswith("on-spark")]

    [id] = workshop.put({"n": 1})
    part = workshop.run(handler, worker="on-spark")
    assert workshop.results() == {id: [part.worker]}
    with workshop.client() as client:
        assert part.worker not in client.configure("worker", "*")
