"""Whether a worker works, over HTTP: `/livez` answers, `/healthz` fails when it is alive and does not claim.

It is served from a thread, so that it can say that the loop is blocked.
"""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Health:
    def __init__(self, host: str, port: int, trouble: Callable[[], str]) -> None:
        """`trouble` says what is wrong; nothing when all is well."""
        self._server = ThreadingHTTPServer((host, port), _answering(trouble))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="tenure-health", daemon=True)

    @property
    def port(self) -> int:
        return self._server.server_port

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _answering(trouble: Callable[[], str]) -> type[BaseHTTPRequestHandler]:
    class Answering(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            if self.path in ("/healthz", "/readyz"):
                found = trouble()
                self._say(503 if found else 200, found or "ok")
            elif self.path == "/livez":
                self._say(200, "ok")
            else:
                self._say(404, "there are /livez, /healthz and /readyz")

        def _say(self, status: int, text: str) -> None:
            body = text.encode() + b"\n"
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    return Answering
