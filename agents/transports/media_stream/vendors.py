"""The vendors of media streams by name, and the environment's variables with their secrets."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module

from vivavoce.agents.transports.media_stream.webhook import Webhook
from vivavoce.pipelines.core.errors import ConfigurationError

SECRETS = {
    "twilio": "TWILIO_AUTH_TOKEN",
    "telnyx": "TELNYX_PUBLIC_KEY",
    "plivo": "PLIVO_AUTH_TOKEN",
    "vonage": "VONAGE_SIGNATURE_SECRET",
    "raw": "VIVAVOCE_STREAM_KEY",
}
"""Vendor → the variable with the secret that its requests are checked by."""


def secret_of(vendor: str) -> str:
    """Return the secret of a vendor, from the environment.

    Raises:
        ConfigurationError: There is no such vendor, or its variable is not set.
    """
    if vendor not in SECRETS:
        raise ConfigurationError(f"--wire must be one of {', '.join(SECRETS)}, got {vendor!r}")
    variable = SECRETS[vendor]
    secret = os.environ.get(variable, "").strip()
    if not secret:
        raise ConfigurationError(f"the requests of {vendor} are checked by a secret, and there is none: set {variable}")
    return secret


def webhook_of(vendor: str, now: Callable[[], float]) -> Webhook:
    """Return the webhook of a vendor.

    Args:
        now: Returns the wall clock in seconds.
    Raises:
        ConfigurationError: As `secret_of()`, or the secret is malformed.
    """
    secret = secret_of(vendor)
    module = import_module(f"vivavoce.agents.transports.media_stream.{vendor}.webhook")
    kind: type[Webhook] = getattr(module, f"{vendor.capitalize()}Webhook")
    return kind(secret, now)
