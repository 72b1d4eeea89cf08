"""What went wrong at a vendor's, in our own tree of errors.

    401, 403                       Unauthorized     which key, never what it is
    a prompt that is too long      Overflow         each vendor has its own words for it
    429                            RateLimited      with the wait, if it was told
    503, 529 with a wait           RateLimited
    429 for an empty account       ModelFailed      waiting does not help
    408, 409, 425, 5xx             ModelFailed      retryable
    everything else                ModelFailed      the same request would fail again

What vendors say is bounded, on one line, and has no keys in it: some of them send back the
key that they refuse.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from sightline._lazy import lazy_pattern
from sightline.agent.models.access import Access
from sightline.agent.models.keys import scrub
from sightline.context.dialects.decoder import VendorError, read_error
from sightline.context.dialects.request import Request
from sightline.errors import (
    ModelFailed,
    Overflow,
    RateLimited,
    SightlineError,
    TimedOut,
    Unauthorized,
    Unreachable,
)

MAX_MESSAGE: Final = 300
# Each with whose words they are, as of November 2026.
OVERFLOW: Final = lazy_pattern(
    "|".join((
        "context_length_exceeded",                          # OpenAI, Groq, DeepSeek: the code
        "maximum context length",                           # OpenAI, vLLM, Mistral, OpenRouter
        "exceeds the context window",                       # OpenAI Responses
        "prompt is too long",                               # Anthropic, Fireworks
        "exceed context limit",                             # Anthropic, with max_tokens
        "request_too_large",                                # Anthropic, 413
        "input token count .{0,40}exceeds the maximum",     # Gemini
        "Input is too long for requested model",            # Bedrock
        "exceeds?( the)?( maximum)? context length",        # Ollama
        "exceed_context_size_error",                        # llama.cpp: the type
        "exceeds the available context size",               # llama.cpp
        "longer than the maximum model length",             # vLLM
        "maximum prompt length",                            # xAI
        r"Range of input length should be",                 # DashScope
        "reduce the length of (either one|the messages)",   # Groq, Cerebras
    )),
    re.IGNORECASE,
)  # fmt: skip
# How Anthropic (`messages.3`), OpenAI (`messages[3]`, `input[3]`), Gemini and Bedrock point at one.
_NUMBERED: Final = lazy_pattern(r"\b(messages|input|contents)[.\[](\d{1,6})\b")
SHOWN: Final = 120
TOO_LONG: Final = frozenset({400, 413, 422, 500})
BUSY: Final = lazy_pattern(
    "overloaded|unavailable|internal|server.{0,10}error|timed?.?out|throttl|terminated|try again",
    re.IGNORECASE,
)
NO_CREDIT: Final = lazy_pattern(
    "insufficient_quota|billing|credit balance|quota.{0,20}plan|ServiceQuotaExceeded",
    re.IGNORECASE,
)
PASSING: Final = frozenset({408, 409, 425})


def refused(
    access: Access,
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    kind: str = "",
    request: Request | None = None,
) -> SightlineError:
    """Make the error of a response that is no reply. `kind` is a code that came beside the body.

    A message of the request that the vendor names by its number is shown by what it says.
    """
    whole = f"{kind} {body[:10_000].decode('utf-8', 'replace')}"
    report = read_error(body)
    detail = _line(access, report.message) or kind
    message = f"{access.label}: {detail or 'no reason given'} ({status})"
    if status in (401, 403):
        return Unauthorized(f"{access.label} refuses the request ({status}). {access.remedy}")
    if status in TOO_LONG and OVERFLOW.search(whole):
        return Overflow(message, status=status)
    wait = _wait(headers, report)
    if status == 429:
        if wait is None and NO_CREDIT.search(whole):
            return ModelFailed(message, status=status)
        return RateLimited(message, status=status, retry_after_s=wait)
    if wait is not None and status in (503, 529):
        return RateLimited(message, status=status, retry_after_s=wait)
    if request is not None and (named := _named_message(report.message, request)):
        message += f"; {_line(access, named)}"
    return ModelFailed(message, status=status, retryable=status >= 500 or status in PASSING)


def _named_message(detail: str, request: Request) -> str:
    """The message of a request that a vendor's words point at, and where it came from."""
    if not (found := _NUMBERED.search(detail)):
        return ""
    label = f"{found[1]}[{found[2]}]"
    for span in request.wire.spans:
        if span.label == label:
            text = request.wire.data[span.start : span.end].decode("utf-8", "replace")
            return f"it begins {text[:SHOWN]}" + (f" (slot {span.slot})" if span.slot else "")
    return ""


def stream_error(access: Access, detail: str) -> SightlineError:
    """Make the error of a failure that arrived as the first event of a stream."""
    message = f"{access.label}: {_line(access, detail)}"
    if OVERFLOW.search(detail):
        return Overflow(message)
    return ModelFailed(message, retryable=bool(BUSY.search(detail)))


def broken(access: Access, error: BaseException) -> SightlineError:
    """Make the error of a connection that never was, or did not last to the first event."""
    if is_timeout(error):
        return TimedOut(f"{access.label}: {access.location} did not answer in time")
    return Unreachable(f"{access.label}: {access.location} cannot be reached, or hung up")


def is_timeout(error: BaseException) -> bool:
    """Whether a client's error, or what it was made of, says that something took too long."""
    causes = (error, error.__cause__, error.__context__)
    return any("Timeout" in type(cause).__name__ for cause in causes)


def _line(access: Access, text: str) -> str:
    printable = "".join(c if c.isprintable() else " " for c in text[: 10 * MAX_MESSAGE])
    line = scrub(" ".join(printable.split()), access.key)
    return line if len(line) <= MAX_MESSAGE else f"{line[:MAX_MESSAGE]}…"


def _wait(headers: Mapping[str, str], report: VendorError) -> float | None:
    """Read how long to wait: in milliseconds, seconds, until a date, or in the body."""
    found = {name.lower(): value.strip() for name, value in headers.items()}
    try:
        if "retry-after-ms" in found:
            return _sane(float(found["retry-after-ms"]) / 1000)
        # RFC 9110 §10.2.3: Retry-After is a number of seconds, or a date.
        if "retry-after" in found:
            return _sane(float(found["retry-after"]))
    except ValueError:
        return _until(found.get("retry-after", ""))
    return report.wait_s


def _sane(seconds: float) -> float | None:
    return seconds if 0 <= seconds < float("inf") else None


def _until(date: str) -> float | None:
    try:
        then = parsedate_to_datetime(date)
    except ValueError:
        return None
    aware = then if then.tzinfo else then.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.now(UTC)).total_seconds())
