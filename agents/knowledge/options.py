"""KnowledgeOptions: the knowledge of a call, as an extension of its session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from vivavoce.agents.extension.extension import Attached, Extension
from vivavoce.agents.knowledge.settings import KnowledgeSettings
from vivavoce.pipelines.core.errors import ConfigurationError

if TYPE_CHECKING:
    from vivavoce.agents.extension.attachments import Attachments
    from vivavoce.agents.extension.extension import Host
    from vivavoce.agents.knowledge.session_knowledge import SessionKnowledge


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeOptions(KnowledgeSettings, Extension):
    """The knowledge of a call (`session.knowledge`).

    Each option: docs/options.md.
    """

    key: ClassVar[str] = "knowledge"

    def attach(self, host: Host) -> Attached:
        """Make the knowledge of one session."""
        from vivavoce.agents.knowledge.attached import AttachedKnowledge

        return AttachedKnowledge(host, self)


def knowledge_of(extensions: Attachments) -> SessionKnowledge:
    """Return the knowledge of a session, as applications know it.

    Raises:
        ConfigurationError: The session has none.
    """
    if (attached := extensions.of(KnowledgeOptions)) is None:
        raise ConfigurationError(
            "the session has no knowledge; give it some: SessionOptions(knowledge=KnowledgeOptions(base=…))"
        )
    knowledge: Any = attached.face
    used: SessionKnowledge = knowledge
    return used
