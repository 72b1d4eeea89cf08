"""Our exact counts are tiktoken's, on everything that is easy to get wrong.

tiktoken downloads its vocabulary; here it is rebuilt from the one compiled into the
wheel we count with. That proves nothing by itself, so tiktoken checks it: it takes the
file only if it has the SHA-256 that tiktoken's authors wrote down. What is compared
after that is two engines, two splitters, one vocabulary.
"""

from __future__ import annotations

import base64
import random
from pathlib import Path, PurePath

import pytest
import tiktoken
import toktok
from tiktoken_ext import openai_public

from sightline.context.tokens.tokens import counter_for

SCRIPTS = (
    "abcdefghij ABCDEF",
    "0123456789.,-+",
    " \t\n\r\u00a0\u2003\u200b",
    "{}[]\"':,_/\\<>|=&%$#@!",
    "äöüßéèñçåø",
    "字漢仮名交じり文中文字符",
    "한국어 처리",
    "ру́сский текст",  # noqa: RUF001 - another script is the point
    "العربية עברית",
    "हिन्दी ไทย",
    "😀👍🏽👩\u200d👩\u200d👧🇫🇷❤\ufe0f",
    "\x00\x01\x07\x1b\x7f\u0085\ufffd\ufeff\u2028",
)


def vocabulary_file(name: str) -> bytes:
    """Write the wheel's vocabulary as the file that tiktoken would download."""
    vocabulary = toktok._encoding(name)
    lines, rank = [], 0
    while token := bytes(vocabulary.decode_bytes([rank])):
        lines.append(base64.b64encode(token) + b" %d\n" % rank)
        rank += 1
    return b"".join(lines)


@pytest.fixture
def reference(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tiktoken.Encoding:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("tiktoken.load.read_file", lambda url: vocabulary_file(PurePath(url).stem))
    return tiktoken.Encoding(**getattr(openai_public, request.param)())


def corpus() -> list[str]:
    texts = [Path(random.__file__).read_text(encoding="utf-8")]
    texts += [
        "It's the user's; they'd say \"don't\". " * 20,
        '{"a": [1, 2.5e-3, null, "\\u00e9"]}' * 20,
    ]
    chance = random.Random(20261115)
    for _ in range(4000):
        alphabet = "".join(chance.sample(SCRIPTS, chance.randint(1, 4)))
        texts.append("".join(chance.choices(alphabet, k=chance.randint(0, 60))))
    return texts


@pytest.mark.parametrize("reference", ["o200k_base", "cl100k_base", "o200k_harmony"], indirect=True)
def test_counts_equal_tiktokens_on_prose_code_json_cjk_emoji_and_control_characters(
    reference: tiktoken.Encoding,
) -> None:
    counter = counter_for(reference.name)
    for text in corpus():
        assert counter.count(text) == len(reference.encode_ordinary(text)), repr(text)
