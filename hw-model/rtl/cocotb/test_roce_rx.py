"""The receive parser and the golden frames of the contract (hw-model/spec/vectors/frame.toml)."""

import tomllib
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

BEAT_BYTES = 64
# Cycles from the last beat of a frame to its verdict.
VERDICT_CYCLES_MAX = 8
VECTORS = Path(__file__).resolve().parents[2] / "spec" / "vectors" / "frame.toml"


def frames():
    """Returns name, bytes, and the fields of the BTH of each golden frame."""
    vectors = tomllib.loads(VECTORS.read_text())["vector"]
    for vector in vectors:
        for segment in vector["segment"]:
            if segment["type"] == "Bth":
                yield vector["name"], bytes.fromhex(vector["bytes"]), segment["fields"]


async def start(dut):
    dut.s_valid.value = 0
    dut.rst.value = 1
    cocotb.start_soon(Clock(dut.clk, 4, units="ns").start())
    for _ in range(2):
        await FallingEdge(dut.clk)
    dut.rst.value = 0


async def send(dut, frame):
    """Sends a frame beat by beat; returns when its verdict has come."""
    for begin in range(0, len(frame), BEAT_BYTES):
        beat = frame[begin : begin + BEAT_BYTES]
        dut.s_valid.value = 1
        dut.s_data.value = int.from_bytes(beat, "little")
        dut.s_bytes.value = len(beat)
        dut.s_last.value = int(begin + BEAT_BYTES >= len(frame))
        await FallingEdge(dut.clk)
    dut.s_valid.value = 0
    for _ in range(VERDICT_CYCLES_MAX):
        if dut.m_valid.value:
            return
        await FallingEdge(dut.clk)
    raise AssertionError("no verdict")


@cocotb.test()
async def golden_frames_are_parsed(dut):
    await start(dut)
    count = 0
    for name, frame, bth in frames():
        await send(dut, frame)
        assert not dut.m_malformed.value and dut.m_icrc_ok.value, name
        assert dut.m_psn.value == bth.get("psn", 0), name
        assert dut.m_dest_qp.value == bth.get("dest_qp", 0), name
        assert dut.m_p_key.value == bth.get("p_key", 0), name
        count += 1
    assert count > 10, count


@cocotb.test()
async def a_wrong_bit_of_payload_is_found(dut):
    await start(dut)
    for name, frame, _ in frames():
        damaged = bytearray(frame)
        damaged[-5] ^= 0x10
        await send(dut, bytes(damaged))
        assert not dut.m_icrc_ok.value, name
