"""RemoteConversation: reports changes of the history to a model that keeps a conversation of its own."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from vivavoce.pipelines.llm.chat_context import ChatItem, ChatMessage, FunctionCallOutput
from vivavoce.pipelines.media.frame import VideoFrame


class RemoteConversation:
    """A model's copy of the session's conversation.

    This class does nothing: a model without such a copy receives the history with each request.
    """

    def append(self, item: ChatItem, said_as: Sequence[str] = ()) -> None:
        """Add an item of the history that the model has not heard.

        Args:
            said_as: The item's names at the model that said it; its present connection may be another one.
        """

    def amend(self, item: ChatMessage) -> None:
        """A message of the user has got its words; a model that has heard the user knows them."""

    @property
    def takes_results(self) -> bool:
        """Whether an answer that was requested begins by the results that the history gets now, and answers them."""
        return False

    def show_result(self, output: FunctionCallOutput) -> None:
        """A call has its result, which enters the history once its whole step may: have the model know it before.

        Not one whose server begins to answer by a result.
        """

    def leave_calls(self, running: Collection[str], output: str) -> Collection[str]:
        """An answer is over: give this output to each call of it that is not run.

        Args:
            running: The ids of the calls that are run, whose outputs follow.
        Returns:
            The ids of those by whose outputs the model goes on to answer, when it is asked once more.
        """
        return ()

    def ask_no_more(self, call_ids: Collection[str]) -> None:
        """No answer is requested for the outputs of these calls, which `leave_calls()` gave."""

    def bind_turn(self, turn_id: str, remote_reply_id: str) -> None:
        """The audio committed so far is the user's turn of that id; the remote answer, if any, is an answer to it."""

    def show(self, frame: VideoFrame) -> None:
        """Show a current picture; it does not belong to the history."""

    def remove(self, item: ChatItem) -> None:
        """An item was removed from the history: have the model forget it, if it can."""
