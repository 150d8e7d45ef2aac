"""What clients get, made of what the use cases give."""
