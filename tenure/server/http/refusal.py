"""What HTTP itself refuses, and how every error is said: `{"error", "code", "detail"}` with the status of the error."""

from msgspec import Struct

from tenure.core.error import Error
from tenure.wire.format import Format

Headers = list[tuple[bytes, bytes]]

JSON_TYPE = b"application/json"
MSGPACK_TYPE = b"application/msgpack"
CONTENT_TYPES = {"json": JSON_TYPE, "msgpack": MSGPACK_TYPE}
CLOSE = (b"connection", b"close")


class Refusal(Exception):
    """A request that never becomes a command: a path that does not exist, a body that cannot be read."""

    def __init__(self, status: int, code: str, message: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = headers


class Answer(Struct):
    status: int
    body: bytes
    headers: Headers

    @property
    def outcome(self) -> str:
        return "ok" if self.status < 400 else str(self.status)


def answer(status: int, fields: object, form: Format) -> Answer:
    body = form.encode(fields)
    headers = [(b"content-type", CONTENT_TYPES[form.name]), (b"content-length", b"%d" % len(body))]
    return Answer(status, body, headers)


def refuse(refusal: Refusal, form: Format) -> Answer:
    made = answer(refusal.status, {"error": refusal.message, "code": refusal.code, "detail": {}}, form)
    made.headers.extend(refusal.headers)
    return made


def say_error(error: Error, form: Format) -> Answer:
    fields: dict[str, object] = {"error": error.message, "code": error.code, "detail": error.fields}
    after_ms = error.fields.get("retry_after_ms")
    if after_ms is None and error.status == 503:
        after_ms = 1_000
    if isinstance(after_ms, int):
        fields["retryAfter"] = after_ms
    made = answer(error.status, fields, form)
    if isinstance(after_ms, int):
        made.headers.append((b"retry-after", b"%d" % max(-(-after_ms // 1_000), 1)))
    if error.status == 401:
        made.headers.append((b"www-authenticate", b'Bearer realm="tenure"'))
    return made
