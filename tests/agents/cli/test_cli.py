"""The command line as a user meets it: help, and every mistake answered in words, without a traceback."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kit.cli import MAIN, Command, in_a_process, in_this_process

SECRET = "a-secret-that-nobody-must-see-in-any-output"
ACCOUNT = ("--url", "ws://127.0.0.1:1", "--api-key", "key", "--api-secret", SECRET)
"""A server that is not there."""


@pytest.fixture
def vivavoce(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the command in this process."""
    return in_this_process(capsys)


pytestmark = pytest.mark.timeout(60)


def test_without_arguments_the_commands_are_listed_and_where_to_begin() -> None:
    status, printed = in_a_process()  # the one command that shows how its process ends
    assert status != 0
    for word in ("demo", "dev", "start", "connect", "doctor", "plugins", "room", "New here? Run: vivavoce demo"):
        assert word in printed


def test_help_tells_what_a_command_does_and_takes(vivavoce: Command) -> None:
    status, printed = vivavoce("demo", "--help")
    assert status == 0
    for word in (
        "--once",
        "--report",
        "--wav",
        "--no-call",
        "--voice",
        "--ears",
        "--seed",
        "--port",
        "--url",
        "--api-key",
        "LIVEKIT_API_SECRET",
    ):
        assert word in printed


HELP = {
    "dev": ("new code at every save", "--port", "--url", "--watch", "--no-reload", "LIVEKIT_URL"),
    "connect": ("--room", "--identity", "--metadata", "required"),
    "console": ("--text", "--wav", "--out", "--input", "--output", "--devices", "space interrupts"),
    "doctor": ("--json", "Secrets are never printed", "Each vendor whose key is set is asked"),
    "plugins": ("--json", "Keys are never printed"),
    "start": ("--agent-name", "--health-port", "--health-host", "0.0.0.0 for probes", "--log-format"),
}


@pytest.mark.parametrize("command", HELP)
def test_the_help_of_a_command_says_what_it_is_for_and_its_options(command: str, vivavoce: Command) -> None:
    status, printed = vivavoce(command, "--help", env={"COLUMNS": "160"})
    assert status == 0
    for words in HELP[command]:
        assert words in printed


def test_the_usage_of_start_names_the_program_though_it_runs_in_a_process_of_its_own(vivavoce: Command) -> None:
    status, printed = in_a_process("start")
    assert status == 2
    assert "Usage: vivavoce start [OPTIONS]" in printed
    status, printed = vivavoce("start", "--help")
    assert status == 0
    assert "Usage: vivavoce start [OPTIONS]" in printed


def test_the_version_is_printed(vivavoce: Command) -> None:
    status, printed = vivavoce("--version")
    assert status == 0
    assert printed.startswith("vivavoce ")


def test_env_in_the_working_directory_is_read_the_environment_wins_over_it_and_flags_over_both(
    apps: Path, vivavoce: Command
) -> None:
    account = f"LIVEKIT_API_KEY=filekey\nLIVEKIT_API_SECRET='{SECRET}'\n"
    (apps / ".env").write_text(f"# a comment\nexport LIVEKIT_URL=from-the-file\n{account}")
    said = [
        vivavoce("connect", "app.py", "--room", "r", cwd=apps),
        vivavoce("connect", "app.py", "--room", "r", cwd=apps, env={"LIVEKIT_URL": "from-the-environment"}),
        vivavoce("connect", "app.py", "--room", "r", "--url", "from-the-flag", cwd=apps, env={"LIVEKIT_URL": "other"}),
    ]
    for (status, printed), url in zip(said, ("from-the-file", "from-the-environment", "from-the-flag"), strict=True):
        assert status == 1
        assert f"got '{url}'" in printed
        assert SECRET not in printed


def test_another_file_can_be_named_for_the_environment(apps: Path, vivavoce: Command) -> None:
    (apps / "staging.env").write_text("LIVEKIT_URL=staging\nLIVEKIT_API_KEY=k\nLIVEKIT_API_SECRET=s\n")
    status, printed = vivavoce("--env-file", "staging.env", "connect", "app.py", "--room", "r", cwd=apps)
    assert (status, "got 'staging'" in printed) == (1, True)
    status, printed = vivavoce("--env-file", "nofile.env", "connect", "app.py", "--room", "r", cwd=apps)
    assert (status, "cannot read the environment file 'nofile.env'" in printed) == (1, True)
    assert "Traceback" not in printed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["dev", "nofile.py"], "'nofile.py' does not exist; give the Python file"),
        (["dev", str(Path(__file__).parents[3] / "README.md")], "is not a Python file; its name must end in .py"),
        (["dev", "nofile.py", "--url", "nowhere"], "'nofile.py' does not exist; give the Python file"),
        (["dev", "app.py", "--url", "nowhere"], "got 'nowhere'"),
        (["dev", "."], "is a folder"),
        (["dev", "app.py", "--url", "ws://127.0.0.1:1"], "needs an API key: give --api-key"),
        (["dev", "app.py", "--url", "nowhere", "--api-key", "k", "--api-secret", SECRET], "got 'nowhere'"),
        (["dev", "app.py", "--port", "70000"], "port must be 0 (any free one) to 65535, got 70000"),
        (["dev", "app.py", "--port", "99999", *ACCOUNT], "port must be 0 (any free one) to 65535, got 99999"),
        (["dev", "app.py", "--port", "0", "--watch", "nofolder"], "'nofolder' is no folder"),
        (["console"], "give the Python file that holds your agent"),
        (["console", "nofile.py", "--text"], "'nofile.py' does not exist"),
        (["console", "app.py", "--text", "--wav", "in.wav"], "give only one of them"),
        (["console", "app.py", "--out", "out.wav"], "--out goes with --wav"),
        (["console", "app.py", "--text", "--input", "0"], "which --text and --wav do without"),
        (["console", "app.py", "--wav", "nofile.wav"], "cannot read 'nofile.wav': No such file"),
        (["console", "app.py", "--wav", "notes.txt"], "it is cut short, or no WAV file; needed a WAV file of 16-bit"),
        (["console", "agents.py", "--text"], "several agents (A, B)"),
        (["connect", "app.py"], "--room"),
        (["connect", "app.py", "--room", "r"], "give --url, or set LIVEKIT_URL. Without one, `vivavoce dev FILE`"),
        (["connect", "nofile.py", "--room", "r", "--url", "nowhere"], "'nofile.py' does not exist"),
        (["connect", "app.py", "--room", "r", "--url", "nowhere"], "got 'nowhere'"),
        (["connect", "app.py", "--room", " ", "--url", "ws://127.0.0.1:1"], "--room needs the name of a room"),
        (["connect", "app.py", "--room", "r", "--url", "ws://127.0.0.1:1"], "needs an API key"),
        (
            ["connect", "nofile.py", "--room", "r", "--url", "ws://h", "--api-key", "k", "--api-secret", SECRET],
            "'nofile.py' does not exist",
        ),
        (["doctor", "extra"], "unexpected extra argument"),
        (["room", "--port", "99999"], "port must be 0 (any free one) to 65535, got 99999"),
        (["page", "--port", "99999", *ACCOUNT], "port must be 0 (any free one) to 65535, got 99999"),
        (["page", "--port", "65536"], "port must be 0 (any free one) to 65535, got 65536"),
        (["page", "--port", "-1", *ACCOUNT], "port must be 0 (any free one) to 65535, got -1"),
        (["call", "nofile.toml", "--repeat", "0"], "--repeat"),
        (["call", "nofile.toml", "--parallel", "65"], "--parallel"),
        (["call", "nofile.toml", "--answer-limit", "nan"], "--answer-limit"),
        (["start", "nofile.py"], "'nofile.py' does not exist; give the Python file"),
        (["start", "."], "is a folder"),
        (["start", "notes.txt"], "its name must end in .py"),
        (["start", "syntax.py"], "line 2: '(' was never closed"),
        (["start", "imports.py"], "imports.py, line 1, imports 'nosuchmodule', which is not installed"),
        (
            ["start", "uses_imports.py"],
            "/imports.py, line 1, which uses_imports.py loads, imports 'nosuchmodule', which is not installed",
        ),
        (["start", "wrong_name.py"], "wrong_name.py, line 1, has an import that fails: cannot import name 'Agents'"),
        (["start", "old_name.py"], "old_name.py, line 1, has an import that fails: State is in vivavoce.agents.graphs"),
        (["start", "empty.py"], "no Worker, no `async def entrypoint(ctx)` and no Agent"),
        (["start", "two.py"], "2 workers (first, second); keep one"),
        (["start", "sync.py"], "sync.py: the entrypoint must be an async function"),
        (["start", "lonely.py"], "lonely.py: the entrypoint must take one argument, the JobContext"),
        (["start", "agent.py"], "give it a method `pipeline()`"),
        (["start", "agents.py"], "several agents (A, B)"),
        (["start", "app.py"], "give --url, or set LIVEKIT_URL. Without one, `vivavoce dev FILE`"),
        (["start", "app.py", "--url", "ws://127.0.0.1:1"], "needs LiveKit's API key"),
        (["start", "app.py", "--url", "localhost", "--api-key", "k", "--api-secret", SECRET], "got 'localhost'"),
        (
            ["start", "app.py", "--health-port", "99999", *ACCOUNT],
            "health_port must be 0 (any free one) to 65535, got 99999",
        ),
        (["demo", "--once", "--no-call"], "give only one of them"),
        (["demo", "--port", "70000"], "port must be 0 (any free one) to 65535, got 70000"),
        (["demo", "--port", "-1", *ACCOUNT], "port must be 0 (any free one) to 65535, got -1"),
        (["demo", "--port", "many"], "--port"),
        (["demo", "--url", "ws://127.0.0.1:1"], "needs an API key: give --api-key"),
        (["demo", "--url", "ws://127.0.0.1:1", "--api-key", "k"], "needs an API secret"),
        (["demo", "--url", "nowhere", "--api-key", "k", "--api-secret", SECRET], "got 'nowhere'"),
        (["demo", "--port", "0", "--report", "/proc/none/report.json"], "cannot write '/proc/none/report.json'"),
        (["demo", "--port", "0", "--wav", "."], "choose other files with --wav and --report"),
        (["demo", "--port", "0", "--report", "app.py/report.json"], "cannot write 'app.py/report.json'"),
        (["demo", "--voice", "alexa"], "'alexa' is not one of"),
        (["demo", "--ears", "whisper"], "'whisper' is not one of"),
        (["demo", "--voice", "espeak", "--ears", "moonshine"], "moonshine does not understand the robot's voice"),
        (["demo", "--seed", "-1"], "--seed"),
        (["demo", "--no-call", "--seed", "1"], "no call is placed: leave it out"),
        (["demo", "--ears", "pocketsphinx", "--seed", "1"], "understands the sentences of a grammar only"),
        (["demo", "--llm", "ollama"], "needed rules or openai, got 'ollama'"),
        (["demo", "--llm-model", "m"], "'m' needs --llm openai or --llm-base-url"),
        (["demo", "--once", "--llm", "openai"], "with a language model none is placed"),
        (["demo", *ACCOUNT, "--llm", "openai"], "OPENAI_API_KEY"),
        (["demo", *ACCOUNT, "--llm-base-url", "http://127.0.0.1:1/v1"], "needs model"),
        (["dance"], "No such command 'dance'"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_a_mistake_is_answered_in_words(arguments: list[str], words: str, apps: Path, vivavoce: Command) -> None:
    status, printed = vivavoce(*arguments, cwd=apps)
    assert status != 0
    assert words in printed
    assert "Traceback" not in printed
    assert SECRET not in printed


def test_start_says_which_code_runs_by_default_options_if_no_name_of_the_file_holds_a_worker(
    apps: Path, vivavoce: Command
) -> None:
    head = "from vivavoce.agents import Worker\n\nasync def entrypoint(ctx): ...\n\n"
    (apps / "hidden.py").write_text(f"{head}workers = [Worker(entrypoint, agent_name='hidden')]\n")
    (apps / "only_agent.py").write_text(f"{(apps / 'agent.py').read_text()}    def pipeline(self): ...\n")
    account = ("--url", "nowhere", "--api-key", "key", "--api-secret", SECRET)

    def said(*arguments: str, env: Mapping[str, str] | None = None) -> str:
        return " ".join(vivavoce("start", *arguments, *account, cwd=apps, env=env)[1].split())

    defaults = "runs with default options and takes"
    assert f"no top-level name of hidden.py holds a Worker: entrypoint() {defaults} each new room" in said("hidden.py")
    assert f"entrypoint() {defaults} the jobs of agent 'host'" in said("hidden.py", "--agent-name", "host")
    assert f"entrypoint() {defaults} the jobs of agent 'host'" in said("hidden.py", env={"LIVEKIT_AGENT_NAME": "host"})
    assert f"no top-level name of only_agent.py holds a Worker: A {defaults} each new room" in said("only_agent.py")
    assert "top-level" not in said("app.py")


def test_of_an_error_of_the_apps_own_its_own_lines_are_shown(apps: Path, vivavoce: Command) -> None:
    status, printed = vivavoce("start", "broken.py", cwd=apps)
    lines = [line for line in printed.splitlines() if line.strip()]
    assert status == 1
    assert lines[:2] == ["error: broken.py raises while it is loaded", "Traceback (most recent call last):"]
    assert [line.rpartition("/")[2] for line in lines if "File " in line] == [
        'broken.py", line 2, in <module>',
        'breaks.py", line 2, in breaks',
    ]
    assert lines[-1] == "RuntimeError: mine"


def test_of_an_error_in_a_job_the_apps_own_lines_are_shown(apps: Path, vivavoce: Command) -> None:
    status, printed = vivavoce("console", "--text", "broken_job.py", cwd=apps)
    assert status == 1
    assert [line.rpartition("/")[2] for line in printed.splitlines() if "File " in line] == [
        'broken_job.py", line 3, in entrypoint',
        'breaks.py", line 2, in breaks',
    ]
    assert "the agent failed: RuntimeError: mine" in printed


def test_an_entrypoint_without_a_session_ends_the_console_with_the_remedy(apps: Path, vivavoce: Command) -> None:
    status, printed = vivavoce("console", "--text", "no_session.py", cwd=apps)
    assert status == 1
    wanted = "the agent failed: the entrypoint has returned without a session; await AgentSession(…).start(), or ctx."
    assert wanted in " ".join(printed.split())
    assert printed.count("has returned without") == 1


def test_a_taken_port_is_said_so(apps: Path, taken_port: int, vivavoce: Command) -> None:
    status, printed = vivavoce("demo", "--once", "--port", str(taken_port), cwd=apps)
    assert status == 1
    assert f"port {taken_port} on 127.0.0.1 is taken" in printed
    assert "Traceback" not in printed
    assert not (apps / "demo").exists()


def test_the_room_command_prints_what_an_agent_and_a_client_need_and_ends_at_ctrl_c() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, "room", "--port", "0"], stdout=subprocess.PIPE, text=True
    ) as room:
        assert room.stdout is not None
        lines = [room.stdout.readline().split() for _ in range(5)]
        room.send_signal(signal.SIGINT)
        assert room.wait(timeout=100) == 0
    assert [line[0] for line in lines] == ["room", "page", "key", "secret", "token"]
    assert lines[1][1] == lines[0][1].replace("ws://", "http://") + "/"
    assert lines[0][1].startswith("ws://127.0.0.1:")
    assert lines[4][1].count(".") == 2


def test_a_server_that_cannot_be_reached_is_said_so(apps: Path, vivavoce: Command) -> None:
    status, printed = vivavoce("demo", "--once", *ACCOUNT, cwd=apps)
    assert status == 1
    assert "could not register with the LiveKit server" in printed
    assert "Traceback" not in printed
    assert SECRET not in printed


@pytest.fixture
def web_server() -> Iterator[str]:
    """A server that is none of LiveKit's: it has web pages."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_server_that_is_none_of_livekit_s_is_said_to_be_none(apps: Path, web_server: str, vivavoce: Command) -> None:
    account = ["--url", web_server, "--api-key", "key", "--api-secret", "short"]
    status, printed = vivavoce("start", "quick.py", *account, cwd=apps)
    assert status == 1
    assert "answered with status 501, not with a websocket: is it a LiveKit server?" in printed
    status, joined = vivavoce("connect", "quick.py", "--room", "r", *account, cwd=apps)
    assert status == 1
    assert "with a web page: is it a LiveKit server?" in " ".join(joined.split())
    assert "<!DOCTYPE" not in joined
    assert "Warning" not in printed + joined


def test_dev_cannot_register_at_a_server_that_is_not_there_and_says_so(apps: Path, vivavoce: Command) -> None:
    status, printed = vivavoce("dev", "quick.py", *ACCOUNT, cwd=apps)
    assert status == 1
    assert "could not register with the LiveKit server" in printed
    assert "Traceback" not in printed
    assert SECRET not in printed


def test_a_command_bounds_native_libraries_by_what_environment_and_env_file_do_not_say(
    vivavoce: Command, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("OPENBLAS_NUM_THREADS=3\n")
    status, printed = vivavoce("doctor", "--json", cwd=tmp_path)
    found = {finding["name"]: finding["found"] for finding in json.loads(printed)}
    assert status == 0
    assert found["threads of numpy"] == "OPENBLAS_NUM_THREADS=3"
    assert found["threads of livekit.rtc"] == "TOKIO_WORKER_THREADS=1"


def test_doctor_says_what_is_wrong_and_what_to_do_and_shows_no_secret(vivavoce: Command) -> None:
    env = {
        "LIVEKIT_URL": "ws://127.0.0.1:1",
        "LIVEKIT_API_KEY": "key",
        "LIVEKIT_API_SECRET": SECRET,
        "OPENAI_API_KEY": f"sk-{SECRET}",
        "HTTPS_PROXY": "http://127.0.0.1:1",
        "COLUMNS": "200",
    }
    status, printed = vivavoce("doctor", env=env)
    assert status == 1
    assert "ws://127.0.0.1:1 cannot be reached" in printed
    assert "https://api.openai.com/v1 cannot be reached" in printed
    assert SECRET not in printed
    status, printed = vivavoce("doctor", "--json")
    assert status == 0
    found = {finding["name"]: finding for finding in json.loads(printed)}
    assert found["python"]["health"] == "ok"
    assert found["livekit library"]["health"] == "ok"
    assert found["LiveKit server"]["health"] == "absent"


@pytest.mark.parametrize("missing", [["aiortc"], ["moonshine_voice", "pocketsphinx"], ["hibari", "espeakng_loader"]])
def test_a_missing_extra_is_named_with_its_remedy(missing: list[str], apps: Path, vivavoce: Command) -> None:
    status, printed = vivavoce("demo", "--once", missing=missing, cwd=apps)
    assert status == 1
    assert "Traceback" not in printed
    assert "pip install 'vivavoce[demo]'" in printed
    assert all(package in printed for package in missing)


@pytest.mark.parametrize(
    ("missing", "speech"),
    [
        (
            ["moonshine_voice"],
            "hibari speaks, pocketsphinx hears   the sentences of a grammar; not installed here: moonshine",
        ),
        (["hibari"], "espeak speaks, pocketsphinx hears   the sentences of a grammar; not installed here: hibari"),
        (
            ["onnxruntime"],
            "espeak speaks, pocketsphinx hears   the sentences of a grammar; not installed here: hibari and",
        ),
        ([], "hibari speaks, moonshine hears   any English sentence"),
    ],
    ids=["no moonshine", "no hibari", "neither", "both"],
)
def test_the_demo_says_what_speaks_and_hears_where_a_wheel_is_missing(
    missing: list[str], speech: str, apps: Path, vivavoce: Command
) -> None:
    status, printed = vivavoce("demo", "--once", *ACCOUNT, missing=missing, cwd=apps, env={"COLUMNS": "160"})
    assert status == 1  # no server is there
    assert speech in printed


@pytest.fixture
def apps(tmp_path: Path) -> Path:
    """A folder of apps, most of them wrong."""
    head = "from vivavoce.agents import Agent, Worker\n\nasync def entry(ctx): ...\n"
    agent = "class {0}(Agent):\n    def __init__(self):\n        super().__init__('x')\n"
    files = {
        "notes.txt": "hello",
        "syntax.py": "x = 1\nprint((x)\n",
        "imports.py": "import nosuchmodule\n",
        "wrong_name.py": "from vivavoce.agents import Agents\n",
        "old_name.py": "from vivavoce.agents import (\n    Agent,\n    State,\n)\n",
        "empty.py": "x = 1\n",
        "two.py": f"{head}first = Worker(entry)\nsecond = Worker(entry)\n",
        "sync.py": "def entrypoint(ctx): ...\n",
        "lonely.py": "async def entrypoint(): ...\n",
        "no_session.py": "async def entrypoint(ctx):\n    pass\n",
        "agent.py": head + agent.format("A"),
        "agents.py": head + agent.format("A") + agent.format("B"),
        "app.py": f"{head}worker = Worker(entry)\n",
        "quick.py": "from vivavoce.agents import Worker, WorkerOptions\n\nasync def entry(ctx):\n"
        "    await ctx.connect()\n\nworker = Worker(entry, options=WorkerOptions(max_retry=0))\n",
        "uses_imports.py": "import imports\n",
        "breaks.py": "def breaks():\n    raise RuntimeError('mine')\n",
        "broken.py": "from breaks import breaks\nbreaks()\n",
        "broken_job.py": "from breaks import breaks\nasync def entrypoint(ctx):\n    breaks()\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port that somebody else listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]
