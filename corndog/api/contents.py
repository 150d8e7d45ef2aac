"""What a task carries, as it was sent: payloads, results and metadata, each within its limit."""

from msgspec import Raw

from corndog.api.fields import Ungiven
from corndog.api.media import Media
from corndog.domain.errors import Invalid
from corndog.domain.limits import Terms, check_media_type, check_size
from corndog.domain.task import Content

OCTETS = "application/octet-stream"


def read_content(
    media: Media,
    terms: Terms,
    as_json: Raw | Ungiven,
    as_bytes: bytes | Ungiven,
    media_type: str | None,
    field: str,
    type_field: str,
) -> Content | None:
    """Give a payload or result as it was sent: as JSON, as bytes, or not at all."""
    if media_type is not None:
        check_media_type(media_type, type_field)
    if not isinstance(as_json, Ungiven):
        if not isinstance(as_bytes, Ungiven):
            raise Invalid(f"give either `{field}` or `{field}_base64`, not both", field=f"{field}_base64")
        text = media.read_json(as_json, field)
        check_size(len(text), terms.payload, field)
        return Content(text, media_type or Media.JSON, is_json=True)
    if not isinstance(as_bytes, Ungiven):
        check_size(len(as_bytes), terms.payload, f"{field}_base64")
        return Content(as_bytes, media_type or OCTETS, is_json=False)
    if media_type is not None:
        raise Invalid(f"there is no `{field}` that it could be the type of", field=type_field)
    return None


def read_metadata(media: Media, terms: Terms, raw: Raw | Ungiven, field: str) -> str | None:
    """Give metadata as JSON text; null is none."""
    if isinstance(raw, Ungiven) or bytes(raw) in {b"null", b"\xc0"}:
        return None
    # What is far too large is not read first. The same object may be a few times longer in MessagePack than in JSON.
    check_size(len(bytes(raw)) // (1 if media is Media.JSON else 8), terms.metadata, field)
    text = media.read_object(raw, field)
    check_size(len(text.encode()), terms.metadata, field)
    return text
