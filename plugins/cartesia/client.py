"""The connections of this plugin's components: address, key, and the errors of the service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.keys import checked_url, find_key, is_server_of
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.pipelines.net.redaction import Redaction
from vivavoce.plugins.cartesia.wire import PROVIDER, VERSION

DEFAULT_BASE_URL = "https://api.cartesia.ai"
KEY_VARIABLE = "CARTESIA_API_KEY"

WRONG_KEY = f"check the API key: it must be one of Cartesia ({KEY_VARIABLE}, https://play.cartesia.ai/keys)"


def client_of(name: str, api_key: str | None, base_url: str, options: ConnectionOptions) -> Client:
    """Return the client of a component.

    Args:
        api_key: Else the environment's key, which goes to hosts of cartesia.ai only.
    Raises:
        ConfigurationError: The key is missing, or an argument is invalid.
    """
    is_theirs = is_server_of(checked_url(base_url, DEFAULT_BASE_URL), "cartesia.ai")
    key = find_key(api_key, (KEY_VARIABLE,) if is_theirs else ())
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return Client(name, base_url, headers={**headers, "Cartesia-Version": VERSION}, options=options)


def asked_of(asked: str, model: str, models: Mapping[str, tuple[str, ...]]) -> str:
    """Return what was asked for, what there is and what to do, for the error of a refusal.

    Args:
        models: Model -> its languages.
    """
    known = models.get(model)
    languages = f"; languages of {model}: {', '.join(known)}" if known else ""
    return f"asked for {asked}; models: {', '.join(models)}{languages}"


def failures_of(client: Client, asked: str, said: Iterable[str]) -> Failures:
    """Return the errors of a recogniser.

    Args:
        asked: As `asked_of()` makes it.
        said: Texts that no error may quote.
    """
    words = tuple(said)
    remedies = {**dict.fromkeys((400, 404, 422), asked), 401: WRONG_KEY}
    return Failures(provider=PROVIDER, redact=Redaction(client.secrets, lambda: words), remedies=remedies)
