"""How a repeated request is known."""

from hashlib import blake2b

import msgspec


def hash_of(verb: str, *request: object) -> bytes:
    """Hash a decoded request, contents included."""
    return blake2b(msgspec.msgpack.encode((verb, request)), digest_size=16).digest()
