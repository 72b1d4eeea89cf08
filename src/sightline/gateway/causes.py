"""The forms of the texts that agents write, as a table: one row is one form of one cause.

`authors` reads the table from top to bottom: the first row that fits a change names its cause. The
empty cause ends the reading, because a person wrote the text. A test tries every example, and
docs/causes.md shows how to add a row. An example shows a change in braces: `It is {9:14|9:15}.` is
`It is 9:14.` and then `It is 9:15.`

| test | a row fits if |
| --- | --- |
| `opens` | the text begins with the pattern, or its changed line (in a result only the line) |
| `line` | the changed line has the pattern |
| `heading` | the changed line is a heading that has the pattern, or is below one |
| `value` | the lines differ only in values: each row of the cause finds one form of value |
| `label` | the lines begin with the pattern and differ after it. An added line needs a value |
| `word` | both lines begin with the pattern and differ after it |
| `count` | the lines differ only in numbers, and both have the pattern |
| `around` | the texts differ only in elements whose opening tag has the pattern |
| `whole` | the pattern is the whole new text |
| `cut` | a part of the text is missing, and the text that replaces it has the pattern |

| location | text |
| --- | --- |
| `instructions` | the system prompt |
| `message` | a message in the user's role |
| `reminder` | a message in the user's role that begins as a reminder |
| `model` | a message of the model |
| `result` | the result of a tool |
| `part` | a whole message that was added or removed |
| `summary` | a text that may replace earlier messages |
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple


class Row(NamedTuple):
    """One form of text: its cause, its test, its locations, its pattern and examples."""

    cause: str
    test: str
    locations: tuple[str, ...]
    pattern: str  # a regular expression that ignores case
    fits: tuple[str, str]
    unlike: str

    @property
    def regex(self) -> re.Pattern[str]:
        """The compiled pattern. `re` caches it, so that only the first use compiles it."""
        return re.compile(self.pattern, re.IGNORECASE)


def rows(cause: str, test: str, locations: str, *forms: tuple[str, str, str, str]) -> Iterator[Row]:
    """Yield a row for each form: a pattern, two examples that fit, and a text that does not."""
    for pattern, one, other, unlike in forms:
        yield Row(cause, test, tuple(locations.split()), pattern, (one, other), unlike)


# Parts of patterns. Dates:
YEAR: Final = r"(?:19|20)\d\d"
DAY: Final = r"\d{1,2}(?:st|nd|rd|th|\.)?"
WORD: Final = r"[^\W\d_]{3,12}"  # the name of a month in any language
CLOCK: Final = r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?"
NOON: Final = r" ?[AP]\.?M\b\.?"
UNIT: Final = r"(?:second|minute|hour|day|week|month|year)s?"
MONTH: Final = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?"
    r"|Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\b\.?"
)
ORDINAL: Final = (
    r"(?:(?:twenty|thirty)[- ])?(?:first|second|third|(?:four|fif|six|seven|eigh|nin|ten|eleven"
    r"|twelf|(?:thir|four|fif|six|seven|eigh|nine)teen|twentie|thirtie)th)"
)
# Counters: a number, the words for things that requests count, and words of a chosen number.
NUMBER: Final = r"[$#]?\d[\w.,]*%?(?: ?(?:/|of|out of) ?(?:the |this )?[\w.,]+)?"
STEPS: Final = r"turns?|steps?|requests?|messages?|invocations?|iterations?|attempts?|rounds?"
TOKENS: Final = r"tokens?|context|budget|spent|cost"
NUMBERS: Final = r"counter|session|conversation|seq(?:uence)?|nonce"
UNCHOSEN: Final = (
    r"\A(?!.*\b(?:at (?:most|least)|up to|(?:no )?(?:more|less|fewer|longer|shorter) than|under"
    r"|over|within|max(?:imum)?|min(?:imum)?|limit|never|always|must|should|prefer|keep|use|only"
    r"|or more|or (?:less|fewer)|every|ask|write|answer|wrap|indent|stop|retry|do not|don't)\b)"
)
# The name of a file, but not in a sentence that only mentions it before a colon.
NAMES: Final = (
    r"\A(?!(?!.*\b(?:contents?|instructions?|rules|guidelines|memory|from|file|source|loaded|read)"
    r"\b)(?:[\w']+,? ){2,}.*:$).*"
)
EVENT: Final = (
    r"(?:UserPromptSubmit|SessionStart|SessionEnd|PreToolUse|PostToolUse(?:Failure)?|PostToolBatch"
    r"|SubagentSt(?:art|op)|Stop|PreCompact|PostCompact|Notification|PermissionRequest)"
)
# Words for a summary, for a question, and for a missing part.
COMPACT: Final = r"(?:summar(?:y|i[sz]ed|i[sz]ation)|recap|compact(?:ed|ion)|hand-?(?:off|over))"
ASKS: Final = (
    r"(?:write|make|give|create|produce|tell|draft|show|summari[sz]e|sum up|recap(?! of\b)|compact"
    r"|begin|put|add|what|how|why|when|who|which|where)"
)
CUT: Final = (
    r"\b(?:clear(?:ed)?|omitted|truncated|removed|elided|trimmed|pruned|compacted|snipped|shortened"
    r"|stripped|left out|cut|saved|stored|summari[sz]ed|no longer (?:available|shown)|too large)\b"
)


def counting(words: str) -> str:
    """Match a count of the given words: turn 3 of 9, turn is 3, 300 tokens left."""
    return (
        rf"(?:\b(?:{words})(?!\w)\W{{0,3}}(?:[\w-]+\W{{1,3}}){{0,3}}(?:\w+-)?{NUMBER}"
        rf"|\b(?:{words}) (?:\w+ ){{0,3}}(?:is|are)(?: at)? {NUMBER}|\b(?:used|made|spent) {NUMBER}"
        rf"|{NUMBER}(?: [\w-]+){{0,2}} (?:{words})\b(?: \w+){{0,2}}? ?"
        r"(?:left|remain\w*|used|so far|spent))"
    )


def counted(words: str) -> str:
    """Match a line that counts, if no word shows that a person chose the number."""
    return rf"{UNCHOSEN}.*?{counting(words)}"


def labelled(words: str, mark: str = "[:=]") -> str:
    """Match a label with a given word, if a single word follows the label."""
    return rf"\W*(?:[\w-]+[ _-])??(?:{words})(?:[ _-][\w-]+)?\W*{mark}\s*(?=[\w./+-]+=*\W*$)"


def stated(words: str) -> str:
    """Match a line that states a fact of the machine: `Platform: linux`."""
    return rf"^[\s>*-]*(?:[\w() -]{{0,24}}\b)?(?:{words})\b[^:.]{{0,30}}(?::| is [/~\w]+\S*\.?$)"


# fmt: off
ROWS: Final = (
    *rows("billing", "line", "instructions message reminder model",
        (r"x-anthropic-billing-header", "x-anthropic-billing-header: cc={2|3};",
         "{|x-anthropic-billing-header: cc=2;}", "Explain the billing {header|headers}.")),

    # A whole result that was cleared. The end of the table has results that lost a part.
    *rows("result_cut", "whole", "result",
        (rf"(?s)[\[<(].*{CUT}.*[\]>)]",
         "{41|[Old tool result content cleared]}", "{a|<r>\nOutput saved.\n</r>}", "{41|[42]}"),
        (rf"(?s)(?:(?:old|earlier|tool) )*(?:result|output|content)s? .*{CUT}.*",
         "{41|Old result was removed.}", "{41|Tool output is cut.}", "{41|Result: 42 files}")),
    *rows("image", "line", "result",
        (r"^\[image [0-9a-f]{8}\]$", "[image {0|1}badcafe]", "[image {2|3}badcafe]", "[image]")),

    # The output of a hook.
    *rows("hook", "opens", "message reminder model part result",
        (r"\bhook (?:additional context|success|feedback|output|blocking)(?:\b.{0,40}:|\s*$)",
         "Edit hook success: {a|b}", "A hook feedback: {a|b}", "Heed hook feedback {now|later}."),
        (rf"\A\W*(?:<system[-_]reminder>\s*)?[\[(]?{EVENT}(?::[\w*|-]+)? hook\b",
         "[PreToolUse hook] {a|b}", "Stop:Bash hook {a|b}", "Why does my Stop hook {fail|hang}?"),
        (rf"\A\W*hook(?:s|ed)?\b[^\n.?!]{{0,40}}{EVENT}",
         "Hook PreToolUse: {a|b}", "[hooks: SessionStart] {a|b}", "Hooks are {a|b}."),
        (r"\A\W*[^\n:.?!]{0,40}\bby (?:a |the )?hook:",
         "Added by a hook: {a|b}", "Context by hook: {a|b}", "I was hit by a hook. {a|b}"),
        (r"\A\s*<(?:[\w-]*[_-])?hook(?:[_-][\w-]*)?(?: [^<>]*)?>",
         "<hook>{a|b}</hook>", "<my-submit-hook id='1'>{a|b}", "<hooked>{a|b}</hooked>")),

    # A date or a time.
    *rows("date", "value", "instructions message reminder model result",
        (rf"\d{{4}}-\d\d-\d\d(?:[T ]{CLOCK}(?:Z|[+-]\d\d:?\d\d)?)?",
         "on {2026-11-15|2026-11-16}", "at 2026-11-15T{09:14:02|09:15:02}Z", "port {8080|9090}"),
        (r"\b\d{8}T\d{4}(?:\d\d)?(?:Z|[+-]\d{4})?\b",
         "at {20261115T0914|20261116T0915}", "20261115T{091402|091502}Z", "{20261115T|20261116T}"),
        (rf"\b{YEAR}(?:-?W\d\d(?:-?\d)?|[- /]?Q[1-4])\b|\bQ[1-4][- /]?{YEAR}\b",
         "in {2026-W46|2026-W47}", "in {Q3|Q4} 2026", "in {Q3|Q4}"),
        (rf"\b{DAY}(?: of| de)?[ -]{WORD}\.?,?(?: de)?[ -]{YEAR}\b",
         "on {15|16} novembre 2026", "{1|2} de enero de 2026", "on {15|16} novembre"),
        (rf"\b(?:{DAY}|{ORDINAL})(?: of)? {MONTH}",
         "on the {15th|16th} of Nov.", "on {first|twenty-first} June", "on the {15th|16th}"),
        (rf"\b{MONTH} {YEAR}\b", "in {October|November} 2026", "in {Oct|Nov} 2026", "{may|march}"),
        (rf"\b{MONTH} {{1,2}}\d{{1,2}}(?:st|nd|rd|th)?\b"
         rf"(?:(?: {CLOCK})?(?: (?:[A-Z]{{2,5}}|[+-]\d{{4}}))?,? \d{{4}}\b)?",
         "on November {15|16}th", "since Nov {15|16} 09:14:02 UTC 2026", "on page {15|16}"),
        (rf"\b{YEAR}\. ?{WORD} \d{{1,2}}\b", "2026. május {1|2}", "2026. {juni|mei} 1", "{1|2} a"),
        (r"(?<!\d)\d{4}[年년][ ]?\d{1,2}[月월][ ]?\d{1,2}[日일]",
         "今天是2026年11月{15|16}日", "2026년 11월 {15|16}일", "{2025|2026}年"),
        (rf"\b{YEAR}(?:/\d{{1,2}}/|\.\d{{1,2}}\.|\. \d{{1,2}}\. )\d{{1,2}}\b",
         "on 2026/11/{15|16}", "on 2026. 11. {15|16}", "in {2025|2026}/app"),
        (r"\b\d{1,2}/\d{1,2}/\d{2,4}\b", "11/{15|16}/2026", "11/{15|16}/26", "{1|2}/3 are done"),
        (rf"\b\d{{1,2}}\. ?\d{{1,2}}\. ?{YEAR}\b|\b\d\d\.\d\d\.\d\d\b",
         "am {15|16}.11.2026", "am {15|16}.11.26", "use {3.11.2|3.12.2}"),
        (rf"\b{CLOCK}(?:{NOON})?", "at {9:14|9:15}", "at 09:14:{02|03} {AM|PM}", "at {9|10}"),
        (rf"\b\d{{1,2}}{NOON}", "at {9 AM|10 AM}", "at 9{am|pm}", "at {9|10} amps"),
        (r"\b\d{1,2}(?:h\d\d\b| o'clock\b)", "9h{14|15}", "at {9|10} o'clock", "for {9|10} hours"),
        (r"\b(?:week|KW) \d{1,2}\b|\bday \d+ of\b", "KW {46|47}", "day {3|4} of 9", "{4|5} weeks"),
        (rf"\b(?:\d+|an?|one|two|three) {UNIT} ago\b|\bin \d+ {UNIT}\b",
         "saved {3|4} hours ago", "due in {3 days|2 days}", "takes {3|4} hours"),
        # A day of the week: in English, Germanic, Romance, other European and Asian languages.
        (r"\b(?:(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b"
         r"(?: (?:morning|noon|afternoon|evening|night)\b)?",
         "on {Monday|Tuesday}", "on {Sun|Mon} evening", "in the {morning|evening}"),
        (r"\b(?:(?:Mon|Diens|Donners|Frei|Sams|Sonn)tag|Mittwoch|Sonnabend|(?:maan|dins|woens"
         r"|donder|vrij|zater|zon|mån|tis|ons|tors|fre|lör|sön|man|tirs|lør|søn)dag)\b",
         "am {Montag|Dienstag}", "op {zaterdag|zondag}", "am {Vortag|Feiertag}"),
        (r"\b(?:(?:lun|mar|mercre|jeu|vendre|same)di|dimanche|(?:luned|marted|mercoled|gioved"
         r"|venerd)ì|sabato|domenica|lunes|martes|miércoles|jueves|viernes|sábado|domingo"
         r"|(?:segunda|terça|quarta|quinta|sexta)(?:-feira)?)\b",
         "le {lundi|mardi}", "na {quinta|sexta}-feira", "à {midi|minuit}"),
        (r"\b(?:poniedziałek|wtorek|środa|czwartek|piątek|sobota|niedziela|понедельник|вторник|среда"
         r"|четверг|пятница|суббота|воскресенье|pazartesi|sal[\u0131i]|çarşamba|perşembe|cuma(?:rtesi)?"
         r"|pazar)\b",
         "to {wtorek|środa}", "это {среда|четверг}", "to {pies|kot}"),
        (r"(?:星期|礼拜|周|週)[一二三四五六日天]|[(\uff08][月火水木金土日][)\uff09]|[月火水木金土日]曜日?"
         r"|[월화수목금토일]요일", "今天是星期{一|二}", "오늘은 {월|화}요일", "第{一|二}")),
    # A line with a label of time, and any value.
    *rows("date", "label", "instructions message reminder model result",
        (r"\W*(?:[\w']+ ){0,3}?(?:date|time|datetime|now|today|day|month|year|week|quarter|clock"
         r"|timestamp|epoch|moment|uptime|elapsed)\b(?:[^\w:=\n]{0,3}(?:is|\([^)]*\)))?\s*[:=>]+",
         "Unix time: {1794700000|1794700123}", "{|Date: 2026-11-15}", "Port: {8080|9090}"),
        (r"\W*(?:(?:[\w']+ ){0,3}(?:date|time|day|month|year|week|clock)|today|it) is "
         r"(?=.*\d|\w+day)", "Today is {the 15th|the 16th}", "The year is {1|2}", "It is {a|b}.")),

    # An id. In a reminder it belongs to the reminder.
    *rows("random", "value", "instructions message model result",
        (r"\{?[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\}?",
         "{a|b}81bc81b-dead-4e5d-abff-90865d1e13b1", "a81bc81b-dead-4e5d-abff-90865d1e13b{1|2}",
         "in a81b-{dead|beef}"),
        (r"(?<![A-Za-z0-9])[0-9a-f]{12,}(?![A-Za-z0-9])",
         "at {0badcafe0bad|1badcafe0bad}", "at 90865d1e13b{1|2}", "at {0badcafe|1badcafe}"),
        (r"\b(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{20,}\b",
         "req_011CUfVxYz{AbCdEfGh|IjKlMnOp}", "toolu_{01|02}_abcdefghijkl", "very_long_{a|b}_name"),
        (r"(?<![A-Za-z0-9])(?=(?:[A-Za-z]*\d+[A-Za-z]+){2})[A-Za-z0-9]{8,}(?![A-Za-z0-9])=*",
         "fence {k7Qp2xZ9vB|Wm4tR8sLq1}", "of {a1b2c3d4|e5f6a7b8}", "use {base64url1|utf8mb4}")),
    # A label with a single word after it.
    *rows("random", "word", "instructions message model result",
        (labelled("id|uuid|nonce|salt|seed|token|key|hash|digest|checksum"),
         "nonce: {Zx81kQ|p0Lm3T}", "Run id = {alpha|beta}", "Name: {alpha|beta}"),
        (labelled("trace|request|session|correlation|conversation|fence|boundary|marker"
                  "|cache-buster"), "Session: {a|b}", "- fence={x|y}", "Session: {read it|say it}"),
        (labelled("build|revision|run|turns?|steps?|remaining",
                  r"(?:[:=]|(?<=build) |(?<=revision) )"),
         "build {7f3a|8b21}", "Turns remaining: {three|two}", "Building {seven|eight}")),

    # A line about the machine.
    *rows("environment", "line", "instructions message reminder",
        (stated(r"git[ _]?(?:status|branch|diff|log)|(?:current|main) branch|recent commits"
                r"|is (?:a |directory a )?git repo(?:sitory)?"),
         "Git status: {clean|dirty}", "Current branch: {a|b}", "Does git status {say|tell}?"),
        (stated(r"working director(?:y|ies)|cwd|home directory"),
         "cwd: {/a|/b}", "- Primary working directory: {/a|/b}", "Change the cwd {now|later}."),
        (stated(r"platform|shell|os(?: version)?|operating system|hostname|locale|time ?zone"),
         "Platform: {linux|darwin}", "Your shell is {bash|zsh}", "Write a shell {script|test}."),
        (stated("modified|deleted|untracked|renamed|new file"),
         "modified: {a.py|b.py}", "Untracked files: {1|2}", "I modified {a|b}."),
        (r"^\W*on branch \S+$|^\(clean\)$", "On branch {a|b}", "{(clean)|}", "Branch on {a|b}."),
        (r"^(?-i:\?\?| ?[MADRU]{1,2}) [\w./-]+$", "{ M a.py|}", "?? {a|b}.py", "X {a|b}.py"),
        (r"<(?:cwd|shell|platform|os|sandbox_mode|approval_policy)>",
         "<cwd>{/a|/b}</cwd>", "<shell>{bash|zsh}</shell>", "<name>{a|b}</name>")),

    # A file of instructions: the heading, the label or the tag above its lines.
    *rows("memory", "heading", "instructions message reminder part",
        (rf"{NAMES}\b(?:CLAUDE|AGENTS?|GEMINI|MEMORY|QWEN|CRUSH|WARP|CONVENTIONS)"
         r"(?:\.(?:local|override))?\.md\b",
         "# From AGENTS.md\n- {A|B}", "See CLAUDE.md:\n- {A|B}", "Put it in AGENTS.md:\n- {A|B}"),
        (rf"{NAMES}\b(?:instructions\.md|[\w-]+\.mdc)\b",
         "# .github/instructions.md\n- {A|B}", "From a.mdc:\n- {A|B}", "# From a.md\n- {A|B}"),
        (rf"{NAMES}(?<!\w)\.(?:cursor|windsurf|cline|roo|kilocode|continue|amazonq|trae|claude"
         r"|agents?|kiro)[\w-]*[/\\]?(?:rules|steering|memory)\b",
         "From .windsurfrules:\n- {A|B}", "# .kiro/steering\n- {A|B}", "# House rules\n- {A|B}"),
        (rf"{NAMES}(?:(?<!\w)\.[a-z]*rules\b|\.goosehints\b|\.(?:junie|augment)[-/]guidelines)",
         "# .goosehints\n- {A|B}", "From .abcrules:\n- {A|B}", "# Guidelines\n- {A|B}"),
        (r"<(?:(?:user|project|custom|repo\w*|agents?|claude)[_-])?"
         r"(?:md|memory|memories|rules|instructions)>",
         "<user_rules>\n- {A|B}\n</user_rules>", "<memory>\n- {A|B}", "<notes>\n- {A|B}")),

    # A number that each request changes. Below a heading of the environment it is a counter, too.
    *rows("random", "count", "instructions",
        (counted(STEPS), "Turn {3|4} of 40", "You have {9|8} steps left.", "At most {3|4} turns."),
        (counted(TOKENS), "Tokens left: {8,204|7,951}", "The cost is ${1|2}", "Keep {3|4} tokens."),
        (counted(NUMBERS), "Session {3|4}", "seq is {3|4}", "Page {3|4} {1|2}")),

    # The environment: the heading, the label or the tag above its lines.
    *rows("environment", "heading", "instructions message reminder part",
        (r"\benv(?:ironment)?(?:[_-](?:context|details|info))?\b",
         "# Environment\n\nPython: {3.11|3.12}", "<env>\n{a|b}\n</env>", "# Environs\n{a|b}"),
        (r"\b(?:system|workspace|project|device|host|editor|ide)[ _-]?"
         r"(?:info(?:rmation)?|context|state)\b",
         "# System info\n- {a|b}", "<ide_state>\n{a|b}\n</ide_state>", "# System\n- {a|b}"),
        (r"\bgit[ _-]?(?:status|log|diff|state|info|context)|\b(?:recent|latest|last)[ _-]commits?"
         r"\b|^\W*status:$", "# Git status\n{a|b}", "Last commits:\n9a {a|b}", "# Commits\n{a|b}"),
        (r"\b(?:directory|folder|file|project|repo\w*)[ _-](?:structure|tree|listing|layout)\b",
         "# Directory tree\n- {a|b}", "<file_tree>\n{a|b}\n</file_tree>", "# Tree\n- {a|b}"),
        (r"\b(?:open|visible|recent|active|changed)[ _-](?:files?|tabs?|buffers?|editors?|windows?)"
         r"\b", "# Open tabs\n- {a|b}", "<recent_files>\n{a|b}", "# Files\n{a|b}"),
        (r"\b(?:working|current)[ _-](?:directory|dir|tree|folder|branch)\b|\bcwd\b"
         r"|\boperating system\b|\bruntime\b",
         "# Working directory\n- {/a|/b}", "# Runtime\n- {a|b}", "# Directory\n- {a|b}")),

    # A reminder.
    *rows("reminder", "opens", "reminder part",
        (r"\A\s*<[\w-]*reminder[\w-]*(?: [^<>]*)?>",
         "<system-reminder>\n{a|b}", "<todo-reminder n='1'>{a|b}", "<note>{a|b}</note>"),
        (r"\A\s*\[[^\]\n]{0,40}\breminder\b[^\]\n]{0,40}\]",
         "[System reminder] {3|4} tasks", "[Reminder] {a|b}", "[Remind me] {a|b}"),
        (r"\A\s*(?:[\w-]+ )?reminder(?: \([^)\n]*\))?:",
         "Reminder: {a|b}", "System reminder (auto): {a|b}", "My last reminder: {a|b}")),
    *rows("reminder", "around", "message result",
        (r"<([\w-]{0,40}reminder[\w-]{0,40})(?: [^<>]{0,200})?>",
         "Go.{\n<reminder>a</reminder>|}", "b <my-reminder>{a|b}</my-reminder>", "<a>{a|b}</a>")),

    # A message that has only a number and the name of the things that it counts.
    *rows("random", "count", "message",
        (r"\A\W*(?:(?:you (?:have|are)|this is|there are)\b(?: \w+){0,2}? ?)?"
         r"(?:(?:the|your|this|total|current|random|message|session|api)[ _-])?"
         rf"{counting(f'{STEPS}|{TOKENS}|{NUMBERS}|remaining|count|seed|pid|calls?')}"
         r"(?: (?:tokens|steps|turns|requests|messages|calls|percent|context|window|used|left"
         r"|remaining|spent|so|far|in|total))*\W*\Z",
         "[step {3|4} of 9]", "You have {300|200} tokens left.", "Do step {3|4} again")),

    # Other numbers in instructions that a person did not choose.
    *rows("random", "count", "instructions",
        (counted("calls?|remaining|used|left|count"),
         "Calls: {3|4} now", "{3|4} bugs are left: {3|4}", "Fix {3|4} bugs."),
        (counted(r"seed|pid|worker|run|build|version|revision|rev|epoch|no\.|number"),
         "Its pid is {77|78} here", "runs version 1.{14|15}.20 now", "Room {77|78} is big here"),
        (rf"{UNCHOSEN}.*?(?:#\d|\d ?%)", "Go #{3|4} now", "Now {40|41} % full", "Item {3|4} of it"),
        (rf"{UNCHOSEN}\W*(?:[\w ./'-]{{1,40}}[:=]\s*[$#]?[\d.,/%x]+(?: \w+){{0,2}}"
         r"|[A-Za-z]+ [\w-]*\d+)\W*\Z", "Open: {3|4}", "[node n-{3|4}]", "Port: {3|4} must do")),

    # A result that lost a part.
    *rows("result_cut", "cut", "result",
        (r"\A\s*\Z", "one\ntwo{\nthree|}", "{one two three four|one}", "{one|two} three"),
        (rf"{CUT}|\.\.\.|…", "a {long text|[cut]} and more", "one two {three|…}", "{ab|a} cd")),

    # A person's question for a summary, and texts that replace a conversation.
    *rows("", "opens", "summary",
        (r"\A\W*(?:(?:now|then|please|first|finally|let us|let's|can you|could you|i want you to)"
         rf"[, ]+)*{ASKS}\b", "Write a recap of it:", "Now, summarize it all.", "Summary:\n")),
    *rows("compaction", "opens", "summary",
        (r"continued from a previous conversation|conversation (?:so far|summary)|<summary>",
         "It is continued from a previous conversation.", "Conversation so far", "It goes on."),
        (r"\b(?:produced|wrote|made|left) a summary of|handoff summary|summary of the conv"
         r"|previous conversation.{0,80}summar|summari[sz]ed (?:below|history)",
         "A model wrote a summary of its work.", "Words, summarized below", "It wrote a test."),
        (r"(?m)(?:^|\bhere(?:'s| is) (?:the|its|a|my) )summary:\s*\n",
         "Hi.\nSummary:\nIt works.", "Hi. Here is the summary:\nA", "Hi. Is a summary: good?"),
        (rf"(?m)\A\s*(?:#+ [^\n]*\b{COMPACT}\b"
         rf"|[=*_-]+ ?(?:[\w-]+ ){{0,4}}{COMPACT}\b[^\n.?!]{{0,40}}$)",
         "## Summary\nIt works.", "**Session recap**\nIt works.", "# Sum\nIt works."),
        (rf"\A\s*(?:<[\w-]*{COMPACT}[\w-]*(?: [^<>]*)?>|\[[^\]\n]*\b{COMPACT}\b[^\]\n]*\])",
         "<context-summary>\nIt works.", "[Compacted history] It works.", "<context>\nIt works."),
        (rf"(?m)\A\s*(?:[^\n?!]*[.!] )?(?![^\n.?!]*\b{ASKS} )[^\n.?!]*\b{COMPACT}\b[^\n.?!]*:\s*$",
         "A recap of the work:\nIt works.", "Hi. The handover:\nIt works.", "The recap:it works"),
        (rf"\A\s*[^\n?!]{{0,300}}\b(?:was|were|has|have|had)(?: been)? {COMPACT}\b",
         "All was summarised: it works.", "The history has been compacted.", "All was kept."),
        (rf"\A\s*(?:this|the following|below|here)(?:'s| is| are)[^\n.?!]{{0,300}}\b{COMPACT}\b",
         "This is a recap of our work", "Here's the handoff of today", "This is a test.")),
)
# fmt: on
