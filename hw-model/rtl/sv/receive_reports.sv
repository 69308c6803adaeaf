// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Reports the results of a job of request_engine to software: the completion of a receive WQE, an
// event, and the transition of the QP to ERR.
//
// Ports: `step`, and the data of the job. completion_* and event_* are handed over in the step FINISH
// (the event COMMUNICATION_ESTABLISHED in ESTABLISH). `fails`: with the end of the job the QP goes to
// ERR. `done`: everything is handed over.
// Invariant: an error is reported once, by a completion, or by an event if it has none.
module receive_reports (
    input  logic                     clk,
    input  card_pkg::request_step_t  step,
    input  card_pkg::refusal_t       refusal,
    input  logic [7:0]               job_qp,
    input  card_pkg::rx_packet_t     p,        // only parts of these four are reported
    input  card_pkg::qp_t            q,
    input  card_pkg::request_kind_t  kind,
    input  card_pkg::receive_state_t c,
    input  logic                     is_expected,
    input  logic                     is_flushed,
    input  logic [15:0]              frames_done,

    output logic                     completion_valid,
    input  logic                     completion_ready,
    output card_pkg::completion_t    completion,
    output logic                     event_valid,
    input  logic                     event_ready,
    output logic [7:0]               event_type,
    output logic                     raises,
    output logic                     fails,
    output logic                     done
);
    wire unused_inputs = &{1'b0, p, q, kind, c};
    logic        completes;
    logic [31:0] slot;                     // of the receive WQE that the message uses
    assign slot = c.consumer - 32'd1;
    assign completion_valid = step == card_pkg::AT_FINISH && completes;
    assign event_valid = raises && (step == card_pkg::AT_FINISH || step == card_pkg::AT_ESTABLISH);
    // A QP fails in the cycle after its reports.
    assign done = (!completes || (completion_ready && !fails)) && (!raises || (event_ready && !fails));

    always_ff @(posedge clk) begin
        case (step)
            card_pkg::AT_IDLE: {completes, raises, fails} <= '0;
            card_pkg::AT_FLUSH: if (!is_flushed) completes <= 1'b1;
            card_pkg::AT_PSN: begin
                if (!c.failed && is_expected)
                    raises <= !c.established && !q.is_datagram && q.state == ferroce_pkg::QP_STATE_CODE_RTR[2:0];
            end
            card_pkg::AT_ESTABLISH: if (event_ready) raises <= 1'b0;
            card_pkg::AT_EXECUTED: begin
                fails <= kind.invalidates;
                completes <= kind.ends && c.receive_used;
            end
            card_pkg::AT_REFUSE: begin
                fails <= 1'b1;
                completes <= c.receive_used;
                raises <= !c.receive_used;
            end
            card_pkg::AT_FINISH: begin
                if (completion_ready) completes <= 1'b0;
                if (event_ready) raises <= 1'b0;
            end
            default: ;
        endcase
    end

    // ------------------------------------------------------------------------------ the completion
    logic is_written_to;                   // by a WRITE with immediate data
    assign is_written_to = kind.has_immediate && kind.is_write && step == card_pkg::AT_EXECUTED;
    always_ff @(posedge clk) begin
        if (step == card_pkg::AT_FLUSH || step == card_pkg::AT_EXECUTED || step == card_pkg::AT_REFUSE) begin
            completion <= '0;
            completion.cqn <= q.receive_cqn;
            completion.qpn <= card_pkg::QPN_BASE | {16'd0, job_qp};
            completion.wqe_index <= step == card_pkg::AT_FLUSH && !c.receive_used ? c.consumer : slot;
            completion.opcode <= is_written_to ? ferroce_pkg::CQE_OPCODE_RECEIVE_RDMA_IMMEDIATE[7:0]
                                               : ferroce_pkg::CQE_OPCODE_RECEIVE[7:0];
            completion.frame <= step == card_pkg::AT_FLUSH ? frames_done : p.number;
        end
        if (step == card_pkg::AT_EXECUTED) begin
            completion.status <= ferroce_pkg::CQE_STATUS_SUCCESS[7:0];
            if (kind.invalidates) completion.status <= ferroce_pkg::CQE_STATUS_REMOTE_INVALID_REQUEST[7:0];
            else begin
                completion.byte_count <= c.so_far + {19'd0, p.payload_bytes};
                completion.immediate <= kind.has_immediate ? p.immediate : '0;
                completion.with_immediate <= kind.has_immediate;
                completion.solicited <= p.solicited;
                completion.source_qpn <= q.is_datagram ? p.address[23:0] : '0;
                completion.with_grh <= q.is_datagram;
                completion.is_ipv4 <= q.is_datagram && !p.is_v6;
            end
        end
        if (step == card_pkg::AT_FLUSH) completion.status <= ferroce_pkg::CQE_STATUS_WR_FLUSH[7:0];
        if (step == card_pkg::AT_REFUSE) begin
            case (refusal)
                card_pkg::REMOTE_ACCESS: completion.status <= ferroce_pkg::CQE_STATUS_LOCAL_ACCESS[7:0];
                card_pkg::RECEIVE_PROTECTION: completion.status <= ferroce_pkg::CQE_STATUS_LOCAL_PROTECTION[7:0];
                card_pkg::RECEIVE_TOO_SHORT: completion.status <= ferroce_pkg::CQE_STATUS_LOCAL_LENGTH[7:0];
                // An error of the queue itself: the WQE was not taken, and only the event reports it.
                card_pkg::RECEIVE_QUEUE: ;
                default: completion.status <= ferroce_pkg::CQE_STATUS_REMOTE_INVALID_REQUEST[7:0];
            endcase
        end
    end

    // ----------------------------------------------------------------------------------- the event
    always_ff @(posedge clk) begin
        if (step == card_pkg::AT_PSN) event_type <= ferroce_pkg::EVENT_TYPE_COMMUNICATION_ESTABLISHED[7:0];
        if (step == card_pkg::AT_REFUSE) begin
            case (refusal)
                card_pkg::REMOTE_ACCESS: event_type <= ferroce_pkg::EVENT_TYPE_QP_ACCESS_ERROR[7:0];
                card_pkg::RECEIVE_PROTECTION, card_pkg::RECEIVE_QUEUE:
                    event_type <= ferroce_pkg::EVENT_TYPE_QP_FATAL[7:0];
                default: event_type <= ferroce_pkg::EVENT_TYPE_QP_REQUEST_ERROR[7:0];
            endcase
        end
    end
endmodule

`default_nettype wire
