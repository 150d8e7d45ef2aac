"""What it looks like over HTTP: wire structs, thin handlers, problems, and the document that describes them.

A handler decodes, calls one use case and encodes. Each says in its `@route` what it takes, gives and refuses; the
routing and `openapi.json` both come from there.
"""
