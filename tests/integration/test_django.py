"""Django's tasks on Tenure: the same code as on any other backend."""

import asyncio
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test.utils import override_settings
from django.utils import timezone

import tenure
from tenure.core.error import InvalidRequest
from tenure.integration import django
from tenure.testing import advance_sync, inline, manual, run_all, run_all_sync
from tests.integration import shop_tasks as tasks
from tests.integration.either import (
    InvalidTaskError,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    task_backends,
    task_enqueued,
    task_finished,
    task_started,
)

pytestmark = pytest.mark.usefixtures("both_inline")


def app() -> tenure.App:
    found: tenure.App = django.app
    return found


def test_result_is_there_by_its_id() -> None:
    result = tasks.add.enqueue(1, b=2)
    assert (result.status, result.is_finished) == ("READY", False)
    found = tasks.add.get_result(result.id)
    assert (found.status, found.return_value, found.args, found.kwargs) == ("SUCCESSFUL", 3, [1], {"b": 2})
    assert (found.attempts, found.worker_ids, found.backend) == (1, ["tenure-testing"], "default")
    times = [found.enqueued_at, found.started_at, found.last_attempted_at, found.finished_at]
    assert all(times)
    assert times == sorted(each for each in times if each)
    result.refresh()
    assert result.return_value == 3


async def test_loops_have_their_own_calls() -> None:
    result = await tasks.send.aenqueue("ada")
    found: Any = await tasks.send.aget_result(result.id)
    assert found.return_value == {"to": "ada", "parts": [1, 2]}
    assert (found.task.priority, found.task.queue_name) == (10, "mail")
    await result.arefresh()
    assert result.is_finished


def test_context_is_given() -> None:
    result = tasks.tell.enqueue("x")
    result.refresh()
    assert result.return_value == [1, result.id, "RUNNING", "x"]


@pytest.mark.parametrize(
    ("how", "kind", "said"),
    [
        ("builtin", ValueError, "ValueError: no good"),
        ("permanent", tenure.Permanent, "Permanent: never"),
        ("own", Exception, "Refused: not here"),
    ],
)
def test_exception_is_the_error_of_the_result(how: str, kind: type[Exception], said: str) -> None:
    result = tasks.fail.enqueue(how)
    result.refresh()
    assert result.status == "FAILED"
    [error] = result.errors
    assert issubclass(error.exception_class, kind)
    assert said in error.traceback
    assert "in fail" in error.traceback
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value


def test_return_value_that_is_no_json_fails() -> None:
    result = tasks.unwritable.enqueue()
    result.refresh()
    assert [error.exception_class for error in result.errors] == [TypeError]


def test_task_is_tried_again_only_where_the_options_say_so() -> None:
    once = tasks.flaky.enqueue()
    once.refresh()
    assert once.status == "FAILED"
    tasks.ran.clear()
    again = tasks.flaky.using(backend="again").enqueue()
    again.refresh()
    assert (again.status, again.return_value, again.attempts) == ("SUCCESSFUL", "done", 2)
    assert [error.exception_class for error in again.errors] == [OSError]


def test_run_after_priority_and_queue_are_kept() -> None:
    with manual(app()):
        late = tasks.add.using(run_after=timezone.now() + timedelta(hours=1), priority=-5).enqueue(1)
        found = tasks.add.get_result(late.id)
        assert (found.status, found.task.priority) == ("READY", -5)
        assert found.task.run_after is not None
        low = tasks.send.using(priority=1).enqueue("low")
        high = tasks.send.using(priority=90).enqueue("high")
        assert run_all_sync(app()) == 2
        assert tasks.ran == ["high", "low"]
        advance_sync(app(), "61m")
        assert run_all_sync(app()) == 1
        for result in (late, low, high):
            result.refresh()
            assert result.status == "SUCCESSFUL"


def test_unknown_results_and_other_tasks_are_told_apart() -> None:
    result = tasks.add.enqueue(1)
    with pytest.raises(TaskResultMismatch):
        tasks.send.get_result(result.id)
    for unknown in ("12345", "abc"):
        with pytest.raises(TaskResultDoesNotExist):
            tasks.add.get_result(unknown)
        with pytest.raises(TaskResultDoesNotExist):
            asyncio.run(tasks.add.aget_result(unknown))


def test_job_of_another_program_is_no_result() -> None:
    job = app().enqueue_sync("elsewhere", {"path": "x"})
    with pytest.raises(TaskResultDoesNotExist, match="no task of Django"):
        tasks.add.get_result(str(job.id))


def test_store_is_that_of_the_project_when_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TENURE_URL", raising=False)
    with pytest.raises(InvalidRequest, match="TENURE_URL"):
        django.TenureBackend("nowhere", {})
    with override_settings(BASE_DIR=tmp_path):
        assert django.TenureBackend("project", {}).app.url == f"sqlite:///{tmp_path}/tenure.db"


def test_task_that_is_not_valid_is_refused() -> None:
    with pytest.raises(InvalidTaskError, match="Queue"):
        tasks.add.using(queue_name="nowhere")


def test_job_of_a_function_that_is_gone_is_a_dead_letter() -> None:
    for path in ("tests.integration.shop_tasks.gone", "tests.integration.shop_tasks.ran"):
        job = app().enqueue_sync("django", {"path": path, "args": [], "kwargs": {}, "backend": "default"})
        assert job.info_sync().reason == "permanent"


def test_signals_are_sent() -> None:
    heard: list[tuple[str, str]] = []

    def hear(name: str) -> Any:
        def receive(sender: type, task_result: Any, **_: Any) -> None:
            heard.append((name, str(task_result.status)))

        return receive

    receivers = [(task_enqueued, hear("enqueued")), (task_started, hear("started")), (task_finished, hear("finished"))]
    for signal, receiver in receivers:
        signal.connect(receiver, weak=False)
    try:
        tasks.add.enqueue(1)
        tasks.fail.enqueue("own")
    finally:
        for signal, receiver in receivers:
            signal.disconnect(receiver)
    assert sorted(heard) == [
        ("enqueued", "READY"),
        ("enqueued", "READY"),
        ("finished", "FAILED"),
        ("finished", "SUCCESSFUL"),
        ("started", "RUNNING"),
        ("started", "RUNNING"),
    ]


def test_threads_share_one_app() -> None:
    found: list[tenure.App] = []
    thread = threading.Thread(target=lambda: found.append(task_backends["default"].app))
    thread.start()
    thread.join()
    assert found == [app()]


def test_app_of_another_backend_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="another backend"):
        django.app_of("dummy")
    with pytest.raises(AttributeError):
        _ = django.nothing


# Stands for Django 6, where the package is a part of Django, under the names it has there.
SIX = """
import sys, types
import django, django_tasks, django_tasks.backends.base, django_tasks.base, django_tasks.exceptions, django_tasks.utils
from importlib.machinery import ModuleSpec
from django.conf import settings
settings.configure(TASKS={"default": {"BACKEND": "tenure.integration.django.TenureBackend",
                                      "OPTIONS": {"url": "memory://"}}})
import django_tasks.signals
for name in ("", ".backends", ".backends.base", ".base", ".exceptions", ".signals"):
    sys.modules["django.tasks" + name] = sys.modules["django_tasks" + name]
sys.modules["django_tasks"].__spec__ = ModuleSpec("django.tasks", None)
sys.modules["django.utils.json"] = django_tasks.utils
sys.modules["django_tasks.utils"] = None
from tenure.integration import django as found
assert found.app.queues == ("default",)
print(found.TenureBackend.supports_defer)
"""


def test_names_of_django_6_are_taken_where_they_are() -> None:
    run = subprocess.run([sys.executable, "-c", SIX], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert (run.stdout, run.stderr) == ("True\n", "")


def test_import_of_tenure_brings_in_no_framework() -> None:
    code = "import sys, tenure; assert not {'fastapi', 'django', 'django_tasks', 'PIL'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_inline_of_the_default_app_is_enough() -> None:
    with inline(app(), raises=True), pytest.raises(tenure.JobFailed, match="no good"):
        tasks.fail.enqueue("builtin")


async def test_manual_run_in_a_loop() -> None:
    async with manual(app()):
        result = await tasks.add.aenqueue(1)
        assert await run_all(app()) == 1
        await result.arefresh()
        assert result.return_value == 2
