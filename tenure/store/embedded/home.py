"""Where in a place the blobs of one store are, and how the store knows them for its own.

A store that was made of a backup shares names of blobs with the store it was copied from, which may still be at work
in the same place. So it keeps its own copies in a folder of their own, named by its secret. Neither looks at, writes
or deletes a name of the other.
"""

from hashlib import sha256

from tenure.store.blob.place import Place
from tenure.store.contract import Identity

OWNER = "tenure-owner"  # says whose blobs these are: nobody else deletes here
OWNER_BYTES = 256


def owner_of(secret: bytes) -> str:
    """What stands in `OWNER`; it gives nothing of the secret away."""
    return sha256(b"blobs" + secret).hexdigest()[:32]


def home_of(secret: bytes) -> str:
    """The folder of a restored store. Others have none: their blobs are in the place itself."""
    return f"restored-{sha256(b'home' + secret).hexdigest()[:16]}"


def at_home(place: Place, home: str) -> Place:
    return place.within(home) if home else place


def identity_of(secret: bytes, store: str = "") -> Identity:
    """`store` is what the file says of where it comes from: nothing, unless it was restored."""
    name = store or sha256(b"tenure store" + secret).hexdigest()[:16]
    return Identity(name, sha256(b"tenure life" + secret).hexdigest()[:16])
