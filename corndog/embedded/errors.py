"""What goes wrong with the embedded servers."""


class EmbeddedError(Exception):
    """The servers can't run here; the message says why and what to do about it."""
