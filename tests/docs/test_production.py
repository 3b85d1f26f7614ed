"""docs/production.md: its snippets are Python, and every name in them and in the table of `JobContext` exists."""

from __future__ import annotations

import ast
import inspect
import os
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from livekit import api

from vivavoce.agents import JobContext
from vivavoce.agents.caller.script import CallScript, read_script
from vivavoce.agents.job import JobInfo
from vivavoce.agents.worker.owner import owner_of_job

TEXT = (Path(__file__).parents[2] / "docs" / "production.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.M | re.S)
CALLS = [node for snippet in SNIPPETS for node in ast.walk(ast.parse(snippet)) if isinstance(node, ast.Call)]


def rows() -> dict[str, str]:
    """Return the table of the context's members: the code of the first cell, and the second cell."""
    (table,) = re.findall(r"^\| member \|.*\n\|.*\n((?:\|.*\n)+)", TEXT, flags=re.M)
    found = [re.fullmatch(r"\| `([^`]+)` \| (.*) \|", row) for row in table.splitlines()]
    return {row.group(1): row.group(2) for row in found if row is not None}


def test_the_table_has_every_public_member_of_the_context() -> None:
    named = {re.sub(r"\(.*", "", code).removeprefix("ctx.") for code in rows()}
    assert named == {name for name in vars(JobContext) if not name.startswith("_")}


@pytest.mark.parametrize("code", [code for code in rows() if "(" in code])
def test_the_arguments_of_the_table_are_those_of_the_method(code: str) -> None:
    call = ast.parse(code.replace("…", "None"), mode="eval").body
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Attribute)
    taken = inspect.signature(getattr(JobContext, call.func.attr)).parameters
    told = [ast.unparse(one) for one in call.args] + [str(one.arg) for one in call.keywords]
    assert told == [name for name in taken if name != "self"]
    for keyword in call.keywords:
        if keyword.arg != "ttl":
            assert ast.literal_eval(keyword.value) == taken[str(keyword.arg)].default


def test_the_facts_of_a_job_exist() -> None:
    named = set(re.findall(r"`(\w+)`", rows()["ctx.job"]))
    assert "metadata" in named
    assert named <= {each.name for each in fields(JobInfo)}


@pytest.mark.parametrize("request_type", ["TransferSIPParticipantRequest", "CreateSIPParticipantRequest"])
def test_the_requests_shown_have_fields_of_livekit_s_api(request_type: str) -> None:
    shown = [node for node in CALLS if ast.unparse(node.func) == f"api.{request_type}"]
    assert shown
    known = {each.name for each in getattr(api, request_type).DESCRIPTOR.fields}
    assert {str(keyword.arg) for node in shown for keyword in node.keywords} <= known


async def test_the_services_and_calls_of_the_server_s_api_exist() -> None:
    client: Any = api.LiveKitAPI("http://127.0.0.1:9", "key", "secret")
    try:
        for name in re.findall(r"`(\w+)`", rows()["ctx.api"]):
            assert hasattr(client, name), name
        called = set(re.findall(r"\.api\.sip\.(\w+)\(", "".join(SNIPPETS)))
        assert called == {"transfer_sip_participant", "create_sip_participant"}
        assert all(hasattr(client.sip, name) for name in called)
    finally:
        await client.aclose()


def test_the_script_of_a_call_that_crashes_can_be_read_and_waits_longer_than_others(tmp_path: Path) -> None:
    (script,) = re.findall(r"^```toml\n# crash.toml\n(.*?)^```", TEXT, flags=re.M | re.S)
    (tmp_path / "crash.toml").write_text(script)
    read = read_script(tmp_path / "crash.toml")
    usual = CallScript(steps=read.steps, ears=read.ears)
    assert read.takeover > usual.takeover
    assert read.patience > usual.patience


def test_the_owner_of_a_kept_call_names_its_process() -> None:
    assert "second part of\n`owner`" in TEXT
    assert owner_of_job("AJ_1").split("/")[1] == str(os.getpid())
