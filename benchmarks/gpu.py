"""How long a GPU reads the prompts of each layout: the requests of `cache`, prefilled for real.

    python -m benchmarks.gpu                       plan and replay, where everything is installed
    python -m benchmarks.gpu --plan plan.json      which tokens are evaluated; needs no GPU
    python benchmarks/gpu.py --replay plan.json    the replay; needs PyTorch and nothing else

The model has the shape of Llama 3 8B and random weights: what a prefill costs depends on lengths
and not on words, so a plan is the lengths. One conversation has one KV cache. Before a request it
is cropped to what the request shares with the one before it, in blocks of 16 tokens; the rest is
evaluated in one go, up to the scores of the first new token. Writes `gpu.json`, which the report
shows with device, shape and date.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["FOUND", "SHAPES", "Shape", "main", "plan", "replay", "summary"]

FOUND = Path(__file__).with_name("gpu.json")
# A kind of work, and for how many turns; the state changes with every request.
STREAMS = {"chat": 50}
LAYOUTS = ("layers", "users", "settle", "default")
RUNS = 2

Plan = dict[str, dict[str, list[list[int]]]]


class Shape(NamedTuple):
    """What of a model decides about its speed."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    hidden: int
    vocabulary: int

    @property
    def parameters(self) -> int:
        """Count the weights."""
        kv = self.width * self.kv_heads // self.heads
        layer = 2 * self.width * (self.width + kv) + 3 * self.width * self.hidden
        return self.layers * layer + 2 * self.vocabulary * self.width


SHAPES = {
    "llama-3-8b": Shape(32, 4_096, 32, 8, 14_336, 128_256),
    "tiny": Shape(2, 64, 4, 2, 128, 256),
}


def plan() -> Plan:
    """For each kind of work and layout: of each request, the tokens kept and the tokens in all."""
    cache = import_module("benchmarks.cache")
    return {
        work: {name: cache.lengths(cache.LAYOUTS[name], work, turns) for name in LAYOUTS}
        for work, turns in STREAMS.items()
    }


def replay(planned: Plan, shape: Shape) -> dict[str, Any]:
    """Prefill every request; the seconds of each, the best of several runs."""
    torch = import_module("torch")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    longest = max(n for work in planned.values() for asked in work.values() for _, n in asked)
    with torch.inference_mode():
        prefill = _model(torch, shape, device, longest)
        for at in (0, longest // 32 * 16):
            prefill(at, longest)
        found = {
            work: {
                name: [min(prefill(*request) for _ in range(RUNS)) for request in asked]
                for name, asked in layouts.items()
            }
            for work, layouts in planned.items()
        }
    name = torch.cuda.get_device_name(0) if device == "cuda" else "a processor"
    return {
        "device": name,
        "torch": torch.__version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "shape": shape._asdict(),
        "works": {
            work: {name: summary(planned[work][name], seconds) for name, seconds in times.items()}
            for work, times in found.items()
        },
    }


def summary(asked: Sequence[Sequence[int]], seconds: Sequence[float]) -> dict[str, float]:
    """What the table shows of a stream."""
    return {
        "requests": len(asked),
        "evaluated": sum(length - kept for kept, length in asked),
        "seconds": round(sum(seconds), 4),
        "p95": round(sorted(seconds)[-(-95 * len(seconds) // 100) - 1], 5),
    }


def _model(torch: Any, shape: Shape, device: str, longest: int) -> Callable[[int, int], float]:
    """Make a decoder with random weights; return what prefills tokens `kept` to `length`."""
    functional = torch.nn.functional
    lower_right = import_module("torch.nn.attention.bias").causal_lower_right
    like = {"device": device, "dtype": torch.bfloat16 if device == "cuda" else torch.float32}
    size = shape.width // shape.heads
    groups = shape.heads // shape.kv_heads

    def weights(*sizes: int) -> Any:
        return torch.randn(sizes, **like) * sizes[-1] ** -0.5

    qkv = (shape.heads + 2 * shape.kv_heads) * size
    layers = [
        (weights(qkv, shape.width), weights(shape.width, shape.width),
         weights(2 * shape.hidden, shape.width), weights(shape.width, shape.hidden))
        for _ in range(shape.layers)
    ]  # fmt: skip
    words, scores = weights(shape.vocabulary, shape.width), weights(shape.vocabulary, shape.width)
    scale = torch.ones(shape.width, **like)
    keys, values = (
        [torch.zeros(1, shape.kv_heads, longest, size, **like) for _ in layers] for _ in range(2)
    )
    angles = torch.outer(torch.arange(longest), 500_000 ** (-torch.arange(0, size, 2) / size))
    turn = torch.cat((angles, angles), -1).to(device)
    cosines, sines = turn.cos().to(like["dtype"]), turn.sin().to(like["dtype"])
    tokens = torch.randint(shape.vocabulary, (longest,), device=device)

    def norm(x: Any) -> Any:
        return functional.rms_norm(x, (shape.width,), scale)

    def rotated(x: Any, at: slice) -> Any:
        half = torch.cat((-x[..., size // 2 :], x[..., : size // 2]), -1)
        return x * cosines[at] + half * sines[at]

    def evaluate(kept: int, length: int) -> Any:
        new, at = length - kept, slice(kept, length)
        mask = lower_right(new, length)
        x = functional.embedding(tokens[at], words)[None]
        for number, (into, out, up, down) in enumerate(layers):
            heads = functional.linear(norm(x), into).view(1, new, -1, size).transpose(1, 2)
            q, k, v = heads.split((shape.heads, shape.kv_heads, shape.kv_heads), 1)
            keys[number][:, :, at], values[number][:, :, at] = rotated(k, at), v
            k, v = (
                held[number][:, :, :length].repeat_interleave(groups, 1) for held in (keys, values)
            )
            seen = functional.scaled_dot_product_attention(rotated(q, at), k, v, attn_mask=mask)
            x = x + functional.linear(seen.transpose(1, 2).reshape(1, new, -1), out)
            gate, straight = functional.linear(norm(x), up).chunk(2, -1)
            x = x + functional.linear(functional.silu(gate) * straight, down)
        return functional.linear(norm(x[:, -1]), scores)

    def prefill(kept: int, length: int) -> float:
        start = time.perf_counter()
        # Reading the result waits for the device.
        evaluate(kept, length).argmax().item()
        return time.perf_counter() - start

    return prefill


def main(words: Sequence[str] | None = None) -> int:
    """Plan, replay, or both."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--plan", type=Path, help="write the lengths here, and stop")
    parser.add_argument("--replay", type=Path, help="read the lengths from here")
    parser.add_argument("--shape", choices=SHAPES, default="llama-3-8b")
    parser.add_argument("--output", type=Path, default=FOUND)
    asked = parser.parse_args(words)
    planned = json.loads(asked.replay.read_text(encoding="utf-8")) if asked.replay else plan()
    if asked.plan:
        asked.plan.write_text(json.dumps(planned), encoding="utf-8")
        return 0
    found = replay(planned, SHAPES[asked.shape])
    text = json.dumps({"model": asked.shape, **found}, indent=1)
    asked.output.write_text(text + "\n", encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
