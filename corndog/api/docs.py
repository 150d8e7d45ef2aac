"""The API's document, and a page that shows it (Swagger UI, served from its package: no network is needed)."""

from litestar.exceptions import NotFoundException
from openapi_ui_bundles import swagger_ui

from corndog.api.exchanges import Answer, Call
from corndog.api.openapi import document
from corndog.api.routing import Endpoint
from corndog.domain.limits import Terms

_PAGE = b"""<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <title>corndog API</title>
  <link rel="icon" href="docs/assets/favicon-32x32.png">
  <link rel="stylesheet" href="docs/assets/swagger-ui.css">
</head>
<body>
  <div id="ui"></div>
  <script src="docs/assets/swagger-ui-bundle.js"></script>
  <script>SwaggerUIBundle({url: "openapi.json", dom_id: "#ui", deepLinking: true})</script>
</body>
</html>
"""
_ASSETS = {
    "favicon-32x32.png": "image/png",
    "swagger-ui.css": "text/css; charset=utf-8",
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
}


def endpoints(terms: Terms) -> list[Endpoint]:
    """Make what describes a server with these limits."""
    described = document(terms)
    assets = {name: (swagger_ui.static_path / name).read_bytes() for name in _ASSETS}

    async def openapi_json(_call: Call) -> Answer:
        return Answer(described)

    async def docs(_call: Call) -> Answer:
        return Answer(_PAGE, "text/html; charset=utf-8")

    async def asset(call: Call) -> Answer:
        name = call.parameters["name"]
        if name not in assets:
            raise NotFoundException
        return Answer(assets[name], _ASSETS[name])

    return [
        Endpoint("GET", "/openapi.json", openapi_json),
        Endpoint("GET", "/docs", docs),
        Endpoint("GET", "/docs/assets/{name:str}", asset),
    ]
