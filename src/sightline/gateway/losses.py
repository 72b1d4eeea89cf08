"""Why a request does not begin like the one before it: the first difference, and its author.

    compare(before, now) -> Comparison     what two requests share, what changed first, who did it
    verdict(…) -> Loss | None              that, and what the vendor reported, against each other

The author is told by the text that changed: agents write their date lines, reminders and
summaries in forms of their own. What fits no form is called by what it is: a message was edited,
an instruction reworded. Each cause has a sentence of what to do about it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from sightline.context.dialects.drift import common_start
from sightline.context.dialects.missed import Loss, missed
from sightline.context.dialects.usage import Usage
from sightline.gateway.bodies import CALLS, IMAGES, REASONING, RESULTS, Api, RequestBody, Unit

__all__ = [
    "Comparison",
    "common_units",
    "compare",
    "expected_tokens",
    "is_summary",
    "verdict",
]

SHOWN_CHARS: Final = 160
LOOKBACK: Final = 20  # blocks before a mark in which an earlier entry is looked for


class Comparison(msgspec.Struct, frozen=True):
    """What two requests have in common, and the first thing that differs.

    `shared` and `whole` are bytes of the earlier request's units. Without a cause the later one
    begins with all of the earlier. `before` and `now` show the changed passage. `setting` is a
    changed one, as (cause, detail), that need not cost anything: vendors do not say.
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


def common_units(one: Sequence[Unit], other: Sequence[Unit]) -> int:
    """Count the units that two requests begin with alike."""
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine.digest != theirs.digest:
            break
        count += 1
    return count


def compare(before: RequestBody, now: RequestBody) -> Comparison:
    """Find the first thing in which a request departs from an earlier one, and its author."""
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
        kept = _size(before.tools + before.system) if claude else shared
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
        found = _changed(before.system, now.system, at, "instructions")
        path = (now if at < len(now.system) else before).paths[len(now.tools) + at]
    else:
        at = common_units(before.messages, now.messages)
        if at == len(before.messages) or _asks_otherwise(before.messages[at:], now.messages[at:]):
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
    loss = missed(
        was.input_tokens,
        usage.cache_read_tokens,
        shared=compared.shared,
        whole=compared.whole,
        kept=_kept(was, now.api),
        cause=compared.cause,
        idle_s=idle_s,
        lifetime_s=lifetime_s,
        least_tokens=least_tokens,
        # OpenAI caches nothing in its explicit mode where nothing is marked ("Prompt caching").
        is_unmarked=not now.marked and (claude or (_is_explicit(now) and not compared.setting)),
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


def _size(units: Sequence[Unit]) -> int:
    return sum(unit.size for unit in units)


def _digests(units: Sequence[Unit]) -> tuple[bytes, ...]:
    return tuple(unit.digest for unit in units)


Found = tuple[str, str, str, str]  # cause, what it concerns, the passage before and now

_SETTINGS: Final = {
    "thinking": "thinking", "reasoning": "effort", "reasoning_effort": "effort",
    "output_config": "effort", "tool_choice": "tool_choice", "toolConfig": "tool_choice",
    "text": "setting", "output_format": "output", "response_format": "output",
    "prompt_cache_key": "routing", "speed": "setting", "service_tier": "setting",
    "verbosity": "setting", "parallel_tool_calls": "setting", "truncation": "setting",
    "prompt_cache_options": "setting", "prompt_cache_retention": "setting",
    "safety_identifier": "setting", "generationConfig": "setting", "cachedContent": "setting",
}  # fmt: skip


def _setting(before: RequestBody, now: RequestBody) -> tuple[str, str] | None:
    if before.model != now.model:
        return "model", f"{before.model} → {now.model}"
    for name, cause in _SETTINGS.items():
        old, new = before.settings.get(name), now.settings.get(name)
        if _meant(name, old) != _meant(name, new):
            cause = "output" if _format(name, old) != _format(name, new) else cause
            return cause, _clipped(f"{name}: {old or 'none'} → {new or 'none'}")
    return None


def _meant(name: str, setting: str | None) -> str | None:
    """A setting as its vendor takes it: nothing, where it is what holds without it."""
    return None if setting in ("", "null") or setting in _DEFAULTS.get(name, ()) else setting


# Anthropic, "Tool use"; OpenAI, "Responses": what holds where nothing is said.
_DEFAULTS: Final = {
    "tool_choice": (
        '"auto"', '{"type":"auto"}', '{"disable_parallel_tool_use":false,"type":"auto"}',
    ),
    "parallel_tool_calls": ("true",), "service_tier": ('"auto"',), "truncation": ('"disabled"',),
}  # fmt: skip


def _format(name: str, setting: str | None) -> object:
    """The format of the answer, where a setting holds it beside other things."""
    if setting is None or name not in ("output_config", "text"):
        return None
    value = msgspec.json.decode(setting)
    return value.get("format") if isinstance(value, dict) else None


def _tools(old: Sequence[Unit], new: Sequence[Unit]) -> Found:
    was, is_ = [unit.name for unit in old], [unit.name for unit in new]
    gone = list((Counter(was) - Counter(is_)).elements())
    come = list((Counter(is_) - Counter(was)).elements())
    if gone and come:
        return "tools_replaced", _names(come) + " for " + _names(gone), _names(gone), _names(come)
    if come:
        return "tool_added", _names(come), "", _names(come)
    if gone:
        return "tool_removed", _names(gone), _names(gone), ""
    if Counter(_digests(old)) == Counter(_digests(new)):
        at = common_units(old, new)
        return "tools_reordered", _names([is_[at]]) + " first", _names(was[at:]), _names(is_[at:])
    for one, other in zip(old, new, strict=False):
        if one.digest != other.digest and one.name == other.name:
            cause = "tool_reworded" if one.text != other.text else "tool_schema"
            return cause, one.name, *_passage(one.text, other.text)[:2]
    return "tools_reordered", "", _names(was), _names(is_)


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
    if not kept:
        return _begun_again(old, new, at)
    if len(kept) * 2 < len(lost):
        known = set(_digests(lost))
        fresh = [unit for unit in come if unit.digest not in known]
        if is_summary(fresh):
            return "compaction", "", _clipped(lost[0].text), _clipped(fresh[0].text)
    if Counter(_digests(lost)) == Counter(_digests(come[: len(lost)])):
        return "reordered", "", _clipped(lost[0].text), _clipped(come[0].text)
    back = _index(lost, come[0])
    ahead = _index(come, lost[0])
    if back is not None and (ahead is None or back <= ahead):
        return _taken_out(old, lost[:back], at)
    if ahead is not None:
        return _put_in(come[:ahead])
    # Something stands in the place of something else; the rest goes on alike.
    return _changed(old, new, at, "edited")


def _asks_otherwise(lost: Sequence[Unit], come: Sequence[Unit]) -> bool:
    """Whether only the last question is another one: a side question, or one that was taken back.

    It was never answered in this conversation, so nothing that was to stay has gone.
    """
    if any(unit.role in _MODEL for unit in lost) or not come or come[0].role in _MODEL:
        return False
    known = {unit.digest for unit in come}
    return not any(unit.digest in known for unit in lost)


def is_summary(units: Sequence[Unit]) -> bool:
    """Whether a conversation begins with a summary of another one."""
    return any(u.kind in _COMPACTED or _SUMMARY.search(u.text[:2_000]) for u in units[:3])


def _index(units: Sequence[Unit], wanted: Unit) -> int | None:
    return next((i for i, unit in enumerate(units) if unit.digest == wanted.digest), None)


def _begun_again(old: Sequence[Unit], new: Sequence[Unit], at: int) -> Found:
    """Nothing of what followed is left: compacted, begun anew, or another way taken."""
    if is_summary(new[at:]):
        return "compaction", "", _clipped(old[at].text), _clipped(new[at].text)
    lost, come = old[at:], new[at:]
    if len(lost) == 1 or (len(lost) <= 2 and lost[0].role == come[0].role == "user"):
        changed = _changed(old, new, at, "edited")
        if changed[0] != "edited" or _alike(lost[0].text, come[0].text):
            return changed
    if all(unit.role in _INSTRUCTING for unit in old[:at]):
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
    if at == 0 or not any(unit.role == "assistant" for unit in old[:at]):
        return "window", f"{len(gone)} parts", text, ""
    return "dropped", f"{len(gone)} parts", text, ""


def _put_in(come: Sequence[Unit]) -> Found:
    return _author(come) or "inserted", "", "", _clipped(come[0].text)


def _author(units: Sequence[Unit]) -> str:
    """Name who wrote units that came or went, if all of them are one author's."""
    kinds = {_kind(unit) for unit in units}
    return kinds.pop() if len(kinds) == 1 else ""


def _kind(unit: Unit) -> str:
    if unit.kind in REASONING:
        return "reasoning"
    if unit.kind in IMAGES:
        return "image"
    if _HOOK.search(unit.text[:400]):
        return "hook"
    if unit.text.lstrip().startswith("<system-reminder>"):
        return "reminder"
    return ""


def _changed(old: Sequence[Unit], new: Sequence[Unit], at: int, otherwise: str) -> Found:
    """Name the author of a change between two units, by the passage that changed."""
    if at >= len(old) or at >= len(new):
        unit = (new if at < len(new) else old)[at]
        was, now = ("", unit.text) if at < len(new) else (unit.text, "")
        return _line_author(was + now, was + now) or otherwise, "", _clipped(was), _clipped(now)
    one, other = old[at], new[at]
    if one.kind != other.kind:
        kind = _kind(other) or _kind(one)
        if not kind and one.kind in RESULTS:
            kind = "result_cut"
        return kind or otherwise, "", _clipped(one.text), _clipped(other.text)
    was, now, _ = _passage(one.text, other.text)
    if one.kind in CALLS and one.text and (one.name, one.text) == (other.name, other.text):
        return "random", "the call's id", was, now
    if one.kind in CALLS and _same_arguments(one.text, other.text):
        return "reserialized", one.name, was, now
    if one.kind in REASONING or one.kind in IMAGES:
        return _kind(one), "", was, now
    if one.kind in RESULTS and one.text != other.text:
        author = _result_author(one.text, other.text)
        if author:
            return author, one.name, was, now
    if one.text != other.text and "".join(one.text.split()) == "".join(other.text.split()):
        return "spaced", "", was, now
    if one.kind in RESULTS:
        return "result_cut" if _is_cut(one.text, other.text) else otherwise, one.name, was, now
    return _text_author(one.text, other.text, otherwise), "", was, now


def _is_cut(old: str, new: str) -> bool:
    """Whether a text is what was left of a longer one, or a short word in its stead."""
    if len(new) * 2 <= len(old):
        return True
    return len(new) < len(old) and _passage(old, new)[2] * 2 >= len(new)


def _result_author(old: str, new: str) -> str:
    """Name who changed something around a result's own words, or an image of it."""
    if any(_IMAGE_LINE.match(line) for line in _lines(old, new)):
        return "image"
    if _only(_REMINDER, old, new):
        return "reminder"
    return "random" if _only(_ID, old, new) else ""


def _text_author(old: str, new: str, otherwise: str) -> str:
    """Name who changed a text: by its lines that differ, then by what stands around them."""
    whole = new or old
    is_hook = _HOOK.search(whole[:400]) is not None
    line_old, line_new = _lines(old, new)
    # Instructions may speak of hooks; a message that begins with a hook's words is its output.
    author = "hook" if is_hook and otherwise == "edited" else _line_author(line_old, line_new)
    if author or is_hook:
        return author or "hook"
    if whole.lstrip().startswith("<system-reminder>"):
        return "memory" if _MEMORY.search(whole) else "reminder"
    # A section that came or went is what its own heading says, whatever stood before it.
    heads = [line for line in (_first(line_new), _first(line_old)) if _HEADING.fullmatch(line)]
    if any(map(_MEMORY.search, heads)):
        return "memory"
    around = _around(old, new)
    if any(map(_ENVIRONMENT_HEAD.search, (_heading(around), *_open_tags(around)))):
        return "environment"
    return "memory" if _MEMORY.search(around) else otherwise


def _line_author(old: str, new: str) -> str:
    both = f"{old}\n{new}"
    if "x-anthropic-billing-header" in both:
        return "billing"
    if _only(_DATE, old, new):
        return "date"
    if _ENVIRONMENT.search(both):
        return "environment"
    if _only(_RANDOM, old, new):
        return "random"
    return ""


def _only(pattern: re.Pattern[str], old: str, new: str) -> bool:
    """Whether two texts differ only in what a pattern finds."""
    if not (pattern.search(old) or pattern.search(new)):
        return False
    return pattern.sub("", old) == pattern.sub("", new)


def _lines(old: str, new: str) -> tuple[str, str]:
    """Return the lines of two texts from the first that differs to where they are alike again."""
    one, other = old.splitlines(), new.splitlines()
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    end = 0
    while end < min(len(one), len(other)) - start and one[-1 - end] == other[-1 - end]:
        end += 1
    one, other = one[start : len(one) - end], other[start : len(other) - end]
    found = {line: index for index, line in reversed(list(enumerate(other))) if line.strip()}
    alike = next((index for index, line in enumerate(one) if line in found), None)
    if alike is not None:
        one, other = one[:alike], other[: found[one[alike]]]
    return "\n".join(one), "\n".join(other)


def _first(lines: str) -> str:
    return lines.partition("\n")[0]


def _around(old: str, new: str) -> str:
    """Return what stands before the first difference, as far as it says what it is part of."""
    start = common_start(old, new)
    return old[max(0, start - 4_000) : start]


def _heading(above: str) -> str:
    """Return the heading or the opening tag of the paragraph in which a text ends."""
    lines = above.rpartition("\n\n")[2].split("\n")[:-1]
    return next((line for line in reversed(lines) if _HEADING.fullmatch(line)), "")


def _open_tags(above: str) -> list[str]:
    """Return the names of the tags in which a text ends."""
    opened: list[str] = []
    for is_end, name in _TAG.findall(above):
        if not is_end:
            opened.append(name)
        elif name in opened:
            del opened[len(opened) - 1 - opened[::-1].index(name) :]
    return opened


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
        return bool(msgspec.json.decode(one) == msgspec.json.decode(other))
    except msgspec.DecodeError:
        return False


def _clipped(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"


_MODEL: Final = frozenset({"assistant", "model"})
_INSTRUCTING: Final = frozenset({"system", "developer"})
_COMPACTED: Final = frozenset({"compaction", "compaction_summary", "context_compaction"})
_SUMMARY: Final = re.compile(
    r"(?im)continued from a previous conversation|conversation (?:so far|summary)"
    r"|summary of the conv|<summary>|\b(?:produced|wrote|made|left) a summary of"
    r"|previous conversation.{0,80}summar|handoff summary|summari[sz]ed (?:below|history)"
    r"|(?:^|\bhere(?:'s| is) (?:the|its|a|my) )summary:\s*\n"
)
_HOOK: Final = re.compile(
    r"(?i)\bhook (?:additional context|success|feedback|output|blocking)"
    r"|\A\s*<(?:[\w-]*[_-])?hook(?:[_-][\w-]*)?>"
)
_MEMORY: Final = re.compile(
    r"(?i)\b(?:CLAUDE|AGENTS?|GEMINI|MEMORY|QWEN|CRUSH|WARP|CONVENTIONS)(?:\.(?:local|override))?\.md\b"
    r"|\bcopilot-instructions\.md\b|\.instructions\.md\b|\b[\w-]+\.mdc\b|\.goosehints\b"
    r"|(?<!\w)\.(?:cursor|windsurf|cline|roo|kilocode|continue|amazonq|trae)[\w-]*[/\\]?rules\b"
    r"|\.(?:junie|augment)[-/]guidelines"
)
_IMAGE_LINE: Final = re.compile(r"\[image [0-9a-f]{8}\]")
_REMINDER: Final = re.compile(r"(?s)\s*<(system[-_]reminder)>.*?</\1>\s*")
_TAG: Final = re.compile(r"<(/?)([\w-]+)>")
_MONTH: Final = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?"
    r"|Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\b\.?"
)
_CLOCK: Final = r"\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?"
_DATE: Final = re.compile(
    rf"\d{{4}}-\d\d-\d\d(?:[T ]{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\b\d{8}T\d{4}(?:\d\d)?(?:Z|[+-]\d{4})?\b"
    # 15. November 2026, 15th of November 2026, 15 novembre 2026, 15 de noviembre de 2026
    r"|\b\d{1,2}(?:st|nd|rd|th|\.)?(?: of| de)? [^\W\d_]{3,12}\.?,?(?: de)? (?:19|20)\d\d\b"
    rf"|\b{_MONTH} (?:19|20)\d\d\b|\b{_MONTH} {{1,2}}\d{{1,2}}(?:st|nd|rd|th)?\b"
    rf"(?:(?: {_CLOCK})?(?: (?:[A-Z]{{2,5}}|[+-]\d{{4}}))?,? \d{{4}}\b)?"
    r"|\b\d{4}[年년][ ]?\d{1,2}[月월][ ]?\d{1,2}[日일]|\b(?:19|20)\d\d([./])\d{1,2}\1\d{1,2}\b"
    r"|\b\d{1,2}/\d{1,2}/\d{2,4}\b|\b\d{1,2}\. ?\d{1,2}\. ?(?:19|20)\d\d\b"
    rf"|\b{_CLOCK}(?: ?[AaPp]\.?[Mm]\b\.?)?"
    r"|\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b"
)
_ENVIRONMENT: Final = re.compile(
    r"(?m)\b(?i:git ?status|current branch|recent commits|working directory|cwd|platform:"
    r"|is a git repository|os version|(?:modified|deleted|untracked|new file):)"
    r"|^(?:\?\?| ?[MADRU]{1,2}) [\w./-]+$"
)
_HEADING: Final = re.compile(r"\s*(?:#+ .*|<[\w-]+>)\s*")
_ENVIRONMENT_HEAD: Final = re.compile(r"(?i)\benv(?:ironment)?(?:[_-](?:context|details|info))?\b")
_RANDOM: Final = re.compile(
    r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|\b[0-9a-fA-F]{12,}\b|\b\d+(?:\.\d+)?\b"
    r"|\b[A-Za-z0-9_-]{20,}\b"
    # Letters and digits in turn: no word, and no name with a version.
    r"|\b(?=(?:[A-Za-z]*\d+[A-Za-z]+){2})[A-Za-z0-9]{8,}\b"
)
# The same without plain numbers and long words, for texts in which those may well change.
_ID: Final = re.compile(
    r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|\b[0-9a-fA-F]{12,}\b"
    r"|\b(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{20,}\b"
)
