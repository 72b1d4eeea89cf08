"""Keep API keys and other credentials out of the record.

`redact(text)` replaces what looks like a credential by `[redacted:KIND]`, and
`redact(redact(text)) == redact(text)`. The shapes are those that vendors publish
(fixed prefixes, lengths) and the places where people paste the others (headers,
URLs, assignments). Keys that the program knows (`know`) are found by their values.
A shape is a guess: it can miss a secret and can hit a harmless string, which is why
it can be turned off, and why hosts must not rely on it alone.

Patterns repeat single character classes, or one choice between two, within bounds and
nothing nested, so the time is linear in the text. None is possessive (`(?:…)*+`): up to 3.11.4
such a repeat of a group keeps what its last, failed round had taken (CPython gh-106052). It
ran into the `-----END` of a private key, which was then not redacted to its end. A test
forbids them, and atomic groups.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from sightline._lazy import lazy_pattern

# Not in the middle of a longer word. A slash may stand before it (`https://ghp_…@github.com`), but
# not before prefixes short enough to be words in a path.
_EDGE: Final = r"(?<![A-Za-z0-9_+-])"
_WORD_EDGE: Final = r"(?<![A-Za-z0-9_/+-])"

# kind → (words one of which must be there for the pattern to be tried, pattern); in lower case for
# the kinds of `_ANY_CASE`, which people write as they like.
# The secret is the group `secret` where there is one, else the whole match.
_SHAPES: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    # To its end; one that is cut off as far as it can be base64 with PEM headers.
    "private-key": (("-----BEGIN",),
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:"
        r"(?:[^-]|-(?!----)){0,20000}-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"|(?:[A-Za-z0-9+/=\\\s:,]|-(?!----)){0,20000})"),
    "anthropic-key": (("sk-ant-",), _EDGE + r"sk-ant-[A-Za-z0-9_-]{16,}"),
    "openrouter-key": (("sk-or-",), _EDGE + r"sk-or-[A-Za-z0-9_-]{16,}"),
    "openai-key": (("sk-",), _WORD_EDGE + r"sk-(?!ant-|or-)[A-Za-z0-9_-]{20,}"),
    "xai-key": (("xai-",), _EDGE + r"xai-[A-Za-z0-9_-]{40,}"),
    "perplexity-key": (("pplx-",), _EDGE + r"pplx-[A-Za-z0-9]{40,}"),
    "nvidia-key": (("nvapi-",), _EDGE + r"nvapi-[A-Za-z0-9_-]{40,}"),
    "groq-key": (("gsk_",), _EDGE + r"gsk_[A-Za-z0-9]{30,}"),
    "huggingface-token": (("hf_",), _EDGE + r"hf_[A-Za-z0-9]{30,}"),
    "replicate-token": (("r8_",), _EDGE + r"r8_[A-Za-z0-9]{30,}"),
    "google-key": (("AIza",), _EDGE + r"AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    "google-token": (("ya29.",), _EDGE + r"ya29\.[A-Za-z0-9_-]{20,}"),
    "google-secret": (("GOCSPX-",), _EDGE + r"GOCSPX-[A-Za-z0-9_-]{20,}"),
    "aws-key-id": (("AKIA", "ASIA", "ABIA", "ACCA"),
        _EDGE + r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    "bedrock-key": (("ABSK", "bedrock-api-key-"),
        _EDGE + r"(?:ABSK|bedrock-api-key-)[A-Za-z0-9+/]{60,}={0,2}"),
    "azure-signature": (("sig=",), r"[?&;]sig=(?P<secret>[A-Za-z0-9%+/=_-]{40,})"),
    "github-token": (("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        _EDGE + r"(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})"),
    "gitlab-token": (("glpat-",), _EDGE + r"glpat-[A-Za-z0-9_-]{16,}"),
    "slack-token": (("xox", "xapp-"),
        _EDGE + r"(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,}"),
    "slack-webhook": (("hooks.slack.com",),
        r"hooks\.slack\.com/(?P<secret>services/[A-Za-z0-9/]{20,})"),
    "telegram-token": ((":AA",), r"(?<![0-9])[0-9]{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])"),
    "twilio-key": (("SK",), _EDGE + r"SK[0-9a-f]{32}(?![A-Za-z0-9])"),
    "stripe-key": (("k_live_", "k_test_"), _EDGE + r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    "npm-token": (("npm_",), _EDGE + r"npm_[A-Za-z0-9]{30,}"),
    "pypi-token": (("pypi-",), _EDGE + r"pypi-[A-Za-z0-9_-]{50,}"),
    "sendgrid-key": (("SG.",), _EDGE + r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    "databricks-token": (("dapi",), _EDGE + r"dapi[0-9a-f]{32}(?![A-Za-z0-9])"),
    "digitalocean-token": (("_v1_",), _EDGE + r"do[oprt]_v1_[a-f0-9]{40,}"),
    "vault-token": (("hvs.",), _EDGE + r"hvs\.[A-Za-z0-9_-]{24,}"),
    "age-key": (("AGE-SECRET-KEY-",), r"AGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    "jwt": (("eyJ",),
        _EDGE + r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{16,}"),
    "authorization": (("authorization",),
        r"(?i:authorization)[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?:(?i:bearer|basic|token)\s{1,4})?"
        r"(?P<secret>[A-Za-z0-9_~+/.=-]{12,})"),
    # Words follow `bearer` too; a token has a digit in it.
    "bearer": (("bearer",),
        r"(?i:bearer)\s{1,4}(?P<secret>(?=[A-Za-z_~+/.=-]{0,200}[0-9])[A-Za-z0-9_~+/.=-]{20,})"),
    # A password may have an @ in it: the last one before the host ends it.
    "url-password": (("://",),
        r"://[^\s:/@\[\]]{0,100}:(?P<secret>[^\s/\[\]\"'<>]{1,200})@(?=[A-Za-z0-9\[])"),
    "url-token": (("://",), r"://(?P<secret>[A-Za-z0-9_~.-]{20,200})@(?=[A-Za-z0-9\[])"),
    "connection-password": (("password", "pwd"),
        r"(?<=[;\"'])\s{0,4}(?i:password|pwd)\s{0,4}=\s{0,4}(?P<secret>[^\s;\"'\[\]]{1,200})"
        r"(?=[;\"'])"),
    "assigned-secret": (("secret", "passw", "api", "access", "auth", "account", "private_key"),
        r"(?i:secret|password|passwd|api[_-]?key|access[_-]?key|account[_-]?key|auth[_-]?token"
        r"|access[_-]?token|private_key)[A-Za-z0-9_-]{0,40}[\"']?\s{0,4}[:=]\s{0,4}[\"']?"
        r"(?P<secret>[A-Za-z0-9_~+/.=!@#$%^&*-]{12,})"),
}  # fmt: skip
_ANY_CASE: Final = {"authorization", "bearer", "connection-password", "assigned-secret"}
KINDS: Final = tuple(_SHAPES)
_COMPILED: Final = [
    (kind, words, lazy_pattern(pattern)) for kind, (words, pattern) in _SHAPES.items()
]
_SIGNS: Final = "-_:=."  # most texts have few of them, and most words have one
# Signs of which a shape has at least one, besides those of its words.
_NEEDED: Final = {
    "slack-token": "-", "jwt": ".", "authorization": ":=", "connection-password": "=",
    "assigned-secret": ":=",
}  # fmt: skip


@lru_cache(maxsize=64)
def _possible(signs: str, *, capitals: bool) -> list[tuple[str, tuple[str, ...], re.Pattern[str]]]:
    """List the shapes that a text may have whose signs are these, with capital letters or none."""
    missing = set(_SIGNS) - set(signs)
    found = []
    for kind, words, pattern in _COMPILED:
        there = tuple(
            word
            for word in words
            if missing.isdisjoint(word) and (capitals or kind in _ANY_CASE or word == word.lower())
        )
        needed = _NEEDED.get(kind, "")
        if there and (not needed or not missing.issuperset(needed)):
            found.append((kind, there, pattern))
    return found


# Shorter ones are words that occur anyway.
SHORTEST: Final = 8
_MARK: Final = "[redacted:known-key]"
_known: tuple[str, ...] = ()


def know(*secrets: str) -> None:
    """Remember keys by their values: from now on they are replaced whatever they look like."""
    global _known  # a key is a key to everybody in this process
    fresh = {secret for secret in secrets if len(secret) >= SHORTEST and secret not in _MARK}
    # The longest first: one key may begin with another.
    _known = tuple(sorted(fresh.union(_known), key=lambda secret: (-len(secret), secret)))


def redact_cut(head: str, tail: str, between: str) -> str:
    """Redact a text whose middle was left out, with what is left there of a known key."""
    for secret in _known:
        for size in range(len(secret) - 1, SHORTEST // 2 - 1, -1):
            head = head[:-size] + _MARK if head.endswith(secret[:size]) else head
            tail = _MARK + tail[size:] if tail.startswith(secret[-size:]) else tail
    return redact(head) + between + redact(tail)


def redact(text: str) -> str:
    """Replace known keys and what looks like a credential; the same text if nothing does."""
    for secret in _known:
        if secret in text:
            text = text.replace(secret, _MARK)
    lowered = text.lower()
    signs = "".join([sign for sign in _SIGNS if sign in text])
    for kind, words, pattern in _possible(signs, capitals=lowered != text):
        haystack = lowered if kind in _ANY_CASE else text
        for word in words:
            if word in haystack:
                text = pattern.sub(_blank(kind), text)
                break
    return text


def redact_field(key: str, value: str) -> str:
    """Redact a field's value with its name in view: `{"api_key": "…"}` is an assignment."""
    prefix = f"{key}: "
    named = redact(prefix + value)
    return named[len(prefix) :] if named.startswith(prefix) else redact(value)


def _blank(kind: str) -> Callable[[re.Match[str]], str]:
    mark = f"[redacted:{kind}]"

    def blank(match: re.Match[str]) -> str:
        if "secret" not in match.re.groupindex:
            return mark
        start, end = match.span("secret")
        return f"{match.string[match.start() : start]}{mark}{match.string[end : match.end()]}"

    return blank
