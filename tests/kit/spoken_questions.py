"""A labelled list: passages of a shop's handbook, and questions as callers ask them, half of them as paraphrases."""

from __future__ import annotations

from vivavoce.agents.knowledge import KnowledgeBase

PASSAGES = {
    "hours": "We are open from nine to six on weekdays. On Saturdays we close at noon. On Sundays the shop is closed.",
    "returns": "A purchase may be returned within thirty days with its receipt. Opened software cannot be returned.",
    "refund": "A refund goes to the card that was charged. The bank takes five to seven working days.",
    "delivery": "Standard delivery takes three to five days and costs four pounds. Above fifty pounds it is free.",
    "express": "Orders before two in the afternoon arrive the next day with express delivery, which costs nine pounds.",
    "tracking": "The tracking number is in the email of the dispatch. It works from the evening of that day.",
    "damage": "If goods are damaged on arrival, send a photo within two days. We replace them free of charge.",
    "warranty": "Every device has a warranty of two years. It does not cover water damage or a broken screen.",
    "repair": "The workshop repairs screens and batteries within an hour. Bring the device without its case.",
    "payment": "We accept credit cards, debit cards and bank transfer. Cash is taken in the shop only.",
    "instalments": "Purchases above two hundred pounds may be paid in twelve instalments without interest.",
    "account": "To change the email address of an account, open the settings. A link confirms the new address.",
    "password": "Choose forgotten password on the login page. The link in the message is valid for one hour.",
    "invoice": "Invoices are in the account under orders, as PDF files. An invoice for a company needs its tax number.",
    "students": "Students get ten percent off with a valid student card, except on gift cards.",
    "vouchers": "Gift cards are valid for three years. The rest of their value stays on the card.",
    "cancel": "An order can be cancelled until it is packed. After that, refuse the parcel or send it back.",
    "pickup": "Reserved goods wait at the counter for three days. Bring the order number and an identity card.",
    "parking": "Customers park free of charge for ninety minutes behind the building. There are two charging points.",
    "jobs": "Applications for a job go to the manager of the branch, with a letter and a curriculum vitae.",
}

QUESTIONS = (
    ("hours", "uh hi are you open on sundays"),
    ("hours", "what time do you shut on a saturday"),
    ("returns", "can i return something without the receipt"),
    ("returns", "i don't like what i bought can i bring it back"),
    ("refund", "how long does the refund take"),
    ("refund", "when do i get my money back"),
    ("delivery", "how much is standard delivery"),
    ("delivery", "what do you charge for shipping"),
    ("express", "is there an express delivery"),
    ("express", "i need it by tomorrow is that possible"),
    ("tracking", "where do i find the tracking number"),
    ("tracking", "so where is my package right now"),
    ("damage", "my goods were damaged what do i do"),
    ("damage", "the thing came broken in the box"),
    ("warranty", "how many years of warranty do i have"),
    ("warranty", "is it insured if i drop it in the sink"),
    ("repair", "do you repair screens"),
    ("repair", "can you fix my phone while i wait"),
    ("payment", "do you accept credit cards"),
    ("payment", "can i pay with coins"),
    ("instalments", "can i pay in instalments"),
    ("instalments", "is it possible to spread the price over a year"),
    ("account", "how do i change my email address"),
    ("account", "i got a new mailbox and need to update it"),
    ("password", "i have forgotten my password"),
    ("password", "i can't get in any more it says wrong login"),
    ("invoice", "where is the invoice for my order"),
    ("invoice", "i need a bill for my tax people"),
    ("students", "do students get a discount"),
    ("students", "is it cheaper if i'm at university"),
    ("vouchers", "how long are gift cards valid"),
    ("vouchers", "when does my present token run out"),
    ("cancel", "can i cancel my order"),
    ("cancel", "i changed my mind please stop the shipment"),
    ("pickup", "how long do you keep reserved goods"),
    ("pickup", "what do i need to collect my stuff in the shop"),
    ("parking", "where can i park"),
    ("parking", "i come by electric car can i plug it in"),
    ("jobs", "how do i apply for a job"),
    ("jobs", "are you hiring at the moment"),
)
"""(source of the passage that answers it, question)."""


async def hit_rates(base: KnowledgeBase) -> tuple[float, float]:
    """Fill a base; return how often the right passage is the first one found, and how often among the first three."""
    first = among_three = 0
    for source, text in PASSAGES.items():
        await base.add_text(text, source=source)
    for wanted, question in QUESTIONS:
        found = [passage.source for passage in await base.search(question, 3)]
        first += found[:1] == [wanted]
        among_three += wanted in found
    return first / len(QUESTIONS), among_three / len(QUESTIONS)
