"""What is allowed: records, transitions, limits and errors.

Nothing in this room does I/O, reads a clock or draws a random number; `now` and ids are passed in. The SQL in
`corndog.store` restates these rules for sets of rows, and a model-based test holds the two equal.
"""
