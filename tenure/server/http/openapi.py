"""The description of the API, OpenAPI 3.1: made of the table of endpoints and of the structs that read and answer."""

from inspect import cleandoc
from typing import Any

import msgspec
from msgspec import Struct

from tenure.server.http import answer as a
from tenure.server.http.read import Leaf, leaves
from tenure.server.http.route import ENDPOINTS, Endpoint
from tenure.wire import command as c
from tenure.wire.option import DURATIONS, WireBackoff

REF = "#/components/schemas/{name}"
ABOUT = (
    "A multi-tenant job queue. Times are milliseconds since 1970, durations milliseconds or text with a unit such as "
    "250ms, 30s, 5m, 1h, 7d, tokens of leases base64. Bodies and answers are JSON, or MessagePack where Content-Type "
    'or Accept say so. What stands in `data` is kept as it came; bytes in JSON are {"$bin": base64}.'
)
Schema = dict[str, Any]


def describe() -> Schema:
    made = leaves(ENDPOINTS)
    bodies: list[Any] = [leaf.kind for leaf in made.values()]
    answers = {endpoint.answer for endpoint in ENDPOINTS} | {a.Refused, a.About}
    kinds: list[Any] = [*bodies, *sorted(answers, key=lambda kind: kind.__name__)]
    refs, components = msgspec.json.schema_components(kinds, schema_hook=_of_anything, ref_template=REF)
    ref_of = dict(zip(kinds, refs, strict=True))
    for name in {WireBackoff.__name__, c.Failed.__name__, *(leaf.kind.__name__ for leaf in made.values())}:
        _take_text(components.get(name, {}))
    paths: dict[str, Schema] = {}
    for endpoint, leaf in made.items():
        operation = _operation(endpoint, leaf, ref_of, components)
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    for leaf in made.values():
        if not leaf.has_body:
            components.pop(leaf.kind.__name__, None)
    for schema in components.values():
        if "description" in schema:  # a docstring, which Python unindents since 3.13
            schema["description"] = cleandoc(schema["description"])
    paths["/v1"] = {"get": _plain("about", "What this server is", ref_of[a.About])}
    for name, summary in (("livez", "It answers"), ("healthz", "A claim works"), ("readyz", "Writes are accepted")):
        paths[f"/{name}"] = {"get": {**_plain(name, summary, {"type": "object"}), "security": []}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tenure", "version": "1.0", "description": ABOUT},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _take_text(schema: Schema) -> None:
    """Durations of a request may be text."""
    for name, part in schema.get("properties", {}).items():
        if name in DURATIONS and (part.get("type") == "integer" or "anyOf" in part):
            others = part.pop("anyOf", None) or [{"type": part.pop("type")}]
            part["anyOf"] = [*others, {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(ms|s|m|h|d)$"}]


def _of_anything(kind: type) -> Schema:
    if kind is not object:
        raise NotImplementedError(kind)
    return {"description": "any value"}


def _operation(
    endpoint: Endpoint, leaf: Leaf, ref_of: dict[type[Struct], Schema], components: dict[str, Schema]
) -> Schema:
    found: Schema = {
        "operationId": leaf.kind.__name__,
        "summary": endpoint.summary,
        "tags": [endpoint.path.split("/")[2]],
        "parameters": [_in_path(name) for name in endpoint.fields],
        "responses": _responses(endpoint, ref_of),
    }
    if leaf.has_body:
        schema = ref_of[leaf.kind]
        needed = any(part.required for part in msgspec.structs.fields(leaf.kind))
        found["requestBody"] = {"content": _content(schema), "required": needed}
    else:
        found["parameters"] += _in_query(components[leaf.kind.__name__])
    return found


def _content(schema: Schema) -> Schema:
    return {"application/json": {"schema": schema}, "application/msgpack": {"schema": schema}}


def _in_path(name: str) -> Schema:
    schema: Schema = {"type": "integer", "minimum": 1} if name == "id" else {"type": "string", "minLength": 1}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _in_query(schema: Schema) -> list[Schema]:
    found: list[Schema] = []
    for name, part in schema.get("properties", {}).items():
        parameter: Schema = {"name": name, "in": "query", "schema": part, "required": False}
        if part.get("type") == "object":
            parameter.update(style="deepObject", explode=True)
        found.append(parameter)
    return found


def _responses(endpoint: Endpoint, ref_of: dict[type[Struct], Schema]) -> Schema:
    good: Schema = {"description": endpoint.summary, "content": _content(ref_of[endpoint.answer])}
    found: Schema = {"200": good}
    if endpoint.answer is a.Accepted and endpoint.path.endswith("/jobs"):
        found["201"] = good
    if endpoint.answer in (a.Each, a.Changed, a.RenewedEach):
        found["207"] = {**good, "description": "Some items were refused"}
    if endpoint.path == "/v1/events":
        found["200"] = {**good, "content": {**good["content"], "text/event-stream": {"schema": {"type": "string"}}}}
    return {**found, **_errors(ref_of[a.Refused])}


def _plain(name: str, summary: str, schema: Schema) -> Schema:
    good = {"description": summary, "content": {"application/json": {"schema": schema}}}
    errors = _errors({"$ref": REF.format(name=a.Refused.__name__)})
    return {"operationId": name, "summary": summary, "tags": ["server"], "responses": {"200": good, **errors}}


def _errors(schema: Schema) -> Schema:
    wrong = {"description": "Refused: see `code`", "content": _content(schema)}
    return {"4XX": wrong, "5XX": wrong}
