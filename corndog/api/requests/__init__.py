"""What clients send, and how it becomes what the use cases take.

Types, lengths and ranges are held while decoding; each `to_…` holds the rest and names the field in its refusals.
"""
