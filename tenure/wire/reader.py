"""Reads commands: in one go by their structs, and field by field where that fails.

Names in the other style (`runAt` for `run_at`), older names and unknown fields are found in the second reading, also
in the parts of a command, and whatever is wrong is named. There a client of the older protocol may say null for every
field that it could have left out.
"""

from contextlib import suppress
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Raw, Struct

from tenure.core.bound import nearest
from tenure.core.error import Error, InvalidRequest, Unsupported
from tenure.wire.command import (
    COMMANDS,
    IN_FULL,
    OLD_NAMES,
    UNSUPPORTED,
    AnyCommand,
    AnyInMessagePack,
    Command,
    PushManyItems,
)
from tenure.wire.format import MSGPACK_FORMAT, NONSENSE, Format
from tenure.wire.option import ALIASES, DURATIONS, Few, Item, JustData, duration_of

SHOWN_BYTES_MAX = 4_096  # of a wrong value, in an error
FIELDS_MAX = 200  # of a command, and of a job in a batch
NAME_CHARS_MAX = 64  # a longer one is no field's
NAMED_MAX = 16  # unknown fields of a message that are named; the others are counted
UNKNOWN_MAX = 10_000  # unknown fields of a message that are looked at


class Reader:
    """Reads commands in one format. With `takes_text` durations may be text with a unit: `"5m"`."""

    def __init__(self, form: Format, takes_text: bool = False) -> None:
        self.form = form
        self._takes_text = takes_text
        self._any = form.decoder(Any)
        self._list = form.decoder(list[Raw])
        self._read = form.decoder(AnyInMessagePack if form is MSGPACK_FORMAT else AnyCommand)
        self._plain_jobs = form.decoder(Few[JustData])
        self._fields = form.decoder(dict[str, Raw])
        self._list = form.decoder(Few[Raw])
        self._text = form.decoder(str)
        self._parts: dict[tuple[type[Struct], str], Any] = {}
        self.warnings: list[str] = []  # of the last command: what was ignored in it
        self._unknown = 0  # fields of the last command
        self.req_id: str | int | None = None  # of the last command that could not be read
        self._id = form.decoder(str | int | None)
        self._none = Raw(form.encode(None))

    def read(self, body: bytes, is_strict: bool) -> Command:
        """`is_strict` refuses fields that it does not know; else they are ignored, with a warning."""
        self.warnings = []  # the last list may be that of a command that still waits
        self._unknown = 0
        try:
            found: Command = self._read(body)
            return found
        except NONSENSE:
            return self._read_slowly(body, is_strict)

    def _read_slowly(self, body: bytes, is_strict: bool) -> Command:
        self.req_id = None
        try:
            fields: dict[str, Raw] = self._fields(body)
        except NONSENSE as error:
            raise InvalidRequest("request", body[:60], f"it must be a map of text to values: {error}") from error
        with suppress(*NONSENSE):
            self.req_id = self._id(fields.get("reqId", fields.get("req_id", self._none)))
        if "cmd" not in fields:
            raise InvalidRequest("cmd", None, "every request names its command")
        try:
            name = self._text(fields.pop("cmd"))
        except NONSENSE as error:
            raise InvalidRequest("cmd", body[:60], "it must be text") from error
        kind = IN_FULL.get(name if is_strict else OLD_NAMES.get(name, name))
        if name in UNSUPPORTED:
            raise Unsupported(name)
        if kind is None:
            raise InvalidRequest("cmd", name, "there is no such command; " + nearest(name.upper(), COMMANDS))
        found: Command = self.build(kind, fields, is_strict)
        return found

    def build(self, kind: Any, fields: dict[str, Raw], is_strict: bool, prefix: str = "") -> Any:
        """A struct from its fields, each read on its own. `prefix` is where it stands in the command, for errors."""
        if len(fields) > FIELDS_MAX:
            raise InvalidRequest("request", f"{len(fields)} fields", f"there may be {FIELDS_MAX}")
        known = {shown: own for own, shown in zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)}
        values: dict[str, object] = {}
        for name, data in fields.items():
            own = find_name(name, known)
            if own is None:
                self._note_unknown(prefix, name, known, is_strict)
                continue
            if not is_strict and data == self._none and not _is_needed(kind, own):
                continue
            values[own] = self._part(kind, own, prefix + name, data, is_strict)
        try:
            return kind(**values)
        except TypeError:
            missing = [name for name in kind.__struct_fields__ if name not in values and _is_needed(kind, name)]
            raise InvalidRequest(prefix + missing[0] if missing else "request", None, "it is needed") from None

    def _note_unknown(self, prefix: str, name: str, known: dict[str, str], is_strict: bool) -> None:
        """The first ones are named. What a message with very many of them costs is bounded."""
        self._unknown += 1
        is_named = self._unknown <= NAMED_MAX
        shown = prefix + (name if len(name) <= NAME_CHARS_MAX else name[: NAME_CHARS_MAX - 1] + "…")
        if is_strict:
            advice = f"; {nearest(name, known)}" if is_named else ""
            raise InvalidRequest(shown, "given", f"there is no such field{advice}")
        if self._unknown > UNKNOWN_MAX:
            raise InvalidRequest(shown, "given", f"a message may have {UNKNOWN_MAX:,} unknown fields")
        if is_named:
            self.warnings.append(f"{shown} is not known and was ignored")
            return
        if self._unknown == NAMED_MAX + 1:
            self.warnings.append("")
        self.warnings[-1] = f"and {self._unknown - NAMED_MAX} more fields that are not known were ignored"

    def jobs(self, data: Raw) -> list[Any]:
        """Of a batch."""
        try:
            found: list[Any] = self._plain_jobs(data)
        except NONSENSE:
            found = self._part(PushManyItems, "jobs", "jobs", data, True)  # each is read on its own
        return found

    def item(self, data: Raw, is_strict: bool) -> Item | Error:
        """One job of a batch; what is wrong with it is its own affair."""
        try:
            found: Item = self.build(Item, self._fields(data), is_strict)
        except InvalidRequest as error:
            return error
        except NONSENSE as error:
            return InvalidRequest("jobs", bytes(data)[:60], f"each must be a map of text to values: {error}")
        return found

    def _part(self, kind: type[Struct], own: str, name: str, data: Raw, is_strict: bool) -> Any:
        decode = self._parts.get((kind, own))
        if decode is None:
            decode = self._parts[(kind, own)] = self.form.decoder(get_type_hints(kind, include_extras=True)[own])
        try:
            return decode(data)
        except NONSENSE as error:
            if self._takes_text and own in DURATIONS:
                text = self._any(data)
                if isinstance(text, str):
                    return duration_of(name, text)
            of_one, of_each, takes_none = _inner(kind, own)
            with suppress(*NONSENSE):  # where it is no map, or no list of maps, the first error says what it must be
                if of_one is not None:
                    return self.build(of_one, self._fields(data), is_strict, f"{name}.")
                if of_each is not None:
                    return [
                        None if fields is None else self.build(of_each, fields, is_strict, f"{name}[{at}].")
                        for at, fields in enumerate(self._maps(data, takes_none))
                    ]
            raise InvalidRequest(name, _said(self.form, data), str(error)) from error

    def _maps(self, data: Raw, takes_none: bool) -> list[dict[str, Raw] | None]:
        return [None if takes_none and each == self._none else self._fields(each) for each in self._list(data)]


def find_name(name: str, known: dict[str, str]) -> str | None:
    """The field that is meant, however it is written."""
    if name in known:
        return known[name]
    if len(name) > NAME_CHARS_MAX:
        return None
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    camel = "".join(part.title() if at else part for at, part in enumerate(name.split("_")))
    for tried in (snake, camel, ALIASES.get(snake, "")):
        if tried in known:
            return known[tried]
    return None


@cache
def _inner(kind: type[Struct], own: str) -> tuple[type[Struct] | None, type[Struct] | None, bool]:
    """The struct that a field may hold, that of which it may hold a list, and whether null may stand in the list."""
    hints = _members(get_type_hints(kind)[own])
    of_each = [found for hint in hints if get_origin(hint) is list for found in _members(get_args(hint)[0])]
    return _map_among(hints), _map_among(of_each), NoneType in of_each


def _members(hint: Any) -> list[Any]:
    return [hint] if get_origin(hint) not in (Union, UnionType) else list(get_args(hint))


def _map_among(hints: list[Any]) -> type[Struct] | None:
    for hint in hints:
        if isinstance(hint, type) and issubclass(hint, Struct) and not hint.__struct_config__.array_like:
            return hint
    return None


@cache
def _is_needed(kind: type[Struct], name: str) -> bool:
    return any(part.name == name and part.required for part in msgspec.structs.fields(kind))


def _said(form: Format, data: Raw) -> object:
    try:
        return form.decode(bytes(data)) if len(bytes(data)) < SHOWN_BYTES_MAX else bytes(data)[:60]
    except NONSENSE:
        return bytes(data)[:60]
