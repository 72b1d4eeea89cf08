"""AWS's SDK: Bedrock Converse.

The SDK validates, writes and signs in steps, with an event before each. `before-sign` puts
our bytes in place of its own, so the signature is of what is sent; `before-parse` takes the
response before it is unpacked, and our decoder reads the event stream. Credentials, region
and address are found as every AWS tool finds them.

boto3 blocks, so its part of an exchange runs in threads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

import boto3.session
import botocore.config
import botocore.exceptions
import urllib3.exceptions

from sightline.agent.models.access import CONNECT_S, REFUSAL_BYTES, REFUSAL_S, Access
from sightline.agent.models.connected import Emit, Response, VendorRefusal, from_thread
from sightline.context.dialects.request import Request

OPERATION: Final = "bedrock-runtime.ConverseStream"
CHUNK: Final = 64 * 1024
# What it says when there is nothing to sign with.
NO_CREDENTIALS: Final = (
    botocore.exceptions.NoCredentialsError,
    botocore.exceptions.PartialCredentialsError,
    botocore.exceptions.CredentialRetrievalError,
    botocore.exceptions.NoRegionError,
)


class Bedrock:
    """A connection to Amazon Bedrock through boto3, whose blocking calls run in threads."""

    errors = (
        botocore.exceptions.BotoCoreError,
        botocore.exceptions.ClientError,
        urllib3.exceptions.HTTPError,
        OSError,
    )

    def __init__(self, access: Access) -> None:
        self._session = boto3.session.Session(region_name=access.region or None)
        self._options = {
            "endpoint_url": access.base_url or None,
            "config": botocore.config.Config(
                retries={"total_max_attempts": 1},
                connect_timeout=CONNECT_S,
                read_timeout=access.limits.silence_s,
            ),
        }
        self._threads = ThreadPoolExecutor(4, "bedrock")

    async def send(self, request: Request) -> Response:
        loop = asyncio.get_running_loop()
        sending = loop.run_in_executor(self._threads, self._post, request)
        try:
            return await asyncio.shield(sending)
        except asyncio.CancelledError:
            sending.add_done_callback(_abandon)
            raise

    async def close(self) -> None:
        self._threads.shutdown(wait=False)

    def refusal(self, error: Exception) -> VendorRefusal | None:
        if isinstance(error, NO_CREDENTIALS):
            return VendorRefusal(401, {}, str(error).encode())
        if not isinstance(error, botocore.exceptions.ClientError):
            return None
        meta, detail = error.response["ResponseMetadata"], error.response["Error"]
        body = str(detail.get("Message", "")).encode()
        return VendorRefusal(
            meta["HTTPStatusCode"], meta["HTTPHeaders"], body, detail.get("Code", "")
        )

    def _post(self, request: Request) -> SignedBody:
        """Send the bytes; return the response's body, unread."""
        taken: list[Any] = []

        def write(request: Any, data: bytes = request.data, **_: Any) -> None:
            request.data = data

        def send(request: Any, **_: Any) -> Any:
            response = client._endpoint.http_session.send(request)
            if response.status_code >= 300:  # botocore would read an endless body to its end
                response._content = _beginning(response.raw)
            return response

        def take(response_dict: Any, **_: Any) -> None:
            taken.append(response_dict["body"])

        # A client per exchange, for its events are hooked for one body.
        client = self._session.client("bedrock-runtime", **self._options)
        client.meta.events.register(f"before-sign.{OPERATION}", write)
        client.meta.events.register(f"before-send.{OPERATION}", send)
        client.meta.events.register(f"before-parse.{OPERATION}", take)
        client.converse_stream(modelId=request.profile.model, messages=[])
        return SignedBody(self._threads, taken[0])


def _beginning(body: Any) -> bytes:
    """Read the first bytes of the body of an error, and hang up."""
    ends, data = time.monotonic() + REFUSAL_S, b""
    while len(data) < REFUSAL_BYTES and time.monotonic() < ends and (chunk := body.read1(CHUNK)):
        data += chunk
    body.close()
    return data


class SignedBody:
    """The body of Bedrock's answer, read in a thread."""

    def __init__(self, threads: ThreadPoolExecutor, body: Any) -> None:
        self._threads = threads
        self._body = body
        self._connection = body.connection

    def aiter_bytes(self) -> AsyncGenerator[bytes, None]:
        return from_thread(self._threads, self._read, self._interrupt)

    async def aclose(self) -> None:
        self.close()

    def close(self) -> None:
        """Hang up, though a thread that was reading may have put the connection in its pool."""
        self._interrupt()
        self._body.close()
        if self._connection is not None:
            self._connection.close()

    def _read(self, emit: Emit) -> None:
        while (chunk := self._body.read1(CHUNK)) and emit(chunk):
            pass

    def _interrupt(self) -> None:
        """End a read that a thread is waiting in; there may be none any more."""
        with suppress(ValueError, RuntimeError, OSError):
            self._body.shutdown()


def _abandon(sending: asyncio.Future[SignedBody]) -> None:
    if not sending.cancelled() and sending.exception() is None:
        sending.result().close()
