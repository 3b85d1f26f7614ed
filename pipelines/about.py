"""Provider, Part, KeyCheck: the facts that a plugin says about itself, beyond its classes.

Each plugin has a module `about.py` with `PROVIDERS`, a tuple of them, most often one:

    PROVIDERS = (
        Provider(
            name="deepgram",
            title="Deepgram",
            docs="https://developers.deepgram.com",
            parts=(Part(kind="stt", make=STT, models=NOVA_MODELS, languages=NOVA_LANGUAGES), …),
            keys=(KEY_VARIABLE,),
            get_key="https://console.deepgram.com",
            check=KeyCheck(client=_client, path="v1/auth/token", source="https://…"),
        ),
    )

`vivavoce plugins`, `vivavoce doctor`, `vivavoce new` and docs/providers.md read them.

Decisions:

* Nothing is said twice. Capabilities are those of a component that is made for the question, without a connection; the
  extra is the one of `pyproject.toml` with the name of the plugin's folder; a twin is the package `twin` beside this
  module. Lists and names of variables are the plugin's own, imported.
* The module imports no library of an extra, so that the facts are there before it is installed.
* A plugin that knows several vendors (servers with OpenAI's API) has a `Provider` for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from vivavoce.pipelines.core.model_files import ModelFile

if TYPE_CHECKING:
    from vivavoce.pipelines.net.client import Client

Kind = Literal["stt", "llm", "tts", "realtime", "vad", "turn_detector", "denoise", "text_filter", "embedder"]
"""The argument of `CascadingPipeline` that takes a part; `realtime`: of `RealtimePipeline`; `text_filter`: one of
`CascadingOptions.text_filters`; `embedder`: of `KnowledgeBase`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A component that a plugin offers; the first one of a kind is the one to begin with.

    Args:
        make: Its class, or a function that makes one; a public name of the plugin. With a key it takes `api_key`.
        arguments: The arguments that it needs, as an agent's file writes them, such as `"TALK"`; most need none.
        sample: Arguments (beside `api_key`) to make one from which its capabilities are read; it never connects.
        models, languages, voices: The plugin's own lists, if it has them; empty: the server decides.
        note: A sentence on what it refuses or needs, which the capabilities do not tell.
    """

    kind: Kind
    make: Callable[..., Any]
    arguments: str = ""
    sample: Mapping[str, object] = field(default_factory=dict)
    models: Iterable[str] = ()
    languages: Iterable[str] = ()
    voices: Iterable[str] = ()
    note: str = ""

    @property
    def package(self) -> str:
        """The plugin's name, as `from vivavoce.plugins import …` takes it."""
        return self.make.__module__.split(".")[2]

    @property
    def expression(self) -> str:
        """The code that makes one, such as `"deepgram.STT()"`."""
        return f"{self.package}.{self.make.__qualname__}({self.arguments})"


class MakeClient(Protocol):
    """Returns the client of a component: with the vendor's own address and the environment's key unless given."""

    def __call__(self, *, api_key: str | None = None, base_url: str | None = None) -> Client:
        """Return a client that has made no connection.

        Raises:
            ConfigurationError: There is no key, or it has invalid characters.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCheck:
    """The cheapest request that a server answers only with a valid key.

    Args:
        client: Makes the client that the plugin's components use, so that the key travels as in a call.
        path, query: Of the request, which is a GET.
        data: The body of a POST instead.
        refused: Statuses of a refused key; a plan or account that lacks something is another matter.
        source: The page, or the file of the vendor's SDK, that describes it.
    """

    client: MakeClient
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    data: bytes | None = None
    refused: tuple[int, ...] = (401, 403)
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A vendor, or a component of this machine.

    Args:
        name: Lower case, unique among all plugins; most often the plugin's folder.
        title: The name that its makers write.
        docs: Address of its documentation.
        keys: Variables of the key in all spellings in use, the recommended one first; empty: it needs none.
        settings: Further variables that it cannot do without, such as the one of a region.
        get_key: Address of the page where a key is made.
        check: How a key is tried; None: it has none, or no cheap request needs it.
        files: Weights that are published elsewhere, for `vivavoce models get`.
        note: A sentence that holds for all its parts.
    """

    name: str
    title: str
    parts: tuple[Part, ...]
    docs: str = ""
    keys: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    get_key: str = ""
    check: KeyCheck | None = None
    files: tuple[ModelFile, ...] = ()
    note: str = ""
