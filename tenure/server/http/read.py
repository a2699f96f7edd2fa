"""From a request to the command it says: its path, its query or its body, each field read by the command's own struct.

A body is read in one go by a struct that has the fields of the command but for those in the path. When that fails it is
read again field by field, as commands are on every door: other styles of names are found there, and what is wrong.
"""

from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from tenure.core.bound import nearest
from tenure.core.error import InvalidRequest, JobNotFound
from tenure.server.http.route import Endpoint
from tenure.wire import command as c
from tenure.wire import limit
from tenure.wire.command import Command
from tenure.wire.format import JSON_FORMAT, MSGPACK_FORMAT, NONSENSE, Format
from tenure.wire.option import DURATIONS, duration_of
from tenure.wire.reader import Reader, find_name
from tenure.wire.translate import TRANSLATORS

ID_END = 1 << 53
EACH: dict[type[Command], type[Command]] = {c.PushMany: c.PushManyItems, c.LoadJobs: c.LoadItems}


@cache
def rest_of(command: type[Command], without: frozenset[str], name: str) -> Any:
    """A struct with the fields of a command but for some. Those are set on it as plain attributes."""
    hints = get_type_hints(command)
    fields: list[Any] = []
    for part in msgspec.structs.fields(command):
        if part.name in without:
            continue
        kind = hints[part.name]
        given: dict[str, Any] = {}
        if isinstance(part.default, Raw):
            kind, given["default"] = kind | UnsetType, UNSET
        elif part.default is not msgspec.NODEFAULT:
            given["default"] = part.default
        elif part.default_factory is not msgspec.NODEFAULT:
            given["default_factory"] = part.default_factory
        fields.append((part.name, kind, msgspec.field(name=part.encode_name, **given)))
    return msgspec.defstruct(name, fields, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, dict=True)


class Leaf:
    """An endpoint, ready to read requests."""

    def __init__(self, endpoint: Endpoint, readers: dict[Format, Reader]) -> None:
        self.endpoint = endpoint
        self.command = endpoint.command
        self.label = str(endpoint.command.__struct_config__.tag)
        self.has_body = endpoint.has_body
        self.translate = TRANSLATORS[endpoint.command]
        self.is_push = endpoint.command is c.Push
        self.is_claim = endpoint.command is c.PullMany
        self._fields = endpoint.fields
        self._numbers = frozenset(name for name in self._fields if name == "id")
        hidden = frozenset({"req_id", *self._fields, *(name for name, _ in endpoint.fixed)})
        if not endpoint.has_body:
            hidden |= {"changes"}
        verb = "" if endpoint.method == "POST" else endpoint.method.title()
        name = verb + endpoint.command.__name__ + _title(endpoint.path)
        self.kind = rest_of(endpoint.command, hidden, name)
        each = EACH.get(endpoint.command)
        self._full = self.kind if each is None else rest_of(each, hidden, name + "Items")
        self._readers = readers
        self._decode = {form: form.decoder(self.kind) for form in readers}
        self._maps = {form: form.decoder(dict[str, Raw]) for form in readers}
        self._constant: dict[str, Any] = {**dict(endpoint.fixed), **({} if endpoint.has_body else {"changes": {}})}
        self._query = query_of(self.kind)

    def read(self, form: Format, body: bytes, query: bytes, given: list[str]) -> Any:
        if self.has_body:
            if query:
                raise InvalidRequest("query", query[:80], "here every field goes into the body")
            try:
                message = self._decode[form](body)
            except NONSENSE:
                message = self._read_slowly(form, body)
        else:
            message = self._query.read(query)
        for name, text in zip(self._fields, given, strict=True):
            setattr(message, name, _number(name, text) if name in self._numbers else text)
        for name, value in self._constant.items():
            setattr(message, name, value)
        return message

    def _read_slowly(self, form: Format, body: bytes) -> Any:
        fields: dict[str, Raw] = {}
        if body:
            try:
                fields = self._maps[form](body)
            except NONSENSE as error:
                raise InvalidRequest("body", body[:60], f"it must be a map of text to values: {error}") from error
        return self._readers[form].build(self._full, fields, True)


def leaves(endpoints: tuple[Endpoint, ...]) -> dict[Endpoint, Leaf]:
    forms: tuple[Format, ...] = (JSON_FORMAT, MSGPACK_FORMAT)
    readers = {form: Reader(form, takes_text=True) for form in forms}
    return {endpoint: Leaf(endpoint, readers) for endpoint in endpoints}


def _number(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise InvalidRequest(name, text, "it must be a whole number")
    if len(text) > 16 or int(text) >= ID_END:
        raise JobNotFound(text[:40])
    return int(text)


def _title(path: str) -> str:
    words = path.replace("{", "").replace("}", "").replace("-", "/").replace("_", "/").split("/")[2:]
    return "At" + "".join(word.title() for word in words)


class Query:
    """The fields of a struct from a query: lists by repetition, maps as `metadata[key]=value`."""

    def __init__(self, kind: type[Struct]) -> None:
        self._kind = kind
        self._known = dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))
        hints = get_type_hints(kind)
        self._hints = hints
        self._parts = {name: _members(hint) for name, hint in hints.items()}

    def read(self, query: bytes) -> Any:
        if not query:
            return self._make({})
        values: dict[str, Any] = {}
        for name, text in _pairs(query):
            own, key = self._find(name)
            parts = self._parts[own]
            if dict in parts:
                values.setdefault(own, {})[key] = text
            elif list in parts:
                values.setdefault(own, []).append(text)
            elif own in values:
                raise InvalidRequest(name, text, "it may be given once")
            else:
                values[own] = (
                    int(text) if int in parts and text.isascii() and text.isdigit() and len(text) < 19 else text
                )
        return self._make({own: self._convert(own, value) for own, value in values.items()})

    def _find(self, name: str) -> tuple[str, str]:
        base, bracket, key = name.partition("[")
        own = find_name(base, self._known)
        if own is None or (dict in self._parts[own]) != (bracket == "[" and key.endswith("]")):
            raise InvalidRequest(name, "given", "there is no such field; " + nearest(base, self._known))
        return own, key[:-1]

    def _convert(self, own: str, value: Any) -> Any:
        if own in DURATIONS and isinstance(value, str):
            return duration_of(own, value)
        try:
            return msgspec.convert(value, self._hints[own], strict=False)
        except msgspec.ValidationError as error:
            raise InvalidRequest(own, value, str(error)) from error

    def _make(self, values: dict[str, Any]) -> Any:
        try:
            return self._kind(**values)
        except TypeError:
            needed = [part.name for part in msgspec.structs.fields(self._kind) if part.required]
            missing = [name for name in needed if name not in values]
            raise InvalidRequest(missing[0] if missing else "query", None, "it is needed") from None


@cache
def query_of(kind: type[Struct]) -> Query:
    return Query(kind)


def _pairs(query: bytes) -> list[tuple[str, str]]:
    try:
        text = query.decode("ascii")
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=limit.HTTP_PARAMETERS_MAX)
    except ValueError as error:
        raise InvalidRequest("query", query[:80], f"it cannot be read: {error}") from error


def _members(hint: Any) -> frozenset[Any]:
    """The plain types in an annotation, so that a text can be turned into one of them."""
    if get_origin(hint) in (Union, UnionType):
        return frozenset(found for part in get_args(hint) for found in _members(part))
    return frozenset({get_origin(hint) or hint})
