"""Common key shapes are blanked; what only looks a little like them is not."""

from __future__ import annotations

import re
import string
import subprocess
import sys
import tempfile

import pytest

from sightline.context.messages.gate import Gate, shown_json
from sightline.context.messages.parts import Message, Text, ToolCall
from sightline.context.messages.redact import KINDS, know, redact

ALNUM = string.ascii_letters + string.digits
BODY = (ALNUM * 3)[:120]

# Planted canaries: put together here, so that no scanner takes this file for a leak.
CANARIES = {
    "private-key": "-----BEGIN RSA PRIVATE " + f"KEY-----\n{BODY}\n-----END RSA PRIVATE KEY-----",
    "anthropic-key": "sk-" + f"ant-api03-{BODY[:80]}",
    "openrouter-key": "sk-" + f"or-v1-{BODY[:64]}",
    "openai-key": "sk-" + f"proj-{BODY[:90]}",
    "google-key": "AI" + f"za{BODY[:35]}",
    "google-token": "ya" + f"29.{BODY[:60]}",
    "aws-key-id": "AK" + "IAIOSFODNN7EXAMPLE",
    "github-token": "gh" + f"p_{BODY[:36]}",
    "gitlab-token": "gl" + f"pat-{BODY[:20]}",
    "slack-token": "xo" + f"xb-123456789012-{BODY[:24]}",
    "slack-webhook": "services" + "/T00000000/B00000000/" + BODY[:24],
    "stripe-key": "sk_" + f"live_{BODY[:24]}",
    "npm-token": "np" + f"m_{BODY[:36]}",
    "pypi-token": "py" + f"pi-AgEIcHlwaS5vcmc{BODY[:60]}",
    "huggingface-token": "h" + f"f_{BODY[:34]}",
    "sendgrid-key": "S" + f"G.{BODY[:22]}.{BODY[:43]}",
    "groq-key": "gs" + f"k_{BODY[:52]}",
    "digitalocean-token": "do" + f"p_v1_{'0123456789abcdef' * 4}",
    "age-key": "AGE-SECRET" + f"-KEY-1{(string.ascii_uppercase * 3)[:58]}",
    "jwt": "ey" + f"J{BODY[:20]}.eyJ{BODY[:40]}.{BODY[:43]}",
    "authorization": BODY[:40],
    "bearer": BODY[40:80],
    "url-password": "hunter2",
    "url-token": BODY[:40],
    "connection-password": "S3cret!",
    "xai-key": "xa" + f"i-{BODY[:80]}",
    "perplexity-key": "pp" + f"lx-{BODY[:48]}",
    "nvidia-key": "nv" + f"api-{BODY[:64]}",
    "replicate-token": "r" + f"8_{BODY[:37]}",
    "google-secret": "GOC" + f"SPX-{BODY[:28]}",
    "bedrock-key": "AB" + f"SK{BODY}==",
    "azure-signature": f"{BODY[:43]}%3D",
    "telegram-token": "123456789" + f":AA{BODY[:33]}",
    "twilio-key": "S" + "K" + "0123456789abcdef" * 2,
    "databricks-token": "da" + "pi" + "0123456789abcdef" * 2,
    "vault-token": "hv" + f"s.{BODY[:90]}",
    "assigned-secret": BODY[:40],
}
# How each of them comes along.
AROUND = {
    "slack-webhook": "curl https://hooks.slack.com/{}",
    "authorization": 'curl -H "Authorization: Bearer {}"',
    "bearer": "the header was: Bearer {}",
    "url-password": "postgres://admin:{}@db.example.org/x",
    "url-token": "git clone https://{}@example.org/r.git",
    "connection-password": "Server=db;User Id=sa;Password={};Encrypt=true",
    "azure-signature": "https://x.example.org/c?sv=2022&sig={}",
    "assigned-secret": "AWS_SECRET_ACCESS_KEY={}\n",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_of_each_shape_is_blanked_wherever_it_stands(kind: str) -> None:
    canary = CANARIES[kind]
    around = AROUND.get(kind, "key: {}")
    for text in (around.format(canary), f'{{"a": "{around.format(canary)}", "b": 1}}'):
        clean = redact(text)
        assert canary not in clean
        assert re.search(r"\[redacted:[a-z-]+\]", clean)
        assert redact(clean) == clean
    if kind not in AROUND:
        assert redact(f"({canary})") == f"([redacted:{kind}])"


def test_every_shape_has_its_canary() -> None:
    assert set(CANARIES) == set(KINDS)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain text about sk-learn and task-force",
        "sk-short",
        "the password is required; the secret of good tea",
        "password: short",
        "https://example.org:8080/path@here",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "123e4567-e89b-12d3-a456-426614174000",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUA",
        "token counts: 1234567890123456",
        "-----BEGIN PUBLIC KEY-----\nabc\n-----END PUBLIC KEY-----",
        "the bearer of responsibilities-and-obligations",
        "docs/sk-learn-classifiers-and-pipelines.md",
        "ssh://git@example.org/r.git and https://user@example.org",
        "f(user=name, password=None, pwd=get_pwd())",
        "SELECT * FROM x WHERE a = 'b'; password policy = none",
    ],
)
def test_what_is_no_key_stays(text: str) -> None:
    assert redact(text) is text


def test_what_stands_around_a_key_stays() -> None:
    key = CANARIES["github-token"]
    assert redact(f"before {key}, after") == "before [redacted:github-token], after"
    url = redact("git clone https://me:s3cret@example.org/r.git")
    assert url == "git clone https://me:[redacted:url-password]@example.org/r.git"


def test_a_key_cut_off_by_the_end_of_a_file_is_blanked_too() -> None:
    assert "QUJD" not in redact("-----BEGIN PRIVATE " + "KEY-----\nQUJD")


@pytest.mark.parametrize("words", ["RSA PRIVATE", "ENCRYPTED PRIVATE", "OPENSSH PRIVATE"])
def test_a_key_with_headers_is_blanked_to_its_end(words: str) -> None:
    """Headers have hyphens in them, which the key itself has not."""
    headers = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123456789ABCDEF\n\n"
    for end in (f"-----END {words} KEY-----", ""):
        text = f"-----BEGIN {words} " + f"KEY-----\n{headers}{BODY}\n{end}"
        assert redact(f"a {text}! b") == "a [redacted:private-key]! b"


def test_a_key_spoken_of_does_not_take_the_rest_of_the_text_along() -> None:
    text = "-----BEGIN PRIVATE " + "KEY----- is how it begins. Then (see RFC 7468) comes base64."
    assert redact(text).endswith("Then (see RFC 7468) comes base64.")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("redis://:hunter2@cache:6379/0", "hunter2"),
        ("mysql://root:p@ss:w0rd@db.example.org:3306/x", "p@ss:w0rd"),
        ("https://" + CANARIES["github-token"] + "@example.org/r.git", CANARIES["github-token"]),
        ("x/" + CANARIES["anthropic-key"], CANARIES["anthropic-key"]),
        ("AccountName=a;AccountKey=" + BODY[:86] + "==;Suffix=x", BODY[:86]),
        ("github_" + f"pat_{BODY[:22]}_{BODY[:59]}", BODY[:22]),
        ("xap" + f"p-1-A0123456789-{BODY[:20]}", BODY[:20]),
        ("sk-" + f"svcacct-{BODY[:40]}", BODY[:40]),
        ('{"private_' + f'key": "-----BEGIN PRIVATE KEY-----\\n{BODY}\\n"}}', BODY),
    ],
)
def test_keys_are_found_in_the_places_where_people_put_them(text: str, secret: str) -> None:
    clean = redact(text)
    assert secret not in clean
    assert redact(clean) == clean


def test_a_field_named_for_a_secret_is_one() -> None:
    clean = shown_json({"api_key": "0123456789abcdefgh", "n": [1, None, {"password": BODY}]})
    assert clean == {
        "api_key": "[redacted:assigned-secret]",
        "n": [1, None, {"password": "[redacted:assigned-secret]"}],
    }


def test_a_message_without_keys_is_the_same_value() -> None:
    message = Message("assistant", (Text("x"), ToolCall("c", "ls", {"p": 1})))
    assert Gate().message(message) is message


@pytest.mark.parametrize("order", [1, -1], ids=["shorter first", "longer first"])
def test_a_known_key_that_begins_with_another_is_blanked_whole(
    order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sightline.context.messages.redact._known", ())
    know(*["duck-pond", "duck-pond-of-the-north"][::order])
    blanked = "[redacted:known-key]"
    assert redact("duck-pond-of-the-north, duck-pond") == f"{blanked}, {blanked}"


# Inputs that nested repeats would choke on: a pattern that goes over them again and again needs
# hours where a linear one needs a moment.
HOSTILE = (
    "://" + "a:" * 200_000,
    "secret" * 100_000,
    "-----BEGIN " * 50_000,
    "eyJ" * 200_000,
    ("-----BEGIN PRIVATE " + "KEY-----a") * 20_000,
    "-----BEGIN PRIVATE " + "KEY-----" + "-a" * 200_000,
    "://a:" + "@" * 200_000,
    "Bearer " * 100_000,
    "Bearer " + "a" * 400_000,
    "SK" * 200_000,
    ";password=" * 50_000,
    "sig=" * 100_000,
)


def cpu_bounded(code: str, seconds: int) -> int:
    """Run code in a process that may use so much of the processor; 0 if it came to its end."""
    bound = f"import resource; resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))\n"
    return subprocess.run([sys.executable, "-c", bound + code], check=False).returncode


def test_time_is_linear_in_the_text() -> None:
    code = (
        "from sightline.context.messages.redact import redact\n"
        f"for text in {HOSTILE!r}:\n    redact(text)"
    )
    with tempfile.NamedTemporaryFile("w", suffix=".py", encoding="utf-8") as program:
        program.write(code)
        program.flush()
        assert cpu_bounded(f"exec(open({program.name!r}).read())", 20) == 0
    assert cpu_bounded("import re; re.search('(a*)*b', 'a' * 100)", 1) != 0, "the control ended"
