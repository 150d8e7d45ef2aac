"""Combinations of fields that are refused: JSON schemas of them, for the API's document.

In the document they stand under `not`, which tells validators all and leaves generators of clients alone.
"""

from typing import Any, TypeAlias

Forbidden: TypeAlias = tuple[dict[str, Any], ...]


def both(one: str, other: str, **properties: object) -> dict[str, Any]:
    """Describe two fields that exclude each other; where null is none, `properties` say what something is."""
    return {"required": [one, other], "properties": properties} if properties else {"required": [one, other]}


def alone(media_type: str, *contents: str) -> dict[str, Any]:
    """Describe a media type without anything that it could be the type of."""
    return {
        "required": [media_type],
        "properties": {media_type: {"type": "string"}} | dict.fromkeys(contents, False),
    }


CLOCK_WITHOUT_TARGET: dict[str, Any] = {
    "required": ["timeout"],
    "properties": {"timeout": {"type": "number", "exclusiveMinimum": 0}, "auto_target_state": {"type": "null"}},
}
NOTHING_TO_MATCH: dict[str, Any] = {"properties": {"delivery": {"type": "null"}, "current_state": {"type": "null"}}}
