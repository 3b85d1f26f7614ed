"""Log records of a job process as the worker gets them."""

from __future__ import annotations

import logging
from enum import IntEnum
from typing import Any

import numpy as np
import pytest

from vivavoce.agents.worker.executors import child
from vivavoce.agents.worker.executors.messages import Logged


class Level(IntEnum):
    """A level of an application."""

    NOTICE = 25


class Pipe:
    """Takes the messages of one job process."""

    def __init__(self) -> None:
        self.messages: list[Logged] = []

    def send(self, message: Logged) -> None:
        self.messages.append(message)


@pytest.mark.parametrize(
    ("value", "plain"),
    [(Level.NOTICE, 25), (np.int64(3), 3), (np.float32(0.5), 0.5), (np.float64(0.25), 0.25), (True, True), ("a", "a")],
)
def test_numbers_of_a_log_record_are_plain_numbers_in_the_worker(value: Any, plain: Any) -> None:
    pipe = Pipe()
    handler = child._ToWorker(pipe)  # type: ignore[arg-type]  # only send() is used
    record = logging.LogRecord("app", Level.NOTICE, __file__, 1, "said", None, None)
    record.value = value

    handler.emit(record)

    (message,) = pipe.messages
    sent = vars(message.record)
    assert (sent["value"], type(sent["value"])) == (plain, type(plain))
    assert type(sent["levelno"]) is int
