"""The apps of a hub as a capability of Pydantic AI: their state, and their tools."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired
from pydantic_ai.messages import ModelRequest, ToolCallPart, UserPromptPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from sightline.adapters.hub import TAIL_TOKENS, AgentHub, LiveTools, held_by_vendor
from sightline.adapters.tools import ActionQuestion
from sightline.agent.policy import Mode
from sightline.context.tokens.tokens import Counter

# What is wrong with arguments is told by the call itself, in words that a model can use.
_OBJECT: Final = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))
# OpenAI's Responses and xAI's, in the names that the framework gives them.
_KEPT: Final = ("_previous_response_id", "_conversation_id")


class AppTools(AbstractToolset[Any]):
    """The apps' tools; a call that needs approval is deferred."""

    def __init__(self, live: LiveTools) -> None:
        self._live = live

    @property
    def id(self) -> str:
        return "sightline"

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Give the tools, the same at every step."""
        return {
            offered["name"]: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=offered["name"],
                    description=offered["description"],
                    parameters_json_schema=offered["inputSchema"],
                ),
                max_retries=1,
                args_validator=_OBJECT,
            )
            for offered in self._live.offered.mcp()
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> str:
        """Run a call, or raise `ApprovalRequired` with the question as its metadata."""
        call_id = ctx.tool_call_id or ""
        if not ctx.tool_call_approved:
            question = self._live.question(call_id, name, tool_args)
            if question is not None:
                raise ApprovalRequired({"question": str(question), "reason": question.reason})
        return (await self._live.run(call_id, name, tool_args)).content


class LiveApps(AbstractCapability[Any]):
    """What the apps of a hub show and do, for an agent."""

    def __init__(
        self,
        hub: AgentHub,
        *,
        budget: int = TAIL_TOKENS,
        counter: Counter | str | None = None,
        mode: Mode = "auto",
    ) -> None:
        """Take a hub; `budget` and `counter` are as for `hub.tail`, `mode` as for `hub.tools`."""
        self._live = LiveTools(hub, budget, counter, mode)

    @classmethod
    def get_serialization_name(cls) -> str | None:
        return None  # a hub cannot be written down

    def get_toolset(self) -> AppTools:
        """Give the apps' tools."""
        return AppTools(self._live)

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Put the current state behind the messages of one attempt at a request.

        Raises `InvalidInput` where the vendor keeps the history.
        """
        model = request_context.model
        settings = {**(model.settings or {}), **(request_context.model_settings or {})}
        if settings.get("openai_transport") == "websocket" or any(
            value and name.endswith(_KEPT) for name, value in settings.items()
        ):
            raise held_by_vendor()
        tail = ModelRequest(parts=[UserPromptPart(self._live.tail().text)])
        return replace(request_context, messages=[*request_context.messages, tail])

    def question(self, call: ToolCallPart) -> ActionQuestion | None:
        """Tell what a deferred call asks about; None if it is no action of an app."""
        if call.tool_name not in self._live.offered.names:
            return None
        return self._live.question(call.tool_call_id, call.tool_name, call.args)
