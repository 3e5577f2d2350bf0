"""What does an API gateway hop cost? Runs hoptax and reads its JSON.

    result = hoptax.run("plan.yaml", set={"time": "1m"})
    print(result["nginx"].added_p50)                # 72 µs (66–78)
    assert result["nginx"].added_p50 < "100us"      # raises Inconclusive if the interval contains 100 µs
"""

from .commands import check, find_binary, report, run
from .comparison import Comparison, compare
from .errors import (
    Ambiguous,
    BinaryNotFound,
    CommandFailed,
    HoptaxError,
    NotInstalled,
    NotMeasured,
    PlanError,
    UnknownName,
)
from .estimate import Estimate, Inconclusive, Interval, Verdict
from .lab import Lab
from .plan import Gateway, Load, Upstream, closed_loop, open_loop
from .profile import Profile, ProfileDifference, Versions
from .quantity import Quantity
from .result import Case, Finding, GatewayResult, Result

__version__ = "0.2.0"

__all__ = [
    "Ambiguous", "BinaryNotFound", "Case", "CommandFailed", "Comparison", "Estimate", "Finding", "Gateway",
    "GatewayResult", "HoptaxError", "Inconclusive", "Interval", "Lab", "Load", "NotInstalled", "NotMeasured",
    "PlanError", "Profile", "ProfileDifference", "Quantity", "Result", "UnknownName", "Upstream", "Verdict", "Versions",
    "check", "closed_loop", "compare", "find_binary", "open_loop", "report", "run",
]
