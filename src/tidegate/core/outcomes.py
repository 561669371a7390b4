"""Every way in which a request can end. Accepted = open + ended, always, by id.

*Rejected* requests never reached an engine because we turned them away; *expired* ones ran out of
time; *failed* ones met an engine that did not answer well; *cut* ones were still running when the
gateway's own stop deadline came. Two pairs keep "there is nobody" (503) apart from "everybody is busy" (429): turned
away, and waited in vain.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Outcome(Enum):
    """How a request ended; the value is the metric label."""

    COMPLETED = "completed"
    REJECTED_INVALID = "rejected_invalid"
    REJECTED_UNAUTHORISED = "rejected_unauthorised"
    REJECTED_UNKNOWN_MODEL = "rejected_unknown_model"
    REJECTED_TOO_LARGE = "rejected_too_large"
    REJECTED_FULL = "rejected_full"
    REJECTED_LATE = "rejected_late"
    REJECTED_DEADLINE = "rejected_deadline"
    REJECTED_NOBODY = "rejected_nobody"
    REJECTED_STOPPING = "rejected_stopping"
    EXPIRED_QUEUED = "expired_queued"
    EXPIRED_NOBODY = "expired_nobody"
    EXPIRED_RUNNING = "expired_running"
    FAILED_ENGINE = "failed_engine"
    FAILED_MIDSTREAM = "failed_midstream"
    CUT_STOPPING = "cut_stopping"
    CLIENT_GONE = "client_gone"


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a client sees: HTTP status, OpenAI error type and code, and whether a retry can help."""

    status: int
    error_type: str
    code: str
    retry_helps: bool


MEANING: dict[Outcome, Meaning] = {
    Outcome.COMPLETED: Meaning(200, "", "", False),
    Outcome.REJECTED_INVALID: Meaning(400, "invalid_request_error", "invalid_request", False),
    Outcome.REJECTED_UNAUTHORISED: Meaning(401, "authentication_error", "invalid_api_key", False),
    Outcome.REJECTED_UNKNOWN_MODEL: Meaning(404, "invalid_request_error", "model_not_found", False),
    Outcome.REJECTED_TOO_LARGE: Meaning(413, "invalid_request_error", "request_too_large", False),
    Outcome.REJECTED_FULL: Meaning(429, "rate_limit_error", "queue_full", True),
    Outcome.REJECTED_LATE: Meaning(429, "rate_limit_error", "deadline_out_of_reach", True),
    Outcome.REJECTED_DEADLINE: Meaning(504, "timeout_error", "deadline_too_short", False),
    Outcome.REJECTED_NOBODY: Meaning(503, "service_unavailable_error", "no_replica", True),
    Outcome.REJECTED_STOPPING: Meaning(503, "service_unavailable_error", "gateway_stopping", True),
    Outcome.EXPIRED_QUEUED: Meaning(429, "rate_limit_error", "waited_too_long", True),
    Outcome.EXPIRED_NOBODY: Meaning(503, "service_unavailable_error", "no_replica_in_time", True),
    Outcome.EXPIRED_RUNNING: Meaning(504, "timeout_error", "deadline_exceeded", False),
    Outcome.FAILED_ENGINE: Meaning(503, "service_unavailable_error", "engine_failed", True),
    Outcome.FAILED_MIDSTREAM: Meaning(503, "service_unavailable_error", "engine_failed_midstream", True),
    Outcome.CUT_STOPPING: Meaning(503, "service_unavailable_error", "gateway_stopped", True),
    # 499 is nginx's word for it; it is never sent, since nobody is left to read it.
    Outcome.CLIENT_GONE: Meaning(499, "", "client_gone", False),
}
