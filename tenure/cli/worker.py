"""`tenure worker MODULE:APP`: runs the tasks of an app until it is told to stop."""

import asyncio
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer
from rich.table import Table

from tenure.cli.screen import show_line, show_table
from tenure.core.error import InvalidRequest

if TYPE_CHECKING:
    from tenure.app.app import App
    from tenure.worker.worker import Worker

AppName = Annotated[
    str, typer.Argument(metavar="MODULE:APP", help="The module, and what the app is called in it: tasks:app.")
]
Queues = Annotated[
    str | None,
    typer.Option(
        metavar="A,B*,C:3",
        help="Queues to work on: names, prefixes with *, weights after a colon; those of the tasks if not given.",
    ),
]
Concurrency = Annotated[str, typer.Option(metavar="N|auto", help="How many jobs to run at once, or auto to find out.")]
Processes = Annotated[int, typer.Option(help="How many processes for tasks that run in them; 0: one per core.")]
Reload = Annotated[bool, typer.Option(help="Start anew when a source file changes.")]
LogLevel = Annotated[str, typer.Option(help="debug, info, warning or error.")]
UNITS = {"k": 1024, "m": 1024**2, "g": 1024**3}


def worker(
    app: AppName,
    queues: Queues = None,
    concurrency: Concurrency = "10",
    processes: Processes = 0,
    latency_target: Annotated[str, typer.Option(help="With auto: how long jobs may take, for 19 of 20.")] = "1s",
    memory: Annotated[str, typer.Option(help="What a process may keep before it is replaced, such as 512M.")] = "",
    burst: Annotated[bool, typer.Option(help="End when there is nothing more to do.")] = False,
    strict: Annotated[bool, typer.Option(help="Take the queues in their order instead of by weight.")] = False,
    tenants: Annotated[
        str, typer.Option(metavar="A,B|*", help="Whose jobs; those of the app's tenant by default.")
    ] = "",
    name: Annotated[str, typer.Option(help="Of this worker; made up if not given.")] = "",
    version: Annotated[str, typer.Option(help="Of your program, shown with the worker.")] = "",
    stop: Annotated[str, typer.Option(help="How long jobs may take to end at a stop.")] = "30s",
    health_host: Annotated[str, typer.Option(help="Address for /healthz.")] = "127.0.0.1",
    health_port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Serve /livez and /healthz on this port.")
    ] = None,
    url: Annotated[str | None, typer.Option(envvar="TENURE_URL", help="URL of the store or server.")] = None,
    reload: Reload = False,
    log_level: LogLevel = "info",
) -> None:
    """Run the tasks of an app until it is told to stop: then its jobs may end, and what has not is given back."""
    from tenure.app.load import load_app

    if reload and os.environ.get("TENURE_RELOADED") != "1":
        from tenure.worker.reload import run_reloading

        sys.exit(run_reloading([sys.executable, "-m", "tenure", *sys.argv[1:]]))
    _log(log_level)
    found = load_app(app)
    if url:
        found.use(url)
    limit, target = _concurrency(concurrency, latency_target)
    options: dict[str, Any] = {
        "queues": queues_of(queues),
        "concurrency": limit,
        "latency_target": target,
        "processes": processes,
        "memory_bytes": bytes_of(memory),
        "strict": strict,
        "tenants": [each for each in tenants.split(",") if each],
        "name": name,
        "version": version,
        "stop": stop,
    }
    import uvloop

    uvloop.run(_work(found, options, burst, (health_host, health_port)))


async def _work(app: "App", options: dict[str, Any], burst: bool, health: tuple[str, int | None]) -> None:
    from tenure.worker.health import Health

    async with app.worker(**options) as worker:
        asked = _listen(worker)
        answering = None
        if health[1] is not None:
            answering = Health(health[0], health[1], lambda: worker.health)
            answering.start()
        try:
            show_worker(app, worker, answering.port if answering else None)
            working: list[asyncio.Future[Any]] = [asyncio.ensure_future(asked.wait())]
            working.append(asyncio.ensure_future(worker.asked_to_stop.wait()))
            if burst:
                working.append(asyncio.ensure_future(worker.until_idle()))
            await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)
            for each in working:
                each.cancel()
            if asked.is_set() or worker.asked_to_stop.is_set():
                show_line(f"stopping: {len(worker.running)} jobs may end within {worker.stop_s:.0f} s")
            await worker.stop()
        finally:
            if answering is not None:
                answering.stop()
    show_line(f"stopped after {worker.ended} jobs")


def _listen(worker: "Worker") -> asyncio.Event:
    """Set by the first signal; the second one lets nothing end that has not."""
    asked = asyncio.Event()

    def stop() -> None:
        if asked.is_set():
            worker.hurry()
        asked.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    return asked


def show_worker(app: "App", worker: "Worker", health_port: int | None) -> None:
    """What works here: tasks, queues, store."""
    table = Table(
        "task", "queue", "runs in", "attempts", "timeout", title=f"worker {worker.name}", title_justify="left"
    )
    for task in worker.registry.tasks():
        options = task.shared[0]
        runs_in = f"{task.mode}, batches of {task.settings.batch}" if task.settings.batch else task.mode
        attempts = str(options.max_attempts or "unlimited")
        table.add_row(task.name, options.queue, runs_in, attempts, _seconds(options.timeout_ms))
    show_table(table)
    show_line(f"store     {without_secret(app.url)} ({app.url_source})")
    show_line(f"queues    {', '.join(shown(queue) for queue in worker.queues)}")
    limit = f"{worker.here.limit}, found out from here on" if worker.is_adapting else str(worker.here.limit)
    show_line(f"at once   {limit}; in processes {worker.beside.limit}")
    if health_port is not None:
        show_line(f"health    port {health_port}, /healthz")


def _seconds(ms: int) -> str:
    return f"{ms / 1000:g} s" if ms else "none"


def shown(queue: str | tuple[str, int]) -> str:
    return queue if isinstance(queue, str) else f"{queue[0]}:{queue[1]}"


def without_secret(url: str) -> str:
    parts = urlsplit(url)
    return url if parts.password is None else url.replace(f":{parts.password}@", ":***@")


def _log(level: str) -> None:
    known = ("debug", "info", "warning", "error")
    if level not in known:
        raise InvalidRequest("log-level", level, "it must be one of " + ", ".join(known))
    from tenure.server.logs import TextLines

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextLines("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler])


def queues_of(text: str | None) -> list[str | tuple[str, int]]:
    found: list[str | tuple[str, int]] = []
    for each in (text or "").split(","):
        name, _, weight = each.strip().partition(":")
        if weight:
            if not weight.isdecimal():
                raise InvalidRequest("queues", each, "a weight is a whole number, as in email:3")
            found.append((name, int(weight)))
        elif name:
            found.append(name)
    return found


def _concurrency(text: str, latency_target: str) -> tuple[int, str | None]:
    if text == "auto":
        from tenure.worker.adapt import FIRST

        return FIRST, latency_target
    if not text.isdecimal() or int(text) < 1:
        raise InvalidRequest("concurrency", text, "it must be a whole number from 1 on, or auto")
    return int(text), None


def bytes_of(text: str) -> int:
    if not text:
        return 0
    unit = UNITS.get(text[-1].lower(), 0)
    digits = text[:-1] if unit else text
    if not digits.isdecimal():
        raise InvalidRequest("memory", text, "it must be a number of bytes, or one with K, M or G")
    return int(digits) * (unit or 1)
