"""Requester, completer and reset of the card's PCIe endpoint: the test is the card, and cocotbext-pcie is
host and hard block."""

import random

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge, with_timeout
from hard_block import HardBlock

LINE = 64
WAIT_NS = 400_000


class Card:
    """The card's ports: registers, doorbells, and lines of DMA."""

    def __init__(self, dut):
        self.dut = dut
        self.registers = bytearray(1 << 14)
        self.doorbells = []
        self.writes, self.reads = [], []
        self.lines = {}
        self.resets = 0
        for port in ("dma_read_valid", "dma_write_valid", "doorbell_ready", "read_data", "resetting"):
            getattr(dut, port).setimmediatevalue(0)
        cocotb.start_soon(self.run())

    async def run(self):
        dut, data = self.dut, 0
        while True:
            # The inputs of this cycle, set in its second half.
            await FallingEdge(dut.clk)
            dut.read_data.value = data
            dut.doorbell_ready.value = random.randrange(4) > 0
            dut.dma_write_valid.value = bool(self.writes)
            dut.dma_read_valid.value = bool(self.reads)
            if self.writes:
                address, line, strobe = self.writes[0]
                dut.dma_write_iova.value = address
                dut.dma_write_line.value = int.from_bytes(line, "little")
                dut.dma_write_strobe.value = strobe
            if self.reads:
                dut.dma_read_iova.value, dut.dma_read_tag.value = self.reads[0]
            await RisingEdge(dut.clk)
            if dut.rst.value:
                continue
            if dut.write_valid.value:
                at, count = int(dut.write_at.value), 8 if dut.write_wide.value else 4
                self.registers[at : at + count] = int(dut.write_data.value).to_bytes(8, "little")[:count]
            if dut.read_valid.value:
                at = int(dut.read_at.value)
                data = int.from_bytes(self.registers[at : at + 8], "little")
            if dut.doorbell_valid.value and dut.doorbell_ready.value:
                self.doorbells.append((int(dut.doorbell_slot.value), int(dut.doorbell_value.value)))
            if dut.function_reset.value:
                self.resets += 1
            if dut.dma_write_valid.value and dut.dma_write_ready.value:
                self.writes.pop(0)
            if dut.dma_read_valid.value and dut.dma_read_ready.value:
                self.reads.pop(0)
            if dut.dma_line_valid.value:
                tag = int(dut.dma_line_tag.value)
                assert tag not in self.lines
                line = int(dut.dma_line.value).to_bytes(LINE, "little")
                self.lines[tag] = None if dut.dma_line_error.value else line

    async def until(self, condition):
        async def wait():
            while not condition():
                await RisingEdge(self.dut.clk)

        await with_timeout(wait(), WAIT_NS, "ns")

    def write(self, address, data):
        """Queues a write of any bytes."""
        end = address + len(data)
        for line in range(address & -LINE, end, LINE):
            first, last = max(address, line), min(end, line + LINE)
            content = bytes(first - line) + data[first - address : last - address]
            strobe = ((1 << (last - first)) - 1) << (first - line)
            self.writes.append((line, content.ljust(LINE, b"\0"), strobe))

    async def read(self, address, count):
        """Reads whole lines; returns them, None for an error."""
        self.lines = {}
        self.reads += [(address + LINE * n, n) for n in range(count)]
        await self.until(lambda: len(self.lines) == count)
        return [self.lines[n] for n in range(count)]


def bytes_of(count, seed):
    return random.Random(seed).randbytes(count)


async def start(dut, **options):
    random.seed(0)
    splits = options.pop("splits", False)
    card = Card(dut)
    block = HardBlock(dut, splits)
    await block.start(**options)
    memory = block.host.mem_pool.alloc_region(1 << 16)
    return card, block, memory, memory.get_absolute_address(0)


@cocotb.test()
async def registers_and_doorbells(dut):
    card, block, _, _ = await start(dut)
    await block.bar0.write(0x20, b"\x11\x22\x33\x44")
    await block.bar0.write(0x40, bytes(range(8)))
    assert await block.bar0.read(0x20, 4) == b"\x11\x22\x33\x44"
    assert await block.bar0.read(0x40, 8) == bytes(range(8))
    # A processor may combine doorbells.
    values = [0x0100_0000_0000 + n for n in range(8)]
    await block.bar2.write(0x1000, b"".join(value.to_bytes(8, "little") for value in values))
    await block.bar2.write(0x3008, b"half")
    await block.bar2.write(0x3010, (77).to_bytes(8, "little"))
    await card.until(lambda: len(card.doorbells) == 9)
    assert card.doorbells == [(0x200 + n, value) for n, value in enumerate(values)] + [(0x602, 77)]


@cocotb.test()
async def what_is_not_supported_is_answered(dut):
    _, block, _, _ = await start(dut)
    for bar, at, count in [(block.bar0, 0x40, 16), (block.bar0, 0x44, 8), (block.bar0, 0x41, 1), (block.bar2, 0, 8)]:
        try:
            await bar.read(at, count)
        except Exception as error:
            assert "Unsuccessful" in str(error), error
        else:
            raise AssertionError(f"{count} bytes at {at:#x} were read")
    # A read of no bytes, and all as before.
    assert await block.bar0.read(0x40, 0) == b""
    assert await block.bar0.read(0x40, 8) == bytes(8)


async def copy(dut, **options):
    """Writes and reads at the same time, from and to any byte."""
    card, _, memory, base = await start(dut, **options)
    data, image = bytes_of(20_000, 1), bytearray(bytes_of(1 << 16, 2))
    memory[:] = bytes(image)
    card.write(base + 5, data)
    image[5 : 5 + len(data)] = data
    card.write(base + 40_003, data[:3000])
    image[40_003:43_003] = data[:3000]
    lines = await card.read(base + 43_008, 200)
    assert b"".join(lines) == image[43_008 : 43_008 + 200 * LINE]
    await card.until(lambda: memory[:] == image)
    lines = await card.read(base, 320)
    assert b"".join(lines) == image[: 320 * LINE]


for payload, read, splits in [(128, 128, False), (256, 512, False), (512, 256, True), (512, 512, False)]:

    async def test(dut, payload=payload, read=read, splits=splits):
        await copy(dut, payload=payload, read=read, splits=splits)

    test.__name__ = test.__qualname__ = f"lines_with_payload_{payload}_and_read_{read}"
    globals()[test.__name__] = cocotb.test()(test)


@cocotb.test()
async def a_read_without_memory_is_an_error(dut):
    card, _, memory, base = await start(dut)
    memory[:] = bytes_of(1 << 16, 3)
    assert await card.read(0x7F_0000_0000, 20) == [None] * 20
    assert b"".join(await card.read(base, 8)) == memory[: 8 * LINE]


@cocotb.test()
async def a_register_read_does_not_pass_writes(dut):
    card, block, memory, base = await start(dut)
    for turn in range(20):
        data = bytes_of(4 * LINE, turn)
        card.write(base + 0x1000 * (turn % 4), data)
        await card.until(lambda: not card.writes)
        await block.bar0.read(0x40, 4)
        at = 0x1000 * (turn % 4)
        assert memory[at : at + len(data)] == data


@cocotb.test()
async def without_bus_mastering_nothing_leaves(dut):
    card, block, memory, base = await start(dut)
    memory[:] = bytes(1 << 16)
    await block.function.clear_master()
    card.write(base, b"x" * 1000)
    assert await card.read(base, 10) == [None] * 10
    assert await block.bar0.read(0x40, 4) == bytes(4)
    await block.function.set_master()
    assert b"".join(await card.read(base, 10)) == bytes(10 * LINE)
    card.write(base, b"y" * 1000)
    await card.until(lambda: memory[:1001] == b"y" * 1000 + b"\0")


@cocotb.test()
async def a_function_level_reset_ends(dut):
    card, block, memory, base = await start(dut)
    memory[:] = bytes(1 << 16)
    card.reads += [(base + LINE * n, n) for n in range(100)]
    dut.cfg_flr_in_process.value = 1
    dut.resetting.value = 1
    await card.until(lambda: card.resets > 0)
    card.reads.clear()
    for _ in range(50):
        await RisingEdge(dut.clk)
        assert not dut.cfg_flr_done.value
    dut.resetting.value = 0
    await card.until(lambda: dut.cfg_flr_done.value == 1)
    dut.cfg_flr_in_process.value = 0
    assert card.resets == 1
    assert b"".join(await card.read(base, 10)) == bytes(10 * LINE)
