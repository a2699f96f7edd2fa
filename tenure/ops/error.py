"""What backup, restore and verify refuse, beside the errors of stores."""

from tenure.core.error import Error


class Refused(Error):
    """Doing it would harm something. The message says what to do first."""

    status = 409


class BackupNotFound(Error):
    status = 404


class BackupDamaged(Error):
    """A manifest, a chunk or a blob is not what was stored."""

    status = 500


class BlobsLost(Error):
    """The store itself lacks blobs that its jobs name. The backup was made of what there is."""

    status = 500


class Stopped(Error):
    """Somebody asked to stop. Nothing half-made counts as a backup."""

    status = 503
    retryable = True
