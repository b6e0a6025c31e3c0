"""Pages of docs/ and schemas for editors that are generated from the code; no part of the wheel.

``python -m docs.pages`` writes them (``make pages``). They are committed, and a test compares them with the code.
"""
