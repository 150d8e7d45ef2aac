"""The measures, one file each: `FIGURES` names what it can find out, `measure` takes it.

A measure yields figures; those that nobody asked for are dropped. It may ask `place.wants` to save itself the work.
"""
