"""Every bound of the wire, in one place."""

from typing import Final

# A batch has up to 16 MiB of payloads, and what describes its jobs besides.
FRAME_BYTES_MAX: Final = 64 * 1024 * 1024
MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024  # of the public protocol, either way
STRANGER_BYTES_MAX: Final = 64 * 1024  # of a message before AUTH, where that is needed
HEADER_BYTES: Final = 4
SUBSCRIPTIONS_MAX: Final = 16  # of one connection
CALLS_PER_CONNECTION: Final = 500  # in progress at once; a session of operation ids remembers more than that
WORKERS_PER_CONNECTION: Final = 16  # names that are remembered, to tell them of cancellations
CONNECTIONS_MAX: Final = 10_000
KNOWN_ADDRESSES_MAX: Final = 10_000  # from which somebody authenticated
AUTH_S: Final[float] = 10.0  # to authenticate, where that is needed, and for the TLS handshake
UNSENT_BYTES_MAX: Final = 2 * FRAME_BYTES_MAX  # answers that a slow reader has not taken yet
LINGER_S: Final = 1.0  # for commands that come when the server is stopping, of one connection
QUIET_S: Final = 0.02  # without any, after which it is closed
HELLO_S: Final = 5.0

# HTTP: heads and addresses, and how long a client may take to send them.
HTTP_URL_BYTES_MAX: Final = 16 * 1024
HTTP_HEAD_BYTES_MAX: Final = 64 * 1024
HTTP_HEADERS_MAX: Final = 100
HTTP_PARAMETERS_MAX: Final = 200
HTTP_HEAD_S: Final = 30.0
HTTP_BODY_S: Final = 60.0  # between two pieces of a body
HTTP_KEEP_ALIVE_S: Final = 75  # of a connection on which nothing is asked

# gRPC: what is said of a call besides its messages; and what one stream of a worker may ask for and hold.
GRPC_METADATA_BYTES_MAX: Final = 16 * 1024
GRPC_CREDITS_MAX: Final = 10_000
GRPC_HELD_MAX: Final = 20_000
GRPC_UNSENT_BYTES_MAX: Final = MESSAGE_BYTES_MAX  # beyond that nothing is claimed for it, and nothing of it read
HEALTH_CALLS_MAX: Final = 1_000  # watchers, and checks in progress
HEALTH_CALLS_PER_ADDRESS: Final = 100
HEALTH_CALL_S: Final[float] = 10.0  # for a check, and for the request of a watcher
