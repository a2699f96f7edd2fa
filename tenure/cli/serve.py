"""`tenure serve`: the store, for every program that can connect."""

import asyncio
import logging
import signal
import sys
from typing import Annotated, Any

import typer
import uvloop
from rich.console import Console
from rich.table import Table

from tenure.server.auth import hash_token, make_token
from tenure.server.collector import collecting
from tenure.server.config import SECRET, Chosen, choose
from tenure.server.server import Server
from tenure.store.url import open_store

FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"

console = Console()


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
    stop_s: Annotated[float | None, typer.Option(help="How long requests may take to end at a stop.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    tls_cert: Annotated[str | None, typer.Option(help="Certificate for TLS, in PEM.")] = None,
    tls_key: Annotated[str | None, typer.Option(help="Its key.")] = None,
    tls_client_ca: Annotated[str | None, typer.Option(help="Who signs the certificates of clients.")] = None,
    config: Annotated[str, typer.Option(help="Settings file; tenure.toml is read if it is there.")] = "",
) -> None:
    """Serve a store over TCP, a Unix socket, HTTP and gRPC until it is told to stop."""
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
        "stop_s": stop_s,
        "log_level": log_level,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
        "tls_client_ca": tls_client_ca,
    }
    chosen = choose({name: value for name, value in given.items() if value is not None}, file=config)
    logging.basicConfig(level=chosen.settings.log_level.upper(), format=FORMAT, stream=sys.stderr)
    uvloop.run(_serve(chosen))


async def _serve(chosen: Chosen) -> None:
    settings = chosen.settings
    server = Server(settings, open_store(settings.store))
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await server.start()
    async with collecting(lambda: server.handler.requests):
        show(chosen, server)
        await stop.wait()
    console.print("stopping")
    await server.stop()


def show(chosen: Chosen, server: Server) -> None:
    table = Table("setting", "value", "from", title="Tenure", title_justify="left")
    for name, source in chosen.sources.items():
        value = getattr(chosen.settings, name)
        shown = ("given" if value else "none") if name in SECRET else str(value)
        table.add_row(name, shown, source)
    console.print(table)
    if chosen.settings.tcp:
        console.print(f"listening on {chosen.settings.host}:{server.tcp_port}")
    if chosen.settings.unix:
        console.print(f"listening on {chosen.settings.unix}")
    if chosen.settings.http:
        console.print(f"listening on http://{chosen.settings.host}:{server.http_port}")
    if chosen.settings.grpc:
        console.print(f"listening on {chosen.settings.host}:{server.grpc_port} for gRPC")
    if server.gate.is_open:
        console.print("there are no tokens: whoever can connect may do everything")


def token() -> None:
    """Make a token: what to give to its holder, and what to put into the server's settings."""
    made = make_token()
    console.print(f"token   {made}", soft_wrap=True)
    console.print(f"sha256  {hash_token(made)}", soft_wrap=True)
