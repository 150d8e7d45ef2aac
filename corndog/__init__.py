"""corndog: a task state manager.

It never runs a task. It remembers what state each task is in, hands tasks to whoever pulls them, and moves them
between states atomically.
"""

__version__ = "0.1.0"
