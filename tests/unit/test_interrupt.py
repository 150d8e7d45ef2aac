"""What ends `corndog dev`, wherever in the program it comes."""

import signal
import weakref

import pytest

from corndog.cli import dev


class Thing:
    pass


def test_an_interrupt_that_python_drops_is_raised_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev, "_ignore_signals", lambda: None)
    monkeypatch.setattr("sys.unraisablehook", lambda _dropped: None)
    interrupt = dev.Interrupt()
    interrupt.check()
    thing = Thing()
    # A signal whose handler happens to run inside a callback of a weak reference.
    watched = weakref.ref(thing, lambda _ref: interrupt.come(signal.SIGINT, None))

    del thing

    assert watched() is None
    with pytest.raises(KeyboardInterrupt):
        interrupt.check()


def test_an_interrupt_is_raised_where_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev, "_ignore_signals", lambda: None)
    with pytest.raises(KeyboardInterrupt):
        dev.Interrupt().come(signal.SIGTERM, None)
