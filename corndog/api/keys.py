"""How a request names its idempotency key.

The header is what proxies and client libraries know; the field is for bodies that are kept and sent again. Both name
the same key.
"""

from corndog.api.exchanges import Call
from corndog.domain.errors import Invalid
from corndog.domain.limits import NAME_MAX, check_name

HEADER = "Idempotency-Key"
FIELD = "idempotency_key"
_HEADER = HEADER.lower().encode()


def read_key(call: Call, field: str | None) -> str | None:
    """Give the key from the header, or from the field as it was decoded.

    Raises:
        Invalid: both are given, or the key is not of the right form.

    """
    check_name(field, FIELD)
    given = call.headers(_HEADER)
    if not given:
        return field
    if field is not None:
        raise Invalid(f"give either the header `{HEADER}` or `{FIELD}`, not both", field=FIELD)
    if len(given) > 1:
        raise Invalid("given more than once", field=HEADER)
    try:
        key = given[0].decode()
    except UnicodeDecodeError:
        raise Invalid("UTF-8 is expected", field=HEADER) from None
    if not 1 <= len(key) <= NAME_MAX:
        raise Invalid(f"1 to {NAME_MAX} characters are expected", field=HEADER)
    check_name(key, HEADER)
    return key
