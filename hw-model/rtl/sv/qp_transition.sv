// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// The table of transitions of an RC queue pair, or of one for datagrams, with their required and optional attributes
// (IBTA vol 1, 10.3.1; chapter 6 of the contract). Combinational.
module qp_transition (
    input  logic        is_datagram,
    input  logic [2:0]  from,
    input  logic [31:0] to,
    input  logic [15:0] mask,
    output logic        legal,             // the transition exists and may change these attributes
    output logic        complete           // no attribute that it requires is missing
);
    localparam logic [15:0]
        ACCESS = 16'd1 << ferroce_pkg::QP_ATTRIBUTE_MASK_ACCESS_LSB,
        P_KEY = 16'd1 << ferroce_pkg::QP_ATTRIBUTE_MASK_P_KEY_LSB,
        PORT = 16'd1 << ferroce_pkg::QP_ATTRIBUTE_MASK_PORT_LSB,
        Q_KEY = 16'd1 << ferroce_pkg::QP_ATTRIBUTE_MASK_Q_KEY_LSB,
        PATH = 16'd1 << ferroce_pkg::QP_ATTRIBUTE_MASK_PATH_LSB,
        PATH_MTU = 16'd1 << ferroce_pkg::QP_ATTRIBUTE_MASK_PATH_MTU_LSB,
        TIMEOUT = 16'd1 << ferroce_pkg::QP_ATTRIBUTE_MASK_TIMEOUT_LSB,
        RETRY_COUNT = 16'd1 << ferroce_pkg::QP_ATTRIBUTE_MASK_RETRY_COUNT_LSB,
        RNR_RETRY = 16'd1 << ferroce_pkg::QP_ATTRIBUTE_MASK_RNR_RETRY_LSB,
        RECEIVE_PSN = 16'd1 << ferroce_pkg::QP_ATTRIBUTE_MASK_RECEIVE_PSN_LSB,
        MAX_RD_ATOMIC = 16'd1 << ferroce_pkg::QP_ATTRIBUTE_MASK_MAX_RD_ATOMIC_LSB,
        MIN_RNR_TIMER = 16'd1 << ferroce_pkg::QP_ATTRIBUTE_MASK_MIN_RNR_TIMER_LSB,
        SEND_PSN = 16'd1 << ferroce_pkg::QP_ATTRIBUTE_MASK_SEND_PSN_LSB,
        MAX_DEST_RD_ATOMIC = 16'd1 << ferroce_pkg::QP_ATTRIBUTE_MASK_MAX_DEST_RD_ATOMIC_LSB,
        DEST_QPN = 16'd1 << ferroce_pkg::QP_ATTRIBUTE_MASK_DEST_QPN_LSB,
        DRAINED_EVENT = 16'd1 << ferroce_pkg::QP_ATTRIBUTE_MASK_DRAINED_EVENT_LSB;
    localparam logic [15:0]
        IDENTITY = ACCESS | P_KEY | PORT,
        CONNECTION = PATH | PATH_MTU | DEST_QPN | RECEIVE_PSN | MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER,
        SENDING = SEND_PSN | TIMEOUT | RETRY_COUNT | RNR_RETRY | MAX_RD_ATOMIC,
        RUNNING = ACCESS | MIN_RNR_TIMER,
        DRAINED = PATH | ACCESS | P_KEY | PORT | TIMEOUT | RETRY_COUNT | RNR_RETRY | MAX_RD_ATOMIC
                | MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER;
    localparam logic [2:0]
        RESET = 3'(ferroce_pkg::QP_STATE_CODE_RESET), INIT = 3'(ferroce_pkg::QP_STATE_CODE_INIT),
        RTR = 3'(ferroce_pkg::QP_STATE_CODE_RTR), RTS = 3'(ferroce_pkg::QP_STATE_CODE_RTS),
        SQD = 3'(ferroce_pkg::QP_STATE_CODE_SQD), SQE = 3'(ferroce_pkg::QP_STATE_CODE_SQE),
        ERR = 3'(ferroce_pkg::QP_STATE_CODE_ERR);

    logic        exists;
    logic [15:0] needed, optional, identity, running;
    assign identity = is_datagram ? P_KEY | PORT | Q_KEY : IDENTITY;
    assign running = is_datagram ? Q_KEY : RUNNING;
    always_comb begin
        exists = to <= 32'(ferroce_pkg::QP_STATE_CODE_ERR);
        needed = '0;
        optional = '0;
        case ({from, to[2:0]})
            {RESET, INIT}: needed = identity;
            {INIT, INIT}: optional = identity;
            {INIT, RTR}: begin
                needed = is_datagram ? '0 : CONNECTION;
                optional = P_KEY | (is_datagram ? Q_KEY : ACCESS);
            end
            {RTR, RTS}: begin
                needed = is_datagram ? SEND_PSN : SENDING;
                optional = running;
            end
            {RTS, RTS}, {SQD, RTS}: optional = running;
            {SQE, RTS}: begin
                exists = is_datagram;
                optional = running;
            end
            {RTS, SQD}: optional = DRAINED_EVENT;
            {SQD, SQD}: optional = is_datagram ? P_KEY | Q_KEY : DRAINED;
            default: if (to[2:0] != RESET && !(to[2:0] == ERR && from != RESET)) exists = 1'b0;
        endcase
    end
    assign legal = exists && (mask & ~(needed | optional)) == '0;
    assign complete = !exists || (needed & ~mask) == '0;
endmodule

`default_nettype wire
