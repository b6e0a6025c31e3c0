"""What a report has in its page."""

from __future__ import annotations

import json
import re
from typing import Any


def parts_in(page: str) -> dict[str, Any]:
    """Read what a page of a report shows, by the names of its parts."""
    (written,) = re.findall(r'<script id="parts" type="application/json">(.*?)</script>', page)
    found: dict[str, Any] = json.loads(written)
    return found
