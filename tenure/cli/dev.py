"""`tenure dev MODULE:APP`: everything a developer needs in one process tree: server, worker, reload."""

import os
import signal
import socket
import subprocess
import sys
from typing import Annotated

import typer

from tenure.cli.screen import show_line
from tenure.cli.worker import AppName, Concurrency, LogLevel, Queues

HTTP_PORT = 6790
STOP_S = 20.0


def dev(
    app: AppName,
    queues: Queues = None,
    concurrency: Concurrency = "10",
    tcp_port: Annotated[int, typer.Option(min=0, max=65_535, help="Port of the server for TCP.")] = 6789,
    http_port: Annotated[int, typer.Option(min=0, max=65_535, help="Port of the server for HTTP.")] = HTTP_PORT,
    reload: Annotated[bool, typer.Option(help="Start the worker anew when a source file changes.")] = True,
    log_level: LogLevel = "info",
) -> None:
    """Serve the app's store and run its tasks, for development: Ctrl-C ends both, changed files start it anew."""
    from tenure.app.load import load_app
    from tenure.worker.reload import run_reloading

    found = load_app(app)
    server = None
    url = found.url
    if found.is_embedded:
        tcp_port, http_port = tcp_port or free_port(), http_port or free_port()
        url = f"tenure://127.0.0.1:{tcp_port}"
        server = _serve(found.url, tcp_port, http_port)
        show_line(f"serving {found.url} at {url} and http://127.0.0.1:{http_port}/docs")
    work = [sys.executable, "-m", "tenure", "worker", app, "--concurrency", concurrency, "--url", url]
    work += ["--log-level", log_level, *(["--queues", queues] if queues else [])]
    try:
        if reload:
            code = run_reloading(work)
        else:
            code = _run(work)
    finally:
        if server is not None:
            server.send_signal(signal.SIGTERM)
            server.wait(STOP_S)
    sys.exit(code)


def _serve(store: str, tcp_port: int, http_port: int) -> subprocess.Popen[bytes]:
    """In a session of its own, so that Ctrl-C reaches the worker first; it ends with this process, whatever ends it."""
    command = [sys.executable, "-m", "tenure", "serve", "--store", store, "--tcp-port", str(tcp_port)]
    command += ["--http-port", str(http_port), "--no-grpc", "--log-level", "warning"]
    from tenure.worker.parent import end_with_parent

    return subprocess.Popen(command, start_new_session=True, preexec_fn=lambda: end_with_parent(signal.SIGTERM))


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _run(command: list[str]) -> int:
    process = subprocess.Popen(command, env={**os.environ, "TENURE_RELOADED": "1"}, start_new_session=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: process.send_signal(number))
    return process.wait()
