"""Backchannels: phrases by which listeners show that they listen ("mhm", "I see"), per language, and their matcher.

The sets hold phrases said *while the other one speaks*; a "yes" that answers a question is recognised by the silence of
the agent, not by the word. Take several, add your own, or judge by a function:

    InterruptionOptions(backchannels=backchannels_for("en", "de") | {"jawohl"})

Where the later sets come from; further spellings and polite forms of the same words are ours:

* Arabic, Chinese, Korean: N. Ward, "Common Backchannels", https://www.cs.utep.edu/nigel/bc/common-bcs.html, after Ward
  and Al Bayyari 2007 (Egyptian), Tao and Thompson 1991 (Mandarin), Young and Lee 2004 (Korean).
* Turkish: K. Aytaç-Demirçivi, "Backchannels in Spoken Turkish", METU 2021, https://open.metu.edu.tr/handle/11511/89706.
* Indonesian: M. J. van Naerssen, "Responsive turns in Indonesian informal conversation", Wacana 16 (1), 2015, 189-210.
* Hindi: the words of assent in R. S. McGregor, "The Oxford Hindi-English Dictionary", 1993.
* Telugu: the words of assent in J. P. L. Gwynn, "A Telugu-English Dictionary", Oxford 1991.

Hindi and Telugu are there in Latin letters too, as recognisers of mixed speech write them.
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
            "hi": "हाँ, हां, जी, जी हाँ, जी हां, हाँ जी, हां जी, हूँ, हूं, हम्म, अच्छा, ठीक, ठीक है, सही, सही है, सही बात है, "
            "बिल्कुल, बिलकुल, समझ गया, समझ गई, समझ गयी, ओके, ओह, आह, haan, haan ji, ji, ji haan, accha, acha, "
            "theek hai, hmm, hm, mm, ok, okay",
            "te": "అవును, అవునవును, అవునండి, సరే, సరేనండి, ఆ, ఆఁ, ఆహా, ఊ, ఊఁ, ఓ, ఓహో, ఓకే, హా, హ్మ్, అలాగే, "
            "అలాగేనండి, అర్థమైంది, నిజమే, మంచిది, avunu, sare, alage, hmm, hm, mm, ok, okay",
            "ar": "نعم, أيوه, ايوه, أيوة, ايوة, إيوه, إي, اي, إيه, ايه, آه, اه, أها, اها, مم, ممم, همم, طيب, تمام, "
            "ماشي, حسنا, حسنًا, حسناً, صح, صحيح, أكيد, اكيد, طبعا, طبعًا, طبعاً, فهمت, مفهوم, أوكي, اوكي, أوكيه, اوكيه",
            "zh": "嗯, 嗯嗯, 呣, 哦, 噢, 喔, 啊, 哎, 唉, 对, 對, 是, 是的, 是啊, 好, 好的, 好啊, 行, 没错, 沒錯, "
            "明白, 明白了, 知道了, 我知道了, 了解, 懂了, 原来如此, 原來如此, 这样啊, 這樣啊, 当然, 當然, ok, okay",
            "ko": "네, 네네, 예, 예예, 응, 응응, 음, 음음, 흠, 어, 아, 아하, 오, 그래, 그래요, 그렇구나, 그렇군요, "
            "그렇죠, 그쵸, 맞아, 맞아요, 맞습니다, 알겠어요, 알겠습니다, 아 네, 아 그래요, 물론이죠, 오케이",
            "id": "ya, iya, yah, he eh, heeh, hmm, hm, mm, mhm, ok, oke, okay, okelah, baik, baiklah, betul, benar, "
            "begitu, oh begitu, gitu, oh gitu, oh, ah, paham, saya paham, mengerti, saya mengerti, siap, sip, tentu, "
            "tentu saja",
            "tr": "evet, hı hı, hıhı, hı, hıh, hmm, hımm, hm, mm, mhm, tamam, tamamdır, peki, tabii, tabi, tabii ki, "
            "tabi ki, elbette, doğru, aynen, aynen öyle, öyle, anladım, anlıyorum, ha, haa, ah, oh, ok, okey, olur",
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
