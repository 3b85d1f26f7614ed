"""Access: the address of a model and the headers with the right to use it, by key or by Google Cloud.

Sources: `_api_client.py` and `_base_url.py` of google-genai 3.6.1 (variables and their order, addresses, versions of
the API, `x-goog-user-project`), `t_model` in `_transformers.py` (names of models).
"""

from __future__ import annotations

import importlib.util
import os
import re
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.to_thread

from vivavoce.pipelines.core.errors import ConfigurationError, ProviderConnectionError, ProviderError
from vivavoce.pipelines.net.failures import Failures, system_reason
from vivavoce.pipelines.net.keys import checked_url, find_key
from vivavoce.plugins.google.options import Vertex

KEY_VARIABLES = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
VERTEX_VARIABLES = ("GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_GENAI_USE_VERTEXAI")
GEMINI_URL_VARIABLE, VERTEX_URL_VARIABLE = "GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL"
GEMINI_URL = "https://generativelanguage.googleapis.com"
GEMINI_VERSION, VERTEX_VERSION = "v1", "v1beta1"
VERSION = re.compile(r"v\d+(alpha\d*|beta\d*)?")
MODEL = re.compile(r"[a-zA-Z0-9_.@/-]+")
MULTI_REGIONS = ("us", "eu")
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
LOGIN = "run `gcloud auth application-default login`, set GOOGLE_APPLICATION_CREDENTIALS, or give Vertex(credentials=…)"


@dataclass(frozen=True, slots=True)
class Access:
    """Where a model is, and the headers of all requests.

    Args:
        version: Of the API.
        cloud: Gives the headers of a request to Google Cloud; None: a key is among `headers`.
    """

    base_url: str
    version: str
    headers: dict[str, str] = field(repr=False)
    model_path: str
    cloud: CloudAccess | None = None

    async def place(self, failures: Failures) -> tuple[str, dict[str, str]]:
        """Return the model's path, and further headers.

        Raises:
            ProviderError: The credentials cannot be refreshed.
            ConfigurationError: There are no credentials, or no project.
        """
        if self.cloud is None:
            return f"{self.version}/{self.model_path}", {}
        headers = await self.cloud.headers(failures)
        return f"{self.version}/{self.cloud.path}/{self.model_path}", headers


def find_access(model: str, api_key: str | None, base_url: str | None, vertex: Vertex | bool | None) -> Access:
    """Return the access that arguments and environment describe.

    Raises:
        ConfigurationError: A key or google-auth is missing, or an argument makes no sense.
    """
    if not MODEL.fullmatch(model) or ".." in model:
        raise ConfigurationError(f"model must be a name such as 'gemini-3.8-flash', got {model!r}")
    chosen = _vertex(vertex)
    if chosen is not None:
        return _cloud_access(model, api_key, base_url, chosen)
    server, version = _server(base_url, GEMINI_URL_VARIABLE, GEMINI_URL, GEMINI_VERSION)
    remedy = ", or vertex=Vertex(project=…) for Google Cloud, or base_url for a server of your own"
    key = find_key(api_key, () if base_url is not None else KEY_VARIABLES, remedy=remedy)
    path = model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"
    return Access(server, version, {"x-goog-api-key": key} if key else {}, path)


def _vertex(vertex: Vertex | bool | None) -> Vertex | None:
    if isinstance(vertex, Vertex):
        return vertex
    said = next((text for name in VERTEX_VARIABLES if (text := os.environ.get(name, "").strip())), "")
    is_on = vertex if vertex is not None else said.casefold() in ("true", "1")
    return Vertex() if is_on else None


def _cloud_access(model: str, api_key: str | None, base_url: str | None, vertex: Vertex) -> Access:
    """Return the access by Google Cloud: by an API key without a project ("express mode"), else by credentials."""
    if api_key and (vertex.project or vertex.credentials):
        raise ConfigurationError("needed api_key, or a project with credentials, got both; give one of them")
    project = "" if api_key else vertex.project or os.environ.get("GOOGLE_CLOUD_PROJECT", "")
    environment_key = next((os.environ[name] for name in KEY_VARIABLES if os.environ.get(name, "").strip()), "")
    is_own_url = base_url is not None
    key = api_key or ("" if project or vertex.credentials or is_own_url else environment_key)
    location = vertex.location or os.environ.get("GOOGLE_CLOUD_LOCATION", "") or "global"
    vertex = Vertex(project=project, location=location, credentials=vertex.credentials)  # checks the environment's too
    host = "aiplatform.googleapis.com"
    if not key and location in MULTI_REGIONS:
        host = f"aiplatform.{location}.rep.googleapis.com"
    elif not key and location != "global":
        host = f"{location}-{host}"
    server, version = _server(base_url, VERTEX_URL_VARIABLE, f"https://{host}", VERTEX_VERSION)
    if model.startswith(("publishers/", "projects/", "models/")):
        path = model
    elif "/" in model:
        publisher, _, name = model.partition("/")
        path = f"publishers/{publisher}/models/{name}"
    else:
        path = f"publishers/google/models/{model}"
    if key:
        return Access(server, version, {"x-goog-api-key": find_key(key, ())}, path)
    return Access(server, version, {}, path, CloudAccess(vertex))


def _server(base_url: str | None, variable: str, default: str, version: str) -> tuple[str, str]:
    """Return the server's address and the version of the API: the one at the end of the address, else the given one."""
    server = checked_url(base_url or os.environ.get(variable) or default, default).rstrip("/")
    place, _, last = server.rpartition("/")
    return (place, last) if VERSION.fullmatch(last) else (server, version)


class CloudAccess:
    """Access tokens of Google Cloud, which google-auth gets, in a thread since it blocks.

    Args:
        vertex: With a location.
    Raises:
        ConfigurationError: google-auth is not installed.
    """

    def __init__(self, vertex: Vertex) -> None:
        if not _is_installed():
            raise ConfigurationError("Google Cloud needs the package google-auth; run: pip install 'vivavoce[google]'")
        self._project = vertex.project
        self._location = vertex.location
        self._credentials: Any = vertex.credentials
        self._lock = anyio.Lock()

    def __repr__(self) -> str:
        return f"CloudAccess(project={self._project!r}, location={self._location!r})"

    @property
    def path(self) -> str:
        """The part of the path in front of the model."""
        return f"projects/{self._project}/locations/{self._location}"

    async def headers(self, failures: Failures) -> dict[str, str]:
        """Return the headers with a token that is still valid.

        Raises:
            ProviderError: The token cannot be refreshed.
            ConfigurationError: There are no credentials, or no project.
        """
        async with self._lock:
            if self._credentials is None or not self._project or not self._credentials.valid:
                failure = await anyio.to_thread.run_sync(self._refresh, failures, abandon_on_cancel=True)
                if failure is not None:
                    raise failure
        headers = {"Authorization": f"Bearer {self._credentials.token}"}
        if quota_project := getattr(self._credentials, "quota_project_id", None):
            headers["x-goog-user-project"] = quota_project
        return headers

    def _refresh(self, failures: Failures) -> ProviderError | ConfigurationError | None:
        """Get what is missing: credentials, their project, a token. Returns the error, which quotes none of them."""
        import google.auth
        from google.auth import exceptions
        from google.auth.transport.requests import Request

        try:
            if self._credentials is None:
                self._credentials, found = google.auth.default(scopes=[SCOPE])
                self._project = self._project or found or ""
            self._project = self._project or getattr(self._credentials, "project_id", None) or ""
            if not self._project:
                return ConfigurationError("needed a project; set GOOGLE_CLOUD_PROJECT or give Vertex(project=…)")
            if not self._credentials.valid:
                self._credentials.refresh(Request())
        except exceptions.DefaultCredentialsError:
            return ConfigurationError(f"needed credentials of Google Cloud, got none; {LOGIN}")
        except exceptions.TransportError as error:
            text = f"no connection to refresh the credentials: {system_reason(error)}"
            return ProviderConnectionError(text, provider=failures.provider)
        except exceptions.RefreshError as error:
            text = f"the credentials of Google Cloud cannot be refreshed; {LOGIN}"
            return ProviderError(text, provider=failures.provider, retryable=bool(error.retryable))
        return None


def _is_installed() -> bool:
    try:
        return importlib.util.find_spec("google.auth") is not None
    except ModuleNotFoundError:
        return False
