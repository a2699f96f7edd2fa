"""An app: tasks by name, and the store their jobs go to."""

import asyncio
import inspect
import logging
import os
import ssl
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from types import BuiltinFunctionType, FunctionType, MethodType, TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack, cast, overload
from urllib.parse import urlsplit

from tenure.app.address import find_address, folder_of_caller
from tenure.app.many import Sending, SendingSync, Sent
from tenure.app.option import TaskOptions, WorkerOptions
from tenure.client.client import Client, connect
from tenure.client.published import options_as_given
from tenure.client.remote import REMOTE
from tenure.core.answer import Answers
from tenure.core.duration import Duration, milliseconds
from tenure.core.error import InvalidRequest, Overloaded, Unavailable
from tenure.core.tenant import DEFAULT_TENANT
from tenure.task.bound import Bound, batch_of
from tenure.task.codec import Codecs
from tenure.task.context import Context
from tenure.task.home import Home
from tenure.task.job import Job
from tenure.task.option import OF_TASKS, JobOptions, extras_of, read_options
from tenure.task.registry import Middleware, Registry
from tenure.task.result import Reader
from tenure.task.schema import Versions
from tenure.task.task import MODES, Settings, Task
from tenure.worker.adapt import MOST
from tenure.worker.keeping import Keeping
from tenure.worker.worker import CONCURRENCY, STOP_S, UNSETTLED_MAX, Worker, default_name, queues_of

log = logging.getLogger("tenure.worker")

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

Lifespan = Callable[[object], AbstractAsyncContextManager[None]]

CHUNK = 1_000
CHUNK_BYTES = 4 * 1024 * 1024
CHUNKS_IN_FLIGHT = 2
FULL_S = 5.0  # at most, between two tries when the store has no room


class App:
    def __init__(
        self,
        url: str | None = None,
        *,
        name: str = "",
        tenant: str = "",
        token: str = "",
        codec: str = "json",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`url` names the store: sqlite:///jobs.db, memory://, tenure://host:6789, tenure+unix:///run/tenure.sock.
        Without one: TENURE_URL, then `url` in tenure.toml or [tool.tenure], then tenure.db beside pyproject.toml.
        Without a `tenant`: that of the token, else `default`."""
        self.name = name
        self._tenant = tenant
        self.codecs = Codecs(codec)
        self.registry = Registry()
        self.queues: tuple[str, ...] = ()  # of a worker that is told none; empty: those of the tasks
        self._url = url
        self._folder = folder_of_caller(2)
        self._token = token
        self._tls = tls
        self.home = Home(self.make_client)

    @property
    def tenant(self) -> str:
        """Whose jobs it makes and runs: as given, else as the token says, which is known while the app is open."""
        return self._tenant or self.home.tenant or DEFAULT_TENANT

    @property
    def url(self) -> str:
        return find_address(self._url, self._folder).url

    @property
    def url_source(self) -> str:
        """Where the URL comes from."""
        return find_address(self._url, self._folder).source

    @property
    def is_embedded(self) -> bool:
        """Whether the store is in this process, or in a file that it opens."""
        return urlsplit(self.url).scheme not in REMOTE

    def use(self, url: str) -> None:
        """Another store from now on, for instance in tests; not while the app is open."""
        self.home.close_sync()
        if self.home.is_open:
            raise Unavailable("this app is open; close it before it uses another store")
        self._url = url

    @contextmanager
    def at(self, home: Home, url: str) -> Iterator[None]:
        """Another connection while the block lasts, for tests; the app's own stays as it is."""
        kept = self.home, self._url
        self.home, self._url = home, url
        try:
            yield
        finally:
            self.home, self._url = kept

    @property
    def token(self) -> str:
        return self._token or os.environ.get("TENURE_TOKEN", "")

    def make_client(self, tenants: Iterable[str] = ()) -> Client:
        """A client of the app's store, not yet open."""
        return connect(self.url, tenant=self._tenant, tenants=tenants, token=self.token, tls=self._tls)

    @property
    def client(self) -> Client:
        """The low-level client, while the app is open in this loop: what tasks and jobs have no call for."""
        found = self.home.here
        if found is None:
            raise Unavailable(
                "the app is not open in this loop; enter it (async with app), or give a web app its lifespan"
            )
        return found

    # Open and close.

    async def __aenter__(self) -> "App":
        await self.home.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.home.close()

    def close_sync(self) -> None:
        """Close what calls without a loop have opened; the next one opens it again."""
        self.home.close_sync()

    @asynccontextmanager
    async def lifespan(self, _: object = None) -> AsyncIterator[None]:
        """For `FastAPI(lifespan=app.lifespan)`: open while the program serves."""
        async with self:
            yield

    def lifespan_with_worker(self, **options: Unpack[WorkerOptions]) -> Lifespan:
        """For `FastAPI(lifespan=app.lifespan_with_worker(concurrency=4))`: the program runs its own jobs, too.

        A program that has a lifespan of its own enters `app.worker(…)` in it.
        """

        @asynccontextmanager
        async def lifespan(_: object = None) -> AsyncIterator[None]:
            async with self.worker(**options):
                yield

        return lifespan

    # Tasks.

    @overload
    def task(self, function: Callable[Concatenate[Context, P], Awaitable[R]], /) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[P, Awaitable[R]], /) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(self, /, **options: Unpack[TaskOptions]) -> "Decorator": ...
    def task(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Makes a task of a function: `@app.task`, or `@app.task(queue="email", max_attempts=5)`."""
        decorator = Decorator(self, dict(options))
        return decorator if function is None else decorator(function)

    def batch(self, size: int = 100, wait: Duration = 0, **options: Unpack[TaskOptions]) -> "BatchDecorator":
        """Makes a task of a function that takes a list: each job is one item, one call works on up to `size` of them.

        With `wait` a call that is not full waits that long for company.
        """
        return BatchDecorator(self, {**options, "batch": size, "batch_wait": wait})

    def add_task(self, function: Callable[..., Any], options: dict[str, Any]) -> Task[..., Any]:
        job_options = {key: value for key, value in options.items() if key in OF_TASKS}
        rest = {key: value for key, value in options.items() if key not in OF_TASKS}
        if not isinstance(function, FunctionType | BuiltinFunctionType | MethodType):
            raise InvalidRequest(
                "task", function, "it must be a function; put a partial or a callable object into a def"
            )
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            rule = "a generator cannot be a task: return its result as a whole, or give items out with ctx.emit(item)"
            raise InvalidRequest("task", f"{function.__module__}.{function.__qualname__}", rule)
        name = rest.pop("name", "") or function.__name__
        versions = Versions(rest.pop("schema_version", 0))
        task: Task[..., Any] = Task(self, function, name, job_options, _settings(rest), versions)
        self.registry.add(task)
        return task

    def middleware(self, wrapper: Middleware) -> Middleware:
        """`async def m(ctx, call): return await call()`: around every handler, the first registered outermost."""
        self.registry.middleware.append(wrapper)
        return wrapper

    # Enqueue.

    async def send(self, call: Bound[R]) -> Job[R]:
        here = self.home.here
        if here is None:
            return await self.home.run(_same, lambda client: self._send(client, call))
        return await self._send(here, call)

    def send_sync(self, call: Bound[R]) -> Job[R]:
        return self.home.run_sync(_same, lambda client: self._send(client, call))

    async def _send(self, client: Client, call: Bound[R]) -> Job[R]:
        [job] = await self._send_batch(client, [call])
        if job.error is not None:
            raise job.error
        return job

    async def enqueue(
        self, name: str, arguments: dict[str, Any] | None = None, **options: Unpack[JobOptions]
    ) -> Job[Any]:
        """By the task's name: as this app knows it, else with the options that its workers published, else defaults."""
        if self.registry.find(name) is not None:
            return await self.send(self.bind(name, arguments, options))
        return await self.home.run(_same, lambda client: self._send_unknown(client, name, arguments, options))

    def enqueue_sync(
        self, name: str, arguments: dict[str, Any] | None = None, **options: Unpack[JobOptions]
    ) -> Job[Any]:
        if self.registry.find(name) is not None:
            return self.send_sync(self.bind(name, arguments, options))
        return self.home.run_sync(_same, lambda client: self._send_unknown(client, name, arguments, options))

    async def _send_unknown(
        self, client: Client, name: str, arguments: dict[str, Any] | None, options: JobOptions
    ) -> Job[Any]:
        found = await client.published(name)
        known: dict[str, Any] = {} if found is None else options_as_given(found.options)
        return await self._send(client, self.bind(name, arguments, cast("JobOptions", {**known, **options})))

    def bind(self, name: str, arguments: dict[str, Any] | None, options: JobOptions) -> Bound[Any]:
        task = self.registry.find(name)
        if task is not None:
            return (task.options(**options) if options else task).bind(**(arguments or {}))
        fields: dict[str, Any] = dict(options)
        tenant, durability = fields.pop("tenant", ""), fields.pop("durability", "")
        codec = self.codecs.get(fields.pop("codec", self.codecs.default))
        shared, own = read_options({**fields, "task": name, "codec": codec.name})
        payload = codec.encode(arguments or {})
        return Bound(Reader(self.codecs), payload, shared, extras_of(own), tenant, durability)

    def enqueue_many(self, calls: Iterable[Bound[R]] | AsyncIterable[Bound[R]]) -> Sending[R]:
        """Store what an iterable gives, in order, as fast as the store takes it and no faster.

        `await` it: all are sent, and a report says how many were new, duplicates and refused, and why. Or iterate it
        (`async for job in …`): each job is answered; one that was refused has an `error`. No more than a few thousand
        are held at once.
        """
        return Sending("enqueue_many", lambda: self._enqueue_each(calls))

    def enqueue_each(self, calls: Iterable[Bound[R]] | AsyncIterable[Bound[R]]) -> Sending[R]:
        """`enqueue_many`, by a name that says that it is iterated."""
        return Sending("enqueue_each", lambda: self._enqueue_each(calls))

    async def _enqueue_each(self, calls: Iterable[Bound[R]] | AsyncIterable[Bound[R]]) -> AsyncIterator[Job[R]]:
        waiting: deque[asyncio.Task[list[Job[R]]]] = deque()
        try:
            async for chunk in _chunks(calls):
                waiting.append(asyncio.ensure_future(self.home.run(_same, _sending(self, chunk))))
                while len(waiting) >= CHUNKS_IN_FLIGHT:
                    for job in await waiting.popleft():
                        yield job
            while waiting:
                for job in await waiting.popleft():
                    yield job
        finally:
            for task in waiting:
                task.cancel()

    def enqueue_many_sync(self, calls: Iterable[Bound[R]]) -> Sent:
        """Sends all, and answers the report."""
        report = Sent()
        for job in self._enqueue_each_sync(calls):
            report.add(job)
        return report

    def enqueue_each_sync(self, calls: Iterable[Bound[R]]) -> SendingSync[R]:
        """Sends while it is iterated, and answers each job."""
        return SendingSync("enqueue_each_sync", lambda: self._enqueue_each_sync(calls))

    def _enqueue_each_sync(self, calls: Iterable[Bound[R]]) -> Iterator[Job[R]]:
        for chunk in _sync_chunks(calls):
            yield from self.home.run_sync(_same, _sending(self, chunk))

    async def _send_all(self, client: Client, calls: list[Bound[R]]) -> list[Job[R]]:
        """In order, those of one tenant and durability together."""
        jobs: list[Job[R]] = []
        first = 0
        for at in range(1, len(calls) + 1):
            if at == len(calls) or not _go_together(calls[first], calls[at]):
                jobs += await self._send_batch(client, calls[first:at])
                first = at
        return jobs

    async def _send_batch(self, client: Client, calls: list[Bound[R]]) -> list[Job[R]]:
        call = calls[0]
        tenant = call.tenant or client.tenant
        if tenant != client.tenant:
            client = client.as_tenant(tenant)
        answers = await client.enqueue_batch(batch_of(calls), call.durability)
        return [self._job(each, answers, at, tenant) for at, each in enumerate(calls)]

    def _job(self, call: Bound[R], answers: Answers, at: int, tenant: str) -> Job[R]:
        if answers.other is None or at not in answers.other:
            return Job(self.home, call.reader, answers.ids[at], tenant)
        found = answers.other[at]
        return Job(self.home, call.reader, found.id, tenant, found.duplicate, found.replaced, found.error)

    async def patiently(self, client: Client, calls: list[Bound[R]]) -> list[Job[R]]:
        """What the store has no room for is sent again, until it has."""
        jobs = await self._send_all(client, calls)
        while full := [at for at, job in enumerate(jobs) if isinstance(job.error, Overloaded)]:
            pauses = [job.error.retry_after_ms for job in jobs if isinstance(job.error, Overloaded)]
            await asyncio.sleep(min(max(pauses) / 1_000, FULL_S))
            again = await self._send_all(client, [calls[at] for at in full])
            for at, job in zip(full, again, strict=True):
                jobs[at] = job
        return jobs

    # Work.

    @asynccontextmanager
    async def worker(
        self,
        *,
        queues: Sequence[str | tuple[str, int]] = (),
        concurrency: int = CONCURRENCY,
        tenants: Sequence[str] = (),
        name: str = "",
        version: str = "",
        strict: bool = False,
        stop: Duration = STOP_S,
        processes: int = 0,
        latency_target: Duration | None = None,
        memory_bytes: int = 0,
    ) -> AsyncIterator[Worker]:
        """A worker in this program: it works until the block is left, then lets its jobs end, for `stop` at most."""
        opened = await self.home.open()
        client = opened.as_tenant(opened.tenant, tenants)
        try:
            name = name or default_name()
            keeping = None
            if not self.is_embedded and self._tls is not None:
                log.warning(
                    "leases are renewed by the loop: a TLS context cannot be given to another process;"
                    " with SSL_CERT_FILE instead of it they are kept whatever a handler blocks"
                )
            elif not self.is_embedded:
                most = concurrency if latency_target is None else MOST
                records = 2 * most + UNSETTLED_MAX + sum(task.settings.batch for task in self.registry.tasks())
                names = [queue if isinstance(queue, str) else queue[0] for queue in queues or self.queues]
                names = names or list(queues_of(self.registry.tasks()))
                keeping = Keeping(self.url, self.token, client.tenant, list(tenants), name, records, names)
            worker = Worker(
                self.registry,
                client,
                queues=queues or self.queues,
                concurrency=concurrency,
                name=name,
                version=version,
                strict=strict,
                stop=stop,
                processes=processes,
                latency_target=latency_target,
                is_embedded=self.is_embedded,
                keeping=keeping,
                memory_bytes=memory_bytes,
            )
            await worker.start(claims=self.home.lets_workers_claim)
            try:
                yield worker
            finally:
                await worker.stop()
        finally:
            await self.home.close()

    # Jobs that exist.

    def job(self, id: int, *, tenant: str = "", returns: type[R] | None = None) -> Job[R]:
        """A handle of a job by its id."""
        reader = Reader(self.codecs, Any if returns is None else returns)
        return Job(self.home, reader, id, tenant or self._tenant or self.home.tenant)

    async def cancel(self, id: int) -> str:
        return await self.job(id).cancel()


class Decorator:
    """`@app.task(…)`: as a class, so that what it returns is typed by what it is put on."""

    def __init__(self, app: App, options: dict[str, Any]) -> None:
        self._app = app
        self._options = options

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], Awaitable[R]], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Task[..., Any]:
        return self._app.add_task(function, self._options)


class BatchDecorator:
    def __init__(self, app: App, options: dict[str, Any]) -> None:
        self._app = app
        self._options = options

    @overload
    def __call__(self, function: Callable[[list[T]], Awaitable[list[R]]], /) -> Task[[T], R]: ...
    @overload
    def __call__(self, function: Callable[[list[T]], list[R]], /) -> Task[[T], R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Task[..., Any]:
        return self._app.add_task(function, self._options)


def _settings(fields: dict[str, Any]) -> Settings:
    wait_ms = milliseconds("batch_wait", fields.pop("batch_wait", 0))
    known = set(Settings.__struct_fields__)
    for key in fields:
        if key not in known:
            from tenure.core.bound import nearest

            raise InvalidRequest(key, fields[key], "there is no such option; " + nearest(key, [*known, *OF_TASKS]))
    for key in ("retry_on", "permanent", "search", "aliases"):
        if key in fields:
            value = fields[key]
            fields[key] = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    run = fields.get("run", "")
    if run and run not in MODES:
        raise InvalidRequest("run", run, "it must be one of " + ", ".join(MODES))
    return Settings(**fields, batch_wait_ms=wait_ms)


def _same(client: Client) -> Client:
    return client


def _sending(app: App, calls: list[Bound[R]]) -> Callable[[Client], Awaitable[list[Job[R]]]]:
    return lambda client: app.patiently(client, calls)


def _go_together(one: Bound[Any], other: Bound[Any]) -> bool:
    return one.tenant == other.tenant and one.durability == other.durability


async def _chunks(calls: Iterable[Bound[R]] | AsyncIterable[Bound[R]]) -> AsyncIterator[list[Bound[R]]]:
    if isinstance(calls, AsyncIterable):
        chunk: _Chunk[R] = _Chunk()
        async for call in calls:
            if full := chunk.add(call):
                yield full
        if chunk.calls:
            yield chunk.calls
    else:
        for full in _sync_chunks(calls):
            yield full


def _sync_chunks(calls: Iterable[Bound[R]]) -> Iterator[list[Bound[R]]]:
    chunk: _Chunk[R] = _Chunk()
    for call in calls:
        if full := chunk.add(call):
            yield full
    if chunk.calls:
        yield chunk.calls


class _Chunk(Generic[R]):
    """Calls for one request: bounded in number and in bytes."""

    def __init__(self) -> None:
        self.calls: list[Bound[R]] = []
        self._size = 0

    def add(self, call: Bound[R]) -> list[Bound[R]]:
        """The calls before this one, if there is no more room with them."""
        full: list[Bound[R]] = []
        if self.calls and (len(self.calls) == CHUNK or self._size + len(call.payload) > CHUNK_BYTES):
            full, self.calls, self._size = self.calls, [], 0
        self.calls.append(call)
        self._size += len(call.payload)
        return full
