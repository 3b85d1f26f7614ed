"""Signs of listening, by language."""

from __future__ import annotations

import pytest

from vivavoce.agents.turn.backchannels import BY_LANGUAGE, backchannels_for, matcher


@pytest.mark.parametrize(
    ("language", "signs", "words"),
    [
        (
            "en",
            ["Yeah, okay.", "uh-huh", "I see!", "got it, got it", "mhm… all right"],
            ["I", "see you", "go", "yes but"],
        ),
        ("de", ["Ach so, verstehe.", "Ja ja, genau", "in Ordnung"], ["Ordnung", "ja aber", "so nicht"]),
        ("fr", ["D’accord.", "ah oui, c'est ça", "Très bien"], ["accord", "bien non"]),
        ("es", ["Sí, claro.", "Ya veo"], ["veo", "claro que no"]),
        ("it", ["Sì sì, ho capito", "D'accordo."], ["ho"]),
        ("pt-BR", ["Tá bom, entendi."], ["bom dia"]),
        ("nl", ["Ja, snap ik."], ["snap"]),
        ("ja", ["はい、そうですね。", "なるほど"], ["いいえ"]),
        ("hi", ["हाँ जी, ठीक है।", "अच्छा अच्छा", "Haan, theek hai"], ["नहीं", "हाँ लेकिन", "अच्छा होटल"]),
        ("te", ["అవును, సరే", "ఊఁ… ఆ", "Sare, avunu"], ["కాదు", "సరే కానీ"]),
        ("ar-EG", ["أيوه، طيب", "نعم نعم", "حسنًا؟"], ["لا", "طيب بس"]),
        ("zh-CN", ["嗯嗯，对对", "好的好的", "原来如此。"], ["对不起", "好不好", "是不是"]),
        ("ko", ["네, 그렇군요.", "네네 알겠습니다"], ["아니요", "네 그런데", "어제"]),
        ("id", ["Iya, iya.", "Oh begitu…", "Oke, baik", "He-eh"], ["tidak", "ya tapi"]),
        ("tr", ["Hı hı, evet", "Hı-hı", "Tamam, anladım.", "Tabii ki"], ["hayır", "evet ama"]),
    ],
)
def test_a_text_made_only_of_signs_is_one(language: str, signs: list[str], words: list[str]) -> None:
    is_sign = matcher(backchannels_for(language))
    assert [text for text in signs if not is_sign(text)] == []
    assert [text for text in words if is_sign(text)] == []


def test_languages_go_together_and_words_of_ones_own_too() -> None:
    is_sign = matcher(backchannels_for("en", "de") | {"jawohl", "na so was"})
    assert is_sign("okay, genau, jawohl, na so was")
    assert not matcher(backchannels_for("en"))("genau")


def test_a_text_without_a_word_is_a_sign_and_no_text_is_none() -> None:
    is_sign = matcher(frozenset({"mhm"}))
    assert (is_sign("…"), is_sign(""), is_sign(" ")) == (True, False, False)
    assert not matcher(frozenset())("mhm")


def test_phrases_are_lower_case() -> None:
    for phrases in BY_LANGUAGE.values():
        assert all(phrase and phrase == phrase.lower().strip() for phrase in phrases)


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(ValueError, match="'tlh'"):
        backchannels_for("en", "tlh")


@pytest.mark.parametrize(
    ("text", "is_one"), [("はい、はい", True), ("うんうんそうですね", True), ("はい、でも", False)]
)
def test_backchannels_without_spaces_between_them_are_told_from_words(text: str, is_one: bool) -> None:
    assert matcher(backchannels_for("ja"))(text) is is_one
