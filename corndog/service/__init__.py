"""What happens because someone asked: the use cases.

Each decides what to write, has the store write it in one statement or one transaction, and where nothing was
written, asks the rules why.
"""
