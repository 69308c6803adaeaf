// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Chooses the next job of request_engine, and reads its data: packets take turns with doorbells,
// commands and the flush of receive WQEs in ERR.
//
// Ports: packet_*, doorbell_*, control_*, wake_* are ports of request_engine; `qp` is the answer of
// qp_table in the step LOOKED. `takes_packet` or `takes_other` begins a job of QP `chosen_qp` in the
// step IDLE. job, `job_qp`, `p`, `q` and `rung` hold until the next one. `is_flushed`: in the step
// FLUSH, the QP has nothing to be flushed.
// Invariant: of the kinds other than packets, each waits for at most two jobs of other kinds.
module receive_jobs (
    input  logic                     clk,
    input  logic                     rst,
    input  card_pkg::request_step_t  step,

    input  logic                     packet_valid,
    input  card_pkg::rx_packet_t     packet,
    input  card_pkg::qp_t            packet_qp,
    input  logic                     doorbell_valid,
    output logic                     doorbell_ready,
    input  card_pkg::doorbell_t      doorbell,
    input  logic                     control_valid,
    input  logic [7:0]               control_qp,
    input  logic                     wake_valid,
    input  logic [7:0]               wake_qp,
    input  card_pkg::qp_t            qp,
    input  logic                     is_flushed,

    output logic                     takes_packet,
    output logic                     takes_other,
    output logic [7:0]               chosen_qp,
    output card_pkg::receive_job_t   job,
    output logic [7:0]               job_qp,
    output card_pkg::rx_packet_t     p,
    output card_pkg::qp_t            q,
    output logic [31:0]              rung,       // a doorbell's index
    output logic                     in_error,   // QP `q`
    output logic                     idle
);
    localparam int QPS = 1 << card_pkg::LOG_QPS;

    // --------------------------------------------------------------------------------- the next job
    logic [QPS-1:0] flush_pending;
    logic [7:0]     scan;
    logic           was_packet, takes_doorbell, takes_control, flush_found, waits;
    logic [1:0]     turn;                  // the kind with priority among the others
    assign flush_found = flush_pending[scan];
    assign waits = doorbell_valid || control_valid || flush_found;
    assign takes_packet = packet_valid && !(was_packet && waits);
    assign takes_other = !takes_packet && waits;
    always_comb begin
        takes_doorbell = doorbell_valid && (turn == 2'd0 || (!flush_found && (turn == 2'd2 || !control_valid)));
        takes_control = control_valid && !takes_doorbell && (turn != 2'd2 || !flush_found);
        if (takes_packet) chosen_qp = packet.dest_qpn[7:0];
        else if (takes_doorbell) chosen_qp = doorbell.qp;
        else if (takes_control) chosen_qp = control_qp;
        else chosen_qp = scan;
    end
    assign doorbell_ready = step == card_pkg::AT_IDLE && takes_other && takes_doorbell;
    assign idle = !packet_valid && !waits && flush_pending == '0 && !wake_valid;

    always_ff @(posedge clk) begin
        if (step == card_pkg::AT_IDLE) begin
            if (takes_packet || takes_other) was_packet <= takes_packet;
            if (takes_other) turn <= takes_doorbell ? 2'd1 : takes_control ? 2'd2 : 2'd0;
            if (!flush_found) scan <= scan + {7'd0, flush_pending != '0};
        end
        if (rst) {scan, was_packet, turn} <= '0;
    end

    // ----------------------------------------------------------------------------- what it is about
    always_ff @(posedge clk) begin
        case (step)
            card_pkg::AT_CLEAR: job_qp <= job_qp + 1'b1;
            card_pkg::AT_IDLE: begin
                job_qp <= chosen_qp;
                rung <= doorbell.index;
                if (takes_packet) begin
                    p <= packet;
                    q <= packet_qp;
                    job <= card_pkg::JOB_PACKET;
                end else if (takes_doorbell) job <= card_pkg::JOB_DOORBELL;
                else job <= takes_control ? card_pkg::JOB_CONTROL : card_pkg::JOB_FLUSH;
            end
            card_pkg::AT_LOOKED: q <= qp;
            default: ;
        endcase
        if (rst) job_qp <= '0;
    end

    // ------------------------------------------------------------- QPs whose receive WQEs are flushed
    assign in_error = q.exists && q.state == ferroce_pkg::QP_STATE_CODE_ERR[2:0];
    always_ff @(posedge clk) begin
        if (step == card_pkg::AT_FLUSH && is_flushed) flush_pending[job_qp] <= 1'b0;
        if (step == card_pkg::AT_DOORBELL && in_error) flush_pending[job_qp] <= 1'b1;
        if (wake_valid) flush_pending[wake_qp] <= 1'b1;
        if (rst) flush_pending <= '0;
    end
endmodule

`default_nettype wire
