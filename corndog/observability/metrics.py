"""Every metric, declared once."""

from prometheus_client import Counter, Gauge, Histogram

REDIS_AVAILABLE = Gauge("corndog_redis_available", "Whether this process uses Redis now (1), or does without it (0).")
REDIS_FAILURES = Counter("corndog_redis_failures_total", "Calls to Redis that failed or took too long.")
HINTS = Counter(
    "corndog_hints_total",
    "Ids that claims took from windows, by what became of them: `claimed`, `locked` (by another write), or `stale`.",
    ["outcome"],
)
REFILLS = Counter("corndog_refills_total", "Windows filled from the database, by what asked for it.", ["reason"])
FALLBACK_CLAIMS = Counter("corndog_fallback_claims_total", "Claims that searched the database instead of a window.")
WAKE_UPS = Counter("corndog_wake_ups_total", "Waiting claims that were woken, by what woke them.", ["source"])
HEARTBEATS = Counter(
    "corndog_heartbeats_total",
    "Heartbeats of single deliveries, by what answered them: `redis`, or `database`.",
    ["answered_by"],
)
GROUP_SIZES = Histogram(
    "corndog_group_size",
    "Items that were written together, by what they are.",
    ["of"],
    buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256),
)
