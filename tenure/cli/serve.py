"""`tenure serve`: the store, for every program that can connect."""

import logging
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from tenure.cli.screen import show_line, show_table

if TYPE_CHECKING:
    from tenure.server.config import Chosen, Settings
    from tenure.server.server import Server

FILES_BESIDES = 500  # of the store, of gRPC, of everything that is no connection

log = logging.getLogger("tenure.server")


def serve(
    store: Annotated[str | None, typer.Option(help="URL of the store.")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    tcp: Annotated[bool | None, typer.Option(help="Listen on TCP.")] = None,
    tcp_port: Annotated[int | None, typer.Option(help="Port for TCP.")] = None,
    unix: Annotated[str | None, typer.Option(help="Path of a Unix socket to listen on, too.")] = None,
    http: Annotated[bool | None, typer.Option(help="Listen for HTTP.")] = None,
    http_port: Annotated[int | None, typer.Option(help="Port for HTTP.")] = None,
    cors_origins: Annotated[list[str] | None, typer.Option(help="An origin whose pages may call; repeat it.")] = None,
    grpc: Annotated[bool | None, typer.Option(help="Listen for gRPC.")] = None,
    grpc_port: Annotated[int | None, typer.Option(help="Port for gRPC.")] = None,
    connections_max: Annotated[int | None, typer.Option(metavar="N", help="Connections at once.")] = None,
    connections_per_address: Annotated[
        int | None, typer.Option(metavar="N", help="Of them from one address; 0 is half of them.")
    ] = None,
    lake: Annotated[
        str | None, typer.Option(metavar="URL", help="Export events there: a folder, or s3://bucket/prefix.")
    ] = None,
    lake_every: Annotated[str | None, typer.Option(metavar="60s", help="How often.")] = None,
    lake_rows: Annotated[int | None, typer.Option(metavar="N", help="Events in a file, at most.")] = None,
    lake_compact: Annotated[bool | None, typer.Option(help="Merge small files into larger ones.")] = None,
    lake_retention: Annotated[str | None, typer.Option(metavar="90d", help="Drop older events from the lake.")] = None,
    lake_grace: Annotated[str | None, typer.Option(metavar="1h", help="How long dropped files stay.")] = None,
    stop_s: Annotated[float | None, typer.Option(help="How long requests may take to end at a stop.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, typer.Option(help="text, or json: one object a line.")] = None,
    tls_cert: Annotated[str | None, typer.Option(help="Certificate for TLS, in PEM.")] = None,
    tls_key: Annotated[str | None, typer.Option(help="Its key.")] = None,
    tls_client_ca: Annotated[str | None, typer.Option(help="Who signs the certificates of clients.")] = None,
    config: Annotated[str, typer.Option(help="Settings file; tenure.toml is read if it is there.")] = "",
) -> None:
    """Serve a store over TCP, a Unix socket, HTTP and gRPC until it is told to stop."""
    import uvloop

    from tenure.server import logs
    from tenure.server.config import choose

    given: dict[str, Any] = {
        "store": store,
        "host": host,
        "tcp": tcp,
        "tcp_port": tcp_port,
        "unix": unix,
        "http": http,
        "http_port": http_port,
        "cors_origins": cors_origins or None,
        "grpc": grpc,
        "grpc_port": grpc_port,
        "connections_max": connections_max,
        "connections_per_address": connections_per_address,
        "lake": lake,
        "lake_every": lake_every,
        "lake_rows": lake_rows,
        "lake_compact": lake_compact,
        "lake_retention": lake_retention,
        "lake_grace": lake_grace,
        "stop_s": stop_s,
        "log_level": log_level,
        "log_format": log_format,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
        "tls_client_ca": tls_client_ca,
    }
    flags = {name: value for name, value in given.items() if value is not None}
    chosen = choose(flags, file=config)
    logs.set_up(chosen.settings.log_level, chosen.settings.log_format)
    uvloop.run(_serve(chosen, config or "tenure.toml", lambda: choose(flags, file=config).settings))


async def _serve(chosen: "Chosen", config: str, read: Callable[[], "Settings"]) -> None:
    import asyncio

    import msgspec

    from tenure.server.collector import collecting
    from tenure.server.reload import Reloader
    from tenure.server.server import Server
    from tenure.store.url import open_store

    connections = room_for(chosen.settings.connections_max)
    settings = msgspec.structs.replace(chosen.settings, connections_max=connections)
    server = Server(settings, open_store(settings.store))
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    reloader = Reloader(server, chosen.settings, read, config)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reloader.ask)
    await server.start()
    await reloader.start()
    async with collecting(lambda: server.handler.requests):
        show(chosen, server)
        await stop.wait()
    say(settings, "stopping")
    await reloader.stop()
    await server.stop()
    say(settings, "stopped")


def room_for(connections: int) -> int:
    """How many of them the system allows, after it was asked to allow more files."""
    import resource

    wanted = connections + FILES_BESIDES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):
        most = soft
    room = max(min(connections, most - FILES_BESIDES), 1)
    if room < connections:
        log.warning("room for %d connections, not %d: raise the limit of open files (LimitNOFILE)", room, connections)
    return room


def say(settings: "Settings", text: str) -> None:
    """To whoever watches; when machines do, in their language."""
    if settings.log_format == "json":
        log.info(text)
    else:
        show_line(text)


def show(chosen: "Chosen", server: "Server") -> None:
    settings = chosen.settings
    if settings.log_format == "json":
        log.info("settings", extra={"fields": {"settings": chosen.shown(), "sources": chosen.sources}})
    else:
        table = Table("setting", "value", "from", title="Tenure", title_justify="left")
        for name, value in chosen.shown().items():
            table.add_row(name, value, chosen.sources[name])
        show_table(table)
    if settings.tcp:
        say(settings, f"listening on {settings.host}:{server.tcp_port}")
    if settings.unix:
        say(settings, f"listening on {settings.unix}")
    if settings.http:
        say(settings, f"listening on http://{settings.host}:{server.http_port}")
    if settings.grpc:
        say(settings, f"listening on {settings.host}:{server.grpc_port} for gRPC")
    if server.gate.is_open:
        say(settings, "there are no tokens: whoever can connect may do everything")
