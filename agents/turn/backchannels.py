"""Backchannels: phrases by which listeners show that they listen ("mhm", "I see"), per language, and their matcher.

The sets hold phrases said *while the other one speaks*; a "yes" that answers a question is recognised by the silence of
the agent, not by the word. Take several, add your own, or judge by a function:

    InterruptionOptions(backchannels=backchannels_for("en", "de") | {"jawohl"})
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType

from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.words import words_of

BY_LANGUAGE: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        language: frozenset(phrase.strip() for phrase in phrases.split(","))
        for language, phrases in {
            "en": "mhm, mm, mmm, hm, hmm, mm-hmm, uh-huh, uhuh, yeah, yep, yup, yes, ok, okay, right, sure, alright, "
            "all right, aha, i see, got it, go on, oh, ah, of course, makes sense, understood",
            "de": "mhm, mm, hm, hmm, aha, ja, jo, jep, ok, okay, genau, klar, na klar, gut, richtig, stimmt, "
            "alles klar, ach so, achso, ach, oh, ah, verstehe, ich verstehe, in ordnung, natürlich, sicher",
            "fr": "mhm, mm, hm, hmm, oui, ouais, ok, okay, d'accord, bien, très bien, bien sûr, exact, "
            "exactement, voilà, je vois, je comprends, ah, oh, ah bon, ah oui, tout à fait, c'est ça",
            "es": "mhm, mm, hm, hmm, ajá, aja, sí, si, ya, vale, ok, okay, claro, bueno, bien, muy bien, entiendo, "
            "ya veo, de acuerdo, exacto, eso, ah, oh, por supuesto, perfecto",
            "it": "mhm, mm, hm, hmm, sì, si, ok, okay, certo, va bene, bene, d'accordo, capisco, ho capito, "
            "esatto, giusto, già, ah, oh, eh, chiaro, perfetto",
            "pt": "mhm, mm, hm, hmm, aham, uhum, sim, ok, okay, tá, tá bom, está bem, certo, claro, entendi, percebo, "
            "isso, pois, pois é, exato, ah, oh, beleza, com certeza",
            "nl": "mhm, mm, hm, hmm, ja, jawel, oké, ok, okay, precies, klopt, goed, juist, duidelijk, snap ik, "
            "ik snap het, begrijp ik, ah, oh, aha, natuurlijk, inderdaad",
            "ja": "うん, うんうん, ええ, はい, はいはい, そう, そうですね, そうですか, なるほど, へえ, ああ, ふーん, "
            "分かりました, わかりました",
        }.items()
    }
)
"""Lower-case phrases by ISO 639 code of their language."""


def backchannels_for(*languages: str) -> frozenset[str]:
    """Return the backchannels of these languages ("en", "de-CH" …) together.

    Raises:
        ConfigurationError: There are none for one of them.
    """
    found: set[str] = set()
    for language in languages:
        phrases = BY_LANGUAGE.get(re.split("[-_]", language.lower())[0])
        if phrases is None:
            raise ConfigurationError(
                f"there are backchannels for {sorted(BY_LANGUAGE)}, got {language!r}; "
                "give InterruptionOptions(backchannels=...) a set of your own, or a function of the text"
            )
        found |= phrases
    return frozenset(found)


@lru_cache(16)
def matcher(phrases: frozenset[str]) -> Callable[[str], bool]:
    """Return a function that tests whether a text has only these phrases, whatever its spelling ("Yeah, okay.")."""
    known = {tuple(words_of(phrase)) for phrase in phrases}
    longest = max((len(phrase) for phrase in known), default=0)

    def is_backchannel(text: str) -> bool:
        words = tuple(words_of(text))
        at = 0
        while at < len(words):
            sizes = range(min(longest, len(words) - at), 0, -1)
            size = next((size for size in sizes if words[at : at + size] in known), 0)
            if not size:
                return False
            at += size
        return bool(text.strip())

    return is_backchannel
