// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// The receive side of all QPs, and the changes that each step of request_engine makes to the current
// QP's.
//
// Ports: the context of `chosen_qp` is read in the step IDLE and is `c` from LOAD on; it is written with
// `saves` at the end of a job, and in the step CLEAR. `clear_valid` makes response_engine forget the QP, too.
// `lacks_receive`: a packet needs a receive WQE and has none. Other ports: as in request_engine.
// Invariant: an abandoned job (a FORGET that has to wait) changes nothing.
module request_context (
    input  logic                     clk,
    input  card_pkg::request_step_t  step,
    input  logic                     saves,
    input  logic [7:0]               chosen_qp,
    input  logic [7:0]               job_qp,
    input  card_pkg::rx_packet_t     p,        // only parts of these are kept
    input  card_pkg::qp_t            q,
    input  card_pkg::request_kind_t  kind,
    input  card_pkg::control_t       control,
    input  logic                     may_forget,
    input  logic [31:0]              rung,
    input  logic                     is_flushed,
    input  logic                     is_expected,
    input  logic                     is_ahead,
    input  logic                     raises,
    input  logic                     event_ready,
    input  logic                     lacks_receive,
    input  logic                     is_checked,      // in the step CHECK: the packet passes
    input  logic                     fetch_ready,
    input  logic                     fetch_error,
    input  logic [31:0]              fetch_capacity,
    input  logic                     placed,
    input  logic [4:0]               next_number,
    input  logic [31:0]              next_offset,
    input  logic                     answers,
    input  logic                     reads,
    input  logic                     repeats,

    output card_pkg::receive_state_t c,
    output logic                     clear_valid,
    output logic                     doorbell_error,
    output logic                     count_receive_wqe
);
    wire unused_inputs = &{1'b0, p, q, kind, control};
    localparam int QPS = 1 << card_pkg::LOG_QPS;
    localparam int CONTEXT_BITS = 6 + 24 + 24 + 32 + 64 + 32 + 32 + 5 + 32 + 32 + 32 + 17 + 5;

    logic [CONTEXT_BITS-1:0] contexts [QPS];
    logic [CONTEXT_BITS-1:0] loaded;
    always_ff @(posedge clk) begin
        if (saves) contexts[job_qp] <= step == card_pkg::AT_CLEAR ? '0 : c;
    end
    always_ff @(posedge clk) loaded <= contexts[chosen_qp];

    // A doorbell may only advance, by at most the size of the ring.
    logic [31:0] ahead, ahead_before, ring_blocks, payload;
    logic        is_doorbell_wrong;
    assign ahead = rung - c.consumer;
    assign ahead_before = c.producer - c.consumer;
    assign ring_blocks = 32'd1 << q.log_receives;
    assign is_doorbell_wrong = !q.exists || q.state == ferroce_pkg::QP_STATE_CODE_RESET[2:0]
        || ahead > ring_blocks || ahead < ahead_before;
    assign payload = {19'd0, p.payload_bytes};

    always_ff @(posedge clk) begin
        doorbell_error <= step == card_pkg::AT_DOORBELL && is_doorbell_wrong;
        count_receive_wqe <= 1'b0;
        clear_valid <= step == card_pkg::AT_CLEAR;
        if (answers) c.answers <= c.answers + 1'b1;
        if (reads) c.reads <= c.reads + 1'b1;
        if (repeats) c.repeats <= !c.repeats;
        case (step)
            card_pkg::AT_LOAD: c <= loaded;

            // ------------------------------------------------------------------------- other jobs
            card_pkg::AT_CONTROL: begin
                if (control.op == card_pkg::CONTROL_START || (control.op == card_pkg::CONTROL_FORGET && may_forget)) begin
                    clear_valid <= 1'b1;
                    c <= '0;
                    {c.answers, c.reads, c.repeats} <= {c.answers, c.reads, c.repeats};
                end
                if (control.op == card_pkg::CONTROL_START) begin
                    {c.producer, c.consumer} <= {c.producer, c.consumer};
                    c.expected <= control.psn;
                end
            end
            card_pkg::AT_DOORBELL: if (!is_doorbell_wrong) c.producer <= rung;
            card_pkg::AT_FLUSH: begin
                {c.in_send, c.in_write, c.receive_used} <= '0;
                if (!is_flushed && !c.receive_used) c.consumer <= c.consumer + 32'd1;
            end

            // ---------------------------------------------------------------------------- packets
            card_pkg::AT_PSN: if (!c.failed) begin
                if (is_ahead) c.awaiting <= 1'b1;
                if (is_expected) c.awaiting <= 1'b0;
            end
            card_pkg::AT_ESTABLISH: if (raises && event_ready) c.established <= 1'b1;
            card_pkg::AT_CHECK: begin
                if (kind.starts) {c.number, c.offset} <= '0;
                if (lacks_receive) c.awaiting <= 1'b1;
                // A receive WQE that was too small for a datagram is still in use.
                if (is_checked && kind.takes_receive && !c.receive_used) begin
                    c.receive_used <= 1'b1;
                    c.consumer <= c.consumer + 32'd1;
                    count_receive_wqe <= kind.has_immediate && kind.is_write;
                end
            end
            card_pkg::AT_FETCH: if (fetch_ready) begin
                c.rest <= fetch_capacity;
                count_receive_wqe <= !fetch_error;
                if (fetch_error) begin
                    // It was not taken: it is flushed like the others, and the event reports the
                    // error.
                    c.receive_used <= 1'b0;
                    c.consumer <= c.consumer - 32'd1;
                end
            end
            card_pkg::AT_LENGTH: begin
                if (kind.starts && kind.is_write) {c.key, c.address, c.rest} <= {p.r_key, p.address, p.length};
            end
            card_pkg::AT_EXECUTE: if (kind.is_read || kind.is_atomic) begin
                if (c.saved != 5'(card_pkg::MAX_RD_ATOMIC)) c.saved <= c.saved + 5'd1;
                c.expected <= c.expected + kind.packets;
                c.msn <= c.msn + 24'd1;
            end
            card_pkg::AT_PLACE: if (placed) {c.number, c.offset} <= {next_number, next_offset};
            card_pkg::AT_EXECUTED: begin
                if (!kind.invalidates && !q.is_datagram) c.expected <= c.expected + 24'd1;
                c.so_far <= kind.ends ? '0 : c.so_far + payload;
                c.rest <= c.rest - payload;
                c.address <= c.address + {32'd0, payload};
                c.in_send <= kind.is_send && !kind.ends;
                c.in_write <= kind.is_write && !kind.ends;
                if (kind.ends && !kind.invalidates && !q.is_datagram) c.msn <= c.msn + 24'd1;
                c.receive_used <= c.receive_used && !kind.ends;
                // A region cannot be invalidated by a peer (IBTA vol 1, 9.9.3, class J).
                c.failed <= kind.invalidates;
            end
            card_pkg::AT_REFUSE: begin
                c.failed <= 1'b1;
                {c.in_send, c.in_write, c.receive_used} <= '0;
            end
            default: ;
        endcase
    end
endmodule

`default_nettype wire
