// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// The card with its PCIe endpoint: everything between AMD's PCIe hard block and the MAC. Wiring.
//
// Ports: rq_*, rc_*, cq_*, cc_*, sequence_*, cfg_* and flr_* connect to the hard block, as in
// pcie_endpoint; bus_master, msix_enable and msix_mask are bits of the function in configuration
// space. The others are ports of `card`. `quiet` includes the endpoint. `doorbell_room`: a doorbell
// would not wait. A simulated host rings only then, because it reads registers while it serves no DMA.
module pcie_card #(
    parameter int LOG_TIMEOUT = 23         // of the requester: below 100 ms, so that an FLR ends in time
) (
    input  logic         clk,
    input  logic         rst,
    input  logic [63:0]  now_ns,
    input  logic [63:0]  timer_ns,
    input  logic [47:0]  mac,
    input  logic         link_up,
    input  logic [23:8]  qpn_base,
    output logic         resetting,
    input  logic         fail_injected,
    input  logic         hang_commands,
    output logic         quiet,
    output logic         stopped,
    output logic         deadline_valid,
    output logic [63:0]  deadline_ns,
    output logic         timer_deadline_valid,
    output logic [63:0]  timer_deadline_ns,
    output logic         doorbell_room,

    output logic         rq_valid,
    input  logic         rq_ready,
    output logic [511:0] rq_data,
    output logic [15:0]  rq_keep,
    output logic         rq_last,
    output logic [136:0] rq_user,
    input  logic [1:0]   sequence_valid,
    input  logic [5:0]   sequence_0,
    input  logic [5:0]   sequence_1,
    input  logic         rc_valid,
    output logic         rc_ready,
    input  logic [511:0] rc_data,
    input  logic [160:0] rc_user,
    input  logic         cq_valid,
    output logic         cq_ready,
    input  logic [511:0] cq_data,
    input  logic         cq_last,
    input  logic [182:0] cq_user,
    output logic [1:0]   cq_np_req,
    output logic         cc_valid,
    input  logic         cc_ready,
    output logic [511:0] cc_data,
    output logic [15:0]  cc_keep,
    output logic         cc_last,
    output logic [80:0]  cc_user,
    input  logic [1:0]   cfg_max_payload,
    input  logic [2:0]   cfg_max_read_req,
    input  logic         cfg_ext_tag,
    input  logic         bus_master,
    input  logic         msix_enable,
    input  logic         msix_mask,
    input  logic         flr_in_process,
    output logic         flr_done,

    output logic         tx_valid,
    input  logic         tx_ready,
    output logic [511:0] tx_data,
    output logic [6:0]   tx_bytes,
    output logic         tx_last,
    input  logic         rx_valid,
    input  logic [511:0] rx_data,
    input  logic [6:0]   rx_bytes,
    input  logic         rx_last,
    input  logic         rx_error,
    output logic         rx_room,

    output logic         gid_valid,
    output logic [card_pkg::LOG_GIDS-1:0] gid_index,
    output logic [127:0] gid,
    output logic         begins_valid,
    output logic [23:0]  begins_qpn,
    output logic         gsi_is_open
);
    logic         function_reset, endpoint_idle, card_quiet;
    logic         write_valid, write_wide, read_valid, read_wide, doorbell_valid, doorbell_ready;
    logic [13:0]  write_at, read_at;
    logic [63:0]  write_data, read_data, doorbell_value;
    logic [18:0]  doorbell_slot;
    logic         dma_read_valid, dma_read_ready, dma_line_valid, dma_line_error, dma_write_valid, dma_write_ready;
    logic [63:0]  dma_read_iova, dma_write_iova, dma_write_strobe;
    logic [card_pkg::TAG_BITS-1:0] dma_read_tag, dma_line_tag;
    logic [511:0] dma_line, dma_write_line;

    pcie_endpoint #(.LOG_TIMEOUT(LOG_TIMEOUT)) endpoint (
        .clk, .rst, .rq_valid, .rq_ready, .rq_data, .rq_keep, .rq_last, .rq_user, .sequence_valid, .sequence_0,
        .sequence_1, .rc_valid, .rc_ready, .rc_data, .rc_user, .cq_valid, .cq_ready, .cq_data, .cq_last, .cq_user,
        .cq_np_req, .cc_valid, .cc_ready, .cc_data, .cc_keep, .cc_last, .cc_user, .cfg_max_payload,
        .cfg_max_read_req, .cfg_ext_tag, .bus_master, .flr_in_process, .flr_done, .idle(endpoint_idle),
        .function_reset, .resetting, .write_valid, .write_wide, .write_at, .write_data, .read_valid, .read_wide,
        .read_at, .read_data, .doorbell_valid, .doorbell_ready, .doorbell_slot, .doorbell_value, .dma_read_valid,
        .dma_read_ready, .dma_read_iova, .dma_read_tag, .dma_line_valid, .dma_line_error, .dma_line_tag, .dma_line,
        .dma_write_valid, .dma_write_ready, .dma_write_iova, .dma_write_line, .dma_write_strobe
    );
    assign doorbell_room = doorbell_ready;
    assign quiet = card_quiet && endpoint_idle && !flr_in_process;

    /* verilator lint_off PINCONNECTEMPTY */   // messages leave as writes
    card card0 (
        .clk, .rst, .now_ns, .timer_ns, .mac, .link_up, .qpn_base, .function_reset, .msix_disabled(!msix_enable),
        .msix_masked(msix_mask), .resetting, .fail_injected, .hang_commands, .quiet(card_quiet), .stopped,
        .deadline_valid, .deadline_ns, .timer_deadline_valid, .timer_deadline_ns, .write_valid, .write_wide,
        .write_at, .write_data, .read_valid, .read_wide, .read_at, .read_data, .doorbell_valid, .doorbell_ready,
        .doorbell_slot, .doorbell_value, .dma_read_valid, .dma_read_ready, .dma_read_iova, .dma_read_tag,
        .dma_line_valid, .dma_line_error, .dma_line_tag, .dma_line, .dma_write_valid, .dma_write_ready,
        .dma_write_error(1'b0), .dma_write_iova, .dma_write_line, .dma_write_strobe, .dma_write_message(),
        .dma_write_vector(), .tx_valid, .tx_ready, .tx_data, .tx_bytes, .tx_last, .rx_valid, .rx_data, .rx_bytes,
        .rx_last, .rx_error, .rx_room, .gid_valid, .gid_index, .gid, .begins_valid, .begins_qpn, .gsi_is_open
    );
    /* verilator lint_on PINCONNECTEMPTY */
endmodule

`default_nettype wire
