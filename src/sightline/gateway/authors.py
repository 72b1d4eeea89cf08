"""Who wrote what changed in a text: told by its form, and by what it stands under (pure).

    author_of(old, new)         of a change in instructions or in a message
    result_author(old, new)     of a change in a tool's result
    block_author(text)          of a text that came or went whole
    is_summary_text(text)       whether it is what a conversation was compacted to

A text is looked at from its first line that differs. Agents write dates, reminders and reports of
their surroundings in forms of their own; what has no such form was written by a person or a model,
and nobody's name is returned. A word that speaks *about* such a thing is none: a form is a line
with a label, a tag, or what stands under a heading.
"""

from __future__ import annotations

import re
from typing import Final

from sightline.context.dialects.drift import common_start

HEAD_CHARS: Final = 400  # in which a text says what it is
LINE_CHARS: Final = 600  # of a line that are looked at, and of them around its first difference
AROUND_CHARS: Final = 200
WINDOW_CHARS: Final = 20_000  # before a change in which it is looked for what it stands under


def author_of(old: str, new: str, *, role: str = "") -> str:
    """Name who changed a text, empty for whoever wrote it; `role` is whose message it is."""
    above, was, now = _changed_lines(old, new)
    first = _first_pair(was, now)
    if "x-anthropic-billing-header" in f"{was}\n{now}":
        return "billing"
    if role and _HOOK.search((new or old)[:HEAD_CHARS]):
        return "hook"
    is_reminder = bool(role) and is_reminder_text(new or old)
    if _is_date(*first):
        return "date"
    if not is_reminder and _is_id(*first):
        return "random"
    if role in _MODEL:
        return ""
    section = _head_kind(first[1]) or _head_kind(first[0])
    if not section and any(map(_ENVIRONMENT.search, first)):
        return "environment"
    is_end = new.startswith(old) and not now.split("\n", 1)[0].strip()
    section = section or _section(above, first, is_end=is_end)
    if section == "environment" and not role and _is_counter(*first, counted=_PER_REQUEST):
        return "random"
    if section:
        return section
    if is_reminder or (role and _is_reminded(old, new)):
        return "reminder"
    if role and any(_HOOK.search(line) for line in first):
        return "hook"
    if role:
        return "random" if _is_stamp(*first) else ""
    return "random" if _is_counter(*first, counted=_COUNTED) else ""


def result_author(old: str, new: str) -> str:
    """Name who changed something around a result's own words, an image of it, or what cut it."""
    _, was, now = _changed_lines(old, new)
    if _IMAGE.search(f"{was}\n{now}") and not _is_cleared(new):
        return "image"
    if _is_reminded(old, new):
        return "reminder"
    first = _first_pair(was, now)
    if any(map(_HOOK.search, first)):
        return "hook"
    if is_spaced(old, new):
        return "spaced"
    if _is_date(*first):
        return "date"
    if _is_id(*first):
        return "random"
    return "result_cut" if _is_cut(old, new) else ""


def block_author(text: str) -> str:
    """Name the agent's part that a whole text is, empty for anybody's words."""
    if _HOOK.search(text[:HEAD_CHARS]):
        return "hook"
    kind = _head_kind(_first(_inner(text[:HEAD_CHARS])))
    if is_reminder_text(text):
        return kind or "reminder"
    return kind


def is_reminder_text(text: str) -> bool:
    """Whether a text begins as reminders do."""
    return _REMINDER.match(text[:HEAD_CHARS]) is not None


def is_summary_text(text: str) -> bool:
    """Whether a text says that it stands for what was said before it."""
    if _REQUEST.match(text[:HEAD_CHARS]):
        return False
    return bool(_SUMMARY.search(text[:2_000]) or _SUMMARY_HEAD.search(text[:HEAD_CHARS]))


def is_spaced(old: str, new: str) -> bool:
    """Whether two texts differ in white space only."""
    return old != new and "".join(old.split()) == "".join(new.split())


# The lines that differ.


def _changed_lines(old: str, new: str) -> tuple[str, str, str]:
    """Return what stands above the first line that differs, and both texts to where they meet."""
    one, other = old.splitlines(), new.splitlines()
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    above = "\n".join(one[:start])[-WINDOW_CHARS:]
    end = 0
    while end < min(len(one), len(other)) - start and one[-1 - end] == other[-1 - end]:
        end += 1
    one, other = one[start : len(one) - end], other[start : len(other) - end]
    found = {line: index for index, line in reversed(list(enumerate(other))) if line.strip()}
    alike = next((index for index, line in enumerate(one) if line in found), None)
    if alike is not None:
        one, other = one[:alike], other[: found[one[alike]]]
    return above, "\n".join(one), "\n".join(other)


def _first(lines: str) -> str:
    return next((line for line in lines.splitlines() if line.strip()), "")


def _first_pair(was: str, now: str) -> tuple[str, str]:
    """Return the first lines that differ; of long ones what is around their difference."""
    old, new = _first(was), _first(now)
    if max(len(old), len(new)) <= LINE_CHARS:
        return old, new
    start = common_start(old, new)
    end = common_start(old[start:][::-1], new[start:][::-1])
    first, after = max(0, start - AROUND_CHARS), max(0, end - AROUND_CHARS)
    cut = (line[first : len(line) - after] for line in (old, new))
    one, other = (line[:LINE_CHARS] for line in cut)
    return one, other


def _is_reminded(old: str, new: str) -> bool:
    """Whether two texts differ only in the reminders in them."""
    if not (_REMINDS.search(old) or _REMINDS.search(new)):
        return False
    return _unreminded(old) == _unreminded(new)


def _unreminded(text: str) -> str:
    kept = []
    at = 0
    while found := _REMINDS.search(text, at):
        close = f"</{found[1]}>"
        end = text.find(close, found.end())
        if end < 0:
            break
        kept.append(text[at : found.start()].rstrip())
        at = end + len(close)
    return "".join([*kept, text[at:].strip()])


def _differ_in(pattern: re.Pattern[str], old: str, new: str, mark: str = "") -> bool:
    """Whether two texts differ only in what a pattern finds, or in whether it is there.

    With a `mark`, which stands for what is found, it must be there in both.
    """
    if not (pattern.search(old) or pattern.search(new)):
        return False
    return pattern.sub(mark, old) == pattern.sub(mark, new)


def _is_date(old: str, new: str) -> bool:
    """Whether the first difference of two lines is a date or a time, and nobody's words."""
    if not old or not new:
        line = old or new
        return _DATED.match(line) is not None and _DATE.search(line) is not None
    if _differ_in(_DATE, old, new):
        return True
    one, other = (_WORN.sub("", _DATE.sub("", line)) for line in (old, new))
    at = common_start(old, new)
    begun = any(m.start() <= at <= m.end() for line in (old, new) for m in _DATE.finditer(line))
    if begun and one == other:
        return True
    # A line that says it tells the time: whatever its form.
    return bool(_DATED.match(old) and _DATED.match(new)) and _after_label(old, new)


def _after_label(old: str, new: str) -> bool:
    return common_start(old, new) >= min(m.end() for m in map(_DATED.match, (old, new)) if m) - 1


def _is_id(old: str, new: str) -> bool:
    """Whether two lines differ only in what nobody chose: ids, and what is counted for a label."""
    if old and new and _differ_in(_ID, old, new):
        return True
    found = [_LABELLED_ID.fullmatch(line.strip()) for line in (old, new)]
    return all(found) and len({match[1] for match in found if match}) == 1


def _is_stamp(old: str, new: str) -> bool:
    """Whether two lines of a message say nothing but a number, and what it counts."""
    are_stamps = all(_STAMP.fullmatch(line.strip()) for line in (old, new))
    return are_stamps and _differ_in(_NUMBER, old, new, "\0")


def _is_counter(old: str, new: str, *, counted: re.Pattern[str]) -> bool:
    """Whether two lines of instructions differ only in what is counted, and nobody chose."""
    lines = old, new
    if not (old and new and _differ_in(_NUMBER, old, new, "\0")) or any(map(_CHOSEN.search, lines)):
        return False
    if all(map(counted.search, lines)):
        return True
    return counted is _COUNTED and all(map(_LABELLED.fullmatch, lines))


# What a line stands under.


def _head_kind(line: str) -> str:
    """Name what a heading, a label or an opening tag says that follows."""
    head = _HEAD.match(line.strip())
    if head is None:
        return ""
    line = head[0] if head[0].startswith("<") else line
    if _MEMORY.search(line):
        return "" if _SPOKEN.match(line.strip()) else "memory"
    return "environment" if _ENVIRONMENT_HEAD.search(line) else ""


def _section(above: str, first: tuple[str, str], *, is_end: bool) -> str:
    """Name the part of a text that a line belongs to, by what stands above it."""
    tags: list[tuple[str, str]] = []
    heading = label = memory = ""
    level = depth = 0
    is_blank = is_parted = False
    for line in above.split("\n"):
        if not line.strip():
            is_blank, is_parted, label = True, True, ""
            continue
        kind = _head_kind(line)
        marks = _MARKDOWN.match(line)
        if marks:
            if memory and len(tags) <= depth and level and len(marks[1]) <= level:
                memory = ""
            heading, is_blank = kind, False
        elif line.rstrip().endswith(":"):
            label = kind
        if kind == "memory":
            memory, level, depth = kind, len(marks[1]) if marks else 0, len(tags)
            heading, is_parted = "", False
        for is_closing, name in _TAG.findall(line):
            if not is_closing:
                tags.append((name, _head_kind(f"<{name}>")))
            elif any(name == opened for opened, _ in tags):
                while tags.pop()[0] != name:
                    pass
                memory = memory if len(tags) >= depth and not _IN_FILE.match(name) else ""
    if any(kind == "environment" for _, kind in tags) or label == "environment":
        return "environment"
    is_data = any(map(_DATA.match, first))
    if heading == "environment" and (is_data or not is_blank):
        return "environment"
    if memory and is_end and level and not is_parted:
        return ""  # a paragraph of its own behind a file that has none
    return memory or ("memory" if any(kind == "memory" for _, kind in tags) else "")


def _inner(text: str) -> str:
    """Return a text without the tag of a reminder around it."""
    return _REMINDER.sub("", text, count=1)


# Results.


def _is_cleared(text: str) -> bool:
    return len(text) < HEAD_CHARS and _CLEARED.fullmatch(text.strip()) is not None


def _is_cut(old: str, new: str) -> bool:
    """Whether a text is what was left of a longer one, or a short word in its stead."""
    if old == new:
        return False
    if len(new) * 2 <= len(old) or (_is_cleared(new) and not _is_cleared(old)):
        return True
    start = common_start(old, new)
    end = common_start(old[start:][::-1], new[start:][::-1])
    put = new[start : len(new) - end]
    is_shorter = len(new) < len(old) and (start + end) * 2 >= len(new)
    return is_shorter and (not put.strip() or _CUT.search(put) is not None)


# Forms.

_MODEL: Final = frozenset({"assistant", "model"})
_SUMMARY: Final = re.compile(
    r"(?im)continued from a previous conversation|conversation (?:so far|summary)"
    r"|summary of the conv|<summary>|\b(?:produced|wrote|made|left) a summary of"
    r"|previous conversation.{0,80}summar|handoff summary|summari[sz]ed (?:below|history)"
    r"|(?:^|\bhere(?:'s| is) (?:the|its|a|my) )summary:\s*\n"
)
_COMPACT: Final = r"(?:summar(?:y|i[sz]ed|i[sz]ation)|recap|compact(?:ed|ion)|hand-?(?:off|over))"
_ASKS: Final = (
    r"(?:write|make|give|create|produce|tell|draft|show|summari[sz]e|sum up|recap(?! of\b)|compact"
    r"|begin|put|add|what|how|why|when|who|which|where)"
)
_REQUEST: Final = re.compile(
    r"(?i)\W*(?:(?:now|then|please|first|finally|let us|let's|can you|could you|i want you to)"
    rf"[, ]+)*{_ASKS}\b"
)
_SUMMARY_HEAD: Final = re.compile(
    # a heading, a tag, a label in brackets or between lines, a sentence that ends in a colon,
    # what was done to it
    rf"(?im)\A\s*(?:#+ [^\n]*\b{_COMPACT}\b|<[\w-]*{_COMPACT}[\w-]*(?: [^<>]*)?>"
    rf"|\[[^\]\n]*\b{_COMPACT}\b[^\]\n]*\]|[=*_-]+ ?(?:[\w-]+ ){{0,4}}{_COMPACT}\b[^\n.?!]{{0,40}}$"
    rf"|(?:[^\n?!]*[.!] )?(?![^\n.?!]*\b{_ASKS} )[^\n.?!]*\b{_COMPACT}\b[^\n.?!]*:\s*$"
    rf"|[^\n?!]*\b(?:was|were|has|have|had)(?: been)? {_COMPACT}\b"
    rf"|(?:this|the following|below|here)(?:'s| is| are)[^\n.?!]*\b{_COMPACT}\b)"
)
_EVENT: Final = (
    r"(?:UserPromptSubmit|SessionStart|SessionEnd|PreToolUse|PostToolUse(?:Failure)?|PostToolBatch"
    r"|SubagentSt(?:art|op)|Stop|PreCompact|PostCompact|Notification|PermissionRequest)"
)
_HOOK: Final = re.compile(
    r"(?i)\bhook (?:additional context|success|feedback|output|blocking)(?:\b.{0,40}:|\s*$)"
    rf"|\A\W*(?:<system[-_]reminder>\s*)?[\[(]?{_EVENT}(?::[\w*|-]+)? hook\b"
    rf"|\A\W*hook(?:s|ed)?\b[^\n.?!]{{0,40}}{_EVENT}|\A\W*[^\n:.?!]{{0,40}}\bby (?:a |the )?hook:"
    r"|\A\s*<(?:[\w-]*[_-])?hook(?:[_-][\w-]*)?(?: [^<>]*)?>"
)
_REMINDER: Final = re.compile(
    r"(?i)\A\s*(?:<[\w-]*reminder[\w-]*(?: [^<>]*)?>|\[[^\]\n]{0,40}\breminder\b[^\]\n]{0,40}\]"
    r"|(?:[\w-]+ )?reminder(?: \([^)\n]*\))?:)"
)
_REMINDS: Final = re.compile(r"(?i)<([\w-]{0,40}reminder[\w-]{0,40})(?: [^<>]{0,200})?>")
_FILES: Final = (
    r"(?:\b(?:CLAUDE|AGENTS?|GEMINI|MEMORY|QWEN|CRUSH|WARP|CONVENTIONS)"
    r"(?:\.(?:local|override))?\.md\b"
    r"|\b(?:copilot-)?instructions\.md\b|\.instructions\.md\b|\b[\w-]+\.mdc\b|\.goosehints\b"
    r"|(?<!\w)\.(?:cursor|windsurf|cline|roo|kilocode|continue|amazonq|trae|claude|agents?|kiro)"
    r"[\w-]*[/\\]?(?:rules|steering|memory)\b|(?<!\w)\.[a-z]*rules\b"
    r"|\.(?:junie|augment)[-/]guidelines)"
)
_MEMORY: Final = re.compile(
    rf"(?i){_FILES}|<(?:(?:user|project|custom|repo\w*|agents?|claude)[_-])?"
    r"(?:md|memory|memories|rules|instructions)>"
)
_IN_FILE: Final = re.compile(r"(?i).*(?:instructions|memory|rules|file|reminder)$")
_HEAD: Final = re.compile(
    r"(?i)#+ |<[\w-]+(?: [^<>]*)?>|[-=*\[(]+.*[-=*\])]:?$|.*:\**$"
    r"|(?:contents? of|from|file|source|path|instructions? (?:from|in|of))\b.*\.\w+\S*\)?$"
    r"|[A-Z][A-Z ]{7,40}$"
)
# A sentence that ends in a colon and speaks of a file is none that the file follows.
_SPOKEN: Final = re.compile(
    r"(?i)(?!.*\b(?:contents?|instructions?|rules|guidelines|memory|from|file|source|loaded|read)\b)"
    r"(?:[\w']+,? ){2,}.*:$"
)
_ENVIRONMENT_HEAD: Final = re.compile(
    r"(?i)\benv(?:ironment)?(?:[_-](?:context|details|info))?\b"
    r"|\b(?:system|workspace|project|device|host|editor|ide)[ _-]?"
    r"(?:info(?:rmation)?|context|state)\b"
    r"|\bgit[ _-]?(?:status|log|diff|state|info|context)|\b(?:recent|latest|last)[ _-]commits?\b"
    r"|\b(?:directory|folder|file|project|repo\w*)[ _-](?:structure|tree|listing|layout)\b"
    r"|\b(?:open|visible|recent|active|changed)[ _-](?:files?|tabs?|buffers?|editors?|windows?)\b"
    r"|\b(?:working|current)[ _-](?:directory|dir|tree|folder|branch)\b|\bcwd\b"
    r"|\boperating system\b|\bruntime\b|^\W*status:$"
)
_ENVIRONMENT: Final = re.compile(
    r"(?i)^[\s>*-]*(?:[\w() -]{0,24}\b)?(?:git[ _]?(?:status|branch|diff|log)"
    r"|(?:current|main) branch|recent commits|working director(?:y|ies)|cwd|platform"
    r"|shell|os(?: version)?|operating system"
    r"|home directory|hostname|locale|timezone|time zone|(?:modified|deleted|untracked|renamed"
    r"|new file)|is (?:a |directory a )?git repo(?:sitory)?)\b[^:.]{0,30}(?::| is [/~\w]+\S*\.?$)"
    r"|^\W*on branch \S+$|<(?:cwd|shell|platform|os|sandbox_mode|approval_policy)>"
    r"|^(?-i:\?\?| ?[MADRU]{1,2}) [\w./-]+$|^\(clean\)$"
)
_MARKDOWN: Final = re.compile(r"\s*(#{1,6}) ")
_TAG: Final = re.compile(r"<(/?)([A-Za-z][\w-]*)(?:\s[^<>]*)?>")
_DATA: Final = re.compile(r"\s*(?:[-*•] |[\w ./()'-]{1,40}[:=]\s|<)")
_IMAGE: Final = re.compile(r"(?m)^\[image [0-9a-f]{8}\]$")

_MONTH: Final = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?"
    r"|Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\b\.?"
)
_CLOCK: Final = r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?"
_DAYS: Final = (
    # English, German, Dutch, French, Italian, Spanish, Portuguese, Polish, Russian, Turkish, Nordic
    r"(?:(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|Mon|Tue|Wed|Thu|Fri|Sat|Sun"
    r"|(?:Mon|Diens|Donners|Frei|Sams|Sonn)tag|Mittwoch|Sonnabend"
    r"|(?:maan|dins|woens|donder|vrij|zater|zon)dag"
    r"|(?:lun|mar|mercre|jeu|vendre|same)di|dimanche"
    r"|(?:luned|marted|mercoled|gioved|venerd)ì|sabato|domenica"
    r"|lunes|martes|miércoles|jueves|viernes|sábado|domingo"
    r"|(?:segunda|terça|quarta|quinta|sexta)(?:-feira)?"
    r"|poniedziałek|wtorek|środa|czwartek|piątek|sobota|niedziela"
    r"|понедельник|вторник|среда|четверг|пятница|суббота|воскресенье"
    r"|pazartesi|sal[\u0131i]|çarşamba|perşembe|cuma(?:rtesi)?|pazar"
    r"|(?:mån|tis|ons|tors|fre|lör|sön)dag|(?:man|tirs|ons|tors|fre|lør|søn)dag)"
)
_ORDINAL: Final = (
    r"(?:(?:twenty|thirty)[- ])?(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth"
    r"|eleventh|twelfth|(?:thir|four|fif|six|seven|eigh|nine)teenth|twentieth|thirtieth)"
)
_DATE: Final = re.compile(
    rf"(?i)\d{{4}}-\d\d-\d\d(?:[T ]{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\b\d{8}T\d{4}(?:\d\d)?(?:Z|[+-]\d{4})?\b|\b(?:19|20)\d\d-?W\d\d(?:-?\d)?\b"
    r"|\b(?:19|20)\d\d[- /]?Q[1-4]\b|\bQ[1-4][- /]?(?:19|20)\d\d\b"
    # 15. November 2026, 15th of November 2026, 15 novembre 2026, 15 de noviembre de 2026
    r"|\b\d{1,2}(?:st|nd|rd|th|\.)?(?: of| de)?[ -][^\W\d_]{3,12}\.?,?(?: de)?[ -](?:19|20)\d\d\b"
    rf"|\b\d{{1,2}}(?:st|nd|rd|th|\.)?(?: of)? {_MONTH}|\b{_ORDINAL}(?: of)? {_MONTH}"
    rf"|\b{_MONTH} (?:19|20)\d\d\b|\b{_MONTH} {{1,2}}\d{{1,2}}(?:st|nd|rd|th)?\b"
    rf"(?:(?: {_CLOCK})?(?: (?:[A-Z]{{2,5}}|[+-]\d{{4}}))?,? \d{{4}}\b)?"
    r"|\b(?:19|20)\d\d\. ?[^\W\d_]{3,12} \d{1,2}\b"
    r"|(?<!\d)\d{4}[年년][ ]?\d{1,2}[月월][ ]?\d{1,2}[日일]"
    r"|\b(?:19|20)\d\d([./])\d{1,2}\1\d{1,2}\b|\b(?:19|20)\d\d\. \d{1,2}\. \d{1,2}\b"
    r"|\b\d{1,2}/\d{1,2}/\d{2,4}\b|\b\d{1,2}\. ?\d{1,2}\. ?(?:19|20)\d\d\b|\b\d\d\.\d\d\.\d\d\b"
    rf"|\b{_CLOCK}(?: ?[AP]\.?M\b\.?)?|\b\d{{1,2}} ?[AP]\.?M\b\.?|\b\d{{1,2}}h\d\d\b"
    r"|\b\d{1,2} o'clock\b|\b(?:week|KW) \d{1,2}\b"
    r"|\b(?:\d+|an?|one|two|three) (?:second|minute|hour|day|week|month|year)s? ago\b"
    r"|\bin \d+ (?:second|minute|hour|day|week|month|year)s?\b|\bday \d+ of\b"
    rf"|\b{_DAYS}\b(?: (?:morning|noon|afternoon|evening|night)\b)?"
    r"|(?:星期|礼拜|周|週)[一二三四五六日天]|[((][月火水木金土日][))]|[月火水木金土日]曜日?|[월화수목금토일]요일"
)
# What stands beside a date in its line and changes with the request.
_WORN: Final = re.compile(r"\d+(?:[.,]\d+)*|[0-9a-fA-F]{8,}(?:-[0-9a-fA-F]+)*")
_DATED: Final = re.compile(
    r"(?i)\W*(?:[\w']+ ){0,3}?(?:date|time|datetime|now|today|day|month|year|week|quarter|clock"
    r"|timestamp|epoch|moment|uptime|elapsed)\b(?:[^\w:=\n]{0,3}(?:is|\([^)]*\)))?\s*[:=>]+"
    r"|(?i:\W*(?:(?:[\w']+ ){0,3}(?:date|time|day|month|year|week|clock)|today|it)"
    r" is (?=.*\d|\w+day))"
)
_ID: Final = re.compile(
    r"\{?[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\}?"
    r"|(?<![A-Za-z0-9])[0-9a-fA-F]{12,}(?![A-Za-z0-9])|\b(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{20,}\b"
    # Letters and digits in turn: no word, and no name with a version.
    r"|(?<![A-Za-z0-9])(?=(?:[A-Za-z]*\d+[A-Za-z]+){2})[A-Za-z0-9]{8,}(?![A-Za-z0-9])=*"
)
# What is counted of requests, and what else has numbers that nobody chooses.
_REQUESTS: Final = (
    r"turns?|steps?|requests?|messages?|invocations?|iterations?|attempts?|rounds?|tokens?|context"
    r"|budget"
    r"|spent|cost|counter|session|conversation|seq(?:uence)?|nonce"
)
_COUNTS: Final = (
    rf"(?:{_REQUESTS}|calls?|remaining|used|left|count|seed|pid|worker|run|build|version|revision"
    r"|rev|epoch|no\.|number)"
)
_VALUE: Final = r"[$#]?\d[\w.,]*%?(?: ?(?:/|of|out of) ?(?:the |this )?[\w.,]+)?"


def _counting(words: str) -> str:
    """The forms in which something is said to be counted: turn 3 of 9, 300 tokens left."""
    return (
        rf"\b(?:{words})(?![\w])\W{{0,3}}(?:[\w-]+\W{{1,3}}){{0,3}}(?:\w+-)?{_VALUE}"
        rf"|\b(?:{words}) (?:\w+ ){{0,3}}(?:is|are)(?: at)? {_VALUE}|\b(?:used|made|spent) {_VALUE}"
        rf"|{_VALUE}(?: [\w-]+){{0,2}} (?:{words})\b(?: \w+){{0,2}}? ?"
        r"(?:left|remain\w*|used|so far|spent)"
    )


_PER_REQUEST: Final = re.compile(rf"(?i){_counting(_REQUESTS)}")
_IDS: Final = (
    r"(?:id|uuid|nonce|salt|seed|token|key|hash|digest|checksum|trace|request|session|correlation"
    r"|fence|boundary|marker|build|revision|cache-buster|conversation|run|turns?|steps?|remaining)"
)
_LABELLED_ID: Final = re.compile(
    rf"(?i)(\W*(?:[\w-]+[ _-])??{_IDS}(?:[ _-][\w-]+)?\W*(?:[:=]|(?<=build) |(?<=revision) )\s*)"
    r"[\w./+-]+=*\W*"
)
_NUMBER: Final = re.compile(
    r"\$?\b\d+(?:[.,]\d+)*[kKMG]?\b%?|\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,11}\b"
)
_CHOSEN: Final = re.compile(
    r"(?i)\b(?:at (?:most|least)|up to|(?:no )?(?:more|less|fewer|longer|shorter) than|under|over"
    r"|within|max(?:imum)?|min(?:imum)?|limit|never|always|must|should|prefer|keep|use|only|or more"
    r"|or (?:less|fewer)|every|ask|write|answer|wrap|indent|stop|retry|do not|don't)\b"
)
_COUNTED: Final = re.compile(rf"(?i){_counting(_COUNTS)}|#\d|\d ?%")
_LABELLED: Final = re.compile(
    r"(?i)\W*[\w ./'-]{1,40}[:=]\s*[$#]?[\d.,/%x]+(?: \w+){0,2}\W*|\W*[A-Za-z]+ [\w-]*\d+\W*"
)
_STAMP: Final = re.compile(
    rf"(?i)\W*(?:(?:you (?:have|are)|this is|there are)\b(?: \w+){{0,2}}? ?)?"
    rf"(?:(?:the|your|this|total|current|random|message|session|api)[ _-])?"
    rf"(?:{_counting(_REQUESTS + '|remaining|count|seed|pid|calls?')})"
    r"(?: (?:tokens|steps|turns|requests|messages|calls|percent|context|window|used|left"
    r"|remaining|spent|so|far|in|total))*\W*"
)
_CUTS: Final = (
    r"(?:clear(?:ed)?|omitted|truncated|removed|elided|trimmed|pruned|compacted|snipped|shortened"
    r"|stripped|left out|cut|saved|stored|summari[sz]ed|no longer (?:available|shown)|too large)"
)
_CUT: Final = re.compile(rf"(?i)\b{_CUTS}\b|\.\.\.|…")
_CLEARED: Final = re.compile(
    rf"(?is)[\[<(].*\b{_CUTS}\b.*[\]>)]"
    rf"|(?:(?:old|earlier|tool) )*(?:result|output|content)s? .*{_CUTS}.*"
)
