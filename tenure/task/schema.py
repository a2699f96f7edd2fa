"""Versions of a task's arguments: a job says which it was written by, and upcasters bring it to the newest.

An upcaster takes the payload's members as version n wrote them and gives those of version n + 1:

    @send_email.upcast(from_version=1)
    def add_subject(fields: dict[str, Any]) -> dict[str, Any]:
        return {**fields, "subject": ""}
"""

from collections.abc import Callable
from typing import Any

from tenure.core.error import InvalidRequest
from tenure.task.codec import Undecodable

Fields = dict[str, Any]
Upcaster = Callable[[Fields], Fields]


class Versions:
    def __init__(self, current: int = 0) -> None:
        self.current = current
        self._upcasters: dict[int, Upcaster] = {}

    def add(self, from_version: int, upcaster: Upcaster) -> None:
        if not 0 <= from_version < self.current:
            raise InvalidRequest("from_version", from_version, f"it must be from 0 to {self.current - 1}")
        if from_version in self._upcasters:
            raise InvalidRequest("from_version", from_version, "it has an upcaster already")
        self._upcasters[from_version] = upcaster

    def upcast(self, fields: Fields, version: int) -> Fields:
        while version < self.current:
            upcaster = self._upcasters.get(version)
            if upcaster is not None:  # none: that version added what has a default
                try:
                    fields = upcaster(fields)
                except Exception as error:
                    raise Undecodable(f"the upcaster from version {version} failed: {error!r}") from error
            version += 1
        return fields
