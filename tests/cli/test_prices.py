"""Prices of the user: `--price` and `[prices]`, in the gateway, in reports and in imports."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import msgspec
import pytest

from cli.test_programs import asking, recorded, run
from gateway.test_transcripts import Claude
from sightline.context.dialects import profile_for
from sightline.context.dialects.events import Usage, cost
from sightline.context.dialects.profiles import price_layer
from support.shell import Run
from support.vendors.answers import says
from support.vendors.server import Vendor

WRITTEN = "1000/2000/100/1000"


def usd(done: subprocess.CompletedProcess[bytes]) -> list[float | None]:
    """Return the cost of each line of a report."""
    return [json.loads(line)["cost_usd"] for line in done.stdout.splitlines()]


def test_a_price_of_the_user_replaces_the_listed_one_in_the_gateway_and_in_reports(
    tmp_path: Path, sightline: Run
) -> None:
    db = tmp_path / "l.db"
    body = {"model": "my-model", "messages": [{"role": "user", "content": "well?"}]}
    program = asking("ANTHROPIC_BASE_URL", "/v1/messages", body)
    given = ["--price", "my-model=10/20/1/2", "--price", "other=1/1"]
    with Vendor(says("hello there")) as vendor:
        run(vendor, ["--db", str(db)], program, {})
        run(vendor, ["--db", str(db), *given], program, {})
    mine = pytest.approx((20 * 10 + 80 * 1 + 7 * 20) / 1_000_000)
    report = ["gateway", "report", "--db", str(db), "--json"]
    assert usd(sightline(*report)) == [None, mine]
    assert usd(sightline(*report, *given)) == [mine, mine]
    dear = pytest.approx((100 * 100 + 7 * 200) / 1_000_000)
    assert usd(sightline(*report, "--price", "my-*=100/200")) == [dear, dear]
    assert b"unknown price" in sightline("gateway", "report", "--db", str(db)).stdout
    shown = sightline("gateway", "report", "--db", str(db), *given).stdout
    assert b"unknown" not in shown
    assert b"price $0.0008" in shown  # both requests, as one row


def test_prices_of_the_configuration_count_and_an_option_wins(
    tmp_path: Path, sightline: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "config" / "sightline"
    settings.mkdir(parents=True)
    (settings / "config.toml").write_text(f'[prices]\n"claude-opus-5-5" = "{WRITTEN}"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    talk = Claude()
    talk.turn(0, 20_000)
    talk.turn(0, 20_500, after=400)
    path, db = str(talk.write(tmp_path)), str(tmp_path / "l.db")
    sightline("gateway", "import", path, "--db", db, "--price", "claude-*=0/0")
    kept = [about for _, about, _ in recorded(Path(db))]
    assert [one["cost_usd"] for one in kept] == [0, 0]
    prices = profile_for("anthropic", "claude-opus-5-5", price_layer("*", WRITTEN, "")).prices
    costs = [cost(msgspec.convert(one["usage"], Usage), prices) for one in kept]
    assert usd(sightline("gateway", "report", "--db", db, "--json")) == costs
    # 20,000 tokens, each at 1000 instead of 100 dollars per million.
    assert b"lost 20,000 tokens ($18)" in sightline("gateway", "report", "--db", db).stdout


@pytest.mark.parametrize("price", ["my-model", "my-model=cheap", "my-model=1", "1/2"])
def test_a_price_that_is_no_price_is_an_error_with_an_example(price: str, sightline: Run) -> None:
    done = sightline("gateway", "--record", "off", "--price", price, "--", "true")
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert b"--price" in line
    assert b"3/15/0.3/3.75" in line
