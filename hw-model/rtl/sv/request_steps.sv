// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// The order of the steps of request_engine: determines the next step, and why a request is refused.
//
// Ports: the results of the other parts of request_engine in the current step.
// Invariants: every job ends in FINISH, except an empty flush and a FORGET that has to wait; packets
// are refused only in the step REFUSE.
module request_steps (
    input  logic                     clk,
    input  logic                     rst,

    input  logic                     is_last_qp,      // in CLEAR
    input  logic                     takes_job,
    input  card_pkg::receive_job_t   job,
    input  logic                     look_ready,
    input  card_pkg::control_op_t    control_op,
    input  logic                     may_forget,
    input  logic                     is_flushed,

    input  logic                     has_failed,      // the QP
    input  logic                     is_ahead,
    input  logic                     is_behind,
    input  logic                     establishes,     // in PSN: an expected packet raises an event
    input  logic                     raises,
    input  logic                     event_ready,
    input  logic                     is_refused,      // in CHECK
    input  logic                     lacks_receive,
    input  logic                     is_datagram,     // which is dropped where a request would be refused
    input  logic                     is_dropped,      // in CHECK: a datagram
    input  logic                     fetches,         // in CHECK: a receive WQE
    input  card_pkg::request_kind_t  kind,
    input  logic                     needs_access,
    input  logic                     fetch_ready,
    input  logic                     fetch_error,
    input  logic                     request_ready,
    input  logic                     answer_valid,
    input  logic                     answer_ends,
    input  logic                     answer_refuses,
    input  logic                     searched,        // for the result of a duplicate atomic
    input  logic                     executed,        // an atomic
    input  logic                     atomic_fault,    // with `executed`
    input  logic                     has_payload,
    input  logic                     placed,
    input  logic                     place_fault,
    input  logic                     is_finished,

    output card_pkg::request_step_t  step,
    output card_pkg::refusal_t       refusal
);
    wire unused_inputs = &{1'b0, kind};
    always_ff @(posedge clk) begin
        case (step)
            card_pkg::AT_CLEAR: if (is_last_qp) step <= card_pkg::AT_IDLE;
            card_pkg::AT_IDLE: if (takes_job) step <= card_pkg::AT_LOAD;
            card_pkg::AT_LOAD: begin
                case (job)
                    card_pkg::JOB_PACKET: step <= card_pkg::AT_PSN;
                    card_pkg::JOB_CONTROL: step <= card_pkg::AT_CONTROL;
                    default: step <= card_pkg::AT_LOOK;
                endcase
            end
            card_pkg::AT_LOOK: if (look_ready) step <= card_pkg::AT_LOOKED;
            card_pkg::AT_LOOKED:
                step <= job == card_pkg::JOB_DOORBELL ? card_pkg::AT_DOORBELL : card_pkg::AT_FLUSH;

            card_pkg::AT_CONTROL: begin
                if (control_op == card_pkg::CONTROL_FORGET && !may_forget) step <= card_pkg::AT_IDLE;
                else step <= card_pkg::AT_FINISH;
            end
            card_pkg::AT_DOORBELL: step <= card_pkg::AT_FINISH;
            card_pkg::AT_FLUSH: step <= is_flushed ? card_pkg::AT_IDLE : card_pkg::AT_FINISH;

            card_pkg::AT_PSN: begin
                if (has_failed || is_ahead) step <= card_pkg::AT_FINISH;
                else if (is_behind) step <= card_pkg::AT_DUPLICATE;
                else step <= establishes ? card_pkg::AT_ESTABLISH : card_pkg::AT_CHECK;
            end
            card_pkg::AT_DUPLICATE: step <= kind.is_atomic ? card_pkg::AT_SEARCH : card_pkg::AT_FINISH;
            card_pkg::AT_SEARCH: if (searched) step <= card_pkg::AT_FINISH;
            card_pkg::AT_ESTABLISH: if (!raises || event_ready) step <= card_pkg::AT_CHECK;
            card_pkg::AT_CHECK: begin
                refusal <= card_pkg::INVALID_REQUEST;
                if (is_refused) step <= card_pkg::AT_REFUSE;
                else if (lacks_receive || is_dropped) step <= card_pkg::AT_FINISH;
                else step <= fetches ? card_pkg::AT_FETCH : card_pkg::AT_LENGTH;
            end
            card_pkg::AT_FETCH: if (fetch_ready) begin
                if (fetch_error) refusal <= card_pkg::RECEIVE_QUEUE;
                step <= fetch_error ? card_pkg::AT_REFUSE : card_pkg::AT_LENGTH;
            end
            card_pkg::AT_LENGTH: begin
                if (kind.is_too_long) refusal <= card_pkg::RECEIVE_TOO_SHORT;
                if (kind.is_too_long || kind.is_length_wrong)
                    step <= is_datagram ? card_pkg::AT_FINISH : card_pkg::AT_REFUSE;
                else step <= needs_access ? card_pkg::AT_ACCESS : card_pkg::AT_EXECUTE;
            end
            card_pkg::AT_ACCESS: if (request_ready) step <= card_pkg::AT_ACCESS_WAIT;
            card_pkg::AT_ACCESS_WAIT: if (answer_valid && answer_ends) begin
                refusal <= card_pkg::REMOTE_ACCESS;
                if (answer_refuses) step <= card_pkg::AT_REFUSE;
                else step <= kind.is_atomic ? card_pkg::AT_ATOMIC : card_pkg::AT_EXECUTE;
            end
            card_pkg::AT_ATOMIC: if (executed) step <= atomic_fault ? card_pkg::AT_REFUSE : card_pkg::AT_EXECUTE;
            card_pkg::AT_EXECUTE: begin
                refusal <= kind.is_send ? card_pkg::RECEIVE_PROTECTION : card_pkg::REMOTE_ACCESS;
                if (kind.is_read || kind.is_atomic) step <= card_pkg::AT_FINISH;
                else step <= has_payload ? card_pkg::AT_PLACE : card_pkg::AT_EXECUTED;
            end
            card_pkg::AT_PLACE: if (placed) step <= place_fault ? card_pkg::AT_REFUSE : card_pkg::AT_EXECUTED;
            card_pkg::AT_EXECUTED, card_pkg::AT_REFUSE: step <= card_pkg::AT_FINISH;
            card_pkg::AT_FINISH: if (is_finished) step <= card_pkg::AT_IDLE;
            default: step <= card_pkg::AT_IDLE;
        endcase
        if (rst) step <= card_pkg::AT_CLEAR;
    end
endmodule

`default_nettype wire
