"""SchemaTool: a tool with a given JSON schema, such as one that a server offers."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from typing import Any

from vivavoce.pipelines.core.errors import ToolError
from vivavoce.pipelines.llm.tools import Tool


class SchemaTool(Tool[[dict[str, Any]], Awaitable[Any]]):
    """A tool that receives its arguments as one dict.

    The arguments are checked to be a JSON object and no further: the code that runs the tool checks them.

    Args:
        function: Async; receives the arguments.
        name: The name for the model.
        description: The description for the model.
        parameters: JSON schema of the arguments, of an object.
        cancel_on_interrupt, timeout, idempotent: As for `Tool`.
    """

    def __init__(
        self,
        function: Callable[[dict[str, Any]], Awaitable[Any]],
        *,
        name: str,
        description: str,
        parameters: Mapping[str, Any],
        cancel_on_interrupt: bool = False,
        timeout: float | None = None,
        idempotent: bool = False,
    ) -> None:
        super().__init__(
            function,
            name=name,
            description=description,
            cancel_on_interrupt=cancel_on_interrupt,
            timeout=timeout,
            idempotent=idempotent,
        )
        self._given = dict(parameters)
        self._is_prepared = False

    def __call__(self, arguments: dict[str, Any]) -> Awaitable[Any]:
        return self.function(arguments)

    def __get__(self, instance: object | None, owner: type | None = None) -> SchemaTool:
        """Return the tool itself: it is not a method."""
        return self

    @property
    def is_async(self) -> bool:
        """Always."""
        return True

    @property
    def context_parameters(self) -> tuple[str, ...]:
        """None: the arguments are the only parameter."""
        return ()

    def check(self) -> None:
        """Nothing to check: the schema is given."""

    @property
    def is_prepared(self) -> bool:
        """Whether `prepare()` was called."""
        return self._is_prepared

    def prepare(self) -> None:
        """Load the code that makes text of the tool's outputs; the schema is given."""
        import pydantic_core  # noqa: F401 - loaded now, and not when the first call is settled

        self._is_prepared = True

    def parameters_schema(self) -> dict[str, Any]:
        """Return the given schema."""
        return deepcopy(self._given)

    def parse_arguments(self, text: str) -> dict[str, Any]:
        """Return the arguments, as the one argument of `function`.

        Raises:
            ToolError: `text` is not a JSON object.
        """
        try:
            arguments = json.loads(text or "{}")
        except (ValueError, RecursionError):  # a model may nest without end
            raise ToolError("The arguments are not valid: they are not JSON.") from None  # its cause quotes them
        if not isinstance(arguments, dict):
            raise ToolError("The arguments are not valid: they are not a JSON object.")
        return {"arguments": arguments}
