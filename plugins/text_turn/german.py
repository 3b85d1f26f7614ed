"""GERMAN: the rules for German."""

from __future__ import annotations

import re

from vivavoce.plugins.text_turn.dictation import DictationRules
from vivavoce.plugins.text_turn.rules import Rules

_UNITS = "null eins ein eine zwei zwo drei vier fünf sechs sieben acht neun".split()
_TEENS = "zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn".split()
_TENS = "zwanzig dreißig dreissig vierzig fünfzig sechzig siebzig achtzig neunzig".split()

# Verbs whose prefix ends the sentence, by prefix: "ich rufe später an" is whole, "ich denke an" is not.
_SEPARABLE = {
    "an": "mach|ruf|fang|fäng|komm|biet|nehm|probier|seh|sieh|schau|zieh|meld|nimm",
    "auf": "hab|hat|mach|hör|leg|steh|pass|schreib|räum|geb|gib|wach",
    "aus": "mach|seh|sieh|füll|schalt|such|geh|kenn|reich",
    "bei": "bring|leg|tret",
    "durch": "les|führ|geh|komm",
    "ein": "lad|kauf|geb|gib|trag|richt|steig|stell|schalt|log|fall|fäll|check|schlaf",
    "mit": "komm|nehm|nimm|mach|bring|teil|les|fahr|geh|gib|geb",
    "nach": "schau|frag|seh|sieh|denk|reich|schick",
    "um": "zieh|buch|dreh|steig|tausch|kehr",
    "vor": "stell|les|komm|hab|hatt|schlag|bereit|geh",
    "zu": "hör|mach|schick|sag|stimm|send|lass|nehm",
}
_SEPARATED = "|".join(rf"\b(?:{stems})\w*\b(?: [\w'\-]+)* {prefix}" for prefix, stems in _SEPARABLE.items())

_DICTATION = DictationRules(
    digits={
        **dict.fromkeys(_UNITS, 1),
        **dict.fromkeys(_TEENS + _TENS, 2),
        "hundert": 2,
        "tausend": 3,
        "doppel": 1,
    },
    compound=re.compile(r"(?:ein|zwei|drei|vier|fünf|sechs|sieben|acht|neun)und\w+(?:zig|ßig|ssig)"),
    expected=(
        (re.compile(r"karte\w*nummer|nummer\b.*\b\w*karte\b", re.IGNORECASE), 15),
        (re.compile(r"\biban\b", re.IGNORECASE), 20),
        (re.compile(r"telefon|handy|mobil|rückruf|rufnummer", re.IGNORECASE), 7),
        (re.compile(r"postleitzahl|\bplz\b", re.IGNORECASE), 5),
        (
            re.compile(r"(?:kunden|bestell|auftrags|vorgangs|konto|buchungs|mitglieds|rechnungs)nummer", re.IGNORECASE),
            5,
        ),
        (re.compile(r"\bpin\b|code\b", re.IGNORECASE), 4),
    ),
    email_done=re.compile(r"@[\w\-]+\.\w+|\b(?:at|ät|klammeraffe)\b.*\bpunkt \w+$"),
    refusals=frozenset("nein nicht kein keine keinen warum wieso wozu lieber".split()),
)

GERMAN = Rules(
    fillers=frozenset("äh ähm öh öhm hm hmm mmm ehm em eh also tja".split()),
    holds=re.compile(
        r"\b(?:moment|sekunde|augenblick)(?: mal)?(?: bitte)?$"
        r"|\bwarten sie(?: bitte| kurz| mal| einen moment)*$|\bwarte(?: mal| kurz| bitte)*$"
        r"|\b(?:muss|lassen sie mich|ich)(?: ich)?(?: mal| kurz| eben)* "
        r"(?:überlegen|überlege|nachdenken|schauen|schaue|nachsehen|nachschauen)$"
    ),
    complete=re.compile(rf"(?:{_SEPARATED})$|\bwas (?:ist|war) (?:das|die|der)$|\bwie (?:bitte|denn)$"),
    open_words=frozenset(
        "der dem den des ein eine einen einem einer eines "
        "mein meine meinen meinem meiner dein deine deinen unser unsere unseren ihre ihren ihrem ihrer seine seinen "
        "und oder aber weil dass ob wenn falls sondern denn damit obwohl während bevor nachdem sobald als wie sowie "
        "für mit von vom zum zur bei beim nach aus in im ins auf an am über unter um durch gegen ohne bis seit wegen "
        "zwischen vor neben hinter statt trotz zu pro ab "
        "sehr ungefähr etwa circa".split()
    )
    - {"ab"},
    open_endings=re.compile(
        r"\b(?:in|auf|für|mit|und|oder|um|an|über|unter|durch|gegen|ohne) (?:die|das)$"
        r"|\b(?:ich|wir|habe?|möchte|würde|wollte|hätte)(?: (?:ich|wir))? ?"
        r"(?:möchten?|würden?|wollten?|hätten?|bräuchten?|will|brauchen?)"
        r"(?: (?:gern|gerne|nur|mal|noch|eigentlich|vielleicht|bitte|auch))*$"
        r"|^(?:(?:also|ja|und|aber|hallo) )*ich (?:habe|hab|kann|muss|soll|bin|war|eigentlich)$"
        r"|\b(?:dass|ob|wenn|weil|seit|als|wie|was|wo|wann|obwohl|bevor|nachdem|damit|falls) "
        r"(?:ich|wir|er|sie|es|man|du)"
        r"(?: (?:mich|mir|uns|sich|ihn|es|sie|ihnen|dir|dich|eigentlich|ja|aber|noch|mal|nur|auch))*$"
        r"|\b(?:und|oder|aber|dass|weil|wenn|ob) "
        r"(?:ich|wir|er|die|das|der|den|dem|vielleicht|dann|auch|halt|eigentlich|noch)$"
        r"|\bich (?:wollte|möchte|würde)(?: (?:eigentlich|nur|mal|gern|gerne|kurz|sie|ihnen|noch|auch))* "
        r"(?:wissen|fragen|sagen)$"
        r"|\b(?:wie \w+|was|wo|wann|wer|welche\w* \w+) (?:ist|sind|wäre|wären|war|waren|kostet|kosten)$"
        r"|^(?:(?:und|aber|also) )*(?:können|könnten|kann|könnte|würden|haben|sind|möchten|darf) (?:sie|ich|wir|du)"
        r"(?: mir| mich| uns| bitte| vielleicht| mal| eventuell)*$"
        r"|^(?:(?:also|ja|aber|und|hallo) )*(?:mein|meine|das|die|der|es)(?: \w+)? (?:ist|sind|war|wäre|heißt|lautet)$"
        r"|^(?!.*(?:en|ern|eln|tun)$)(?:.* )?würden? (?:ich |wir )?(?:gern|gerne)(?: (?!bitte$)[\w\-]+)*$"
    ),
    short_answers=re.compile(
        r"(?:(?:ja|nein|doch|klar|gerne|nee) )*(?:das|ich|wir|es|er|sie) "
        r"(?:ist|war|wäre|bin|habe|hab|kann|muss|will|möchte|würde|brauche)(?: (?:ich|es|das))?"
    ),
    clause_openers=re.compile(r"(?:(?:und|aber|also|ja) )*(?:wenn|falls|obwohl|sobald|bevor|nachdem|während)\b"),
    subjects=frozenset("ich du er sie es wir ihr man dann bitte das".split()),
    dictation=_DICTATION,
)
