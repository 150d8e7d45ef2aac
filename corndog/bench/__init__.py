"""`corndog bench`: how fast a server is, measured over HTTP, and in relation to what its parts could do at best.

A place (`places.py`) is what is measured: servers and a database of our own, or somebody's server by its URL. A measure
(`measures/`, one small file each, listed in `catalog.py`) gives figures of a place. Figures are of one machine at one
moment; what counts are the ratios, whose two sides are taken in turn. `http.py` and `load.py` are the load generator,
which shares the machine with what it measures: it prepares all requests before the clock runs, and looks at answers
after it has stopped, wherever it can.
"""
