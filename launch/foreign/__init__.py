"""Learning curves from logs of other programs, converted to rows of metrics.jsonl."""
