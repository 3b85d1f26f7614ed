"""G.711 in both laws, against ffmpeg's codecs and against sox."""

from __future__ import annotations

import shutil
import subprocess

import av
import numpy as np
import pytest

from kit.servers.missing import missing
from vivavoce.pipelines.media import g711

LAWS: tuple[tuple[g711.Law, str, str], ...] = (("mulaw", "pcm_mulaw", "ul"), ("alaw", "pcm_alaw", "al"))
CODES = bytes(range(256))
SAMPLES = np.arange(-32768, 32768).astype(np.int16)
RAW = "-t raw -r 8000 -c 1 -e signed -b 16 -L -".split()


@pytest.mark.parametrize(("law", "codec", "_"), LAWS)
def test_each_of_the_256_codes_is_the_sample_that_ffmpeg_makes_of_it(law: g711.Law, codec: str, _: str) -> None:
    decoder = av.CodecContext.create(codec, "r")
    decoder.sample_rate, decoder.layout = 8000, "mono"  # type: ignore[attr-defined]
    frame = decoder.decode(av.Packet(CODES))[0]  # type: ignore[attr-defined]
    assert g711.decode(CODES, law) == frame.to_ndarray().tobytes()


@pytest.mark.parametrize(("law", "_", "__"), LAWS)
def test_each_code_comes_back_from_its_sample(law: g711.Law, _: str, __: str) -> None:
    back = g711.encode(g711.decode(CODES, law), law)
    changed = {code: there for code, there in zip(CODES, back, strict=True) if code != there}
    assert changed == ({0x7F: 0xFF} if law == "mulaw" else {})  # mu-law has two codes for the sample 0


@pytest.mark.parametrize(("law", "_", "__"), LAWS)
def test_each_sample_keeps_its_order_and_is_off_by_half_a_step_at_most(law: g711.Law, _: str, __: str) -> None:
    there = np.frombuffer(g711.decode(g711.encode(SAMPLES.tobytes(), law), law), np.int16).astype(int)
    assert (np.diff(there) >= 0).all()
    size = np.minimum(np.abs(SAMPLES.astype(int)), 32124)
    step = np.maximum(2.0 ** (np.floor(np.log2(size + 132)) - 4), 16 if law == "alaw" else 8)
    assert (np.abs(np.abs(there) - size) <= step / 2 + 3).all()  # 3: 16 bits become 14


@pytest.mark.parametrize(("law", "_", "__"), LAWS)
def test_silence_is_the_code_of_zero(law: g711.Law, _: str, __: str) -> None:
    assert g711.encode(bytes(4), law) == g711.SILENCE[law] * 2


@pytest.mark.parametrize(("law", "_", "type_"), LAWS)
def test_sox_agrees(law: g711.Law, _: str, type_: str) -> None:
    if shutil.which("sox") is None:
        missing("sox", "install Debian's package sox")
    wire = ["-t", type_, "-r", "8000", "-c", "1", "-"]
    decoded = subprocess.run(["sox", "-D", *wire, *RAW], input=CODES, capture_output=True, check=True)
    assert decoded.stdout == g711.decode(CODES, law)
    encoded = subprocess.run(["sox", "-D", *RAW, *wire], input=SAMPLES.tobytes(), capture_output=True, check=True)
    ours, theirs = g711.encode(SAMPLES.tobytes(), law), encoded.stdout
    differ = [at for at in range(len(SAMPLES)) if ours[at] != theirs[at]]
    assert len(differ) < 1100  # it rounds to 14 (13) bits where the law's own algorithm cuts them off
    there = g711.decode(ours, law), g711.decode(theirs, law)
    mine, other = (np.frombuffer(pcm, np.int16) for pcm in there)
    for at in differ:  # … so the samples at the edge of a step get the next code
        assert other[at] in (mine[max(at - 8, 0)], mine[at], mine[min(at + 8, 65535)])
