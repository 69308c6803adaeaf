// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// The results of the newest atomics of each QP, for duplicates: an atomic is executed once (IBTA vol 1, 9.7.5.1.3).
//
// Ports: `save` records request `number` of QP `qp`, a READ or an atomic, with its PSN; `is_atomic`: with its
// operands and `result`. `search` holds until `done`: `found`, if the atomic with this PSN and these
// operands is one of the `saved` newest requests before `number`; then `original` is its result.
// Invariants: READs take entries, too, so that no more requests are remembered than a peer may have outstanding; operands are
// compared by a sum of 32 bits, so that an entry of 121 bits is enough: a peer that repeats a PSN with other operands of
// the same sum gets its own old result.
module atomic_results (
    input  logic        clk,
    input  logic        rst,

    input  logic [card_pkg::LOG_QPS-1:0] qp,
    input  logic [7:0]  number,
    input  logic [23:0] psn,
    input  logic        is_atomic,
    input  logic        is_swap,
    input  logic [63:0] address,
    input  logic [31:0] key,
    input  logic [63:0] swap_add,
    input  logic [63:0] compare,

    input  logic        save,
    input  logic [63:0] result,

    input  logic        search,
    input  logic [4:0]  saved,
    output logic        done,
    output logic        found,
    output logic [63:0] original
);
    localparam int LOG_RESULTS = $clog2(card_pkg::MAX_RD_ATOMIC);
    localparam int ENTRY_BITS = 1 + 24 + 32 + 64;
    wire unused_number = &{1'b0, number};

    function automatic logic [31:0] turned(input logic [31:0] word, input int places);
        turned = word << places | word >> (32 - places);
    endfunction
    // A fetch and add has no second operand.
    logic [63:0] second;
    logic [31:0] sum;
    assign second = is_swap ? compare : 64'd0;
    assign sum = address[31:0] ^ turned(address[63:32], 5) ^ turned(key, 11) ^ swap_add[31:0] ^ turned(swap_add[63:32], 17)
               ^ turned(second[31:0], 23) ^ turned(second[63:32], 29) ^ {31'd0, is_swap};

    // ------------------------------------------------------------------------------------- the table
    logic [ENTRY_BITS-1:0]  entries [1 << (card_pkg::LOG_QPS + LOG_RESULTS)];
    logic [ENTRY_BITS-1:0]  entry;
    logic [LOG_RESULTS-1:0] at;
    logic        entry_atomic;
    logic [23:0] entry_psn;
    logic [31:0] entry_sum;
    assign {entry_atomic, entry_psn, entry_sum, original} = entry;
    always_ff @(posedge clk) begin
        if (save) entries[{qp, number[LOG_RESULTS-1:0]}] <= {is_atomic, psn, sum, result};
    end
    always_ff @(posedge clk) entry <= entries[{qp, at}];

    // ------------------------------------------------------------------------------------- the search
    typedef enum logic [1:0] {IDLE, LOOK, JUDGE, DONE} step_t;
    step_t      step;
    logic [4:0] left;
    logic       is_same;
    assign is_same = entry_atomic && entry_psn == psn && entry_sum == sum;
    assign done = step == DONE;
    always_ff @(posedge clk) begin
        case (step)
            IDLE: begin
                found <= 1'b0;
                left <= saved;
                at <= number[LOG_RESULTS-1:0] - 1'b1;
                if (search) step <= saved == '0 ? DONE : LOOK;
            end
            LOOK: step <= JUDGE;
            JUDGE: begin
                found <= is_same;
                left <= left - 1'b1;
                at <= at - 1'b1;
                step <= is_same || left == 5'd1 ? DONE : LOOK;
            end
            default: step <= IDLE;
        endcase
        if (rst) step <= IDLE;
    end
endmodule

`default_nettype wire
