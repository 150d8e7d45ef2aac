"""The API's document, and a page that shows it (Swagger UI, served from its package: no network is needed)."""

from litestar import MediaType, Response, get
from litestar.exceptions import NotFoundException
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from openapi_ui_bundles import swagger_ui

from corndog.api.media import Media
from corndog.api.openapi import document
from corndog.domain.limits import Terms

_PAGE = """<!doctype html>
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
    "swagger-ui.css": MediaType.CSS,
    "swagger-ui-bundle.js": "text/javascript",
}


def handlers(terms: Terms) -> list[HTTPRouteHandler]:
    """Make the handlers that describe a server with these limits."""
    described = document(terms)
    assets = {name: (swagger_ui.static_path / name).read_bytes() for name in _ASSETS}

    @get("/openapi.json", sync_to_thread=False)
    def openapi_json() -> Response[bytes]:
        return Response(described, media_type=Media.JSON)

    @get("/docs", sync_to_thread=False)
    def docs() -> Response[str]:
        return Response(_PAGE, media_type=MediaType.HTML)

    @get("/docs/assets/{name:str}", sync_to_thread=False)
    def asset(name: FromPath[str]) -> Response[bytes]:
        if name not in assets:
            raise NotFoundException
        return Response(assets[name], media_type=_ASSETS[name])

    return [openapi_json, docs, asset]
