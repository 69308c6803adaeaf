// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// For lint only: the ports of the vendor's blocks on an Alveo-class board, as alveo_top uses them.
// The vendor's IP gets these names when it is generated in the board's project.
/* verilator lint_off DECLFILENAME */   // several modules in a file
/* verilator lint_off UNUSEDSIGNAL */   // none of them has a body
/* verilator lint_off UNDRIVEN */

// UltraScale+ Integrated Block for PCI Express: 512 bits, 250 MHz, dword-aligned; straddling on RQ and
// RC (four TLPs), none on CQ and CC; client tags; one function with MSI-X in BAR0 ("external").
(* blackbox *)
module pcie4_uscale_plus_0 (
    input  logic         sys_clk,
    input  logic         sys_clk_gt,
    input  logic         sys_reset,
    input  logic [15:0]  pci_exp_rxp,
    input  logic [15:0]  pci_exp_rxn,
    output logic [15:0]  pci_exp_txp,
    output logic [15:0]  pci_exp_txn,
    output logic         user_clk,
    output logic         user_reset,
    output logic         user_lnk_up,
    input  logic [511:0] s_axis_rq_tdata,
    input  logic [15:0]  s_axis_rq_tkeep,
    input  logic         s_axis_rq_tlast,
    input  logic [136:0] s_axis_rq_tuser,
    input  logic         s_axis_rq_tvalid,
    output logic         s_axis_rq_tready,
    output logic [511:0] m_axis_rc_tdata,
    output logic         m_axis_rc_tlast,
    output logic [160:0] m_axis_rc_tuser,
    output logic         m_axis_rc_tvalid,
    input  logic         m_axis_rc_tready,
    output logic [5:0]   pcie_rq_seq_num0,
    output logic [5:0]   pcie_rq_seq_num1,
    output logic         pcie_rq_seq_num_vld0,
    output logic         pcie_rq_seq_num_vld1,
    output logic [511:0] m_axis_cq_tdata,
    output logic         m_axis_cq_tlast,
    output logic [182:0] m_axis_cq_tuser,
    output logic         m_axis_cq_tvalid,
    input  logic         m_axis_cq_tready,
    input  logic [1:0]   pcie_cq_np_req,
    input  logic [511:0] s_axis_cc_tdata,
    input  logic [15:0]  s_axis_cc_tkeep,
    input  logic         s_axis_cc_tlast,
    input  logic [80:0]  s_axis_cc_tuser,
    input  logic         s_axis_cc_tvalid,
    output logic         s_axis_cc_tready,
    output logic [1:0]   cfg_max_payload,
    output logic [2:0]   cfg_max_read_req,
    output logic [15:0]  cfg_function_status,
    output logic [3:0]   cfg_flr_in_process,
    input  logic [3:0]   cfg_flr_done,
    output logic [3:0]   cfg_interrupt_msix_enable,
    output logic [3:0]   cfg_interrupt_msix_mask
);
endmodule

// UltraScale+ 100G Ethernet with AXI4-Stream, 512 bits at 322.265625 MHz, FCS added and removed.
(* blackbox *)
module cmac_usplus_0 (
    input  logic         gt_ref_clk_p,
    input  logic         gt_ref_clk_n,
    input  logic         init_clk,
    input  logic         sys_reset,
    input  logic [3:0]   gt_rxp_in,
    input  logic [3:0]   gt_rxn_in,
    output logic [3:0]   gt_txp_out,
    output logic [3:0]   gt_txn_out,
    output logic         gt_txusrclk2,
    output logic         usr_tx_reset,
    output logic         usr_rx_reset,
    output logic         stat_rx_aligned,
    input  logic [511:0] tx_axis_tdata,
    input  logic [63:0]  tx_axis_tkeep,
    input  logic         tx_axis_tlast,
    input  logic         tx_axis_tvalid,
    output logic         tx_axis_tready,
    input  logic         tx_axis_tuser,        // the frame is broken off
    output logic [511:0] rx_axis_tdata,
    output logic [63:0]  rx_axis_tkeep,
    output logic         rx_axis_tlast,
    output logic         rx_axis_tuser,        // with the last beat: wrong FCS, or another damage
    output logic         rx_axis_tvalid
);
endmodule

(* blackbox *)
module IBUFDS_GTE4 (
    input  logic I,
    input  logic IB,
    input  logic CEB,
    output logic O,
    output logic ODIV2
);
endmodule

`default_nettype wire
