"""The content guard: application code that judges what is said before it is heard.

`content_guard` has what an application gives, `model_judge` a language model as the judge, and `guarding` has the texts
of one session judged: sentence by sentence between the model and the voice, and the caller's turns between the agent's
hook and the model.
"""
