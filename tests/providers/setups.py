"""Settings that point each program to a model on this machine."""

from collections.abc import Mapping
from typing import NamedTuple

# `{url}` is where the model is.
_FAKE = "fakekey"


class Setup(NamedTuple):
    """Variables, arguments and files of the home directory; `model` as an agent names it."""

    env: Mapping[str, str] = {}
    args: tuple[str, ...] = ()
    home: Mapping[str, str] = {}
    model: str = ""


_OPENCODE = (
    '{"provider":{"fake":{"npm":"@ai-sdk/openai-compatible","name":"Fake","options":'
    '{"baseURL":"{url}/v1","apiKey":"fakekey"},"models":{"m":{"name":"m"}}}},'
    '"model":"fake/m","small_model":"fake/m"}'
)
SETUPS: Mapping[str, Setup] = {
    "claude": Setup(
        {
            "ANTHROPIC_BASE_URL": "{url}",
            "ANTHROPIC_API_KEY": "sk-ant-fake",
            "CLAUDE_CODE_MAX_RETRIES": "1",
        }
    ),
    "codex": Setup(
        {"FAKE_KEY": _FAKE},
        (
            "-c",
            "model_provider=fake",
            "-c",
            'model_providers.fake={name="fake",base_url="{url}/v1",wire_api="responses",'
            'env_key="FAKE_KEY",request_max_retries=1,stream_max_retries=1}',
        ),
        model="gpt-5.5",
    ),
    "gemini": Setup(
        {"GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_API_KEY": _FAKE},
        home={
            ".gemini/settings.json": (
                '{"security":{"auth":{"selectedType":"gemini-api-key"}},'
                '"general":{"maxAttempts":1}}'
            )
        },
        model="gemini-2.5-flash",
    ),
    "opencode": Setup(home={".config/opencode/opencode.json": _OPENCODE}),
    "kilo": Setup(home={".config/kilo/kilo.json": _OPENCODE}),
    "copilot": Setup(
        {
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_BASE_URL": "{url}/v1",
            "COPILOT_PROVIDER_API_KEY": _FAKE,
            "COPILOT_MODEL": "gpt-4.1",
        }
    ),
    "qwen": Setup(
        {"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_KEY": _FAKE, "OPENAI_MODEL": "m"},
        ("--auth-type", "openai"),
    ),
    "droid": Setup(
        {"FACTORY_API_KEY": "fk-fake"},
        home={
            ".factory/settings.json": (
                '{"customModels":[{"model":"m","displayName":"m","baseUrl":"{url}/v1",'
                '"apiKey":"fakekey","provider":"generic-chat-completion-api",'
                '"maxOutputTokens":1000}]}'
            )
        },
        model="custom:m",
    ),
    "kimi": Setup(
        home={
            ".kimi-code/config.toml": (
                'default_model = "m"\n[providers.fake]\ntype = "openai"\n'
                'base_url = "{url}/v1"\napi_key = "fakekey"\n[models.m]\nprovider = "fake"\n'
                'model = "m"\nmax_context_size = 100000\n'
            )
        },
        model="m",
    ),
    "grok": Setup(
        {"XAI_API_KEY": _FAKE, "GROK_XAI_API_BASE_URL": "{url}/v1"},
        home={
            ".grok/config.toml": (
                '[model.m]\nmodel = "m"\nname = "m"\nbase_url = "{url}/v1"\n'
                'api_key = "fakekey"\n[models]\ndefault = "m"\n'
            )
        },
        model="m",
    ),
    "cline": Setup(
        home={
            ".cline/data/settings/providers.json": (
                '{"version":1,"lastUsedProvider":"openai-compatible","modes":{},"providers":'
                '{"openai-compatible":{"settings":{"provider":"openai-compatible",'
                '"apiKey":"fakekey","model":"m","baseUrl":"{url}/v1"},'
                '"updatedAt":"2026-01-01T00:00:00.000Z","tokenSource":"manual"}}}'
            )
        },
    ),
    "goose": Setup(
        {
            "GOOSE_PROVIDER": "openai",
            "GOOSE_MODEL": "m",
            "OPENAI_HOST": "{url}",
            "OPENAI_API_KEY": _FAKE,
            "GOOSE_DISABLE_KEYRING": "1",
        },
    ),
    "pi": Setup(
        home={
            ".pi/agent/models.json": (
                '{"providers":{"fake":{"baseUrl":"{url}/v1","api":"openai-completions",'
                '"apiKey":"fakekey","models":[{"id":"m"}]}}}'
            )
        },
        model="fake/m",
    ),
}

Call = tuple[str, dict[str, object]]


def shell_call(name: str, command: str) -> Call:
    """The call with which a program's model runs a command."""
    described: dict[str, object] = {"command": command, "description": "Run it"}
    calls: Mapping[str, Call] = {
        "claude": ("Bash", described),
        "cline": ("run_commands", {"commands": [command]}),
        "codex": ("exec_command", {"cmd": command}),
        "copilot": ("bash", described),
        "droid": (
            "Execute",
            {
                "command": command,
                "summary": "Run it",
                "riskLevel": "medium",
                "riskLevelReason": "It writes.",
            },
        ),
        "gemini": ("run_shell_command", {"command": command}),
        "grok": ("run_terminal_command", described),
        "kilo": ("bash", described),
        "kimi": ("Bash", described),
        "opencode": ("bash", described),
        "qwen": ("run_shell_command", {**described, "is_background": False}),
    }
    return calls[name]


def asking_call(name: str) -> Call:
    """A call that a program asks about in its default mode, where it asks at all.

    The command of a shell writes the file `ran`.
    """
    if name in ("kilo", "opencode"):  # their shell needs no permission
        return "read", {"filePath": "/etc/hostname"}
    tool, arguments = shell_call(name, "python3 -c \"open('ran', 'w')\"")
    if name == "codex":
        escalated = {"sandbox_permissions": "require_escalated", "justification": "Please."}
        return tool, {**arguments, **escalated}
    return tool, arguments
