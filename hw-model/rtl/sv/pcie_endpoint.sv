// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Everything between the card and AMD's PCIe hard block: requester, completer, function-level reset.
// Wiring.
//
// Ports: rq_*, rc_*, cq_*, cc_*, sequence_*, cfg_* and flr_* connect to the hard block (pcie_requester,
// pcie_completer, pcie_function_reset), the others to `card`. `idle`: no request or completion is
// inside, and no read is outstanding.
module pcie_endpoint #(
    parameter int LOG_TAGS = 8,
    parameter int LOG_TIMEOUT = 23         // of the requester: below 100 ms, so that an FLR ends in time
) (
    input  logic         clk,
    input  logic         rst,

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
    input  logic         flr_in_process,
    output logic         flr_done,
    output logic         idle,

    output logic         function_reset,
    input  logic         resetting,
    output logic         write_valid,
    output logic         write_wide,
    output logic [13:0]  write_at,
    output logic [63:0]  write_data,
    output logic         read_valid,
    output logic         read_wide,
    output logic [13:0]  read_at,
    input  logic [63:0]  read_data,
    output logic         doorbell_valid,
    input  logic         doorbell_ready,
    output logic [18:0]  doorbell_slot,
    output logic [63:0]  doorbell_value,
    input  logic         dma_read_valid,
    output logic         dma_read_ready,
    input  logic [63:0]  dma_read_iova,
    input  logic [card_pkg::TAG_BITS-1:0] dma_read_tag,
    output logic         dma_line_valid,
    output logic         dma_line_error,
    output logic [card_pkg::TAG_BITS-1:0] dma_line_tag,
    output logic [511:0] dma_line,
    input  logic         dma_write_valid,
    output logic         dma_write_ready,
    input  logic [63:0]  dma_write_iova,
    input  logic [511:0] dma_write_line,
    input  logic [63:0]  dma_write_strobe
);
    localparam int COUNT_BITS = 12;
    logic [COUNT_BITS-1:0] written, passed;
    logic                  requester_idle, completer_idle;

    pcie_requester #(.LOG_TAGS(LOG_TAGS), .LOG_TIMEOUT(LOG_TIMEOUT), .COUNT_BITS(COUNT_BITS)) requester (
        .clk, .rst, .cfg_max_payload, .cfg_max_read_req, .cfg_ext_tag, .bus_master, .dma_read_valid, .dma_read_ready,
        .dma_read_iova, .dma_read_tag, .dma_line_valid, .dma_line_error, .dma_line_tag, .dma_line, .dma_write_valid,
        .dma_write_ready, .dma_write_iova, .dma_write_line, .dma_write_strobe, .rq_valid, .rq_ready, .rq_data, .rq_keep,
        .rq_last, .rq_user, .sequence_valid, .sequence_0, .sequence_1, .rc_valid, .rc_ready, .rc_data, .rc_user,
        .written, .passed, .idle(requester_idle)
    );
    pcie_completer #(.COUNT_BITS(COUNT_BITS)) completer (
        .clk, .rst, .cq_valid, .cq_ready, .cq_data, .cq_last, .cq_user, .cq_np_req, .cc_valid, .cc_ready, .cc_data,
        .cc_keep, .cc_last, .cc_user, .write_valid, .write_wide, .write_at, .write_data, .read_valid, .read_wide,
        .read_at, .read_data, .doorbell_valid, .doorbell_ready, .doorbell_slot, .doorbell_value, .written, .passed,
        .idle(completer_idle)
    );
    pcie_function_reset resets (
        .clk, .rst, .in_process(flr_in_process), .done(flr_done), .function_reset, .resetting,
        .idle
    );
    assign idle = requester_idle && completer_idle;
endmodule

`default_nettype wire
