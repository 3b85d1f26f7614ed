"""PeerTool: another agent as a tool of the model."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Annotated, Any

from vivavoce.agents.peers.messages import is_model
from vivavoce.agents.peers.peer import Peer
from vivavoce.agents.tools.context import RunContext
from vivavoce.pipelines.core.checks import check_number, check_text, shown
from vivavoce.pipelines.core.errors import ConfigurationError, PeerError, ToolError
from vivavoce.pipelines.llm.tools import Tool

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

CONTEXT = "run_context_"


class PeerTool(Tool[..., Any]):
    """Offers another agent to the model: the fields of a model are its arguments, and the answer is its result.

    Args:
        peer: The agent, or for `session.peers.connect()` its URL or its id in the registry: then it is connected at the
            first call of each session.
        model: The message that is sent.
        name: The name for the model; by default that of `model`, as `ask_tax_question` for `TaxQuestion`.
        description: By default the docstring of `model`.
        token: The token of the server, if `peer` is a URL or an id.
        timeout: Seconds for an answer.
    Raises:
        ConfigurationError: An argument is of another kind.
    """

    def __init__(
        self,
        peer: Peer | str,
        model: type[BaseModel],
        *,
        name: str | None = None,
        description: str | None = None,
        token: str | None = None,
        timeout: float = 10.0,
    ) -> None:
        if not is_model(model):
            raise ConfigurationError(f"model must be the class of a pydantic model, got {shown(model)}")
        if not isinstance(peer, Peer):
            check_text("peer", peer, remedy="a Peer, a URL or the id of an agent")
        check_number("timeout", timeout, above=0, unit="s")

        async def ask(**arguments: Any) -> str:
            context: RunContext = arguments.pop(CONTEXT)
            message = _message(model, arguments)
            try:
                if isinstance(peer, Peer):
                    return _words(await peer.request(message, timeout=timeout))
                peers = context.session.peers
                return _words(await peers.request(peer, message, token=token, timeout=timeout))
            except PeerError as error:
                raise ToolError(f"The other agent gave no answer: {error}") from error

        _describe(ask, model)
        super().__init__(
            ask,
            name=name or _tool_name(model),
            description=inspect.getdoc(model) or "" if description is None else description,
            timeout=timeout + 1.0,
        )


def _message(model: type[BaseModel], arguments: dict[str, Any]) -> BaseModel:
    from pydantic import ValidationError

    try:
        return model.model_validate(arguments, by_name=True, by_alias=False)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise ToolError(f"The arguments are not valid: {problems}.") from None  # its cause quotes them


def _words(answer: object) -> str:
    if answer is None:
        return "done"
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)


def _tool_name(model: type[BaseModel]) -> str:
    words = "".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in model.__name__)
    return f"ask{words if words.startswith('_') else f'_{words}'}"


def _describe(function: Any, model: type[BaseModel]) -> None:
    """Give the function the parameters of the model's fields, and one for the context."""
    kinds: dict[str, Any] = {CONTEXT: RunContext}
    parameters = [inspect.Parameter(CONTEXT, inspect.Parameter.KEYWORD_ONLY, annotation=RunContext)]
    for name, info in model.model_fields.items():
        kinds[name] = _kind(info)
        default = inspect.Parameter.empty if info.is_required() else info.get_default(call_default_factory=True)
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kinds[name], default=default)
        )
    function.__annotations__ = kinds
    function.__signature__ = inspect.Signature(parameters)


def _kind(info: FieldInfo) -> Any:
    from pydantic import Field

    more = [Field(description=info.description)] if info.description else []
    marks = (*info.metadata, *more)
    return Annotated[info.annotation, *marks] if marks else info.annotation
