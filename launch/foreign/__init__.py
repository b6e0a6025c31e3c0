"""Reads learning curves from logs of other programs, and converts them to rows of metrics.jsonl."""
