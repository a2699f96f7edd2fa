"""Errors as statuses of gRPC: the code by a table, all the rest in the trailing metadata."""

from typing import Any, Final, NoReturn

import grpc
from grpc import StatusCode

from tenure.core.error import Error
from tenure.server.grpc import response

CODE_KEY: Final = "tenure-code"
ERROR_KEY: Final = "tenure-error-bin"

# An error of a kind that is not here is the server's fault.
STATUSES: Final = {
    "InvalidRequest": StatusCode.INVALID_ARGUMENT,
    "PayloadTooLarge": StatusCode.INVALID_ARGUMENT,
    "JobNotFound": StatusCode.NOT_FOUND,
    "QueueNotFound": StatusCode.NOT_FOUND,
    "DependencyNotFound": StatusCode.NOT_FOUND,
    "LeaseLost": StatusCode.FAILED_PRECONDITION,
    "JobCancelled": StatusCode.FAILED_PRECONDITION,
    "AlreadySettled": StatusCode.FAILED_PRECONDITION,
    "JobFailed": StatusCode.FAILED_PRECONDITION,
    "CodecNotFound": StatusCode.FAILED_PRECONDITION,
    "TaskNotRegistered": StatusCode.FAILED_PRECONDITION,
    "Conflict": StatusCode.ALREADY_EXISTS,
    "Overloaded": StatusCode.RESOURCE_EXHAUSTED,
    "RateLimited": StatusCode.RESOURCE_EXHAUSTED,
    "Unauthenticated": StatusCode.UNAUTHENTICATED,
    "Forbidden": StatusCode.PERMISSION_DENIED,
    "Unavailable": StatusCode.UNAVAILABLE,
    "Unsupported": StatusCode.UNIMPLEMENTED,
    "EventsLost": StatusCode.OUT_OF_RANGE,
    "Timeout": StatusCode.DEADLINE_EXCEEDED,
    "Internal": StatusCode.INTERNAL,
}

Context = grpc.aio.ServicerContext[Any, Any]


async def refuse(context: Context, error: Error) -> NoReturn:
    said = response.error(error)
    metadata = ((CODE_KEY, error.code), (ERROR_KEY, said.SerializeToString()))
    await context.abort(STATUSES.get(error.code, StatusCode.INTERNAL), said.message, metadata)
    raise AssertionError("an aborted call does not go on")
