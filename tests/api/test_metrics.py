"""What Prometheus scrapes: its own parser reads it, and it moves with what the server does."""

from prometheus_client import Counter, Gauge
from prometheus_client.parser import text_string_to_metric_families

from corndog.observability import metrics
from tests.api.calls import Api


async def scrape(api: Api) -> dict[str, float]:
    response = await api.client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=")
    families = text_string_to_metric_families(response.text)
    return {f"{sample.name}{sample.labels}": sample.value for family in families for sample in family.samples}


async def test_all_declared_metrics_are_there(api: Api) -> None:
    text = (await api.client.get("/metrics")).text
    declared = [metric for metric in vars(metrics).values() if isinstance(metric, Counter | Gauge)]

    assert len(declared) >= 7
    for metric in declared:
        [family] = metric.describe()
        assert f"# HELP {family.name}" in text
    assert "process_cpu_seconds_total" in text


async def test_they_move_with_what_the_server_does(api: Api) -> None:
    held = await api.submit_held()
    count = "corndog_heartbeats_total{'answered_by': 'database'}"
    before = (await scrape(api)).get(count, 0)
    await api.post("/v1/tasks/heartbeat", deliveries=[{"id": held["id"], "delivery": 1}])

    assert (await scrape(api))[count] == before + 1
