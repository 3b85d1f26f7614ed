"""AgentCard: what an agent tells others about itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields

from vivavoce.agents.core.names import checked_name
from vivavoce.agents.peers.dial import checked_url
from vivavoce.pipelines.core.checks import check_items, check_text


@dataclass(frozen=True, slots=True)
class AgentCard:
    """An agent that others can reach.

    Args:
        id: Its id, unique in the registry.
        url: Its WebSocket, without a token.
        domain: Its field of work, such as `"tax"`.
        capabilities: Names of its abilities.
        description: For people and models.
        dialogues: The digests of the dialogues that it speaks.
    Raises:
        ConfigurationError: An argument is of another kind.
    """

    id: str
    url: str
    domain: str = ""
    capabilities: Sequence[str] = ()
    description: str = ""
    dialogues: Sequence[str] = ()

    def __post_init__(self) -> None:
        checked_name(self.id, what="id")
        checked_url(self.url)
        check_text("domain", self.domain)
        check_text("description", self.description)
        for name in ("capabilities", "dialogues"):
            object.__setattr__(self, name, tuple(check_items(name, getattr(self, name), str)))

    def fits(self, *, id: str | None, domain: str | None, capability: str | None, digest: str | None) -> bool:
        """Return whether the card has all of these; None fits each card."""
        return (
            id in (None, self.id)
            and domain in (None, self.domain)
            and (capability is None or capability in self.capabilities)
            and (digest is None or digest in self.dialogues)
        )

    def to_json(self) -> str:
        """Return the text that a store keeps."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def of_json(cls, text: str) -> AgentCard | None:
        """Return the card of such a text; None if it is none. Fields of later versions are ignored."""
        try:
            data = json.loads(text)
            return cls(**{one.name: data[one.name] for one in fields(cls) if one.name in data})
        except (ValueError, TypeError, RecursionError):
            return None
