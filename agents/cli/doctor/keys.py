"""The checks of the providers' keys: whether they are set, and the vendors' answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vivavoce.agents.cli.catalogue.key_checks import Answer, Verdict
from vivavoce.agents.cli.catalogue.providers import Listed, Unreadable
from vivavoce.agents.cli.doctor.findings import Finding, Health
from vivavoce.agents.cli.environment import masked


def provider_keys(
    listed: Sequence[Listed],
    unreadable: Sequence[Unreadable],
    answers: Mapping[str, Answer],
    environment: Mapping[str, str],
) -> Iterator[Finding]:
    """Check the keys that are set; name those that are not in one line.

    Args:
        answers: Of the vendors, by provider.
    """
    for each in listed:
        name = each.set_key(environment)
        if name is not None:
            yield _key(each, name, answers.get(each.provider.name, Answer(Verdict.UNTRIED)), environment)
    without = [each.provider.name for each in listed if each.provider.keys and each.set_key(environment) is None]
    if without:
        remedy = "only if you want one: vivavoce plugins shows the variable, and where to get a key"
        yield Finding("other keys", Health.ABSENT, f"not set: {', '.join(without)}", remedy)
    for plugin in unreadable:
        yield Finding(f"plugin {plugin.plugin}", Health.WARNING, plugin.reason)


def _key(each: Listed, name: str, answer: Answer, environment: Mapping[str, str]) -> Finding:
    provider = each.provider
    title, value = f"key of {provider.name}", environment[name]
    found = f"{name} {masked(value.strip())}"
    unset = each.unset(environment)
    if value != value.strip():
        remedy = f"take the blanks around the value of {name} away"
        return Finding(title, Health.PROBLEM, f"{name} begins or ends with a blank", remedy)
    if unset:
        return Finding(title, Health.PROBLEM, f"{found}, without {' and '.join(unset)}", f"set {' and '.join(unset)}")
    if answer.verdict is Verdict.WORKS:
        return Finding(title, Health.OK, f"{found}, works at {answer.server}")
    if answer.verdict is Verdict.REFUSED and not answer.server:  # such as a region that is missing
        why, _, remedy = answer.text.partition("; ")
        return Finding(title, Health.PROBLEM, f"{found}, not usable: {why}", remedy or f"check {name}")
    if answer.verdict is Verdict.REFUSED:
        remedy = f"get a key at {provider.get_key} and put it in {name}"
        if provider.note:
            remedy = f"{provider.note.replace('`', '')} Else {remedy}"
        return Finding(title, Health.PROBLEM, f"{found}; {answer.server} refused: {answer.text}", remedy)
    if answer.verdict is Verdict.UNREACHABLE:
        remedy = "look at the network of this machine, and at HTTPS_PROXY; the key was not tried"
        return Finding(title, Health.WARNING, f"{found}; {answer.server} cannot be reached: {answer.text}", remedy)
    if answer.verdict is Verdict.UNKNOWN:
        remedy = "run vivavoce doctor again later; if that does not help, look at the vendor's status page"
        return Finding(
            title, Health.WARNING, f"{found}; {answer.server or provider.title} did not say: {answer.text}", remedy
        )
    return Finding(title, Health.OK, f"{found}, not tried")
