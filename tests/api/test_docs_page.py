"""The page that shows the document: it needs nothing that the server doesn't serve itself."""

from html.parser import HTMLParser
from urllib.parse import urljoin

from tests.api.calls import JSON, Api

TYPES = {"link": "text/css; charset=utf-8", "icon": "image/png", "script": "text/javascript; charset=utf-8"}


class References(HTMLParser):
    """Collects what a page refers to, as (kind, address)."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self.inline = ""
        self._in_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._in_script = tag == "script"
        address = given.get("href") or given.get("src")
        if address:
            self.found.append(("icon" if given.get("rel") == "icon" else tag, address))

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False

    def handle_data(self, data: str) -> None:
        if self._in_script:
            self.inline += data


async def test_the_page_refers_only_to_what_the_server_serves(api: Api) -> None:
    page = await api.client.get("/docs")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    references = References()
    references.feed(page.text)

    assert {kind for kind, _ in references.found} == {"link", "icon", "script"}
    for kind, address in references.found:
        assert "//" not in address
        asset = await api.client.get(urljoin("/docs", address))
        assert (asset.status_code, asset.headers["content-type"]) == (200, TYPES[kind])
        assert len(asset.content) > 100
        assert b"//cdn" not in asset.content or kind == "script"


async def test_the_page_loads_the_document(api: Api) -> None:
    page = await api.client.get("/docs")
    references = References()
    references.feed(page.text)

    assert 'SwaggerUIBundle({url: "openapi.json"' in references.inline
    assert (await api.client.get(urljoin("/docs", "openapi.json"))).headers["content-type"] == JSON


async def test_the_page_can_show_documents_of_this_version(api: Api) -> None:
    # Swagger UI shows OpenAPI 3.1 from its version 5 on.
    script = (await api.client.get("/docs/assets/swagger-ui-bundle.js")).text

    assert 'PACKAGE_VERSION:"5.' in script
    assert (await api.client.get("/openapi.json")).json()["openapi"].startswith("3.1.")


async def test_the_page_works_behind_a_path_of_a_proxy(api: Api) -> None:
    page = await api.client.get("/docs")
    references = References()
    references.feed(page.text)

    assert all(not address.startswith("/") for _, address in references.found)
