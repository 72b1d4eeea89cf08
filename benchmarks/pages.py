"""A page of ten thousand nodes in a real browser: what one change costs its main thread.

    python -m benchmarks.pages [SECONDS]

The page is `sightline.js` as it is shipped, with one subscriber. A change is made in each way that
an author has: one item by `update`, one column's function asked again, every function asked again.
Each is told at once, by `flush`, which a page leaves to a timer. Then sixty changes a second, for a
minute unless told otherwise, and what the heap has, now and then, after a collection.
"""

from __future__ import annotations

import json
import shutil
import sys
from typing import Any

from playwright.sync_api import sync_playwright

from sightline.slop.app.javascript import javascript

NODES = 10_000
COLUMNS = 100
CHANGES = 200

PAGE = """async (given) => {
  const url = URL.createObjectURL(new Blob([given.script], { type: "text/javascript" }));
  const { App } = await import(url);
  const app = new App("board", "Board", { coalesce: 1e9 });
  let told = 0;
  const line = app.connect((text) => { told += text.length; });
  const size = given.nodes / given.columns;
  const columns = Array.from({ length: given.columns }, (_, c) => Array.from({ length: size - 1 },
    (_, n) => ({ id: `card-${c}-${n}`, title: `Card ${n}`, done: false, points: n % 8 })));
  const cards = (column) => column.map((card) => ({ id: card.id, props: { ...card } }));
  columns.forEach((column, c) =>
    app.node(`board/c${c}`, () => ({ type: "collection", items: cards(column) })));
  app.action("board/{column}/{card}", "finish", () => {});
  line.receive({ type: "subscribe", id: "s", fields: true });
  const ways = {
    "one item by update": (n) => app.update(`board/c7/card-7-${n % 50}`, { props: { points: n } }),
    "a column's function": (n) => { columns[7][n % 50].points = n; app.refresh("board/c7"); },
    "every function": (n) => { columns[7][n % 50].points = n; app.refresh(); },
  };
  const found = { nodes: given.nodes };
  for (const [name, change] of Object.entries(ways)) {
    const times = [];
    for (let n = 0; n < given.changes; n++) {
      const began = performance.now();
      change(n + 1000);
      app.flush();
      times.push(performance.now() - began);
    }
    times.sort((a, b) => a - b);
    found[name] = { median: times[times.length >> 1], most: times.at(-2) };
  }
  const heap = () => { globalThis.gc?.(); return performance.memory?.usedJSHeapSize ?? 0; };
  const marks = [];
  const began = performance.now();
  for (let n = 0; performance.now() - began < given.seconds * 1000; n++) {
    ways["one item by update"](n);
    app.flush();
    if (n % Math.ceil(given.seconds * 10) === 0) marks.push(heap());
    await new Promise((resolve) => setTimeout(resolve, 1000 / 60));
    found.changes = n + 1;
  }
  return { ...found, heap: [...marks, heap()], told };
}"""


def measured(seconds: float = 60.0) -> dict[str, Any]:
    """Run the page in a browser; times are milliseconds of its main thread."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--enable-precise-memory-info", "--js-flags=--expose-gc"]
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        page = browser.new_page()
        page.set_default_timeout(0)
        given = {
            "script": javascript("sightline").decode(), "nodes": NODES, "columns": COLUMNS,
            "changes": CHANGES, "seconds": seconds,
        }  # fmt: skip
        found: dict[str, Any] = page.evaluate(PAGE, given)
        browser.close()
        return found


if __name__ == "__main__":
    given = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    print(json.dumps(measured(given), indent=1))
