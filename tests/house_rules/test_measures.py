"""The measures that are rules: the size of the session, what its parts import, and the public names."""

from __future__ import annotations

from house_rules.measures import code_lines, fields, foreign_assignments, rules_of_the_house


def test_the_house_keeps_its_bars() -> None:
    over = [each for each in rules_of_the_house() if each.bar is not None and each.value > each.bar]
    assert not over, "\n" + "\n".join(f"{each.name}: {each.value}, at most {each.bar}" for each in over)


def test_lines_of_code_are_neither_blank_nor_words_alone() -> None:
    assert (
        code_lines('"""A module."""\n\nx = 1  # one\n"""Its words,\n\non lines."""\n# a comment\ny = (\n    2,\n)\n')
        == 4
    )


def test_fields_and_assignments_to_other_objects_are_counted() -> None:
    source = 'class Parts:\n    one: int\n    """Words."""\n    two: str = ""\n\n    def three(self) -> None: ...\n'
    assert fields(source, "Parts") == 2
    assert foreign_assignments("self.a = 1\nself.b.c, other.d = 1, 2\nother.e += 1\ndel other.f\nother.g.h()\n") == 4
