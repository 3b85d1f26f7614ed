"""Many telephones: Debian's sipp, whose callers speak A-law from a file and hang up after some seconds."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import anyio.to_thread
import numpy as np

from kit.limits import LIMIT
from kit.line.baresip import RATE, free_ports
from kit.servers.missing import missing
from vivavoce.pipelines.media import g711

SECONDS = 3
SCENARIO = """\
<?xml version="1.0" encoding="ISO-8859-1" ?>
<scenario name="caller">
  <send retrans="500"><![CDATA[
    INVITE sip:[service]@[remote_ip]:[remote_port] SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    From: <sip:caller[call_number]@[local_ip]:[local_port]>;tag=[call_number]
    To: <sip:[service]@[remote_ip]:[remote_port]>
    Call-ID: [call_id]
    CSeq: 1 INVITE
    Contact: <sip:caller[call_number]@[local_ip]:[local_port]>
    Max-Forwards: 70
    Content-Type: application/sdp
    Content-Length: [len]

    v=0
    o=caller 1 1 IN IP[local_ip_type] [local_ip]
    s=-
    c=IN IP[media_ip_type] [media_ip]
    t=0 0
    m=audio [rtpstream_audio_port] RTP/AVP 8 101
    a=rtpmap:8 PCMA/8000
    a=rtpmap:101 telephone-event/8000
  ]]></send>
  <recv response="100" optional="true" />
  <recv response="180" optional="true" />
  <recv response="200" rrs="true" />
  <send><![CDATA[
    ACK sip:[service]@[remote_ip]:[remote_port] SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    From: <sip:caller[call_number]@[local_ip]:[local_port]>;tag=[call_number]
    To: <sip:[service]@[remote_ip]:[remote_port]>[peer_tag_param]
    Call-ID: [call_id]
    CSeq: 1 ACK
    Max-Forwards: 70
    Content-Length: 0
  ]]></send>
  <nop><action><exec rtp_stream="@SOUND@,-1,8" /></action></nop>
  <pause milliseconds="@PAUSE@" />
  <send retrans="500"><![CDATA[
    BYE sip:[service]@[remote_ip]:[remote_port] SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    From: <sip:caller[call_number]@[local_ip]:[local_port]>;tag=[call_number]
    To: <sip:[service]@[remote_ip]:[remote_port]>[peer_tag_param]
    Call-ID: [call_id]
    CSeq: 2 BYE
    Max-Forwards: 70
    Content-Length: 0
  ]]></send>
  <recv response="200" crlf="true" />
</scenario>
"""


async def sipp_calls(folder: Path, port: int, *, count: int, to: str = "+15550199") -> None:
    """Place so many calls at once, and wait until all are over; skip the test (or fail it) if there is no sipp.

    Args:
        port: Of the line.
    """
    if shutil.which("sipp") is None:
        missing("sipp", "install Debian's package sip-tester")
    sound, scenario = folder / "said.alaw", folder / "caller.xml"
    sound.write_bytes(g711.encode(np.zeros(RATE, np.int16).tobytes(), "alaw"))
    said = SCENARIO.replace("@SOUND@", str(sound)).replace("@PAUSE@", str(SECONDS * 1000))
    scenario.write_text(said)
    own = ["-i", "127.0.0.1", "-mi", "127.0.0.1", "-p", str(free_ports(1))]
    calls = ["-sf", str(scenario), "-s", to, "-m", str(count), "-r", str(count), "-timeout", f"{LIMIT:.0f}"]
    done = await anyio.to_thread.run_sync(
        lambda: subprocess.run(
            ["sipp", *calls, *own, f"127.0.0.1:{port}"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=2 * LIMIT,
            check=False,
        )
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
