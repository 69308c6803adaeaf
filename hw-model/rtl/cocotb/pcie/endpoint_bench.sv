// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// pcie_endpoint with the port names that cocotbext-pcie's model of the hard block wants; the test is the
// card. The signals are no ports, because Verilator 5.006 overwrites what VPI writes to a port of the
// top module.
module endpoint_bench;
    logic         clk;
    logic         rst;
    logic [511:0] rq_tdata;
    logic [15:0]  rq_tkeep;
    logic         rq_tlast;
    logic [136:0] rq_tuser;
    logic         rq_tvalid;
    logic         rq_tready;
    logic [5:0]   sequence_0;
    logic [5:0]   sequence_1;
    logic         sequence_valid_0;
    logic         sequence_valid_1;
    logic [511:0] rc_tdata;
    logic [15:0]  rc_tkeep;
    logic         rc_tlast;
    logic [160:0] rc_tuser;
    logic         rc_tvalid;
    logic         rc_tready;
    logic [511:0] cq_tdata;
    logic [15:0]  cq_tkeep;
    logic         cq_tlast;
    logic [182:0] cq_tuser;
    logic         cq_tvalid;
    logic         cq_tready;
    logic [1:0]   cq_np_req;
    logic [511:0] cc_tdata;
    logic [15:0]  cc_tkeep;
    logic         cc_tlast;
    logic [80:0]  cc_tuser;
    logic         cc_tvalid;
    logic         cc_tready;
    logic [1:0]   cfg_max_payload;
    logic [2:0]   cfg_max_read_req;
    logic [15:0]  cfg_function_status;
    logic         cfg_ext_tag;
    logic [3:0]   cfg_flr_in_process;
    logic [3:0]   cfg_flr_done;
    logic         function_reset;
    logic         resetting;
    logic         write_valid;
    logic         write_wide;
    logic [13:0]  write_at;
    logic [63:0]  write_data;
    logic         read_valid;
    logic         read_wide;
    logic [13:0]  read_at;
    logic [63:0]  read_data;
    logic         doorbell_valid;
    logic         doorbell_ready;
    logic [18:0]  doorbell_slot;
    logic [63:0]  doorbell_value;
    logic         dma_read_valid;
    logic         dma_read_ready;
    logic [63:0]  dma_read_iova;
    logic [card_pkg::TAG_BITS-1:0] dma_read_tag;
    logic         dma_line_valid;
    logic         dma_line_error;
    logic [card_pkg::TAG_BITS-1:0] dma_line_tag;
    logic [511:0] dma_line;
    logic         dma_write_valid;
    logic         dma_write_ready;
    logic [63:0]  dma_write_iova;
    logic [511:0] dma_write_line;
    logic [63:0]  dma_write_strobe;
    wire unused_inputs = &{1'b0, rc_tkeep, rc_tlast, cq_tkeep, cfg_function_status, cfg_flr_in_process};
    assign cfg_flr_done[3:1] = '0;
    // A short time-out: the model reports none.
    pcie_endpoint #(.LOG_TIMEOUT(13)) endpoint (
        .clk, .rst, .rq_valid(rq_tvalid), .rq_ready(rq_tready), .rq_data(rq_tdata), .rq_keep(rq_tkeep),
        .rq_last(rq_tlast), .rq_user(rq_tuser), .sequence_valid({sequence_valid_1, sequence_valid_0}), .sequence_0,
        .sequence_1, .rc_valid(rc_tvalid), .rc_ready(rc_tready), .rc_data(rc_tdata), .rc_user(rc_tuser),
        .cq_valid(cq_tvalid), .cq_ready(cq_tready), .cq_data(cq_tdata), .cq_last(cq_tlast), .cq_user(cq_tuser),
        .cq_np_req, .cc_valid(cc_tvalid), .cc_ready(cc_tready), .cc_data(cc_tdata), .cc_keep(cc_tkeep),
        .cc_last(cc_tlast), .cc_user(cc_tuser), .cfg_max_payload, .cfg_max_read_req, .cfg_ext_tag,
        .bus_master(cfg_function_status[2]), .flr_in_process(cfg_flr_in_process[0]), .flr_done(cfg_flr_done[0]), .idle(),
        .function_reset, .resetting, .write_valid, .write_wide, .write_at, .write_data, .read_valid, .read_wide,
        .read_at, .read_data, .doorbell_valid, .doorbell_ready, .doorbell_slot, .doorbell_value, .dma_read_valid,
        .dma_read_ready, .dma_read_iova, .dma_read_tag, .dma_line_valid, .dma_line_error, .dma_line_tag, .dma_line,
        .dma_write_valid, .dma_write_ready, .dma_write_iova, .dma_write_line, .dma_write_strobe
    );
endmodule

`default_nettype wire
