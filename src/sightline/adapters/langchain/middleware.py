"""A hub's apps for an agent of LangChain: their state in every model call, and their tools.

The state is the last message of a request and of nothing else: neither the agent's messages
nor a checkpoint have it. A call that the policy asks about stops the agent as
`HumanInTheLoopMiddleware` does with `interrupt_mode="per_call"`, and is answered like one.
What was shown is noted in the agent's state, so that any program may go on: if the app, the
node or the action is another by then, nothing is done, and the model is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Annotated, Any, Final, NotRequired, TypeAlias, TypeVar

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain.agents.middleware import types as lc
from langchain_core.messages import AIMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.types import Command, interrupt

from sightline.adapters.hub import TAIL_TOKENS, AgentHub, held_by_vendor
from sightline.adapters.tools import ActionQuestion
from sightline.agent.policy import Mode
from sightline.agent.toolbox import Ran
from sightline.context.tokens.tokens import Counter
from sightline.errors import InvalidInput

_T = TypeVar("_T")
_Answer: TypeAlias = ModelResponse[Any]
_Call: TypeAlias = lc.ToolCallRequest
_Result: TypeAlias = ToolMessage | Command[Any]
_VENDORS_HISTORY: Final = ("previous_response_id", "conversation")
_HERE: Final = (
    "the hub runs in this event loop, which cannot wait for itself: use ainvoke or astream, "
    "or asyncio.to_thread(agent.invoke, …)"
)


class WaitingState(AgentState[Any]):
    """The agent's state, with what was shown of each call that waits for an answer."""

    sightline_shown: NotRequired[Annotated[dict[str, str], lc.PrivateStateAttr]]


class HubMiddleware(AgentMiddleware[WaitingState, Any, Any]):
    """Shows a model what the apps of a hub show now, and lets it act in them.

    Make it where the hub runs. `ainvoke` and `astream` run there too; `invoke` and `stream` run
    in another thread. `budget` is in tokens as `counter` counts them, `mode` the policy's.
    """

    state_schema = WaitingState

    def __init__(
        self,
        hub: AgentHub,
        *,
        budget: int = TAIL_TOKENS,
        counter: Counter | str | None = None,
        mode: Mode = "auto",
    ) -> None:
        self._hub, self._budget, self._counter = hub, budget, counter
        self._hub_tools = hub.tools(mode=mode)
        self._loop = asyncio.get_running_loop()
        self.tools = [self._tool(**tool) for tool in self._hub_tools.mcp()]

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[_Answer]]
    ) -> _Answer | lc.ExtendedModelResponse[Any]:
        """Ask the model with the state as of now."""
        return await self._noted(await handler(await self._with_tail(request)))

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], _Answer]
    ) -> _Answer | lc.ExtendedModelResponse[Any]:
        """Ask the model with the state as of now, from another thread than the hub's."""
        return self._there(self._noted(handler(self._there(self._with_tail(request)))))

    async def awrap_tool_call(
        self, request: _Call, handler: Callable[[_Call], Awaitable[_Result]]
    ) -> _Result:
        """Run a call of a hub's tool; others are not ours."""
        if request.tool_call["name"] not in self._hub_tools.names:
            return await handler(request)
        question = await self._question(request.tool_call)
        return await self._run(request.tool_call, question, _refusal(request, question))

    def wrap_tool_call(self, request: _Call, handler: Callable[[_Call], _Result]) -> _Result:
        """Run a call of a hub's tool, from another thread than the hub's."""
        if request.tool_call["name"] not in self._hub_tools.names:
            return handler(request)
        question = self._there(self._question(request.tool_call))
        return self._there(self._run(request.tool_call, question, _refusal(request, question)))

    async def _with_tail(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        settings = {**getattr(request.model, "model_kwargs", {}), **request.model_settings}
        if getattr(request.model, "use_previous_response_id", False) or any(
            settings.get(name) for name in _VENDORS_HISTORY
        ):
            raise held_by_vendor()
        tail = self._hub.tail(self._budget, self._counter)
        return request.override(messages=[*request.messages, HumanMessage(tail.text)])

    async def _noted(self, response: _Answer) -> _Answer | lc.ExtendedModelResponse[Any]:
        """Note what would be shown of each call that is asked about."""
        answers = [message for message in response.result if isinstance(message, AIMessage)]
        calls = [call for message in answers for call in message.tool_calls]
        questions = [(call["id"], await self._question(call)) for call in calls]
        shown = {number: question.digest for number, question in questions if question}
        command: Command[Any] = Command(update={"sightline_shown": shown})
        return lc.ExtendedModelResponse(response, command) if shown else response

    async def _question(self, call: ToolCall) -> ActionQuestion | None:
        return self._hub_tools.question(call["name"], call["args"])

    async def _run(
        self, call: ToolCall, question: ActionQuestion | None, refusal: Ran | None
    ) -> ToolMessage:
        ran = refusal or await self._hub_tools.call(call["name"], call["args"], approved=question)
        status = "success" if ran.ok else "error"
        return ToolMessage(ran.content, tool_call_id=call["id"], name=call["name"], status=status)

    def _tool(self, name: str, description: str, inputSchema: dict[str, Any]) -> BaseTool:  # noqa: N803 - MCP's name
        async def call(**arguments: Any) -> str:
            return (await self._hub_tools.call(name, arguments)).content

        return StructuredTool(
            name=name, description=description, args_schema=inputSchema, coroutine=call
        )

    def _there(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Do something where the hub runs. Raises InvalidInput if that is here: it would wait."""
        try:
            if asyncio.get_running_loop() is self._loop:
                work.close()
                raise InvalidInput(_HERE)
        except RuntimeError:
            pass
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def _refusal(request: _Call, question: ActionQuestion | None) -> Ran | None:
    """Ask the user about a call, if there is a question; None if it may run."""
    call, shown = request.tool_call, request.state.get("sightline_shown") or {}
    if shown.get(call["id"]) != (question and question.digest):
        return Ran.failed(
            "It has changed since it was decided on",
            "Look at the current state, and call again if it is still right.",
        )
    if question is None:
        return None
    answer = interrupt(
        {
            "type": "tool_approval", "tool_call_id": call["id"], "name": call["name"],
            "args": call["args"], "description": f"{question} ({question.reason})",
        }
    )  # fmt: skip
    decision: Mapping[str, Any] = answer if isinstance(answer, Mapping) else {"type": answer}
    if decision.get("type") in ("approve", True):
        return None
    reason = f": {decision['message']}" if decision.get("message") else ""
    return Ran.failed(f"The user did not approve it{reason}. Do not try it again unasked")
