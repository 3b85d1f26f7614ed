"""The judge of a greeting: any course of speech, silence and words, and greetings in eight languages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.agents.telephony import MachineDetection
from vivavoce.agents.telephony.detection.judge import MACHINE_SILENCE, AnswerJudge, Judged
from vivavoce.agents.telephony.detection.phrases import LANGUAGES, ORDER, answered_by

OPTIONS = MachineDetection()
WORDS = st.sampled_from(["", "hello", "la la", "leave a message after the tone", "press one", "not in service"])
PIECES = st.tuples(st.sampled_from(["speech", "silence", "words"]), st.floats(0.02, 8.0), WORDS)


@given(st.lists(PIECES, max_size=12), st.booleans())
def test_no_verdict_is_human_while_speech_goes_on_or_after_a_long_one_and_each_comes_in_time(
    pieces: list[tuple[str, float, str]], is_speaking: bool
) -> None:
    judge = AnswerJudge(OPTIONS, 1.0, is_speaking=is_speaking, no_speech=OPTIONS.no_speech)
    now, began_at, speaks, judged = 1.0, 1.0 if is_speaking else None, is_speaking, None
    for kind, seconds, words in [*pieces, ("silence", 30.0, "")]:
        if kind == "speech" and not speaks:
            speaks, began_at = True, now
            judge.speech_started(now)
        elif kind == "silence" and speaks:
            speaks = False
            judge.speech_ended(now)
        elif kind == "words":
            judge.heard(words, now)
        end = now + seconds
        while judged is None and judge.deadline <= end:
            now = max(now, judge.deadline)
            judged = judge.expire(now)
        if judged is not None:
            break
        now = end
    assert judged is not None
    assert now <= 1.0 + OPTIONS.limit + 1e-9
    if judged.kind == "human":
        assert not speaks
        assert answered_by(judge.transcript) is None
    if speaks and began_at is not None and now - began_at > OPTIONS.max_greeting:
        assert judged.kind != "human"
    assert judged.kind in ("human", "unknown") or judge.transcript or speaks


def test_a_verdict_is_asked_for_at_its_deadline_and_not_before() -> None:
    judge = AnswerJudge(OPTIONS, 0.0, no_speech=5.0)
    assert judge.deadline == 5.0
    judge.speech_started(1.0)
    assert judge.deadline == 20.0
    judge.heard("voicemail", 2.0)
    judge.speech_ended(2.2)
    assert judge.deadline == pytest.approx(2.2 + MACHINE_SILENCE)
    assert judge.expire(3.0) is None
    assert judge.expire(3.5) == Judged("machine", "phrase")


def test_words_alone_are_a_greeting_where_no_voice_is_reported() -> None:
    judge = AnswerJudge(OPTIONS, 0.0, no_speech=5.0)
    judge.heard("hello", 1.0)
    assert judge.expire(1.5) == Judged("human", "short_greeting")


def test_speech_that_began_before_the_answer_counts_from_the_answer_on() -> None:
    judge = AnswerJudge(OPTIONS, 3.0, no_speech=5.0)
    judge.speech_ended(2.0)  # of the line before
    judge.speech_started(2.5)
    judge.speech_ended(5.5)
    judge.heard("hello", 5.6)
    assert judge.expire(6.0) == Judged("human", "short_greeting")


# --- greetings

GREETINGS = {
    "en": {
        "human": ("Hello?", "Yes, speaking.", "Robinson residence, good evening.", "Hi, can I call you back?"),
        "machine": (
            "Hi, you've reached Bob. I can't come to the phone right now, so leave me a message.",
            "Your call has been forwarded to an automatic voice message system. At the tone, please record your "
            "message. When you have finished recording, you may hang up, or press one for more options.",
            "Please leave your message after the beep.",
        ),
        "menu": (
            "Thank you for calling Acme. For sales, press 1. For support, press 2. To leave a message, press 3.",
            "Please listen carefully, as our menu options have changed.",
        ),
        "screening": (
            "Hi, if you record your name and reason for calling, I’ll see if this person is available.",
            "The person you're calling is using a screening service from Google. Say your name and why you're calling.",
        ),
        "unavailable": (
            "The number you have dialed is not in service. Please check the number and dial again.",
            "The mailbox is full and cannot accept any messages at this time. Goodbye.",
            "The person you are calling is not available. Please try again later.",
        ),
    },
    "de": {
        "human": ("Ja, hallo?", "Müller, guten Tag."),
        "machine": (
            "Dies ist die Mailbox von Anna Müller. Bitte hinterlassen Sie eine Nachricht nach dem Signalton.",
            "Guten Tag, ich bin zurzeit nicht erreichbar. Hinterlassen Sie mir bitte Ihren Namen und Ihre Nummer.",
        ),
        "menu": ("Für den Vertrieb drücken Sie bitte die Eins, für den Kundendienst die Zwei.",),
        "screening": ("Bitte nennen Sie Ihren Namen und den Grund Ihres Anrufs.",),
        "unavailable": (
            "Kein Anschluss unter dieser Nummer.",
            "Der gewünschte Gesprächspartner ist zurzeit nicht erreichbar. Bitte versuchen Sie es später noch einmal.",
        ),
    },
    "fr": {
        "human": ("Allô ?", "Oui, bonjour, Anne Dupont."),
        "machine": (
            "Bonjour, vous êtes bien sur le répondeur d'Anne. Laissez-moi un message après le bip.",
            "Je ne suis pas disponible pour le moment, merci de laisser un message.",
        ),
        "menu": ("Pour le service commercial, tapez 1. Pour le service après-vente, tapez 2.",),
        "screening": ("Veuillez indiquer votre nom et le motif de votre appel.",),
        "unavailable": (
            "Le numéro que vous avez demandé n’est pas attribué.",
            "Votre correspondant n'est pas joignable. Veuillez rappeler ultérieurement.",
        ),
    },
    "es": {
        "human": ("¿Dígame?", "Sí, ¿quién es?"),
        "machine": (
            "Ha llamado al buzón de voz de Ana. Deje su mensaje después de la señal.",
            "Hola, ahora no puedo contestar. Déjame un mensaje.",
        ),
        "menu": ("Para ventas, pulse uno. Para soporte, pulse dos.",),
        "screening": ("Por favor, diga su nombre y el motivo de su llamada.",),
        "unavailable": (
            "El número que usted ha marcado no existe.",
            "El teléfono al que llama está apagado o fuera de cobertura en este momento.",
        ),
    },
    "it": {
        "human": ("Pronto?", "Sì, chi parla?"),
        "machine": (
            "Risponde la segreteria telefonica di Anna. Lasciate un messaggio dopo il segnale acustico.",
            "Ciao, al momento non posso rispondere, ti richiamerò.",
        ),
        "menu": ("Per l'ufficio vendite prema uno, per l'assistenza prema due.",),
        "screening": ("Per favore, dica il suo nome e il motivo della chiamata.",),
        "unavailable": (
            "Il numero selezionato è inesistente.",
            "La informiamo che il cliente da lei chiamato non è al momento raggiungibile.",
        ),
    },
    "pt": {
        "human": ("Alô?", "Estou, quem fala?"),
        "machine": (
            "Você ligou para a caixa postal de Ana. Deixe a sua mensagem após o sinal.",
            "Olá, não posso atender agora. Deixe um recado.",
        ),
        "menu": ("Para vendas, digite um. Para suporte, digite dois.",),
        "screening": ("Por favor, diga o seu nome e o motivo da ligação.",),
        "unavailable": (
            "O número para o qual ligou não está atribuído.",
            "O telefone chamado está desligado ou fora da área de cobertura.",
        ),
    },
    "nl": {
        "human": ("Hallo?", "Met Anna de Vries."),
        "machine": (
            "Dit is de voicemail van Anna. Spreek een bericht in na de piep.",
            "Ik kan de telefoon niet opnemen. Laat een bericht achter.",
        ),
        "menu": ("Voor verkoop, toets een. Voor service, toets twee.",),
        "screening": ("Zeg alstublieft uw naam en de reden van uw oproep.",),
        "unavailable": (
            "Het nummer dat u gekozen heeft, is niet in gebruik.",
            "De persoon die u belt is op dit moment niet bereikbaar. Probeer het later opnieuw.",
        ),
    },
    "ja": {
        "human": ("もしもし", "はい、田中です。"),
        "machine": (
            "ただいま電話に出ることができません。発信音のあとに、お名前とご用件をお話しください。",
            "こちらは留守番電話サービスです。ピーという音のあとにメッセージをどうぞ。",
        ),
        "menu": ("ご注文の方は1番を、お問い合わせの方は2番を押してください。",),
        "screening": ("お名前とご用件をお聞かせください。",),
        "unavailable": (
            "おかけになった電話番号は現在使われておりません。",
            "おかけになった電話は電波の届かない場所にあるか、電源が入っていないためかかりません。",
        ),
    },
}


def test_there_are_greetings_and_phrases_in_eight_languages() -> None:
    assert set(GREETINGS) == set(LANGUAGES)
    assert len(LANGUAGES) == 8
    for _, phrases in ORDER:
        assert tuple(phrases) == LANGUAGES


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param(said, kind, id=f"{language}-{kind}-{number}")
        for language, kinds in GREETINGS.items()
        for kind, greetings in kinds.items()
        for number, said in enumerate(greetings)
    ],
)
def test_a_greeting_is_judged_by_its_phrases(said: str, expected: str) -> None:
    assert (answered_by(said) or "human") == expected
    plain = said.lower().replace(",", "").replace(".", "").replace("?", "")
    assert (answered_by(plain) or "human") == expected
