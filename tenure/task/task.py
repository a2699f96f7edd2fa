"""A function that can be run elsewhere: `@app.task`. Calling it runs it here; `enqueue` makes a job of the call."""

import inspect
from collections.abc import Callable
from functools import cached_property, update_wrapper
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, Unpack

import msgspec

from tenure.core import bound as bounds
from tenure.core.error import InvalidRequest
from tenure.core.job import Options
from tenure.task import binary
from tenure.task.binary import bytes_in
from tenure.task.bound import Bound
from tenure.task.codec import Codec, Codecs, Decode, Undecodable, Unencodable
from tenure.task.job import Job
from tenure.task.option import BY_ARGUMENTS, JobOptions, extras_of, read_options
from tenure.task.result import Reader
from tenure.task.schema import Upcaster, Versions
from tenure.task.signature import Signature
from tenure.task.trace import current_trace

P = ParamSpec("P")
R = TypeVar("R")

ASYNC = "async"
THREAD = "thread"
PROCESS = "process"
MODES = (ASYNC, THREAD, PROCESS)
METADATA_TEXT_MAX = 256


class Sender(Protocol):
    """Who stores jobs: the app."""

    @property
    def codecs(self) -> Codecs: ...

    async def send(self, call: Bound[R]) -> Job[R]: ...

    def send_sync(self, call: Bound[R]) -> Job[R]: ...


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Of a task, besides the options of its jobs."""

    codec: str = ""
    run: str = ""
    retry_on: tuple[type[BaseException], ...] = ()
    permanent: tuple[type[BaseException], ...] = ()
    search: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    batch: int = 0  # jobs in one call; 0: each alone
    batch_wait_ms: int = 0
    emits: Any = Any
    on_success: Callable[..., Any] | None = None
    on_failure: Callable[..., Any] | None = None


class Task(Generic[P, R]):
    def __init__(
        self,
        sender: Sender,
        function: Callable[..., Any],
        name: str,
        options: dict[str, Any],
        settings: Settings,
        versions: Versions,
    ) -> None:
        self.function = function
        self.name = str(bounds.name("task", name))
        self.settings = settings
        self.versions = versions
        self._sender = sender
        self._by_arguments = {key: value for key, value in options.items() if key in BY_ARGUMENTS and callable(value)}
        self._given = {key: value for key, value in options.items() if key not in self._by_arguments}
        for key in ("limit_keys", "tags"):  # read once per job, and a generator can be read once
            if key in self._given and not isinstance(self._given[key], str):
                self._given[key] = tuple(self._given[key])
        self._variants: dict[tuple[str, ...], Options] = {}
        update_wrapper(self, function)
        if settings.run == ASYNC and not inspect.iscoroutinefunction(function):
            raise InvalidRequest("run", settings.run, f"{name} is no coroutine function; leave it out, or make it one")
        read_options(self._given)  # a wrong option is refused where it is written

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Runs the function, here and now."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    @property
    def sender(self) -> Sender:
        return self._sender

    @property
    def has_hooks(self) -> bool:
        return self.settings.on_success is not None or self.settings.on_failure is not None

    # What is worked out at the first use: annotations may name what is defined further down.

    @cached_property
    def signature(self) -> Signature:
        return Signature(self.function, self.settings.batch > 0)

    @cached_property
    def codec(self) -> Codec:
        found = self._sender.codecs.get(self.settings.codec or self._sender.codecs.default)
        if self.settings.search and getattr(found, "is_sealed", False):
            rule = f"codec {found.name!r} seals the arguments; what may be seen of them goes into metadata by hand"
            raise InvalidRequest(f"{self.name} search", self.settings.search, rule)
        return found

    @cached_property
    def reader(self) -> Reader:
        return Reader(self._sender.codecs, self.signature.returns, self.settings.emits)

    @cached_property
    def shared(self) -> tuple[Options, dict[str, Any]]:
        """The options of all jobs that are given none of their own, and what each of them has besides."""
        return self._read({})

    @cached_property
    def _decode(self) -> Decode:
        return self.codec.decoder(self.signature.arguments)

    @cached_property
    def mode(self) -> str:
        return self.settings.run or (ASYNC if self.signature.is_async else THREAD)

    # Reading jobs.

    def read(self, payload: bytes, codec: str, version: int) -> msgspec.Struct:
        """The arguments of a job, whichever version and codec wrote it; raises `Undecodable` and nothing else."""
        try:
            return self._read_arguments(payload, codec, version)
        except Undecodable:
            raise
        except Exception as error:  # a codec that is not registered here, or that breaks its word
            raise Undecodable(f"codec {codec!r}: {error}") from error

    def _read_arguments(self, payload: bytes, codec: str, version: int) -> msgspec.Struct:
        if codec == self.codec.name and version >= self.versions.current:
            found: msgspec.Struct = self._decode(payload)
            return found
        written_by = self.codec_named(codec)
        if version < self.versions.current:
            fields = self.versions.upcast(written_by.decoder(dict[str, Any])(payload), version)
            payload = written_by.encode(fields)
        upcast: msgspec.Struct = written_by.decoder(self.signature.arguments)(payload)
        return upcast

    def codec_named(self, name: str) -> Codec:
        return self.codec if name == self.codec.name else self._sender.codecs.get(name)

    def write(self, codec: str, value: object) -> bytes:
        """A result or an emitted item, by the codec of its job; raises `Unencodable` and nothing else."""
        try:
            return self.codec_named(codec).encode(value)
        except Unencodable:
            raise
        except Exception as error:
            raise Unencodable(f"codec {codec!r}: {error}") from error

    def upcast(self, from_version: int) -> Callable[[Upcaster], Upcaster]:
        """Registers how the members that version n wrote become those of version n + 1."""

        def register(upcaster: Upcaster) -> Upcaster:
            self.versions.add(from_version, upcaster)
            return upcaster

        return register

    # Making jobs.

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        return await self._sender.send(self.make(args, kwargs))

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        return self._sender.send_sync(self.make(args, kwargs))

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Bound[R]:
        """The call, checked and written down, to be enqueued by whoever gets it."""
        return self.make(args, kwargs)

    def options(self, **options: Unpack[JobOptions]) -> "Prepared[P, R]":
        """The same task with other options."""
        return Prepared(self, dict(options))

    def make(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        chosen: "tuple[Options, dict[str, Any]] | None" = None,
        tenant: str = "",
        durability: str = "",
    ) -> Bound[R]:
        """The call as it is stored; what its workers could not read is refused here."""
        values = self.signature.bind(args, kwargs)
        try:
            payload = self.codec.encode(values)
            read = self._decode(payload)
        except (Unencodable, Undecodable) as error:
            raise InvalidRequest(f"{self.name} arguments", values, self._why(values, error)) from None
        given = bytes_in(values.values())
        if given and not given <= bytes_in([read]):
            raise InvalidRequest(f"{self.name} arguments", values, binary.RULE)
        return self.wrap(values, payload, chosen or self.shared, tenant, durability)

    def _why(self, values: dict[str, Any], error: Exception) -> str:
        """What a sealed codec keeps back is said to whoever has the arguments anyway."""
        inner: Codec = getattr(self.codec, "inner", self.codec)
        try:
            inner.decoder(self.signature.arguments)(inner.encode(values))
        except (Unencodable, Undecodable) as plain:
            return str(plain)
        return str(error)

    def wrap(
        self,
        values: dict[str, Any],
        payload: bytes,
        chosen: tuple[Options, dict[str, Any]],
        tenant: str = "",
        durability: str = "",
    ) -> Bound[R]:
        options, own = chosen
        trace = current_trace()
        if self._by_arguments or self.settings.search or trace:
            own = dict(own)
            values = {**self.signature.defaults, **values}  # as the function will see them
            for key, choose in self._by_arguments.items():
                if key == "limit_keys":
                    if options.limit_keys:
                        continue  # said with `options`
                    options = self._with_limit_keys(options, tuple(choose(**values)))
                elif key not in own:
                    own[key] = choose(**values)
            if self.settings.search:
                found = {key: str(values[key])[:METADATA_TEXT_MAX] for key in self.settings.search if key in values}
                own["metadata"] = found | own.get("metadata", {})
            if trace:
                own.setdefault("trace", trace)
        return Bound(self.reader, payload, options, extras_of(own), tenant, durability)

    def _with_limit_keys(self, options: Options, keys: tuple[str, ...]) -> Options:
        """Options are shared by the thousand, so those of the same keys are one object."""
        if options is not self.shared[0]:
            return with_limit_keys(options, keys)
        found = self._variants.get(keys)
        if found is None:
            if len(self._variants) >= 1_000:
                self._variants.clear()
            found = self._variants[keys] = with_limit_keys(options, keys)
        return found

    def _read(self, fields: dict[str, Any]) -> tuple[Options, dict[str, Any]]:
        given = {**self._given, **fields, "task": self.name, "codec": self.codec.name}
        if self.versions.current:
            given["schema_version"] = self.versions.current
        return read_options(given)


def with_limit_keys(options: Options, keys: tuple[str, ...]) -> Options:
    """The same with other keys."""
    bounds.OPTION_RULES["limit_keys"]("limit_keys", keys)
    found = Options()
    for name in bounds.OPTION_RULES:
        setattr(found, name, getattr(options, name))
    found.limit_keys = keys
    return found


class Prepared(Generic[P, R]):
    """A task with options for its next jobs."""

    def __init__(self, task: Task[P, R], options: dict[str, Any]) -> None:
        self._task = task
        self._tenant: str = options.pop("tenant", "")
        if self._tenant:
            bounds.tenant_name("tenant", self._tenant)
        self._durability: str = options.pop("durability", "")
        self._chosen = task._read(options)

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        return await self._task._sender.send(self.bind(*args, **kwargs))

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        return self._task._sender.send_sync(self.bind(*args, **kwargs))

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Bound[R]:
        return self._task.make(args, kwargs, self._chosen, self._tenant, self._durability)
