"""Knowledge: the documents of a company, and answers from them.

`KnowledgeBase` (base.py) is the face: passages of whole sentences (passages.py) of documents (documents.py) in SQLite
(index.py), found by words and by vectors (vectors.py). `KnowledgeOptions` hangs it at a session: attached.py searches
for each turn or for the model, control.py has a model answer questions, embedder_use.py counts what searches need of an
embedder, session_knowledge.py is what applications call.

Decisions:

* The score by words is not that of BM25, which no limit fits: it is the share of the question's words that a passage
  has, each by its rarity. BM25 chooses the candidates.
* All vectors are compared: for 10,000 passages that takes milliseconds, and no index can be wrong.
* A base has one thread, since it has one connection. A document is read and cut in a thread of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.pipelines.core.lazy import lazy_names

if TYPE_CHECKING:
    from vivavoce.agents.knowledge.base import KnowledgeBase
    from vivavoce.agents.knowledge.control import RAGMessage
    from vivavoce.agents.knowledge.options import KnowledgeOptions
    from vivavoce.agents.knowledge.passages import Passage
    from vivavoce.agents.knowledge.session_knowledge import SessionKnowledge

_PLACES = {
    "vivavoce.agents.knowledge.base": "KnowledgeBase",
    "vivavoce.agents.knowledge.control": "RAGMessage",
    "vivavoce.agents.knowledge.options": "KnowledgeOptions",
    "vivavoce.agents.knowledge.passages": "Passage",
    "vivavoce.agents.knowledge.session_knowledge": "SessionKnowledge",
}

__all__ = ["KnowledgeBase", "KnowledgeOptions", "Passage", "RAGMessage", "SessionKnowledge"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
