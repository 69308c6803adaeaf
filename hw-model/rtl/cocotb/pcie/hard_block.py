"""A root complex, the UltraScale+ hard block of cocotbext-pcie, and the ports of a bench."""

from cocotbext.axi import AxiStreamBus
from cocotbext.pcie.core import RootComplex
from cocotbext.pcie.xilinx.us import UltraScalePlusPcieDevice

VENDOR_ID = 0x1172
DEVICE_ID = 0xF10A
BAR0_BYTES = 1 << 14
BAR2_BYTES = 1 << 22
# Encodings of sizes in Device Control.
SIZES = {128: 0, 256: 1, 512: 2}


class HardBlock:
    """The host and the hard block around `dut`; `start` enumerates the function."""

    def __init__(self, dut, splits=False):
        self.dut = dut
        self.host = RootComplex()
        self.host.max_payload_size = SIZES[512]
        self.host.split_on_all_rcb = splits
        dut.cfg_ext_tag.setimmediatevalue(0)
        dut.cfg_flr_in_process.setimmediatevalue(0)
        interrupts = {}
        if hasattr(dut, "cfg_interrupt_msix_enable"):
            interrupts = {
                "cfg_interrupt_msix_enable": dut.cfg_interrupt_msix_enable,
                "cfg_interrupt_msix_mask": dut.cfg_interrupt_msix_mask,
            }
        self.block = UltraScalePlusPcieDevice(
            pcie_generation=3,
            pcie_link_width=16,
            user_clk_frequency=250e6,
            alignment="dword",
            cq_straddle=False,
            cc_straddle=False,
            rq_straddle=True,
            rc_straddle=True,
            rc_4tlp_straddle=True,
            pf_count=1,
            max_payload_size=512,
            enable_client_tag=True,
            enable_extended_tag=True,
            pf0_msix_enable=True,
            pf0_msix_table_size=15,
            pf0_msix_table_bir=0,
            pf0_msix_table_offset=0x2000,
            pf0_msix_pba_bir=0,
            pf0_msix_pba_offset=0x3000,
            user_clk=dut.clk,
            user_reset=dut.rst,
            rq_bus=AxiStreamBus.from_prefix(dut, "rq"),
            rc_bus=AxiStreamBus.from_prefix(dut, "rc"),
            cq_bus=AxiStreamBus.from_prefix(dut, "cq"),
            cc_bus=AxiStreamBus.from_prefix(dut, "cc"),
            pcie_rq_seq_num0=dut.sequence_0,
            pcie_rq_seq_num_vld0=dut.sequence_valid_0,
            pcie_rq_seq_num1=dut.sequence_1,
            pcie_rq_seq_num_vld1=dut.sequence_valid_1,
            pcie_cq_np_req=dut.cq_np_req,
            cfg_max_payload=dut.cfg_max_payload,
            cfg_max_read_req=dut.cfg_max_read_req,
            cfg_function_status=dut.cfg_function_status,
            **interrupts,
        )
        function = self.block.functions[0]
        function.vendor_id = VENDOR_ID
        function.device_id = DEVICE_ID
        function.configure_bar(0, BAR0_BYTES, ext=True)
        function.configure_bar(2, BAR2_BYTES, ext=True, prefetch=True)
        self.host.make_port().connect(self.block)

    async def start(self, payload=512, read=512):
        """Enumerates the function, and enables memory and bus mastering."""
        await self.host.enumerate()
        self.function = self.host.find_device(self.block.functions[0].pcie_id)
        await self.function.enable_device()
        await self.function.set_master()
        await self.function.set_mps(SIZES[payload])
        await self.function.set_readrq(SIZES[read])
        # As a driver of the card would read it from Device Control.
        capability = self.block.functions[0].pcie_cap
        self.dut.cfg_ext_tag.value = int(capability.extended_tag_field_enable)
        self.bar0 = self.function.bar_window[0]
        self.bar2 = self.function.bar_window[2]
