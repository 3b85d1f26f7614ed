"""ENGLISH: the rules for English."""

from __future__ import annotations

import re

from vivavoce.plugins.text_turn.dictation import DictationRules
from vivavoce.plugins.text_turn.rules import Rules

_UNITS = "zero oh o nought one two three four five six seven eight nine".split()
_TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_SUBJECT = "(?:i|you|we|they|he|she|it)"
_AUXILIARY = "(?:am|is|are|was|were|do|did|does|can|could|will|would|shall|should|have|has|had|may|might|must)"

_DICTATION = DictationRules(
    digits={
        **dict.fromkeys(_UNITS, 1),
        **dict.fromkeys(_TEENS + _TENS, 2),
        "hundred": 2,
        "thousand": 3,
        "double": 1,
        "triple": 2,
    },
    tens=frozenset(_TENS),
    expected=(
        (re.compile(r"\b(?:credit |debit |bank )?card\b.*\bnumber\b|\bnumber\b.*\bcard\b", re.IGNORECASE), 15),
        (re.compile(r"\b(?:phone|telephone|mobile|cell|callback)\b", re.IGNORECASE), 7),
        (re.compile(r"\bzip\b", re.IGNORECASE), 5),
        (re.compile(r"\b(?:order|account|customer|reference|booking|member\w*|ticket) number\b", re.IGNORECASE), 5),
        (re.compile(r"\b(?:pin|(?:security|access|verification) code)\b", re.IGNORECASE), 4),
    ),
    email_done=re.compile(r"@[\w\-]+\.\w+|\bat\b.*\bdot \w+$"),
    refusals=frozenset("no not don't haven't can't cannot won't why what rather sorry".split()),
)

ENGLISH = Rules(
    fillers=frozenset("um uh uhm umm er erm eh ah uhh mmm".split()),
    holds=re.compile(
        r"\b(?:(?:hold|hang) on(?: (?:a|one|just a))?(?: (?:second|sec|moment|minute))?"
        r"|(?:just )?(?:a|one) (?:second|sec|moment|minute)"
        r"|wait|let me (?:just )?(?:see|think|check|look)|give me a (?:second|moment|minute))(?: please)?$"
    ),
    complete=re.compile(
        r"\b(?:it|that|them|this|log|sign|check|come|go|get|move|drop|call|stay|turn|keep|carry|going) "
        r"(?:in|on|over|through|around|by)$"
        r"|\b(?:think|hope|guess|say|suppose|believe|afraid|do|if) so$"
        rf"|\b(?:what|where|who|how|which|when)(?: \w+)? "
        r"(?:it|he|she|this|that|they|there|(?:the|my|your|our|his|her|their) \w+(?: \w+)?)(?: \w+)? "
        r"(?:is|are|was|were)$"
        rf"|^(?:(?:yes|no|yeah|yep|nope|sure|of course) )+{_SUBJECT} (?:is|are|was|were)(?: not)?$"
        r"|\b(?:if|as) you (?:like|want|prefer)$|^(?:go on|come on|what about|what for|like that)$"
    ),
    open_words=frozenset(
        "the a an my your our their "
        "and or but nor because if unless whether than as so although though whereas "
        "of for with from into onto to at in on by about between against without within during until till past "
        "toward towards near per via around through over after before since like under "
        "very quite every".split()
    ),
    strandable=frozenset("of for with from to at in on by about like after before around".split()),
    question_words=frozenset("what where who which how when whom whose that's what's where's who's whatever".split()),
    open_endings=re.compile(
        rf"\b(?:{_SUBJECT[3:-1]}|there|that|what|who|here)'(?:m|re|s|ve|ll|d)$"
        rf"|\b(?:if|whether) {_SUBJECT} (?:can|could|would|might|should|will)$"
        rf"|^(?:\w+ )?(?:can|could|would|will|do|did|does|are|is|have|should|may|shall) {_SUBJECT}$"
        r"|^(?:(?:so|well|but|and|okay|hi|hello|yes|yeah) )*(?:i|we)(?:'d)?(?: would| was| just| really| only| also)* "
        r"(?:want|need|like|mean|think|wanted|needed|wondering|have|had|heard|said|am|was|will)$"
        r"|\b(?:is|are|was|were|isn't|wasn't|aren't|weren't)$"
        rf"|(?:^|(?:^| )(?!{_AUXILIARY} )[\w']+ )(?:i|we|they|he|she)$"
        r"|\b(?:that|which|who|what|because|and|but|if|when|where) you$"
        rf"|\b(?:or|and|but|to|i|we|they|{_AUXILIARY} {_SUBJECT}) "
        r"(?:just|maybe|really|perhaps|probably|only|actually|basically|usually|also|still|even)$"
        r"|\b(?:reason|thing|problem|point|issue|question)\b.* (?:is|was) that$|\b(?:told \w+|so) that$"
        r"|^(?:\w+ )?(?:what (?:i'm|we're) trying to say|kind of|sort of|such|more|the (?:thing|point|reason))$"
    ),
    short_answers=re.compile(
        rf"(?:(?:yes|yeah|yep|no|nope|sure|of course|okay|well|maybe|perhaps|actually) )*{_SUBJECT} "
        r"(?:\w+ )?(?:would|do|did|does|will|can|could|should|have|am|is|was|are|think|(?:like|want|need) to)"
        r"(?: not)?"
    ),
    clause_openers=re.compile(
        r"(?:(?:and|but|so|well|okay) )*(?!if (?:so|not|possible|you (?:like|want|prefer|will))\b)"
        rf"(?:(?:if|although|though|unless|whereas)\b|(?:when|while|once|until) {_SUBJECT}\b)"
    ),
    subjects=frozenset("i you we they he she it there that's it's i'm i'd i'll we'll you'll please".split()),
    dictation=_DICTATION,
)
