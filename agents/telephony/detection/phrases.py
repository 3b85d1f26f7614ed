"""Phrases of machines that answer calls: voicemails, menus, call screening, numbers that are not reached.

All languages are searched at once, since the language of a greeting is not known. Words are compared without accents,
case and punctuation; `*` stands for at most four words. The sets are in the order of their weight: a voicemail also
says which key to press, and a menu also offers to leave a message.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache

from vivavoce.agents.states import AnsweredBy

NO_LINE: dict[str, str] = {
    "en": "not in service, no longer in service, has been disconnected, number * has been changed, "
    "cannot be completed as dialed, call cannot be completed, not a working number, number * does not exist, "
    "mailbox is full, mailbox * is full, cannot accept any messages, not accepting messages, not been set up, "
    "not set up * voicemail",
    "de": "kein Anschluss unter dieser Nummer, nicht vergeben, Rufnummer * hat sich geändert, "
    "Nummer ist nicht mehr gültig, Mailbox ist voll, Mailbox * voll, Anrufbeantworter ist voll",
    "fr": "n'est pas attribué, n'est plus attribué, plus en service, numéro * n'existe pas, messagerie * pleine, "
    "boîte vocale * pleine",
    "es": "número * no existe, no está en servicio, no está asignado, no corresponde a ningún, fuera de servicio, "
    "ha cambiado de número, buzón * lleno",
    "it": "numero * inesistente, numero * non è attivo, non è più attivo, casella * piena, segreteria * piena",
    "pt": "número * não existe, não está atribuído, número * inexistente, fora de serviço, caixa * cheia",
    "nl": "niet in gebruik, niet aangesloten, nummer bestaat niet, voicemail * vol, mailbox is vol, "
    "voicemailbox is vol",
    "ja": "現在使われておりません, 現在使用されておりません, おつなぎできません, 録音できません, 満杯",
}
TONE: dict[str, str] = {
    "en": "after the tone, after the beep, at the tone, at the beep, record your message, record a message, "
    "recording your message",
    "de": "nach dem Signalton, nach dem Ton, nach dem Piepton, nach dem Piep, nach dem Signal",
    "fr": "après le bip, après le signal sonore, après la tonalité",
    "es": "después de la señal, después del tono, después de oír la señal, tras la señal, tras oír la señal, "
    "al escuchar el tono, al oír el tono, después del pitido, después del bip",
    "it": "dopo il segnale acustico, dopo il segnale, dopo il bip, dopo il tono",
    "pt": "após o sinal, depois do sinal, após o bip, depois do bip, após o tom, depois do tom",
    "nl": "na de piep, na de toon, na het signaal, na de pieptoon, na de biep",
    "ja": "発信音のあと, 発信音の後, 信号音のあと, 信号音の後, ピーという音, ピーと鳴ったら, ピーという発信音",
}
SCREENING: dict[str, str] = {
    "en": "record your name, state your name, say your name, reason for your call, reason for calling, "
    "why you're calling, why you are calling, purpose of your call, screening service, call screening, call assist, "
    "see if this person is available",
    "de": "nennen Sie * Namen, sagen Sie * Namen, nenne * deinen Namen, sag * deinen Namen, Grund Ihres Anrufs, "
    "Grund für Ihren Anruf, Grund deines Anrufs, warum Sie anrufen, warum du anrufst, Anruffilter",
    "fr": "dites * votre nom, indiquez * votre nom, donnez * votre nom, raison de votre appel, motif de votre appel, "
    "pourquoi vous appelez, filtrage d'appels, filtrage des appels",
    "es": "diga su nombre, indique su nombre, di tu nombre, motivo de su llamada, motivo de la llamada, "
    "razón de su llamada, por qué llama, filtro de llamadas, filtrado de llamadas",
    "it": "dica il suo nome, indichi il suo nome, dire il suo nome, dì il tuo nome, motivo della chiamata, "
    "motivo della sua chiamata, perché sta chiamando, filtro chiamate",
    "pt": "diga o seu nome, diga seu nome, informe seu nome, motivo da chamada, motivo da ligação, "
    "motivo da sua chamada, motivo da sua ligação, por que está ligando, filtro de chamadas",
    "nl": "noem * naam, zeg * naam, reden van uw oproep, reden van uw telefoontje, reden van je, waarom u belt, "
    "waarom je belt, oproepscreening",
    "ja": "お名前とご用件, お名前と用件, 通話の理由, お電話の理由, 電話に出られるか確認",
}
MENU: dict[str, str] = {
    "en": "please press, press 0, press 1, press 2, press 3, press 4, press 5, press 6, press 7, press 8, press 9, "
    "press zero, press one, press two, press three, press four, press five, press six, press seven, press eight, "
    "press nine, press star, press pound, press hash, press any, press the, listen carefully, menu options, "
    "following options, options have changed, enter your, using your keypad, call may be recorded, "
    "calls may be recorded, call is important to us",
    "de": "drücken Sie, drücke die, wählen Sie die, wählen Sie bitte, folgenden Optionen, Hauptmenü, Rautetaste, "
    "Gespräch * aufgezeichnet, geben Sie * Nummer",
    "fr": "tapez, appuyez sur, composez le, menu principal, options suivantes, touche étoile, touche dièse, "
    "appel * enregistré",
    "es": "pulse, marque, oprima, presione, menú principal, siguientes opciones, llamada * grabada",
    "it": "prema, premere, premi il, digiti, digitare, selezioni, menù principale, seguenti opzioni, "
    "chiamata * registrata",
    "pt": "tecle, digite, pressione, prima a tecla, marque, menu principal, seguintes opções, chamada * gravada, "
    "ligação * gravada",
    "nl": "toets een, toets 1, toets dan, druk op, kies een, kies 1, keuzemenu, hoofdmenu, volgende opties, "
    "gesprek * opgenomen",
    "ja": "番を押, を押してください, ガイダンス, メニュー, プッシュボタン, 通話を録音",
}
MESSAGE: dict[str, str] = {
    "en": "voicemail, voice mail, voice message, answering machine, leave * message, leave * name and number, "
    "leave * your name, can't come to the phone, can't take your call, unable to take your call, "
    "can't answer * call, get back to you, you've reached, you have reached, away from my phone, away from my desk",
    "de": "Mailbox, Anrufbeantworter, Sprachbox, Nachricht hinterlassen, hinterlassen Sie, hinterlasse, hinterlasst, "
    "nicht ans Telefon, Anruf * nicht entgegennehmen, so bald wie möglich zurück, schnellstmöglich",
    "fr": "messagerie vocale, messagerie de, boîte vocale, répondeur, laissez * message, laisser * message, "
    "laisse * message, ne suis pas disponible, ne peux pas vous répondre, je vous rappellerai, "
    "je vous rappelle dès que",
    "es": "buzón de voz, contestador, deje * mensaje, deja * mensaje, dejar * mensaje, déjeme, déjame, "
    "no puedo atender, no puedo contestar",
    "it": "segreteria telefonica, segreteria di, casella vocale, lasciate * messaggio, lasci * messaggio, "
    "lascia * messaggio, lasciare * messaggio, non posso rispondere, vi richiamerò, la richiamerò, ti richiamerò",
    "pt": "caixa postal, correio de voz, deixe * mensagem, deixar * mensagem, deixe * recado, deixar * recado, "
    "secretária eletrônica, não posso atender, não pude atender",
    "nl": "voicemail, antwoordapparaat, bericht achterlaten, laat * bericht, spreek * bericht, laat * boodschap, "
    "telefoon niet opnemen, niet aan de telefoon komen, zo snel mogelijk terug",
    "ja": "留守番電話, 留守電, 電話に出ることができません, 電話に出られません, "
    "メッセージをどうぞ, メッセージをお残し, 伝言",
}
LATER: dict[str, str] = {
    "en": "try again later, try your call again, call again later, call back later, temporarily unavailable, "
    "cannot be reached, not reachable, switched off, turned off, out of the coverage area, "
    "subscriber * not available, calling * is not available, calling * is unavailable, dialed * is not available",
    "de": "nicht erreichbar, später noch einmal, später erneut, später wieder, ausgeschaltet",
    "fr": "ne peut être joint, pas joignable, correspondant n'est pas disponible, rappeler ultérieurement, "
    "rappelez plus tard, renouveler votre appel, est éteint",
    "es": "no se encuentra disponible, no está disponible, apagado, fuera de cobertura, inténtelo más tarde, "
    "intente más tarde, llame más tarde",
    "it": "non è raggiungibile, non è al momento raggiungibile, al momento non raggiungibile, essere spento, "
    "riprovare più tardi, riprovi più tardi, richiamare più tardi",
    "pt": "fora da área de cobertura, desligado, não está disponível, indisponível, tente mais tarde, "
    "tente novamente mais tarde, ligue mais tarde",
    "nl": "niet bereikbaar, op dit moment niet beschikbaar, probeer het later, later opnieuw, bel later, uitgeschakeld",
    "ja": "電波の届かない, 電源が入っていない, おかけ直し, お出になりません",
}
ORDER: tuple[tuple[AnsweredBy, dict[str, str]], ...] = (
    ("unavailable", NO_LINE),
    ("machine", TONE),
    ("screening", SCREENING),
    ("menu", MENU),
    ("machine", MESSAGE),
    ("unavailable", LATER),
)
LANGUAGES = tuple(NO_LINE)
"""ISO 639 codes."""


def answered_by(transcript: str) -> AnsweredBy | None:
    """Return who says such words; None if they have none of the phrases."""
    text = folded(transcript)
    dense = text.replace(" ", "")
    for kind, spaced, unspaced in _patterns():
        if spaced.search(text) or unspaced.search(dense):
            return kind
    return None


def folded(text: str) -> str:
    """Return the words of a text without accents, case, apostrophes and punctuation, with one space between them."""
    plain = "".join(sign for sign in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(sign))
    return " ".join(re.sub(r"[^\w]+", " ", re.sub(r"['’ʼ`´]", "", plain)).split())


@cache
def _patterns() -> tuple[tuple[AnsweredBy, re.Pattern[str], re.Pattern[str]], ...]:
    """Return, for each set in its order, its kind, and the patterns for writing with and without spaces."""
    return tuple(
        (kind, re.compile(rf"\b(?:{'|'.join(_spaced(phrases))})\b"), re.compile("|".join(_split(phrases["ja"]))))
        for kind, phrases in ORDER
    )


def _spaced(phrases: dict[str, str]) -> Iterator[str]:
    for language, written in phrases.items():
        for phrase in _split(written) if language != "ja" else ():
            yield phrase.replace(" _ ", r"(?: \w+){0,4} ")


def _split(written: str) -> list[str]:
    return [folded(phrase.replace("*", "_")) for phrase in written.split(",")]
