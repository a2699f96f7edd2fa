"""A backend for Django's tasks: `django.tasks` of Django 6, and the package `django-tasks` for those before.

    TASKS = {"default": {"BACKEND": "tenure.integration.django.TenureBackend", "OPTIONS": {"url": "sqlite:///jobs.db"}}}

Every Django task is a job of one task of Tenure, `django`, which imports the function by its path. A worker runs them:
`DJANGO_SETTINGS_MODULE=shop.settings tenure worker tenure.integration.django:app`.
"""

import builtins
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from traceback import format_exception
from typing import TYPE_CHECKING, Any

import django
from django.apps import apps
from django.conf import settings
from django.db import close_old_connections
from django.utils import timezone
from django.utils.module_loading import import_string

from tenure.app.address import find_address
from tenure.app.app import App
from tenure.core import error as errors
from tenure.core.error import InvalidRequest, JobNotFound
from tenure.core.record import Failed, JobRecord
from tenure.task import outcome
from tenure.task.bound import Bound
from tenure.task.context import Context
from tenure.task.outcome import Permanent
from tenure.task.task import Task as TenureTask

if TYPE_CHECKING or find_spec("django.tasks") is None:
    from django_tasks import task_backends
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
    from django_tasks.exceptions import TaskResultDoesNotExist
    from django_tasks.signals import task_enqueued, task_finished, task_started
    from django_tasks.utils import normalize_json
else:
    from django.tasks import task_backends
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
    from django.tasks.exceptions import TaskResultDoesNotExist
    from django.tasks.signals import task_enqueued, task_finished, task_started
    from django.utils.json import normalize_json

TASK = "django"
STATUS: Any = TaskResultStatus
STATUSES = {
    "running": STATUS.RUNNING,
    "completed": STATUS.SUCCESSFUL,
    "failed": STATUS.FAILED,
    "cancelled": STATUS.FAILED,
}
BY_STORE = {"LeaseExpired": "tenure.core.error.LeaseLost", "TimedOut": "builtins.TimeoutError"}


class Missing(Permanent):
    """There is no Django task at the path of a job."""


class TenureBackend(BaseTaskBackend):
    """OPTIONS: `url`, `tenant` and `token` of the store; all others are options of every job, as in `task.options(…)`.

    A task that raises has failed, as Django has it: it is tried again only where `max_attempts` says so.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        options = dict(self.options)
        place = {name: options.pop(name) for name in ("url", "tenant", "token") if name in options}
        self._job_options = {"max_attempts": 1, **options}
        self.runner = _runner_of(alias, place, tuple(sorted(self.queues)))

    @property
    def app(self) -> App:
        return self.runner.app

    # Enqueue.

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        call = self._call(task, args, kwargs)
        return self._enqueued(task, args, kwargs, self.app.send_sync(call).id)

    async def aenqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        call = self._call(task, args, kwargs)
        return self._enqueued(task, args, kwargs, (await self.app.send(call)).id)

    def _call(self, task: Any, args: Any, kwargs: Any) -> Bound[Any]:
        self.validate_task(task)
        options = {**self._job_options, "queue": task.queue_name, "priority": int(task.priority)}
        if task.run_after is not None:
            options["run_at"] = _aware(task.run_after)
        prepared = self.runner.task.options(**options)
        return prepared.bind(task.module_path, normalize_json(list(args)), normalize_json(dict(kwargs)), self.alias)

    def _enqueued(self, task: Any, args: Any, kwargs: Any, id: int) -> Any:
        result: Any = TaskResult(
            task=task,
            id=str(id),
            status=STATUS.READY,
            enqueued_at=timezone.now(),
            started_at=None,
            finished_at=None,
            last_attempted_at=None,
            args=list(args),
            kwargs=dict(kwargs),
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        task_enqueued.send(type(self), task_result=result)
        return result

    # Results.

    def get_result(self, result_id: str) -> Any:
        try:
            return self._found(self.app.job(_id_of(result_id)).info_sync())
        except JobNotFound as error:
            raise TaskResultDoesNotExist(result_id) from error

    async def aget_result(self, result_id: str) -> Any:
        try:
            return self._found(await self.app.job(_id_of(result_id)).info())
        except JobNotFound as error:
            raise TaskResultDoesNotExist(result_id) from error

    def _found(self, job: JobRecord) -> Any:
        if job.task != TASK:
            raise TaskResultDoesNotExist(f"job {job.id} is of {job.task}, which is no task of Django")
        return self.runner.result_of(job)


class Runner:
    """An app whose one task runs any task of Django. Backends come and go with threads and requests; this stays."""

    def __init__(self, place: dict[str, Any], queues: Sequence[str]) -> None:
        url = place.get("url") or find_address(None, _base_folder()).url
        self.app = App(url, name=TASK, tenant=place.get("tenant", "default"), token=place.get("token", ""))
        self.app.queues = tuple(queues) or ("*",)
        self.task: TenureTask[[str, list[Any], dict[str, Any], str], Any] = self.app.task(name=TASK, search=("path",))(
            self.run
        )

    def run(self, context: Context, path: str, args: list[Any], kwargs: dict[str, Any], backend: str) -> Any:
        close_old_connections()
        try:
            task = find_task(path)
            sender = type(task_backends[backend])
            result = self.result_of(self.app.job(context.job.id, tenant=context.tenant).info_sync())
            task_started.send(sender, task_result=result)
            if task.takes_context:
                args = [TaskContext(task_result=result), *args]
            return self._call(context, result, sender, lambda: task.call(*args, **kwargs))
        finally:
            close_old_connections()

    def _call(self, context: Context, result: Any, sender: type, call: Callable[[], Any]) -> Any:
        try:
            value = normalize_json(call())
        except Exception as error:
            if context.attempt == context.job.max_attempts:
                result.errors.append(_error_of(error))
                _end(result, STATUS.FAILED)
                task_finished.send(sender, task_result=result)
            raise
        object.__setattr__(result, "_return_value", value)
        _end(result, STATUS.SUCCESSFUL)
        task_finished.send(sender, task_result=result)
        return value

    def result_of(self, job: JobRecord) -> Any:
        call = self.task.read(job.payload, job.codec, job.schema_version)
        path, args, kwargs, backend = (getattr(call, name) for name in ("path", "args", "kwargs", "backend"))
        first = job.history[0].started_at if job.history else job.started_at
        failures = [(each.worker, each.error) for each in job.history if each.error is not None]
        last = [job.worker] if job.state in ("running", "completed") else []
        run_after = _time(job.run_at) if job.run_at > job.created_at and not job.delivery else None
        result: Any = TaskResult(
            task=find_task(path).using(
                priority=job.priority, queue_name=job.queue, backend=backend, run_after=run_after
            ),
            id=str(job.id),
            status=STATUSES.get(job.state, STATUS.READY),
            enqueued_at=_time(job.created_at),
            started_at=_time(first),
            finished_at=_time(job.ended_at),
            last_attempted_at=_time(job.started_at),
            args=args,
            kwargs=kwargs,
            backend=backend,
            errors=[_error_read(error) for _, error in failures],
            worker_ids=[worker for worker, _ in failures] + last,
        )
        object.__setattr__(result, "_return_value", self.task.reader.result(job.result, job.codec))
        return result


def find_task(path: str) -> Any:
    try:
        found = import_string(path)
    except ImportError as error:
        raise Missing(f"there is no {path} here: {error}") from error
    if not isinstance(found, Task):
        raise Missing(f"{path} is no task; is it still decorated?")
    return found


def app_of(alias: str) -> App:
    """The app of a backend, by its name in TASKS, for a worker."""
    if not apps.ready:
        django.setup()
    backend = task_backends[alias]
    if not isinstance(backend, TenureBackend):
        raise InvalidRequest("alias", alias, f"TASKS[{alias!r}] has another backend than TenureBackend")
    return backend.app


def __getattr__(name: str) -> Any:
    """`app`: that of the default backend. Made when it is asked for, since Django has to be set up before."""
    if name == "app":
        return app_of("default")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_runners: dict[object, Runner] = {}
_making = threading.Lock()


def _runner_of(alias: str, place: dict[str, Any], queues: Sequence[str]) -> Runner:
    """One per store: Django makes a backend for every thread, and they must not each open a connection."""
    key = (alias, tuple(sorted(place.items())), tuple(queues))
    with _making:
        found = _runners.get(key)
        if found is None:
            found = _runners[key] = Runner(place, queues)
        return found


def _base_folder() -> Path | None:
    """Of the project, where its settings name it: there is the store of a project that names none."""
    found = getattr(settings, "BASE_DIR", None)
    return None if found is None else Path(found)


def _id_of(result_id: str) -> int:
    try:
        return int(result_id)
    except ValueError as error:
        raise TaskResultDoesNotExist(result_id) from error


def _aware(moment: datetime) -> datetime:
    return timezone.make_aware(moment) if timezone.is_naive(moment) else moment


def _time(at_ms: int) -> datetime | None:
    return datetime.fromtimestamp(at_ms / 1000, UTC) if at_ms else None


def _end(result: Any, status: Any) -> None:
    object.__setattr__(result, "status", status)
    object.__setattr__(result, "finished_at", timezone.now())


def _error_of(error: BaseException) -> Any:
    kind = type(error)
    return TaskError(
        exception_class_path=f"{kind.__module__}.{kind.__qualname__}", traceback="".join(format_exception(error))
    )


def _error_read(error: Failed) -> Any:
    trace = error.trace or f"{error.type}: {error.message}\n"
    return TaskError(exception_class_path=_class_path(error.type), traceback=trace)


def _class_path(kind: str) -> str:
    """Tenure leaves out the module of builtins and of its own exceptions."""
    if "." in kind:
        return kind
    if kind in BY_STORE:
        return BY_STORE[kind]
    for module in (errors, outcome):
        if hasattr(module, kind):
            return f"{module.__name__}.{kind}"
    return f"builtins.{kind}" if hasattr(builtins, kind) else "builtins.Exception"
