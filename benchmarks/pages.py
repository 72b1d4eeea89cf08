"""A page of ten thousand nodes in a real browser: what one change costs its main thread.

    python -m benchmarks --only pages

The page is `sightline.js` as it is shipped, with one subscriber. A change is made in each way that
an author has: one item by `update`, one column's function asked again, and an action that names
nothing to refresh, after which every function is asked again. The first two are told at once, by
`flush`, which a page leaves to a timer. After an action functions are asked in pieces, between
which the browser does what else there is. A time is the CPU time of the longest task that the
browser's trace has of the page's main thread between one change and the next; the median of all
changes counts. Then sixty changes a second for a minute, and what the heap has, before and after,
each time after a collection.
"""

from __future__ import annotations

import json
import statistics
from bisect import bisect
from itertools import pairwise
from typing import Any

from playwright.sync_api import sync_playwright

from benchmarks.harness import LeftOut, Row
from benchmarks.inspector import FLAGS, browser_path
from sightline.slop.app.javascript import javascript

__all__ = ["PROMISE_S", "run"]

PROMISE_S = 0.002
NODES = 10_000
COLUMNS = 100
CHANGES, QUICK_CHANGES = 200, 20
SECONDS, QUICK_SECONDS = 60, 1
PER_S = 60
# A task's microtasks are an event of their own, in which what follows an `await` runs.
TASKS = ("RunTask", "PerformMicrotaskCheckpoint")

PAGE = """async (given) => {
  const url = URL.createObjectURL(new Blob([given.script], { type: "text/javascript" }));
  const { App } = await import(url);
  const app = new App("board", "Board", { coalesce: 1e9 });
  let answered;
  const line = app.connect((text) => { if (text.includes('"type":"result"')) answered(); });
  const size = given.nodes / given.columns;
  const columns = Array.from({ length: given.columns }, (_, c) => Array.from({ length: size - 1 },
    (_, n) => ({ id: `card-${c}-${n}`, title: `Card ${n}`, done: false, points: n % 8 })));
  const cards = (column) => column.map((card) => ({ id: card.id, props: { ...card } }));
  columns.forEach((column, c) =>
    app.node(`board/c${c}`, () => ({ type: "collection", items: cards(column) })));
  app.action("board/{column}/{card}", "finish", ({ card }) => {
    columns[7].find(({ id }) => id === card).points++;
  });
  line.receive({ type: "subscribe", id: "s", fields: true });
  const ways = {
    update: (n) => {
      app.update(`board/c7/card-7-${n % 50}`, { props: { points: n } });
      app.flush();
    },
    column: (n) => {
      columns[7][n % 50].points = n;
      app.refresh("board/c7");
      app.flush();
    },
    action: async (n) => {
      const done = new Promise((resolve) => { answered = resolve; });
      const path = `/board/c7/card-7-${n % 50}`;
      line.receive({ type: "invoke", id: `i${n}`, path, action: "finish" });
      await done;
    },
  };
  for (const [name, change] of Object.entries(ways)) {
    for (let n = 0; n < given.changes; n++) {
      performance.mark(`change ${name}`);
      await change(n + 1000);
      await scheduler.yield();
    }
  }
  performance.mark("change");
  const heap = () => { gc(); return performance.memory.usedJSHeapSize; };
  const before = heap();
  const start = performance.now();
  let n = 0;
  for (; performance.now() - start < given.seconds * 1000; n++) {
    ways.update(n);
    const next = start + ((n + 1) * 1000) / given.rate - performance.now();
    await new Promise((resolve) => setTimeout(resolve, next));
  }
  const rate = (n * 1000) / (performance.now() - start);
  return { rate, heap: [before, heap()] };
}"""


def tasks(events: list[dict[str, Any]]) -> dict[str, list[float]]:
    """The longest task after each change, by the way that it was made, in seconds."""
    marks = sorted(
        (event["ts"], event["name"].removeprefix("change").strip(), event["tid"])
        for event in events
        if event["name"].startswith("change")
    )
    thread = marks[0][2]
    ran = sorted(
        (event["ts"] + event["dur"], event["tdur"] / 1e6)
        for event in events
        if event["tid"] == thread and event["name"].endswith(TASKS) and "tdur" in event
    )
    found: dict[str, list[float]] = {}
    for (begun, name, _), (ended, *_) in pairwise(marks):
        first, last = (bisect(ran, (at, 0.0)) for at in (begun, ended))
        found.setdefault(name, []).append(max((cpu for _, cpu in ran[first : last + 1]), default=0))
    return found


def run(*, quick: bool = False) -> list[Row]:
    """Make every change in a browser, and then many."""
    chromium = browser_path()
    if chromium is None:
        raise LeftOut("there is no Chromium here")
    given: dict[str, Any] = {
        "script": javascript("sightline").decode(), "nodes": NODES, "columns": COLUMNS,
        "changes": QUICK_CHANGES if quick else CHANGES, "rate": PER_S,
        "seconds": QUICK_SECONDS if quick else SECONDS,
    }  # fmt: skip
    flags = [*FLAGS, "--enable-precise-memory-info", "--js-flags=--expose-gc"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        page = browser.new_page()
        page.set_default_timeout(0)
        browser.start_tracing(page=page, categories=["toplevel", "blink.user_timing"])
        found: dict[str, Any] = page.evaluate(PAGE, given)
        longest = tasks(json.loads(browser.stop_tracing())["traceEvents"])
        browser.close()
    promise = f"the peer is the promise of {PROMISE_S * 1e3:g} ms"
    works = {
        "update": "one item, by update",
        "column": "one item, by asking its column's function again",
        "action": "one item, by an action after which every function is asked again: "
        "the longest piece",
    }
    before, after = found["heap"]
    many = f"heap after {given['seconds']} s of {PER_S} changes a second"
    return [
        *(
            Row(
                slug, work, NODES, statistics.median(longest[slug]), PROMISE_S, 1, note=promise,
                more={"p95": statistics.quantiles(longest[slug], n=20)[-1]},
            )
            for slug, work in works.items()
        ),
        Row(
            "heap", many, NODES, after, before, 0.95, unit="bytes", note="the peer is before",
            more={"per_s": found["rate"]},
        ),
    ]  # fmt: skip
