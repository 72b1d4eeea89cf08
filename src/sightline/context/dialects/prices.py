"""Windows, and dollars per million tokens, as genai-prices 0.2.1 lists them for 2026-11-16.

Written by `python -m proof.prices`; a test compares the two. `endpoints` has the last word.
"""

from typing import Final

SOURCE: Final = "genai-prices 0.2.1"
AS_OF: Final = "2026-11-16"
FIELDS: Final = (
    "window_tokens", "prices.input", "prices.output", "prices.cache_read", "prices.cache_write",
    "prices.cache_write_long", "prices.long_tokens", "prices.long_factor",
    "prices.long_output_factor",
)  # fmt: skip
# A model, and its fields in that order; None is what is not published, or not different.
ROWS: Final[tuple[tuple[str, tuple[float | None, ...]], ...]] = (
    ('claude-opus-5', (1000000, 5, 25, 0.5, 6.25, 10, 0, 1, None)),
    ('claude-fable-5', (1000000, 10, 50, 1, 12.5, 20, 0, 1, None)),
    ('claude-opus-4-0', (200000, 15, 75, 1.5, 18.75, 30, 0, 1, None)),
    ('claude-opus-4-1', (200000, 15, 75, 1.5, 18.75, 30, 0, 1, None)),
    ('claude-opus-4-5', (200000, 5, 25, 0.5, 6.25, 10, 0, 1, None)),
    ('claude-opus-4-6', (1000000, 5, 25, 0.5, 6.25, 10, 0, 1, None)),
    ('claude-opus-4-7', (1000000, 5, 25, 0.5, 6.25, 10, 0, 1, None)),
    ('claude-opus-4-8', (1000000, 5, 25, 0.5, 6.25, 10, 0, 1, None)),
    ('claude-opus-5-5', (1000000, 4, 20, 0.2, 5, 8, 0, 1, None)),
    ('claude-sonnet-5', (1000000, 2, 10, 0.2, 2.5, 4, 0, 1, None)),
    ('claude-fable-5-1', (1000000, 10, 50, 0.25, 12.5, 20, 0, 1, None)),
    ('claude-haiku-4-5', (200000, 1, 5, 0.1, 1.25, 2, 0, 1, None)),
    ('claude-haiku-5-5', (1000000, 0.1, 0.5, 0.01, 0.125, 0.2, 100000, 5, None)),
    ('claude-sonnet-4-0', (200000, 3, 15, 0.3, 3.75, 6, 0, 1, None)),
    ('claude-sonnet-4-5', (200000, 3, 15, 0.3, 3.75, 6, 200000, 2, 1.5)),
    ('claude-sonnet-4-6', (1000000, 3, 15, 0.3, 3.75, 6, 0, 1, None)),
    ('claude-sonnet-5-5', (1000000, 2, 10, 0.1, 2.5, 4, 0, 1, None)),
    ('deepseek-v4-pro', (1000000, 1.32, 3.96, 0.044, None, None, 0, 1, None)),
    ('deepseek-v4-flash', (1000000, 0.3, 1.2, 0.006, None, None, 0, 1, None)),
    ('gemini-4-argon', (1048576, 2, 10, 0.1, None, None, 0, 1, None)),
    ('gemini-3.8-flash', (1000000, 0.75, 3.75, 0.075, None, None, 0, 1, None)),
    ('gemini-3.8-flash-tts', (None, 0.5, 9, None, None, None, 0, 1, None)),
    ('gemini-3.8-flash-lite-tts', (None, 0.5, 6, None, None, None, 0, 1, None)),
    ('glm-5', (None, 1, 3.2, 0.2, None, None, 0, 1, None)),
    ('glm-5.1', (None, 1.4, 4.4, 0.26, None, None, 0, 1, None)),
    ('glm-5.2', (1000000, 1.4, 4.4, 0.26, None, None, 0, 1, None)),
    ('glm-5.3', (1000000, 1.4, 4.4, 0.26, None, None, 0, 1, None)),
    ('glm-5.3-flash', (1000000, 0.15, 0.5, 0.03, None, None, 0, 1, None)),
    ('glm-5.3-flashx', (None, 0.37, 1.25, 0.075, None, None, 0, 1, None)),
    ('gpt-5.4', (1050000, 2.5, 15, 0.25, None, None, 272000, 2, 1.5)),
    ('gpt-5.5', (1000000, 5, 30, 0.5, None, None, 272000, 2, 1.5)),
    ('gpt-6-sol', (1050000, 2, 10, 0.2, 2.5, None, 272000, 2, 1.5)),
    ('gpt-6-luna', (1050000, 0.1, 0.5, 0.01, 0.125, None, 272000, 2, 1.5)),
    ('gpt-5.4-pro', (1050000, 30, 180, None, None, None, 272000, 2, 1.5)),
    ('gpt-5.5-pro', (1000000, 30, 180, None, None, None, 272000, 2, 1.5)),
    ('gpt-5.6-sol', (1050000, 4, 20, 0.4, 5, None, 272000, 2, 1.5)),
    ('gpt-6-astra', (1050000, 10, 50, 1, 12.5, None, 272000, 2, 1.5)),
    ('gpt-6.1-sol', (1050000, 2, 10, 0.1, 2.5, None, 272000, 2, 1.5)),
    ('gpt-5.4-mini', (400000, 0.75, 4.5, 0.075, None, None, 0, 1, None)),
    ('gpt-5.4-nano', (400000, 0.2, 1.25, 0.02, None, None, 0, 1, None)),
    ('gpt-5.6-luna', (1050000, 0.2, 1.2, 0.02, 0.25, None, 272000, 2, 1.5)),
    ('gpt-5.5-cyber', (None, 12.5, 75, 1.25, None, None, 0, 1, None)),
    ('gpt-5.6-cyber', (None, 12.5, 75, 1.25, 15.625, None, 0, 1, None)),
    ('gpt-5.6-terra', (1050000, 2, 12, 0.2, 2.5, None, 272000, 2, 1.5)),
    ('gpt-6.1-terra', (1050000, 1, 5, 0.05, 1.25, None, 272000, 2, 1.5)),
    ('gpt-5.4-image-2', (None, 8, 15, 2, None, None, 0, 1, None)),
    ('grok-4.3', (1000000, 1.25, 2.5, 0.2, None, None, 199999, 2, None)),
    ('grok-4.5', (500000, 2, 6, 0.3, None, None, 199999, 2, None)),
    ('grok-4.6', (500000, 2, 6, 0.5, None, None, 199999, 2, None)),
    ('grok-4.7', (500000, 2, 6, 0.5, None, None, 199999, 2, None)),
    ('grok-4.20', (1000000, 1.25, 2.5, 0.2, None, None, 199999, 2, None)),
    ('grok-4.20-multi-agent-0309', (1000000, 1.25, 2.5, 0.2, None, None, 199999, 2, None)),
    ('kimi-k3', (1048576, 3, 15, 0.3, 3, 6, 0, 1, None)),
    ('kimi-k3.1-pro', (1048576, 2, 10, 0.2, 2, 4, 0, 1, None)),
    ('kimi-k3.1-pro-highspeed', (1048576, 4, 20, 0.2, 4, 8, 0, 1, None)),
)  # fmt: skip
