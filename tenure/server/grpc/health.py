"""gRPC's health service: it serves while a claim works. Looked at for who asks, and every second for watchers."""

import asyncio
from typing import Any

from grpc_health.v1 import health, health_pb2

from tenure.core.error import Error
from tenure.server.handler import Handler
from tenure.server.health import FRESH_S, Health


class HealthService(health.aio.HealthServicer):
    def __init__(self, handler: Handler, service: str) -> None:
        super().__init__()
        self._names = ("", service)
        self._store = Health(handler)

    async def begin(self) -> None:
        await self._tell(True)

    async def _look(self) -> None:
        is_well = True
        try:
            await self._store.claims.get()
        except Error:
            is_well = False
        await self._tell(is_well)

    async def _tell(self, is_well: bool) -> None:
        answer = health_pb2.HealthCheckResponse
        for name in self._names:
            await self.set(name, answer.SERVING if is_well else answer.NOT_SERVING)

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802 - the name of the method
        if request.service in self._names:
            await self._look()
        return await super().Check(request, context)

    async def Watch(self, request: Any, context: Any) -> None:  # noqa: N802
        await self._look()
        looking = asyncio.get_running_loop().create_task(self._look_on())
        try:
            await super().Watch(request, context)
        finally:
            looking.cancel()

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(FRESH_S)
            await self._look()
