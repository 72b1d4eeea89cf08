"""Why a request does not begin like the one before it: the first difference, and its author.

    compare(before, now) -> Comparison     what two requests share, what changed first, who did it
    verdict(…) -> Loss | None              that, and what the vendor reported, against each other

The author is told by the text that changed (`authors`). What has no form of an agent's is called
by what it is: a message was edited, an instruction reworded. Where several things changed, the
first that the vendor reads is named. Each cause has a sentence of what to do about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from typing import Any, Final

import msgspec

from sightline.context.dialects.drift import (
    BLOCK_TOKENS,
    SLACK_TOKENS,
    Loss,
    common_start,
    missed,
)
from sightline.context.dialects.events import Usage
from sightline.gateway.authors import author_of, block_author, is_summary_text, result_author
from sightline.gateway.authors import is_spaced as is_spaced_only
from sightline.gateway.bodies import (
    CALLS,
    IMAGES,
    MODEL,
    REASONING,
    RESULTS,
    Api,
    RequestBody,
    Unit,
)

SHOWN_CHARS: Final = 160
TOLD_CHARS: Final = 200  # of a text that can stand for what was said before it
FOLDED_UNITS: Final = 4  # that such a text stands for, at least
GROWN_CHARS: Final = 24  # that such a text has, at least, from which another one grows
PROMPT_CHARS: Final = 4_096  # of equal lines, by which first messages are one prompt
LOOKBACK: Final = 20  # blocks before a mark in which an earlier entry is looked for


class Comparison(msgspec.Struct, frozen=True):
    """What two requests have in common, and the first thing that differs.

    `shared` and `whole` are bytes of the earlier request's units. Without a cause the later one
    begins with all of the earlier. `before` and `now` show the changed passage. `setting` is a
    changed one, as (cause, detail), that need not cost anything: vendors do not say. `mark` is
    where the last mark of the earlier one stands, -1 for none, and `reach` the bytes up to it.
    """

    shared: int
    whole: int
    units: int
    cause: str = ""
    path: str = ""
    detail: str = ""
    before: str = ""
    now: str = ""
    setting: tuple[str, str] | None = None
    mark: int = -1
    reach: int = 0


def common_units(one: Sequence[Unit], other: Sequence[Unit]) -> int:
    """Count the units that two requests begin with alike."""
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine is not theirs and mine.digest != theirs.digest:
            break
        count += 1
    return count


def nearly(old: Sequence[Unit], new: Sequence[Unit]) -> bool:
    """Whether a request goes on with all parts of an earlier one, each as it was or changed."""
    return len(old) < len(new) and all(
        one.digest == other.digest
        or (one.role == other.role and one.kind == other.kind and _holds(one.text, other.text))
        for one, other in zip(old, new, strict=False)
    )


def _holds(one: str, other: str) -> bool:
    """Whether the shorter of two texts stands for the most part at the ends of the longer."""
    start = common_start(one, other)
    end = common_start(one[start:][::-1], other[start:][::-1])
    return (start + end) * 2 >= min(len(one), len(other)) > 0


def compare(before: RequestBody, now: RequestBody) -> Comparison:
    """Find the first thing in which a request departs from an earlier one, and its author."""
    mark = max((i for i, unit in enumerate(before.units) if unit.marked), default=-1)
    reach = sum(unit.size for unit in before.units[: mark + 1])
    return msgspec.structs.replace(_compare(before, now), mark=mark, reach=reach)


def between(before: RequestBody, now: RequestBody) -> Comparison | None:
    """Compare what two conversations have in common by design; None if a person may differ.

    That is their tools and instructions, and a long prompt in the first message.
    """
    found = compare(*(msgspec.structs.replace(x, messages=(), settings={}) for x in (before, now)))
    one, other = (x.messages[0].text if x.messages else "" for x in (before, now))
    lines = set(one.splitlines()) & set(other.splitlines())
    if not found.cause and sum(map(len, lines)) >= PROMPT_CHARS:
        cause, _, was, then = _changed(before.messages, now.messages, 0, "edited")
        path = now.paths[len(now.tools) + len(now.system)]
        found = msgspec.structs.replace(found, cause=cause, path=path, before=was, now=then)
    is_tool = found.cause in ("tool_reworded", "tool_schema")
    cause = author_of(found.before, found.now) if is_tool else found.cause
    if cause not in _UNCHOSEN:
        return None
    whole = sum(unit.size for unit in before.units)
    return msgspec.structs.replace(found, whole=whole, detail="between conversations")


_UNCHOSEN: Final = frozenset(
    {"date", "random", "billing", "environment", "spaced", "reserialized", "tools_reordered"}
)


def _compare(before: RequestBody, now: RequestBody) -> Comparison:
    old, new = before.units, now.units
    count = common_units(old, new)
    whole = sum(unit.size for unit in old)
    shared = sum(unit.size for unit in old[:count])
    setting = _setting(before, now)
    if setting is not None:
        cause, detail = setting
        claude = before.api == "anthropic"
        # OpenAI, "Prompt caching": the schema of an answer stands before the system message.
        everything = cause in ("model", "routing") or (cause == "output" and not claude)
        kept = sum(unit.size for unit in before.tools + before.system) if claude else shared
        if everything or kept < shared:
            kept = 0 if everything else kept
            return Comparison(kept, whole, count, cause, "", detail)
    if count == len(old):
        return Comparison(shared, whole, count, setting=setting)
    section = before.section_of(count)
    if before.tools != now.tools and _digests(before.tools) != _digests(now.tools):
        found = _tools(before.tools, now.tools)
        at = common_units(before.tools, now.tools)
        path = (now if at < len(now.tools) else before).paths[at]
    elif section == "system" or _digests(before.system) != _digests(now.system):
        at = common_units(before.system, now.system)
        found = _instructions(before.system, now.system, at)
        path = (now if at < len(now.system) else before).paths[len(now.tools) + at]
    else:
        at = common_units(before.messages, now.messages)
        lost, come = before.messages[at:], now.messages[at:]
        if not lost or is_grown(lost, come) or _asks_otherwise(lost, come):
            return Comparison(shared, whole, count, setting=setting)
        found = _messages(before.messages, now.messages, at)
        path = (now if at < len(now.messages) else before).paths[count]
    cause, detail, was, then = found
    return Comparison(shared, whole, count, cause, path, detail, was, then)


def verdict(
    compared: Comparison,
    *,
    was: Usage | None,
    usage: Usage | None,
    now: RequestBody,
    idle_s: float,
    lifetime_s: float,
    least_tokens: int = 0,
    extra_price: float | None = None,
) -> Loss | None:
    """Hold what two requests share against what the vendor reported to have reused.

    `was` is the earlier request's usage: what it read or wrote could have been read now.
    `extra_price` is what a token costs above being read, in dollars a million.
    """
    if was is None or usage is None or not was.input_tokens:
        return None
    claude = now.api == "anthropic"
    kept = _kept(was, now.api)
    # OpenAI caches nothing in its explicit mode where nothing is marked ("Prompt caching").
    is_unmarked = (claude or _is_explicit(now)) and not any(
        unit.marked for unit in now.units[max(0, min(compared.mark, compared.units - 1)) :]
    )
    could = was.input_tokens
    if claude and compared.mark >= 0:
        # What stands behind the last mark was not kept, and cannot be lost.
        could = kept or could
        reached = "" if compared.units > compared.mark else compared.cause
        if compared.cause in _ALWAYS:
            reached = compared.cause
        shared = min(compared.shared, compared.reach)
        compared = msgspec.structs.replace(
            compared, cause=reached, shared=shared, whole=compared.reach
        )
    elif claude and not kept:
        kept = could if is_unmarked else 0
        compared = msgspec.structs.replace(compared, cause="")
    if could < least_tokens:
        return None
    is_seen = compared.setting is not None or (is_unmarked and compared.mark >= 0)
    loss = missed(
        could,
        usage.cache_read_tokens,
        shared=compared.shared,
        whole=compared.whole,
        kept=kept,
        cause=compared.cause,
        idle_s=idle_s,
        lifetime_s=lifetime_s,
        least_tokens=least_tokens,
        slack_tokens=BLOCK_TOKENS if is_seen else SLACK_TOKENS,
        is_unmarked=is_unmarked,
        setting=compared.setting,
        is_out_of_reach=claude and not _reaches_back(now, compared.units),
        extra_price=extra_price,
        most=usage.evaluated_tokens,
    )
    if loss is None or loss.cause != compared.cause:
        return loss
    return msgspec.structs.replace(
        loss,
        path=compared.path,
        detail=compared.detail,
        before=compared.before,
        now=compared.now,
    )


# Of Anthropic's causes those that void what the units have in common.
_ALWAYS: Final = frozenset({"model", "effort", "thinking", "tool_choice", "output", "setting"})


def expected_tokens(compared: Comparison, was: Usage, api: Api) -> int:
    """What an earlier request left in its vendor's cache, as far as a later one begins alike."""
    kept = _kept(was, api)
    return kept * compared.shared // compared.whole if compared.whole else kept


def _kept(was: Usage, api: Api) -> int:
    # Anthropic reads what it wrote; the others keep whatever came.
    claude = api == "anthropic"
    return was.cache_read_tokens + was.cache_write_tokens if claude else was.input_tokens


def _is_explicit(now: RequestBody) -> bool:
    return '"explicit"' in now.settings.get("prompt_cache_options", "")


def _reaches_back(now: RequestBody, shared: int) -> bool:
    """Whether a mark is near enough to what was there before (Anthropic, "Prompt caching").

    A mark further forward finds its own part again, and nothing of what follows it.
    """
    marks = [index for index, unit in enumerate(now.units) if unit.marked and index >= shared - 1]
    return not marks or min(marks) - LOOKBACK < shared


def _digests(units: Sequence[Unit]) -> tuple[bytes, ...]:
    return tuple(unit.digest for unit in units)


Found = tuple[str, str, str, str]  # cause, what it concerns, the passage before and now

_SETTINGS: Final = {
    "thinking": "thinking", "reasoning": "setting", "reasoning_effort": "effort",
    "output_config": "setting", "tool_choice": "tool_choice", "toolConfig": "tool_choice",
    "text": "setting", "output_format": "output", "response_format": "output",
    "prompt_cache_key": "routing", "speed": "setting", "service_tier": "setting",
    "verbosity": "setting", "parallel_tool_calls": "setting", "truncation": "setting",
    "prompt_cache_options": "setting", "prompt_cache_retention": "setting",
    "safety_identifier": "setting", "generationConfig": "setting", "cachedContent": "setting",
}  # fmt: skip
# What of a setting that holds several things has a cause of its own, first come first named.
_PARTS: Final = {
    "reasoning": {"effort": "effort"},
    "output_config": {"format": "output", "effort": "effort"},
    "text": {"format": "output"},
    "generationConfig": {
        "responseMimeType": "output", "responseSchema": "output", "responseJsonSchema": "output",
        "thinkingConfig": "thinking",
    },
}  # fmt: skip
# Gemini keeps beside them how words are drawn, which no prefix depends on.
_DRAWN: Final = frozenset(
    {
        "temperature", "topP", "topK", "seed", "candidateCount", "maxOutputTokens",
        "stopSequences", "presencePenalty", "frequencyPenalty", "responseLogprobs", "logprobs",
    }
)  # fmt: skip


def _setting(before: RequestBody, now: RequestBody) -> tuple[str, str] | None:
    if before.model != now.model:
        return "model", f"{before.model} → {now.model}"
    for name, cause in _SETTINGS.items():
        old, new = before.settings.get(name), now.settings.get(name)
        one, other = _meant(name, old), _meant(name, new)
        if one != other:
            for part, its in _PARTS.get(name, {}).items():
                if (one or {}).get(part) != (other or {}).get(part):
                    cause = its
                    break
            return cause, _clipped(f"{name}: {old or 'none'} → {new or 'none'}")
    return None


def _meant(name: str, setting: str | None) -> Any:
    """A setting as its vendor takes it: nothing, where it is what holds without it."""
    if setting in (None, "", "null") or setting in _DEFAULTS.get(name, ()):
        return None
    value = msgspec.json.decode(setting)
    if name not in _PARTS:
        return value
    if not isinstance(value, dict):
        return None
    plain = {"type": "text"}, "text/plain"
    kept = {k: v for k, v in value.items() if k not in _DRAWN and v is not None and v not in plain}
    return kept or None


# Anthropic, "Tool use"; OpenAI, "Responses"; Gemini, "Function calling": what holds unsaid.
_DEFAULTS: Final = {
    "tool_choice": (
        '"auto"', '{"type":"auto"}', '{"disable_parallel_tool_use":false,"type":"auto"}',
    ),
    "toolConfig": ('{"functionCallingConfig":{"mode":"AUTO"}}',),
    "response_format": ('{"type":"text"}',),
    "parallel_tool_calls": ("true",), "service_tier": ('"auto"',), "truncation": ('"disabled"',),
}  # fmt: skip


def _instructions(old: Sequence[Unit], new: Sequence[Unit], at: int) -> Found:
    """Name who changed a block of instructions, put one in or took one out."""
    back = _index(old[at:], new[at]) if at < len(new) else None
    ahead = _index(new[at:], old[at]) if at < len(old) else None
    if back is not None or at >= len(new):
        return _changed(old, new[:at], at, "instructions")
    if ahead is not None:
        return _changed(old[:at], new, at, "instructions")
    return _changed(old, new, at, "instructions")


def _tools(old: Sequence[Unit], new: Sequence[Unit]) -> Found:
    was, is_ = [unit.name for unit in old], [unit.name for unit in new]
    at = common_units(old, new)
    if at < min(len(old), len(new)) and was[at] == is_[at] and _stands(at, was, is_):
        one, other = old[at], new[at]
        cause = "tool_reworded" if one.text != other.text else "tool_schema"
        if one.meaning == other.meaning:
            return "reserialized", one.name, "", ""
        return cause, one.name, *_passage(one.text, other.text)[:2]
    gone = list((Counter(was) - Counter(is_)).elements())
    come = list((Counter(is_) - Counter(was)).elements())
    if gone and come:
        return "tools_replaced", _names(come) + " for " + _names(gone), _names(gone), _names(come)
    if come:
        return "tool_added", _names(come), "", _names(come)
    if gone:
        return "tool_removed", _names(gone), _names(gone), ""
    return "tools_reordered", _names([is_[at]]) + " first", _names(was[at:]), _names(is_[at:])


def _stands(at: int, was: Sequence[str], is_: Sequence[str]) -> bool:
    """Whether a name at a place is the same tool, not one more of that name."""
    return was.count(was[at]) == is_.count(was[at])


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(name or "unnamed" for name in names[:3]) + more


def _messages(old: Sequence[Unit], new: Sequence[Unit], at: int) -> Found:
    """Name what happened to a conversation at its first differing unit."""
    lost, come = old[at:], new[at:]
    mine = {unit.digest for unit in come}
    kept = [unit for unit in lost if unit.digest in mine]
    if not come:
        return "rewound", "", _clipped(lost[0].text), ""
    if lost[0].kind == come[0].kind and is_spaced(lost[0].text, come[0].text):
        return _changed(old, new, at, "edited")
    if not kept:
        return _begun_again(old, new, at)
    stays = {unit.digest for unit in kept}
    gone = next(i for i, unit in enumerate(lost) if unit.digest in stays)
    fresh = _until(come, stays)
    if _is_compacted(lost[:gone], fresh):
        return "compaction", "", _clipped(lost[0].text), _clipped(fresh[0].text)
    if len(kept) * 2 < len(lost):
        known = set(_digests(lost))
        later = [unit for unit in come if unit.digest not in known]
        if is_summary(later):
            return "compaction", "", _clipped(lost[0].text), _clipped(later[0].text)
    if Counter(_digests(lost)) == Counter(_digests(come[: len(lost)])):
        return "reordered", "", _clipped(lost[0].text), _clipped(come[0].text)
    back = _index(lost, come[0])
    ahead = _index(come, lost[0])
    if back is not None and (ahead is None or back <= ahead):
        return _taken_out(old, lost[:back], at)
    if ahead is not None:
        return _author(come[:ahead]) or "inserted", "", "", _clipped(come[0].text)
    # Something stands in the place of something else; the rest goes on alike.
    return _changed(old, new, at, "edited")


def _until(units: Sequence[Unit], known: Set[bytes]) -> Sequence[Unit]:
    """Return the units before the first that is known."""
    end = next((i for i, unit in enumerate(units) if unit.digest in known), len(units))
    return units[:end]


def _is_compacted(lost: Sequence[Unit], fresh: Sequence[Unit]) -> bool:
    """Whether much was said and little stands in its place, which says so or is long."""
    if not fresh or len(fresh) * 2 > len(lost):
        return False
    if is_summary(fresh):
        return True
    is_told = any(unit.kind == "text" and len(unit.text) >= TOLD_CHARS for unit in fresh)
    return is_told and len(lost) >= FOLDED_UNITS and len(fresh) * 4 <= len(lost)


def _asks_otherwise(lost: Sequence[Unit], come: Sequence[Unit]) -> bool:
    """Whether only the last question is another one: a side question, or one that was taken back.

    It was never answered in this conversation, so nothing that was to stay has gone.
    """
    if not come or any(unit.role in MODEL for unit in (*lost, *come)):
        return False
    known = {unit.digest for unit in come}
    return not any(unit.digest in known for unit in lost)


def is_grown(old: Sequence[Unit], new: Sequence[Unit]) -> bool:
    """Whether what differs is one text of all that was said, and it has only grown."""
    if len(old) != 1 or len(new) != 1 or old[0].kind != new[0].kind:
        return False
    was = old[0].text.rstrip()
    return GROWN_CHARS <= len(was) < len(new[0].text) and new[0].text.startswith(was)


def is_summary(units: Sequence[Unit]) -> bool:
    """Whether a conversation begins with a summary of another one."""
    return any(u.kind in _COMPACTED or is_summary_text(u.text) for u in units[:3])


def _index(units: Sequence[Unit], wanted: Unit) -> int | None:
    return next((i for i, unit in enumerate(units) if unit.digest == wanted.digest), None)


def _begun_again(old: Sequence[Unit], new: Sequence[Unit], at: int) -> Found:
    """Nothing of what followed is left: compacted, begun anew, or another way taken."""
    if is_summary(new[at:]):
        return "compaction", "", _clipped(old[at].text), _clipped(new[at].text)
    lost, come = old[at:], new[at:]
    is_question = not any(unit.role in MODEL or unit.kind in RESULTS for unit in lost)
    if is_question and lost[0].role == come[0].role and any(unit.role in MODEL for unit in come):
        # The last question, which was answered, is another text now: what was found for it left.
        return _changed(old, new, at, "edited")
    if len(lost) == 1 or (len(lost) <= 2 and lost[0].role == come[0].role == "user"):
        changed = _changed(old, new, at, "edited")
        if changed[0] != "edited" or _alike(lost[0].text, come[0].text):
            return changed
    if all(unit.role in _INSTRUCTING or _kind(unit) for unit in old[:at]):
        return "cleared", "", _clipped(old[at].text), _clipped(new[at].text)
    if _alike(lost[0].text, come[0].text) and lost[0].kind == come[0].kind:
        return _changed(old, new, at, "edited")
    return "rewound", "", _clipped(lost[0].text), _clipped(come[0].text)


def _alike(one: str, other: str) -> bool:
    """Whether one text is the other, changed: they begin and end alike for the most part."""
    _, _, shared = _passage(one, other)
    return shared * 2 >= max(len(one), len(other), 1)


def _taken_out(old: Sequence[Unit], gone: Sequence[Unit], at: int) -> Found:
    text = _clipped(gone[0].text)
    author = _author(gone)
    if author:
        return author, "", text, ""
    if not any(unit.role in MODEL for unit in old[:at]):
        return "window", f"{len(gone)} parts", text, ""
    return "dropped", f"{len(gone)} parts", text, ""


def _author(units: Sequence[Unit]) -> str:
    """Name who wrote the first of units that came or went, if an agent wrote all of them."""
    kinds = [_kind(unit) for unit in units]
    return kinds[0] if all(kinds) else ""


def _kind(unit: Unit) -> str:
    if unit.kind in REASONING:
        return "reasoning"
    if unit.kind in IMAGES:
        return "image"
    return block_author(unit.text) if unit.kind == "text" and unit.role not in MODEL else ""


def _changed(old: Sequence[Unit], new: Sequence[Unit], at: int, otherwise: str) -> Found:
    """Name the author of a change between two units, by the passage that changed."""
    if at >= len(old) or at >= len(new):
        unit = (new if at < len(new) else old)[at]
        was, now = ("", unit.text) if at < len(new) else (unit.text, "")
        role = "" if otherwise == "instructions" else unit.role
        author = author_of(was, now, role=role)
        return author or otherwise, "", _clipped(was), _clipped(now)
    one, other = old[at], new[at]
    if one.kind != other.kind:
        kind = _kind(other) or _kind(one)
        if not kind and one.kind in RESULTS:
            kind = "result_cut"
        return kind or otherwise, "", _clipped(one.text), _clipped(other.text)
    was, now, _ = _passage(one.text, other.text)
    if one.kind in CALLS:
        return _call_change(one, other), one.name, was, now
    if one.kind in REASONING or one.kind in IMAGES:
        return _kind(one), "", was, now
    if one.kind in RESULTS:
        author = result_author(one.text, other.text) if one.text != other.text else ""
        if one.text != other.text and _same_arguments(one.text, other.text):
            author = "reserialized"
        return author or otherwise, one.name, was, now
    if is_spaced(one.text, other.text):
        return "spaced", "", was, now
    role = "" if otherwise == "instructions" else one.role
    author = author_of(one.text, other.text, role=role) if one.text != other.text else ""
    return author or otherwise, "", was, now


def is_spaced(one: str, other: str) -> bool:
    """Whether two texts differ in white space or in marks of formatting alone."""
    return one != other and (
        is_spaced_only(one, other) or (_plain(one) == _plain(other) and bool(_plain(one)))
    )


def _plain(text: str) -> str:
    return "".join(text.translate(_FORMATTING).split())


_FORMATTING: Final = str.maketrans("", "", "*_#`>~•")


def _call_change(one: Unit, other: Unit) -> str:
    """Name what changed of a call: its id, how its arguments are written, or the call itself."""
    if one.name != other.name:
        return "edited"
    if one.text == other.text:
        if one.call != other.call:
            return "random"
        return "reasoning" if one.kind == "functionCall" else "edited"  # Gemini signs its calls
    return "reserialized" if _same_arguments(one.text, other.text) else "edited"


def _passage(old: str, new: str) -> tuple[str, str, int]:
    """Return what differs of two texts, with a little around it, and how much they share."""
    start = common_start(old, new)
    end = common_start(old[start:][::-1], new[start:][::-1])
    first = max(0, start - 20)
    was = old[first : len(old) - end + 20 if end > 20 else len(old)]
    now = new[first : len(new) - end + 20 if end > 20 else len(new)]
    return _clipped(was), _clipped(now), start + end


def _same_arguments(one: str, other: str) -> bool:
    try:
        return _same(msgspec.json.decode(one), msgspec.json.decode(other))
    except msgspec.DecodeError:
        return False


def _same(one: Any, other: Any) -> bool:
    """Whether two values are one, however written: 1 is 1.0, and not true."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _clipped(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"


_INSTRUCTING: Final = frozenset({"system", "developer"})
_COMPACTED: Final = frozenset({"compaction", "compaction_summary", "context_compaction"})
