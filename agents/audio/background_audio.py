"""BackgroundAudio: the files that play in a session beside its speech, and when they play."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

import anyio

from vivavoce.agents.audio.background import BackgroundAudioConfig, BackgroundPlayer
from vivavoce.agents.audio.playout import Playout
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.states import AgentState
from vivavoce.pipelines.core.checks import shown
from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError, describe
from vivavoce.pipelines.media.audio_file import check_audio_file

logger = logging.getLogger(__name__)

BackgroundAudioSource = BackgroundAudioConfig | str | os.PathLike[str]
"""A file to play in the background, with or without settings."""


def as_config(source: BackgroundAudioSource) -> BackgroundAudioConfig:
    """Return the settings of `source`.

    Raises:
        ConfigurationError: It is of another kind.
    """
    if isinstance(source, BackgroundAudioConfig):
        return source
    if isinstance(source, str | os.PathLike):
        return BackgroundAudioConfig(source)
    raise ConfigurationError(f"background audio must be a BackgroundAudioConfig or a path, got {shown(source)}")


def checked_config(source: BackgroundAudioSource) -> BackgroundAudioConfig:
    """Return the settings of `source`, whose file exists.

    Raises:
        ConfigurationError: It is of another kind, or there is no such file.
    """
    config = as_config(source)
    _check_file(config)
    return config


def _check_file(config: BackgroundAudioConfig) -> None:
    if config.enabled:
        check_audio_file(config.file_path)


class BackgroundAudio:
    """Plays files under the speech of one session. A session without files has no players, no tasks and no mixing.

    All calls are made on the session's event loop. An ambience plays for the whole session, a file of `thinking_only`
    while the agent thinks; on hold, music of `hold_only` plays in their place. While the caller is away all pause, as
    speech does.

    Args:
        sources: Files that play from the start.
    Raises:
        ConfigurationError: One of the sources is no background audio.
    """

    def __init__(
        self,
        context: SessionContext,
        playout: Playout,
        sources: BackgroundAudioSource | Sequence[BackgroundAudioSource] | None,
    ) -> None:
        self._context = context
        self._playout = playout
        if sources is None:
            sources = ()
        elif isinstance(sources, str) or not isinstance(sources, Sequence):
            sources = (sources,)
        self._configs = [as_config(source) for source in sources]
        self._players: list[BackgroundPlayer] = []
        self._is_thinking = False
        self._is_held = False
        self._is_closed = False
        context.hold.watch(self._turn)

    def check(self) -> None:
        """Check that the files exist.

        Raises:
            ConfigurationError: There is no such file.
        """
        for config in self._configs:
            _check_file(config)

    def check_sink(self) -> None:
        """Check that the sink can play background audio.

        Raises:
            CapabilityError: Another service plays the agent's audio, such as an avatar.
        """
        if self._playout.is_remote:
            raise CapabilityError(
                "the avatar", "background audio", "leave out the background audio, or RoomOptions.avatar"
            )

    def open(self) -> None:
        """Begin the files that play from the start; the caller hears them when the playout begins.

        Raises:
            CapabilityError: As `check_sink()`.
        """
        if any(config.enabled for config in self._configs):
            self.check_sink()
        for config in self._configs:
            self._begin(config)

    def play(self, source: BackgroundAudioSource) -> None:
        """Play a file in place of those of its kind (ambience, thinking, hold), as the application asks.

        Raises:
            SessionNotStartedError, SessionClosedError: Nothing can be played now.
            ConfigurationError: It is no background audio, or there is no such file.
            CapabilityError: As `check_sink()`.
        """
        self._context.check_open()
        self.check_sink()
        config = checked_config(source)
        self._context.inbox.call(lambda: self._play(config))

    def stop(self) -> None:
        """End all files, each with its fade, as the application asks; raises as `play`, but for the file."""
        self._context.check_open()
        self._context.inbox.call(self._stop)

    def _play(self, config: BackgroundAudioConfig) -> None:
        if self._is_closed:
            return
        for player in self._players:
            if _kind(player.config) == _kind(config):
                player.end()
        self._begin(config)

    def _stop(self) -> None:
        for player in self._players:
            player.end()

    def set_agent_state(self, state: AgentState) -> None:
        """Take the agent's new state."""
        is_thinking = state == AgentState.THINKING
        if is_thinking != self._is_thinking:
            self._is_thinking = is_thinking
            self._turn()

    def hold(self, is_held: bool) -> None:
        """Pause while the caller is away, and resume."""
        if is_held != self._is_held:
            self._is_held = is_held
            self._turn()

    @property
    def is_sounding(self) -> bool:
        """Whether any file plays that can be ended."""
        return any(not player.is_over for player in self._players)

    async def aclose(self) -> None:
        """Fade out all files at once, wait for silence, and play nothing more."""
        self._is_closed = True
        if self._playout.mixing is not None:
            await anyio.sleep(self._playout.mixing.fade_out())

    def _begin(self, config: BackgroundAudioConfig) -> None:
        if not config.enabled:
            return
        mixing = self._playout.mix()
        self._players = [player for player in self._players if not player.is_over]
        player = BackgroundPlayer(config, self._playout.rate, self._context.clock, mixing.feed)
        self._players.append(player)
        mixing.add(player)
        player.turn(self._wants(config))
        self._context.group.start_soon(self._read, player, name="background audio")

    async def _read(self, player: BackgroundPlayer) -> None:
        try:
            await player.run()
        except Exception as error:  # noqa: BLE001 - files are foreign data: the call goes on without them
            logger.warning("The background audio cannot be played: %s", describe(error))
            logger.debug("The background audio cannot be played", exc_info=error)
            self._context.report_error(error, "background")
            player.end()

    def _turn(self) -> None:
        for player in self._players:
            player.turn(self._wants(player.config))

    def _wants(self, config: BackgroundAudioConfig) -> bool:
        if self._is_held or self._context.hold.is_deaf:
            return config.hold_only and not self._is_held and self._context.hold.state == "on_hold"
        return not config.hold_only and (self._is_thinking or not config.thinking_only)


def _kind(config: BackgroundAudioConfig) -> tuple[bool, bool]:
    return config.thinking_only, config.hold_only
