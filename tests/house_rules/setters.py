"""The house rule about setters, as a mypy plugin: no object sets an attribute of another one after its construction.

mypy knows the type of each receiver, so the rule sees every `receiver.attribute = …` on a class of `vivavoce`.
Allowed are `self`, the records (dataclasses) of the package that sets them, private attributes of an object of the same
class (a copy that a method makes), and the fields of `context.live` (`test_sizes_and_texts.py` checks that each has one
writer). In the packages of `STRICT` records are no exception: they change by their own methods only. Classes of other
libraries, such as protobuf messages, are not this rule's business.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.checker import TypeChecker
from mypy.errorcodes import ErrorCode
from mypy.nodes import MemberExpr, NameExpr, TypeInfo
from mypy.plugin import AttributeContext, Plugin
from mypy.types import Instance, Type, get_proper_type

CODE = ErrorCode("setter", "An attribute of another object is set", "House")
LIVE = "vivavoce.agents.core.context.Live"
STRICT = frozenset({"vivavoce.agents.turn"})
APPLICATION = frozenset({"AgentSession.userdata"})
"""Public attributes that applications set; the command line is an application here."""


def package_of(module: str) -> str:
    """Return the package of a module: `vivavoce.agents.turn` for `vivavoce.agents.turn.user.turn`."""
    return ".".join(module.split(".")[:3])


def plugin(version: str) -> type[Plugin]:
    """Return the plugin; mypy calls this function by its name."""
    return SettersPlugin


class SettersPlugin(Plugin):
    """Checks every assignment to an attribute of a class in `vivavoce`."""

    def get_attribute_hook(self, fullname: str) -> Callable[[AttributeContext], Type] | None:
        """Return the check, for the attributes of our own classes."""
        return _checked if fullname.startswith("vivavoce.") else None


def _checked(context: AttributeContext) -> Type:
    target = context.context
    receiver = get_proper_type(context.type)
    assert isinstance(context.api, TypeChecker)
    module = context.api.tree.fullname
    if (
        module.startswith("vivavoce.")
        and context.is_lvalue
        and isinstance(target, MemberExpr)
        and isinstance(receiver, Instance)
    ):
        inside = context.api.scope.enclosing_class()
        if not _is_allowed(target, receiver.type, module, inside):
            attribute = f"{receiver.type.name}.{target.name}"
            if attribute not in APPLICATION:
                context.api.fail(
                    f"sets {attribute} from outside; give the value to the constructor or to open(), or call a method",
                    target,
                    code=CODE,
                )
    return context.default_attr_type


def _is_allowed(target: MemberExpr, owner: TypeInfo, module: str, inside: TypeInfo | None) -> bool:
    if isinstance(target.expr, NameExpr) and target.expr.name in ("self", "cls"):
        return True
    if owner is inside and target.name.startswith("_"):
        return True
    is_record = "dataclass" in owner.metadata or "dataclass_tag" in owner.metadata
    package = package_of(module)
    is_own_record = is_record and package_of(owner.module_name) == package and package not in STRICT
    return owner.fullname == LIVE or is_own_record
