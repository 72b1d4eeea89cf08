"""Real agents, each with a vendor on loopback and a separate home. `make agents` installs them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from support.vendors.answers import Answer, Call, says
from support.vendors.server import KEY, Vendor

_INSTALLED = Path(sys.prefix) / "agents"
_MODULES = _INSTALLED / "node_modules"
CLAUDE = _MODULES / "@anthropic-ai/claude-code-linux-x64/claude"
CODEX = _MODULES / "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"
OPENCODE = _MODULES / "opencode-linux-x64/bin/opencode"
REPOSITORY = Path(__file__).parent.parent.parent
LONGEST_S = 240
# An agent may put more into the same message: only what the hook wrote is counted.
_OURS = re.compile(r"(?:Live state of the apps|Data from apps:).*?</slop-state>", re.DOTALL)
Step = tuple[str, dict[str, Any]]

_MISSING = pytest.mark.skipif(
    not (_INSTALLED / ".installed").is_file(), reason="`make agents` installs the agents"
)


def installed(test: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a test that runs a real agent: `make agents` selects it, `make test` does not."""
    marked: Callable[..., Any] = pytest.mark.agents(_MISSING(test))
    return marked


class Agent:
    """One agent in a directory; `turn` says something to it and gives what its vendor was sent."""

    def __init__(self, home: Path, apps: Path, *options: str) -> None:
        self.home = home
        self.options = options
        self.turns = 0
        self.environment = {
            "HOME": str(home), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "SLOP_PROVIDERS": str(apps), **self.own_environment(),
        }  # fmt: skip

    def own_environment(self) -> dict[str, str]:
        return {}

    def command(self, vendor: Vendor, text: str) -> list[str]:
        raise NotImplementedError

    def call(self, number: int, step: Step) -> Call:
        raise NotImplementedError

    def results(self, body: dict[str, Any]) -> list[Any]:
        """The results of tools in a request, each as JSON."""
        raise NotImplementedError

    def install_plugin(self) -> None:
        """Install our plugin by the two commands that the README gives."""
        raise NotImplementedError

    def hooked(self, body: dict[str, Any]) -> list[str]:
        """The texts that our hook added, in a request, in their order."""
        raise NotImplementedError

    def run(self, *command: str | Path) -> str:
        """Run a program as the agent is run; gives what it said."""
        done = subprocess.run(
            [str(word) for word in command], env=self.environment, cwd=REPOSITORY,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONGEST_S,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def begin(self, vendor: Vendor, text: str, *through: str) -> subprocess.Popen[str]:
        """Say something, and wait for nothing; `through` is a program that runs the agent."""
        return subprocess.Popen(
            [*through, *self.command(vendor, text)], env=self.environment | vendor.environment(),
            cwd=self.home, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def turn(self, text: str, *steps: Step) -> list[dict[str, Any]]:
        """Say something; the model calls a tool in each of its replies, then it is done."""
        answers: list[Answer] = [says("", self.call(n, step)) for n, step in enumerate(steps)]
        with Vendor(*answers, says("All done.")) as vendor:
            done = subprocess.run(
                self.command(vendor, text), env=self.environment | vendor.environment(),
                cwd=self.home, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=LONGEST_S, check=False,
            )  # fmt: skip
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        assert "All done." in done.stdout, f"{done.stdout}\n{done.stderr}"
        self.turns += 1
        return [json.loads(request.body) for request in vendor.requests]


class Claude(Agent):
    """Claude Code, asked in print mode."""

    namespace = "mcp__sightline__"

    def own_environment(self) -> dict[str, str]:
        quiet = "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC DISABLE_TELEMETRY DISABLE_AUTOUPDATER"
        return dict.fromkeys((*quiet.split(), "IS_SANDBOX"), "1")

    def command(self, vendor: Vendor, text: str) -> list[str]:
        going_on = ["--continue"] if self.turns else []
        allowed = ["--allowedTools", self.namespace.rstrip("_")]
        return [str(CLAUDE), "-p", text, *going_on, *allowed, *self.options]

    def call(self, number: int, step: Step) -> Call:
        return Call(f"{self.namespace}{step[0]}", step[1], f"c{self.turns}_{number}")

    def install_plugin(self) -> None:
        self.run(CLAUDE, "plugin", "validate", "plugins/claude-code")
        self.run(CLAUDE, "plugin", "marketplace", "add", "./plugins")
        self.run(CLAUDE, "plugin", "install", "sightline@sightline")
        self.namespace = "mcp__plugin_sightline_sightline__"

    def hooked(self, body: dict[str, Any]) -> list[str]:
        said = (_text(one["content"]) for one in body["messages"] if one["role"] == "system")
        return [text for one in said for text in _OURS.findall(one)]

    def results(self, body: dict[str, Any]) -> list[Any]:
        blocks = (
            block
            for message in body["messages"]
            if isinstance(message["content"], list)
            for block in message["content"]
        )
        found = (block["content"] for block in blocks if block["type"] == "tool_result")
        # Of a result that is an error it shows the text alone.
        return [json.loads(text) if text.startswith("{") else {"error": text} for text in found]


class VertexClaude(Claude):
    """Claude Code on Vertex AI, with a token of a project's own proxy."""

    switches: ClassVar = {
        "CLAUDE_CODE_USE_VERTEX": "1", "CLAUDE_CODE_SKIP_VERTEX_AUTH": "1",
        "CLOUD_ML_REGION": "us-east5", "ANTHROPIC_VERTEX_PROJECT_ID": "project",
    }  # fmt: skip
    base = ("ANTHROPIC_VERTEX_BASE_URL", "/v1")

    def begin(self, vendor: Vendor, text: str, *through: str) -> subprocess.Popen[str]:
        self.environment |= {self.base[0]: f"{vendor.url}{self.base[1]}"}
        return super().begin(vendor, text, *through)

    def own_environment(self) -> dict[str, str]:
        return super().own_environment() | self.switches


class FoundryClaude(VertexClaude):
    """Claude Code on Microsoft Foundry, with a key and a resource."""

    switches: ClassVar = {
        "CLAUDE_CODE_USE_FOUNDRY": "1", "ANTHROPIC_FOUNDRY_API_KEY": KEY,
        "ANTHROPIC_FOUNDRY_RESOURCE": "resource",
    }  # fmt: skip
    base = ("ANTHROPIC_FOUNDRY_BASE_URL", "/anthropic")


class BedrockClaude(VertexClaude):
    """Claude Code on Bedrock, with an API key instead of a signature."""

    switches: ClassVar = {"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_BEARER_TOKEN_BEDROCK": KEY}
    base = ("ANTHROPIC_BEDROCK_BASE_URL", "")


class Codex(Agent):
    """Codex, asked by `codex exec`."""

    def own_environment(self) -> dict[str, str]:
        folder = self.home / "codex"
        folder.mkdir(exist_ok=True)
        return {"CODEX_HOME": str(folder)}

    def command(self, vendor: Vendor, text: str) -> list[str]:
        provider = {"name": "local", "base_url": f"{vendor.url}/v1", "wire_api": "responses",
                    "env_key": "OPENAI_API_KEY"}  # fmt: skip
        settings = {"model": "gpt-5.5", "model_provider": "local"} | {
            f"model_providers.local.{name}": value for name, value in provider.items()
        }
        given = [f"{name}={json.dumps(value)}" for name, value in settings.items()]
        flags = [word for one in given for word in ("-c", one)]
        going_on = ["resume", "--last"] if self.turns else []
        free = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        return [str(CODEX), "exec", *flags, *free, *self.options, *going_on, text]

    def call(self, number: int, step: Step) -> Call:
        return Call(step[0], step[1], f"c{self.turns}_{number}", "mcp__sightline")

    def install_plugin(self) -> None:
        self.run(CODEX, "plugin", "marketplace", "add", "./plugins")
        self.run(CODEX, "plugin", "add", "sightline@sightline")
        # A person is shown a plugin's hooks once, and trusts them.
        self.options = (*self.options, "--dangerously-bypass-hook-trust")

    def hooked(self, body: dict[str, Any]) -> list[str]:
        messages = (one for one in body["input"] if one["type"] == "message")
        said = (_text(one["content"]) for one in messages if one["role"] == "developer")
        return [text for one in said for text in _OURS.findall(one)]

    def results(self, body: dict[str, Any]) -> list[Any]:
        outputs = (item for item in body["input"] if item["type"] == "function_call_output")
        return [json.loads(item["output"].partition("Output:\n")[2]) for item in outputs]


class PlainCodex(Codex):
    """Codex with a key, and no vendor configured but its own: it asks over a WebSocket."""

    def command(self, vendor: Vendor, text: str) -> list[str]:
        login = {"auth_mode": "apikey", "OPENAI_API_KEY": KEY}
        (self.home / "codex" / "auth.json").write_text(json.dumps(login))
        words = super().command(vendor, text)
        own = [word for word in words if "model_provider" not in word]
        first, *rest = (word for word in own if word != "-c")
        settings = ["-c", f'openai_base_url="{vendor.url}/v1"', "-c"]
        return [first, *rest[:1], *settings, *rest[1:]]


class OpenCode(Agent):
    """opencode, started as `opencode run`, on a model of OpenAI's."""

    model = "openai/gpt-5.5"

    def own_environment(self) -> dict[str, str]:
        settings = {"share": "disabled", "autoupdate": False, "permission": {"*": "allow"}}
        offline = dict.fromkeys(
            ("OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_MODELS_FETCH"), "1"
        )
        return {"OPENCODE_CONFIG_CONTENT": json.dumps(settings), **offline}

    def command(self, vendor: Vendor, text: str) -> list[str]:
        going_on = ["--continue"] if self.turns else []
        return [str(OPENCODE), "run", *going_on, "-m", self.model, text]


class AnthropicOpenCode(OpenCode):
    """opencode on a model of Anthropic's, which it requests at `/messages`."""

    model = "anthropic/claude-sonnet-4-5"


class AiSdk(Agent):
    """A program of a few lines that uses Vercel's AI SDK on a model of OpenAI's.

    Its directory has the conversation.
    """

    vendor, model = "openai", "gpt-5.5"

    def command(self, vendor: Vendor, text: str) -> list[str]:
        script = _INSTALLED / f"ask-{self.vendor}.mjs"
        script.write_text(
            'import { existsSync, readFileSync, writeFileSync } from "node:fs";\n'
            'import { streamText } from "ai";\n'
            f'import {{ {self.vendor} }} from "@ai-sdk/{self.vendor}";\n'
            'const talk = "talk.json";\n'
            "const messages = existsSync(talk) ? JSON.parse(readFileSync(talk)) : [];\n"
            'messages.push({ role: "user", content: process.argv[2] });\n'
            f'const reply = streamText({{ model: {self.vendor}("{self.model}"), messages }});\n'
            'let content = "";\n'
            "for await (const text of reply.textStream) content += text;\n"
            "process.stdout.write(content);\n"
            'messages.push({ role: "assistant", content });\n'
            "writeFileSync(talk, JSON.stringify(messages));\n"
        )
        return ["node", str(script), text]


class AnthropicAiSdk(AiSdk):
    """The same on a model of Anthropic's."""

    vendor, model = "anthropic", "claude-sonnet-4-5"


def _text(content: Any) -> str:
    """The text of a message, whole or in parts."""
    return (
        content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    )


def mcp_options(agent: type[Agent], directory: Path, arguments: Sequence[str]) -> list[str]:
    """Give an agent `sightline mcp` as its only server."""
    if agent is Claude:
        server = {"command": sys.executable, "args": [*arguments]}
        file = directory / "mcp.json"
        file.write_text(json.dumps({"mcpServers": {"sightline": server}}))
        return ["--strict-mcp-config", "--mcp-config", str(file)]
    server_settings = {"command": sys.executable, "args": [*arguments], "required": True,
                       "startup_timeout_sec": 120, "env_vars": ["SLOP_PROVIDERS"]}  # fmt: skip
    given = [f"mcp_servers.sightline.{name}={json.dumps(value)}"
             for name, value in server_settings.items()]  # fmt: skip
    return [word for one in given for word in ("-c", one)]
