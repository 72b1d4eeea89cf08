"""`Host`: a model that sees your apps as they are now, acts with your consent, and remembers.

    async with Host.open(settings) as host:
        async for event in host.ask("What is unread?"):
            if isinstance(event, ApprovalAsked):
                host.answer(event.call_id, approved=True)

A host puts the parts together: the hub's apps, the ledger's conversation, a strategy's
layout, a dialect's request, a model's answer. It holds one session at a time and runs one
turn at a time; what it does is told as events, to the one who asked and to all who watch.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

import sightline.agent.host.apps as apps
from sightline._keywords import names_keywords
from sightline.agent.host.asking import SideModel
from sightline.agent.host.compose import Composed
from sightline.agent.host.delegate import Delegates
from sightline.agent.host.directory import HostDirectory
from sightline.agent.host.hooks import TurnHooks
from sightline.agent.host.journal import Ended
from sightline.agent.host.questions import UserQuestions
from sightline.agent.host.running import TurnRun
from sightline.agent.host.session import Current, OpenSession
from sightline.agent.host.spending import DelegateSpending, Spending
from sightline.agent.host.stage import HostStage
from sightline.agent.host.watching import Line, Watching
from sightline.agent.host.writing import Scribe
from sightline.agent.models.base import Model
from sightline.agent.models.keys import know_secrets
from sightline.agent.plugins.run import runner_of
from sightline.agent.policy import Mode, accepted, plan_of
from sightline.agent.toolbox import Bench, SessionRecords, Toolbox
from sightline.agent.toolbox.results import Ran
from sightline.agent.turn.machine import TurnLimits
from sightline.agent.turn.steps import Spent
from sightline.config import PolicyRule, Settings
from sightline.context.ledger import Ledger, Memos, MemoShelf, Session
from sightline.context.ledger.paths import default_path, expanded
from sightline.context.ledger.store import Clock, now_utc
from sightline.context.messages.gate import guarded_text
from sightline.context.messages.parts import Entry, File, Input, Message, ToolCall
from sightline.context.messages.state import StateRebuild, strip_state
from sightline.context.messages.window import Window
from sightline.context.projection.temporal import changed_signal, pin_snapshot
from sightline.errors import InvalidInput, NotFound, Unreachable
from sightline.events import HostEvent, Noticed, SpendingAsked, TurnEnded
from sightline.slop.hub.client import Outcome
from sightline.slop.hub.hub import Hub
from sightline.slop.protocol.world import World

if TYPE_CHECKING:
    from sightline.agent.workspace.checkpoints import Restoration


class Host(HostDirectory):
    """One session, one model, any number of apps. Made by `Host.open`."""

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        hub: Hub,
        model: Model | str | None,
        clock: Clock,
        project: str,
        env: Mapping[str, str],
        memos: MemoShelf | None = None,
        kind: str = "",
        parent: Host | None = None,
    ) -> None:
        self.settings = settings
        self.ledger = ledger
        self.hub = hub
        self._clock = clock
        self._project = project
        self._kind = kind
        self._env = env
        self._model = None if isinstance(model, str) else model
        self._reference = model if isinstance(model, str) else settings.model
        self._own_models: list[Model] = []
        self._watching = Watching()
        self._tell = self._watching.tell
        self.memos = memos or MemoShelf({"user": ledger.memos})
        scribe = Scribe(ledger, clock, record=settings.ledger.record)
        self._spending = Spending(ledger, settings.limits, clock)
        self._parent = None if parent is None else parent.session.uuid
        if parent is not None:
            self._spending = DelegateSpending(parent._spending, settings.delegate.usd)
        side = SideModel(
            self.model, lambda profile: self._stage.counter(profile), self._account,
            self._spending.check,
        )  # fmt: skip
        self._stage = HostStage(
            settings, hub, scribe, self.memos, runner_of(settings), side, clock, self._spending
        )
        self._delegates = Delegates(self._child, self._tell, self._learn_rules)
        self._stage.delegates = self._delegates
        if parent is not None:
            self._stage.follow(parent._stage, lambda: parent._open.remembered)
        self._now: Current | None = None
        self._is_new = False
        # Whether `ApprovalAsked` comes for a call in a loop. Otherwise the turn ends.
        self.asks_about_loops: bool = parent is not None and parent.asks_about_loops
        self._run: TurnRun | None = None
        self._hooks: TurnHooks | None = None
        self._busy = False
        self._driver: asyncio.Task[None] | None = None
        self._cancelled: str | None = None
        self._own_invoke_s = {} if parent is None else parent._own_invoke_s
        self._mode_before: Mode = "ask"
        self.questions = UserQuestions(hub, self._tell)

    @classmethod
    @names_keywords
    @asynccontextmanager
    async def open(
        cls,
        settings: Settings | None = None,
        *,
        model: Model | str | None = None,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        user_ledger: str | os.PathLike[str] | None = None,
        session: Session | int | str | None = None,
        hub: Hub | None = None,
        clock: Clock = now_utc,
        project: str = "",
        env: Mapping[str, str] | None = None,
        kind: str = "",
    ) -> AsyncIterator[Host]:
        """Open a host; what it opens itself, it closes.

        `model` is a model, what names one, or None for what the settings say; it is opened
        when it is first needed. `session` is one to go on with (its number, name or uuid),
        else there is a new one, which leaves no trace if nothing is said in it. `user_ledger`
        is where memos for all projects are kept, if that is another file than the ledger. `kind`
        is `ask` where a new session is for one question: lists leave it out.
        """
        settings = settings or Settings()
        env = os.environ if env is None else env
        know_secrets(env, (endpoint.api_key_env for endpoint in settings.endpoints.values()))
        async with AsyncExitStack() as stack:
            if not isinstance(ledger, Ledger):
                path = Path(ledger or settings.ledger.path or default_path())
                opened = await asyncio.to_thread(
                    Ledger, expanded(path), clock=clock, attachments=settings.ledger.attachments
                )
                ledger = stack.enter_context(opened)
            is_ours = hub is None
            if hub is None:
                hub = apps.hub_of(settings, clock=clock)
                stack.push_async_exit(hub)
            memos = None
            if user_ledger is not None:
                user_stack = stack.enter_context(ExitStack())
                memos = await asyncio.to_thread(
                    _shelf, ledger, Path(user_ledger), clock, user_stack
                )
            host = cls(settings, ledger, hub, model, clock, project, env, memos, kind)
            stack.push_async_callback(host._close)
            if hub.ask is None:
                hub.ask = host.questions.ask
                stack.callback(setattr, hub, "ask", None)
            await host._open_session(session)
            if settings.apps.workspace:
                await host._open_directory(stack)
            if is_ours:  # only now: our own apps have their seats before anybody is looked for
                await hub.__aenter__()
            watch = asyncio.create_task(apps.tell_changes(hub, host._tell))
            stack.push_async_callback(apps.end_task, watch)
            await apps.reach_configured(hub, settings.apps, env, host._tell)
            await apps.tell_bridge(hub, host._tell)
            yield host

    # The conversation.

    async def ask(self, text: str, files: Sequence[File] = ()) -> AsyncIterator[HostEvent]:
        """Say something, and yield all that happens until `TurnEnded`.

        Leaving the loop early cancels the turn. Raises `InvalidInput` while another turn
        runs or for an input of nothing, `SessionBusy` while another program has the
        session, and what keeps the model from being used.
        """
        if self.busy:
            raise InvalidInput("a turn is under way; wait for its end, or cancel it")
        message = Input(guarded_text(text), tuple(files)).message()
        if not message.parts:
            raise InvalidInput("there is nothing to ask")
        before, self._cancelled, self._busy = self._driver, None, True
        line = self._watching.open(limit=0)
        driver = self._driver = asyncio.create_task(self._drive(message, line, before))
        ended: TurnEnded | None = None
        try:
            async for event in line:
                if isinstance(event, TurnEnded):
                    ended = event
                else:
                    yield event
            # Only now could the next turn begin, for whoever leaves the loop here.
            if ended is not None:
                yield ended
            if driver.done():
                driver.result()
        finally:
            self._watching.leave(line)
            if self._driver is driver and self._busy:
                self.cancel("nobody listens any more")
                await asyncio.wait({driver})

    def answer(
        self,
        call_id: str,
        approved: bool,
        remember: int = 0,
        reason: str = "",
        params: dict[str, Any] | None = None,
    ) -> None:
        """Answer an approval. Raises `NotFound` if nobody waits for this one.

        `remember` is the number of one of `ApprovalAsked.rules`, from 1: it decides calls that
        fit it until the session is closed. A call that is no longer what was shown does not
        run; it is asked about again. `reason` is why not, in words for the model. With `params`
        the call is asked about again, with them; the model is told what you changed. If they are
        `approved` and nothing else changed, it runs; an edit of files is asked about again. Raises
        `InvalidInput` if there is no such rule, or if the action does not take such parameters.
        A server's question is answered by a yes with `params`, or a no.
        """
        if self.questions.answer(call_id, approved=approved, params=params):
            return
        if self._run is None:
            raise NotFound("no call waits for an answer")
        if self._delegates.answer(call_id, approved, remember, reason, params):
            return
        if params is not None:
            waited = self._run.revise(call_id, params, agreed=approved)
        else:
            why = guarded_text(reason)
            waited = self._run.answer(
                call_id, approved=approved, by="user", remember=remember, reason=why
            )
        if not waited:
            raise NotFound(f"the call {call_id!r} does not wait for an answer")

    def spend_more(self, agreed: bool) -> None:
        """Answer `SpendingAsked`: go on up to its `raised_usd`, or end the turn.

        Raises `NotFound` if nobody waits for that.
        """
        run = self._run
        if run is None or not (run.spend_more(agreed) or self._delegates.spend_more(agreed)):
            raise NotFound("no request waits for more money")

    def still_over(self, question: SpendingAsked) -> bool:
        """Tell whether a limit in money is still in the way of what asks to pass it."""
        return self._spending.overrun(question.next_usd) is not None

    @property
    def rules(self) -> tuple[PolicyRule, ...]:
        """The rules in force: those of the configuration, then those remembered, newest first."""
        return (*self.settings.policy, *self._open.remembered)

    def forget(self, number: int) -> PolicyRule:
        """Remove one of `rules`, counted from 1. Raises `NotFound`, `InvalidInput` for a file's."""
        rules, fixed = self.rules, len(self.settings.policy)
        if not 1 <= number <= len(rules):
            raise NotFound(f"there is no rule {number}")
        if number <= fixed:
            raise InvalidInput(f"rule {number} is in your configuration; it is removed there")
        gone, now = rules[number - 1], self._current
        kept = tuple(rule for rule in now.session.remembered if rule is not gone)
        now.keep(replace(now.session, remembered=kept))
        return gone

    def cancel(self, reason: str = "cancelled by the user") -> None:
        """End the turn that is under way; nothing happens if none is."""
        self._cancelled = reason
        if self._hooks is not None:
            self._hooks.stop()
        if self._run is not None:
            self._run.cancel(reason)

    async def events(self) -> AsyncIterator[HostEvent]:
        """Yield everything that happens from now on; a reader that is too slow is told so."""
        line = self._watching.open()
        try:
            async for event in line:
                yield event
        finally:
            self._watching.leave(line)

    @property
    def busy(self) -> bool:
        """Whether a turn is under way."""
        return self._busy

    # Sessions.

    @property
    def session(self) -> Session:
        """The session, as it was when its last turn began."""
        return self._open.row

    async def switch(self, reference: Session | int | str) -> Session:
        """Go on with another session."""
        self._refuse_while_busy("switch sessions")
        await self._open_session(reference)
        return self.session

    async def new_session(self, name: str = "") -> Session:
        """Begin another session."""
        self._refuse_while_busy("begin a session")
        await self._open_session(None, name)
        return self.session

    async def rebuild_state(self) -> str:
        """Have the model write the session's state anew from its window; return the block."""
        self._refuse_while_busy("rebuild the state")
        session, model = self._open, await self.model()

        def read() -> tuple[StateRebuild, list[Entry]]:
            entries = self._stage.conversation(session).replayed(model.profile.dialect)
            return self.ledger.states.rebuild(session.id), entries

        rebuild, entries = await asyncio.to_thread(read)
        messages = [*(entry.message for entry in entries), Message.of("user", rebuild.prompt)]
        text = guarded_text((await self._stage.llm.run(messages)).text)
        return await asyncio.to_thread(
            self.ledger.states.set, session.id, text, group_id=rebuild.group_id
        )

    async def compact(self) -> bool:
        """Fold the window now: its newer half stays. Say whether there was anything to fold."""
        self._refuse_while_busy("fold the window")
        return await self._stage.fold(self._current)

    async def restore(self, restoration: Restoration) -> None:
        """Bring files back, all or none. Raises `ActionError` if one changed meanwhile."""
        self._refuse_while_busy("bring files back")
        await super().restore(restoration)

    # The model.

    async def model(self) -> Model:
        """Return the model, opening it if need be. Raises what keeps it from being used."""
        if self._model is None:
            return await self._open_model(self._reference)
        return self._model

    async def use_model(self, model: Model | str) -> Model:
        """Go on with another model, opened at once: its name, or the model itself."""
        self._refuse_while_busy("change the model")
        if isinstance(model, str):
            return await self._open_model(model)
        self._model = model
        return model

    @property
    def mode(self) -> Mode:
        """What happens to actions: `ask`, `auto` or `plan`."""
        return self._stage.mode

    def set_mode(self, mode: Mode) -> None:
        """Change what happens to actions, from the next call on."""
        if mode not in ("ask", "auto", "plan"):
            raise InvalidInput(f"a mode is ask, auto or plan; not {mode!r:.40}")
        if mode == "plan" != self.mode:
            self._mode_before = self.mode
        self._stage.mode = mode
        for child in self._delegates.children:
            child.set_mode(mode)

    @property
    def plan(self) -> str:
        """The plan that the last answer of the session ends in; empty if it has none."""
        last = self.ledger.window(self._open.id, Window(1))
        is_answer = bool(last) and last[-1].role == "assistant" and last[-1].status == "complete"
        return plan_of(strip_state(last[-1].message.text)) if is_answer else ""

    def accept_plan(self, changed: str = "") -> str:
        """Go back to the mode before `plan`; return what tells the model to carry out the plan.

        `host.ask(host.accept_plan())` has it carried out, or what it was `changed` to. Whoever
        wants another plan just asks for it. Raises `NotFound` if there is no plan.
        """
        self._refuse_while_busy("accept a plan")
        if not (plan := self.plan):
            raise NotFound("the last answer has no plan to accept")
        if self.mode == "plan":
            self.set_mode(self._mode_before)
        return accepted(plan, guarded_text(changed))

    async def preview(self, text: str = "") -> Composed:
        """Make the request that this text would send now, without sending or storing anything."""
        model = await self.model()
        draft = Input(guarded_text(text))
        return await self._stage.compose(self._current, model, draft)

    @property
    def last(self) -> Composed | None:
        """The request that was sent last in this session, with its usage once it is known."""
        return self._open.last

    # Apps.

    @property
    def world(self) -> World:
        """What the apps show now, with keys blanked."""
        return self._stage.world

    async def connect(self, address: str) -> str:
        """Connect to an app and keep it connected; return its id.

        `address` is as on the command line. Raises `InvalidInput` also where the app's id is
        taken or is one of our own, `Unreachable`, `Unauthorized`.
        """
        return await self.hub.reach(address)

    async def disconnect(self, app: str) -> None:
        """Let go of an app. Raises `NotFound`."""
        if self.hub.world.app(app) is None:
            raise NotFound(f"no app {app!r:.80} is connected")
        await self.hub.remove(app)

    async def invoke(
        self, app: str, path: str, action: str, params: dict[str, Any] | None = None
    ) -> Outcome:
        """Do an action for the user, who needs nobody's approval. Raises what the app answers."""
        return await self.hub.invoke(app, path, action, params)

    def focus(self, app: str, path: str) -> None:
        """Keep a node in view. Raises `NotFound` or `InvalidPath` if it is not there."""
        state = self.hub.world.app(app)
        if state is None or state.tree is None:
            raise NotFound(f"no app {app!r:.80} shows anything")
        state.tree.at(path)
        bench = self._open.toolbox.bench
        bench.attention = bench.attention.focus(app, path)

    def unfocus(self, app: str, path: str) -> None:
        """Keep a node in view no longer."""
        bench = self._open.toolbox.bench
        bench.attention = bench.attention.unfocus(app, path)

    @property
    def focused(self) -> tuple[tuple[str, str], ...]:
        """The nodes that are kept in view, as (app, path), the newest last."""
        return self._open.toolbox.bench.attention.pairs

    async def pin(self, app: str) -> str:
        """Remember what an app shows now: write it into the conversation, as the past it will be.

        Raises `NotFound` if the app shows nothing, `InvalidInput` before anything was said.
        """
        self._refuse_while_busy("pin a state")
        state = self.world.app(app)
        if state is None or state.tree is None:
            raise NotFound(f"no app {app!r:.80} shows anything")
        session, model = self._open, await self.model()
        text = pin_snapshot(World((state,)), self._clock().replace(microsecond=0))
        counter = self._stage.counter(model.profile)

        def store() -> None:
            if not self.ledger.groups.goes_on(session.id):
                raise InvalidInput("a state is pinned to what was said last; there is nothing")
            draft = self._stage.scribe.draft(Message.of("assistant", text), counter)
            self.ledger.append(session.id, [draft], strategy=model.profile.dialect)

        await asyncio.to_thread(store)
        return text

    @property
    def env(self) -> Mapping[str, str]:
        """Where its models find their keys and addresses."""
        return self._env

    async def changed(self) -> str:
        """Wait until an app shows something else than the model saw last; a line that says which.

        For loops that ask by themselves: `host.ask(await host.changed())`. Before the first
        request, what is shown now is what was seen.
        """
        now = self.world
        async for world in self.hub.changes():
            if self._now is None:
                break
            seen = self._now.session.seen or now
            if signal := changed_signal(seen, self._stage.safe(world)):
                return signal
        raise Unreachable("the host is closed: nothing will change any more")

    # Inside.

    @property
    def _open(self) -> OpenSession:
        return self._current.session

    async def _drive(self, message: Message, line: Line, before: asyncio.Task[None] | None) -> None:
        """Run one turn from the user's words to the end of what the strategy has to do."""
        now, scribe = self._current, self._stage.scribe
        begun, run = False, None
        try:
            if before is not None:
                await asyncio.wait({before})  # the strategy has its last word before the next turn
            model = await self.model()
            about = {"session_id": now.session.row.uuid, "mode": self.mode}
            hooks = self._hooks = TurnHooks(self.settings.hooks, about, self._tell)
            added = await hooks.before_ask(message.text)
            await self._look_around()
            await apps.first_sight(self.hub)
            counter = self._stage.counter(model.profile)
            found, turn, mended = await asyncio.to_thread(
                scribe.begin, now.session, message, model.profile, counter,
                self._stage.changes_since,
            )  # fmt: skip
            now.keep(now.session.begun(found), turn.hear("before_ask", added))
            begun, self._is_new = True, False
            self._tell_problem()
            await asyncio.to_thread(self._spending.begin_turn)
            if unpriced := self._spending.unpriced_notice(model.label, model.profile.prices):
                self._tell(Noticed(code="unpriced", message=unpriced))
            if mended:
                self._tell(Noticed(code="recovered", message=str(mended)))
            limits = self.settings.limits
            most = limits.rounds, limits.turn_tokens, limits.retries, self.asks_about_loops
            run = self._run = TurnRun(self._stage, now, model, TurnLimits(*most), self._tell, hooks)
            if self._cancelled is not None:
                run.cancel(self._cancelled)
            await run.run(message.text)
        finally:
            self._run = self._hooks = None
            if begun:
                learnt = self._stage.calibrations
                ended = Ended("interrupted") if run is None else run.ended
                await asyncio.to_thread(scribe.release, now.session, now.turn, ended, learnt)
            self._busy = False
            line.close()
            self._tell_problem()
        if (composed := now.turn.composed) is not None:
            left = await self._stage.finish(composed, now.session.state)
            await asyncio.to_thread(scribe.keep_state, now.session, now.turn, left.state)
            if left.failure is not None:
                self._tell(Noticed(code="strategy", message=str(left.failure)))

    def _tell_problem(self) -> None:
        if problem := self._stage.scribe.take_problem():
            self._tell(Noticed(code="journal", message=problem))

    async def _open_session(self, reference: Session | int | str | None, name: str = "") -> None:
        """Find or make a session, and only then leave the one that is open."""

        def find() -> Session:
            sessions = self.ledger.sessions
            if reference is None:
                created = sessions.create(
                    name, project=self._project, kind=self._kind, parent=self._parent
                )
                window = self.settings.window
                found = sessions.set_window(created.id, Window(window.size, window.slack))
            elif isinstance(reference, Session):
                found = sessions.switch(reference.id)
            else:
                found = sessions.switch(sessions.resolve(str(reference)).id)
            self._stage.calibrations = self.ledger.work.calibrations()
            self._spending.open_session(found.id)
            return found

        row = await asyncio.to_thread(find)
        if self._now is None or self._now.session.id != row.id:
            await self._leave_session()
            self._is_new = reference is None
        limits = self.settings.limits
        bench = Bench(
            self.hub, SessionRecords(self.ledger, row.id, self.memos), invoke_s=limits.invoke_s,
            own_invoke_s=self._own_invoke_s,
            delegate=self._delegate if self.settings.delegate.offer else None,
        )  # fmt: skip
        toolbox = Toolbox(bench, self.settings.tools.style)
        self._now = Current(OpenSession(row, toolbox, first_group=row.first_group))

    async def _delegate(self, call: ToolCall) -> Ran:
        assert self._run is not None  # noqa: S101 - a call is a turn's
        return await self._delegates.run(call, self._run.tokens_for(call.name))

    @asynccontextmanager
    async def _child(self, max_tokens: int) -> AsyncIterator[Host]:
        """Open a host for a task: the same apps, model, rules and mode; a session of its own."""
        chosen = self.settings.delegate
        tokens = min((most for most in (chosen.tokens, max_tokens) if most), default=0)
        limits = replace(self.settings.limits, rounds=chosen.rounds, turn_tokens=tokens)
        settings = replace(
            self.settings, limits=limits, delegate=replace(chosen, offer=False), mode=self.mode
        )
        child = Host(
            settings, self.ledger, self.hub, await self.model(), self._clock, self._project,
            self._env, self.memos, "delegate", self,
        )  # fmt: skip
        try:
            await child._open_session(None)
            yield child
        finally:
            await child._close()

    def _learn_rules(self, child: Host) -> None:
        """Keep what the user wanted remembered when a child asked."""
        now = self._current
        for rule in reversed(child._open.remembered):
            if rule not in now.session.remembered:
                now.keep(now.session.remember(rule))

    async def _leave_session(self) -> None:
        """A session in which nothing was said leaves no trace."""
        await self._stage.held.leave()
        now, self._now = self._now, None
        if now is not None and self._is_new:
            row = now.session.row
            with suppress(NotFound):  # another program may have deleted it
                await asyncio.to_thread(self.ledger.sessions.delete, row.id, confirm=row.uuid)

    async def _account(self, model: Model, spent: Spent) -> None:
        await asyncio.to_thread(self._stage.scribe.account, self._open.id, None, model, spent)

    async def _open_model(self, reference: str) -> Model:
        # Imported when a model is opened: vendors' libraries are large.
        from sightline.agent.models.choose import open_model

        model = await asyncio.to_thread(open_model, reference, self.settings, self._env)
        self._own_models.append(model)
        self._reference, self._model = reference, model
        return model

    def _refuse_while_busy(self, what: str) -> None:
        if self.busy:
            raise InvalidInput(f"a turn is under way; wait for its end to {what}")

    async def _close(self) -> None:
        if self._driver is not None and not self._driver.done():
            self.cancel("the host is closed")
            await asyncio.wait({self._driver})
        await self._leave_session()
        self._watching.close()
        for model in self._own_models:
            await model.close()
        await asyncio.to_thread(self._stage.scribe.close)


def _shelf(ledger: Ledger, path: Path, clock: Clock, stack: ExitStack) -> MemoShelf | None:
    """Put a project's memos and the user's side by side; None if they are the same.

    A ledger of the user's that is not there yet is made with the first memo for it.
    """
    path = expanded(path).resolve()
    if path == ledger.path.resolve():
        return None

    def opened() -> Memos:
        return stack.enter_context(Ledger(path, clock=clock)).memos

    return MemoShelf(
        {"project": ledger.memos, "user": opened() if os.path.exists(path) else opened}
    )
