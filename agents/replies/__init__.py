"""Rich replies: texts, pictures, files, choices and forms that a session shows on the caller's page.

`RichReplies` (`replies.py`) shows the parts, takes the caller's answers and files, and makes the records of both. A
`PartLog` keeps the records: the session's memory does, in its store, and passes on the parts that other processes have
posted there.

Decisions:

* A part is sent when it is posted, and again when the caller has come back: the caller's page replaces a part by its
  id. The newest parts are kept for that (`kept.py`).
* JSON goes as a text stream, the bytes of images and files as a byte stream beside it, both on topic `vivavoce.parts`
  of the room (`wire.py` has the messages). A transport that shows only text shows a part's plain form; the console does
  so, and forms and files cannot be answered there. Without text, nothing is shown.
* The caller's answers are checked here, not in the page: a choice must be one of the options, values of a form must
  pass its model. Each part is answered once. A chosen option is a typed turn of the caller.
* A form's model lives in its session's process. A session that continues a call elsewhere shows the form as closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.pipelines.core.lazy import lazy_names

if TYPE_CHECKING:
    from vivavoce.agents.records import ReceivedFile
    from vivavoce.agents.replies.part import Data, File, Form, Image, Markdown, Options

_PLACES = {
    "vivavoce.agents.records": "ReceivedFile",
    "vivavoce.agents.replies.part": "Data File Form Image Markdown Options",
}

__all__ = [
    "Data",
    "File",
    "Form",
    "Image",
    "Markdown",
    "Options",
    "ReceivedFile",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
