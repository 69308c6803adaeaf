// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// The card on an Alveo-class board (U250, U55C): PCIe gen3 x16 and one 100G port. An example: lint
// checks it, but no vendor tool has built it. Pins, clocks and placement are in the board's
// constraints.
//
// Ports: named as in the boards' master constraint files. The card runs at PCIe's user clock of 250
// MHz; frame_crossing leads to the clock of the MAC. `init_clk` is a free-running clock below 125 MHz.
module alveo_top #(
    parameter logic [47:0] MAC = 48'h02_00_00_00_00_01     // of the board's memory, in a product
) (
    input  logic        pcie_refclk_p,
    input  logic        pcie_refclk_n,
    input  logic        pcie_perstn,
    input  logic [15:0] pcie_rxp,
    input  logic [15:0] pcie_rxn,
    output logic [15:0] pcie_txp,
    output logic [15:0] pcie_txn,
    input  logic        init_clk,
    input  logic        qsfp0_refclk_p,
    input  logic        qsfp0_refclk_n,
    input  logic [3:0]  qsfp0_rxp,
    input  logic [3:0]  qsfp0_rxn,
    output logic [3:0]  qsfp0_txp,
    output logic [3:0]  qsfp0_txn
);
    // ------------------------------------------------------------------------------------------ PCIe
    logic         sys_clk, sys_clk_gt, clk, pcie_up;
    /* verilator lint_off SYNCASYNCNET */   // frame_crossing also takes it without a clock
    logic         rst;
    /* verilator lint_on SYNCASYNCNET */
    logic         rq_valid, rq_ready, rq_last, rc_valid, rc_ready, rc_last;
    logic         cq_valid, cq_ready, cq_last, cc_valid, cc_ready, cc_last;
    logic [511:0] rq_data, rc_data, cq_data, cc_data;
    logic [15:0]  rq_keep, cc_keep, function_status;
    logic [5:0]   sequence_0, sequence_1;
    logic [1:0]   sequence_valid, cq_np_req, max_payload;
    logic [2:0]   max_read_req;
    logic [3:0]   flr_in_process, msix_enable, msix_mask;
    logic         flr_done;
    logic [136:0] rq_user;
    logic [160:0] rc_user;
    logic [182:0] cq_user;
    logic [80:0]  cc_user;
    IBUFDS_GTE4 refclk (.I(pcie_refclk_p), .IB(pcie_refclk_n), .CEB(1'b0), .O(sys_clk_gt), .ODIV2(sys_clk));
    pcie4_uscale_plus_0 pcie (
        .sys_clk, .sys_clk_gt, .sys_reset(pcie_perstn), .pci_exp_rxp(pcie_rxp), .pci_exp_rxn(pcie_rxn),
        .pci_exp_txp(pcie_txp), .pci_exp_txn(pcie_txn), .user_clk(clk), .user_reset(rst), .user_lnk_up(pcie_up),
        .s_axis_rq_tdata(rq_data), .s_axis_rq_tkeep(rq_keep), .s_axis_rq_tlast(rq_last), .s_axis_rq_tuser(rq_user),
        .s_axis_rq_tvalid(rq_valid), .s_axis_rq_tready(rq_ready), .m_axis_rc_tdata(rc_data),
        .m_axis_rc_tlast(rc_last), .m_axis_rc_tuser(rc_user), .m_axis_rc_tvalid(rc_valid),
        .m_axis_rc_tready(rc_ready), .m_axis_cq_tdata(cq_data), .m_axis_cq_tlast(cq_last), .m_axis_cq_tuser(cq_user),
        .m_axis_cq_tvalid(cq_valid), .m_axis_cq_tready(cq_ready), .s_axis_cc_tdata(cc_data),
        .s_axis_cc_tkeep(cc_keep), .s_axis_cc_tlast(cc_last), .s_axis_cc_tuser(cc_user), .s_axis_cc_tvalid(cc_valid),
        .s_axis_cc_tready(cc_ready), .pcie_rq_seq_num0(sequence_0), .pcie_rq_seq_num1(sequence_1),
        .pcie_rq_seq_num_vld0(sequence_valid[0]), .pcie_rq_seq_num_vld1(sequence_valid[1]), .pcie_cq_np_req(cq_np_req),
        .cfg_max_payload(max_payload), .cfg_max_read_req(max_read_req), .cfg_function_status(function_status),
        .cfg_flr_in_process(flr_in_process), .cfg_flr_done({3'b0, flr_done}), .cfg_interrupt_msix_enable(msix_enable),
        .cfg_interrupt_msix_mask(msix_mask)
    );
    wire unused_outputs = &{1'b0, rc_last, function_status, flr_in_process, msix_enable, msix_mask};

    // ------------------------------------------------------------------------------------------ time
    localparam logic [63:0] CYCLE_NS = 64'd4;
    logic [63:0] now_ns;
    always_ff @(posedge clk) now_ns <= rst ? '0 : now_ns + CYCLE_NS;
    logic mac_aligned, link_meta, link_up;
    always_ff @(posedge clk) {link_up, link_meta} <= {link_meta, mac_aligned};

    // ------------------------------------------------------------------------------------------ card
    logic         tx_valid, tx_ready, tx_last, rx_valid, rx_last, rx_error;
    logic [511:0] tx_data, rx_data;
    logic [6:0]   tx_bytes, rx_bytes;
    logic         resetting;
    // Extended tags: the block's capability is on, and hosts of gen3 x16 slots enable them; a host that
    // does not needs `cfg_ext_tag` from the Device Control register (cfg_mgmt).
    /* verilator lint_off PINCONNECTEMPTY */   // outputs for simulations only
    pcie_card card0 (
        .clk, .rst(rst || !pcie_up), .now_ns, .timer_ns(now_ns), .mac(MAC), .link_up, .qpn_base('0), .resetting,
        .fail_injected(1'b0), .hang_commands(1'b0), .quiet(), .stopped(), .deadline_valid(), .deadline_ns(),
        .timer_deadline_valid(), .timer_deadline_ns(), .doorbell_room(), .rq_valid, .rq_ready, .rq_data, .rq_keep,
        .rq_last, .rq_user, .sequence_valid, .sequence_0, .sequence_1, .rc_valid, .rc_ready, .rc_data, .rc_user,
        .cq_valid, .cq_ready, .cq_data, .cq_last, .cq_user, .cq_np_req, .cc_valid, .cc_ready, .cc_data, .cc_keep,
        .cc_last, .cc_user, .cfg_max_payload(max_payload), .cfg_max_read_req(max_read_req), .cfg_ext_tag(1'b1),
        .bus_master(function_status[2]), .msix_enable(msix_enable[0]), .msix_mask(msix_mask[0]),
        .flr_in_process(flr_in_process[0]), .flr_done, .tx_valid, .tx_ready, .tx_data, .tx_bytes, .tx_last, .rx_valid,
        .rx_data, .rx_bytes, .rx_last, .rx_error, .rx_room(), .gid_valid(), .gid_index(), .gid(), .begins_valid(),
        .begins_qpn(), .gsi_is_open()
    );
    /* verilator lint_on PINCONNECTEMPTY */

    // ------------------------------------------------------------------------------------------- MAC
    logic         mac_clk, mac_tx_reset, mac_rx_reset;
    logic         mac_tx_valid, mac_tx_ready, mac_tx_last, mac_rx_valid, mac_rx_last, mac_rx_error;
    logic [511:0] mac_tx_data, mac_rx_data;
    logic [63:0]  mac_tx_keep, mac_rx_keep;
    logic [6:0]   mac_tx_bytes, mac_rx_bytes;
    assign mac_tx_keep = 64'hffff_ffff_ffff_ffff >> (7'd64 - mac_tx_bytes);
    always_comb begin
        mac_rx_bytes = '0;
        for (int n = 0; n < 64; n++) if (mac_rx_keep[n]) mac_rx_bytes = 7'(n + 1);
    end
    cmac_usplus_0 cmac (
        .gt_ref_clk_p(qsfp0_refclk_p), .gt_ref_clk_n(qsfp0_refclk_n), .init_clk, .sys_reset(rst),
        .gt_rxp_in(qsfp0_rxp), .gt_rxn_in(qsfp0_rxn), .gt_txp_out(qsfp0_txp), .gt_txn_out(qsfp0_txn),
        .gt_txusrclk2(mac_clk), .usr_tx_reset(mac_tx_reset), .usr_rx_reset(mac_rx_reset),
        .stat_rx_aligned(mac_aligned), .tx_axis_tdata(mac_tx_data), .tx_axis_tkeep(mac_tx_keep),
        .tx_axis_tlast(mac_tx_last), .tx_axis_tvalid(mac_tx_valid && !mac_tx_reset), .tx_axis_tready(mac_tx_ready),
        .tx_axis_tuser(1'b0),
        .rx_axis_tdata(mac_rx_data), .rx_axis_tkeep(mac_rx_keep), .rx_axis_tlast(mac_rx_last),
        .rx_axis_tuser(mac_rx_error), .rx_axis_tvalid(mac_rx_valid)
    );
    // A card that stops with a fatal error may leave a frame unfinished: its reset drops that.
    frame_crossing #(.BITS(7 + 512)) tx_frames (
        .rst, .s_clk(clk), .s_drop(resetting), .s_valid(tx_valid), .s_ready(tx_ready), .s_data({tx_bytes, tx_data}),
        .s_last(tx_last), .m_clk(mac_clk), .m_valid(mac_tx_valid), .m_ready(mac_tx_ready && !mac_tx_reset),
        .m_data({mac_tx_bytes, mac_tx_data}), .m_last(mac_tx_last)
    );
    // The card takes each beat, but frames of 65 to 75 bytes have two beats: a stream of them alone is
    // faster than the card's clock.
    /* verilator lint_off PINCONNECTEMPTY */   // the MAC does not wait
    frame_crossing #(.BITS(1 + 7 + 512), .WAITS(1'b0)) rx_frames (
        .rst, .s_clk(mac_clk), .s_drop(mac_rx_reset), .s_valid(mac_rx_valid), .s_ready(),
        .s_data({mac_rx_error, mac_rx_bytes, mac_rx_data}), .s_last(mac_rx_last), .m_clk(clk), .m_valid(rx_valid),
        .m_ready(1'b1), .m_data({rx_error, rx_bytes, rx_data}), .m_last(rx_last)
    );
    /* verilator lint_on PINCONNECTEMPTY */
endmodule

`default_nettype wire
