"""The API's document, and a page that shows it (Swagger UI, served from its package: no network is needed)."""

from litestar import MediaType, Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.router import Router
from litestar.static_files import create_static_files_router
from swagger_ui_bundle import swagger_ui_path

from corndog.api.media import Media
from corndog.api.openapi import document
from corndog.domain.limits import Sizes

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


def handlers(sizes: Sizes) -> list[HTTPRouteHandler | Router]:
    """Make the handlers that describe a server with these limits."""
    described = document(sizes)

    @get("/openapi.json", sync_to_thread=False)
    def openapi_json() -> Response[bytes]:
        return Response(described, media_type=Media.JSON)

    @get("/docs", sync_to_thread=False)
    def docs() -> Response[str]:
        return Response(_PAGE, media_type=MediaType.HTML)

    assets = create_static_files_router(path="/docs/assets", directories=[swagger_ui_path], include_in_schema=False)
    return [openapi_json, docs, assets]
