// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Accesses of the host to BAR0 and BAR2, from the completer request interface (CQ) of PG213: 512
// bits, dword-aligned, not straddled.
//
// Ports: cq_* connect to m_axis_cq, cq_np_req to pcie_cq_np_req, cc_* to s_axis_cc. write_* and read_*
// are accesses of 4 or 8 bytes to BAR0 (`read_data` is valid in the next cycle), doorbell_* the whole
// aligned 8 bytes of a write to BAR2, in order of their addresses. `written` and `passed` come from
// pcie_requester. `idle`: no request or completion is inside.
// Invariants: requests are executed in their order. A write that the card cannot execute is ignored,
// a read and any other non-posted request get the status "unsupported request". A read of no bytes is
// executed in each BAR of the card. No posted request waits for a completion to leave: PG213's credits
// let in only as many non-posted requests as there is room for (PCIe base specification, 2.4.1).
module pcie_completer #(
    parameter int COUNT_BITS = 12
) (
    input  logic         clk,
    input  logic         rst,
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

    input  logic [COUNT_BITS-1:0] written,
    input  logic [COUNT_BITS-1:0] passed,
    output logic         idle
);
    wire unused_user = &{1'b0, cq_user};
    localparam int FIRST_DWORDS = 12;      // of payload in the beat of the descriptor
    localparam logic [10:0] DWORDS_MAX = 11'd16;   // of a write: 64 bytes, what a processor combines
    localparam logic [3:0] MEMORY_READ = 4'd0, MEMORY_WRITE = 4'd1, MESSAGE = 4'd12;   // and above
    localparam logic [2:0] BAR0 = 3'd0, BAR2 = 3'd2;

    // ------------------------------------------------------------------------------- the whole request
    typedef enum logic [2:0] {AT_REQUEST, AT_REST, AT_SKIP, AT_EXECUTE, AT_ANSWER} step_t;
    step_t        step;
    logic [127:0] descriptor;
    logic [3:0]   first_enable, last_enable;
    logic [511:0] payload;
    logic         is_damaged;              // PG213's `discontinue`: the data is not usable
    assign cq_ready = step == AT_REQUEST || step == AT_REST || step == AT_SKIP;

    logic [10:0]  dwords;
    logic [3:0]   kind;
    logic [2:0]   bar;
    logic         is_posted, is_whole, is_single, is_double, is_empty, is_read, is_write, is_supported;
    assign dwords = descriptor[74:64];
    assign kind = descriptor[78:75];
    assign bar = descriptor[114:112];
    assign is_posted = kind == MEMORY_WRITE || kind >= MESSAGE;
    assign is_whole = first_enable == '1 && (dwords == 11'd1 || last_enable == '1);
    assign is_single = dwords == 11'd1;
    assign is_double = dwords == 11'd2 && !descriptor[2];
    assign is_empty = is_single && first_enable == '0;
    assign is_read = kind == MEMORY_READ && bar == BAR0 && is_whole && (is_single || is_double);
    assign is_write = kind == MEMORY_WRITE && bar == BAR0 && is_whole && (is_single || is_double) && !is_damaged;
    assign is_supported = is_read || (kind == MEMORY_READ && is_empty && (bar == BAR0 || bar == BAR2));

    // ---------------------------------------------------------------------------------------- doorbells
    // The dwords from `at` on; a doorbell is two of them, at an even address, with all bytes.
    logic [4:0]   at;
    logic [21:2]  address;
    logic         is_doorbell, has_pair;
    logic [3:0]   low_enable, high_enable;
    assign address = descriptor[21:2] + 20'(at);
    assign has_pair = 11'(at) + 11'd1 < dwords && dwords <= DWORDS_MAX;
    assign low_enable = at == '0 ? first_enable : 4'hf;
    assign high_enable = 11'(at) + 11'd2 == dwords ? last_enable : 4'hf;
    assign is_doorbell = has_pair && !address[2] && low_enable == '1 && high_enable == '1;
    assign doorbell_valid = step == AT_EXECUTE && kind == MEMORY_WRITE && bar == BAR2 && !is_damaged && is_doorbell;
    assign doorbell_slot = address[21:3];
    assign doorbell_value = payload[{at[3:0], 5'b0} +: 64];

    assign write_valid = step == AT_EXECUTE && is_write;
    assign write_wide = is_double;
    assign write_at = {descriptor[13:2], 2'b00};
    assign write_data = payload[63:0];
    assign read_valid = step == AT_EXECUTE && is_read;
    assign read_wide = is_double;
    assign read_at = {descriptor[13:2], 2'b00};

    always_ff @(posedge clk) begin
        case (step)
            AT_REQUEST: if (cq_valid) begin
                descriptor <= cq_data[127:0];
                payload[32*FIRST_DWORDS-1:0] <= cq_data[511:128];
                first_enable <= cq_user[3:0];
                last_enable <= cq_user[11:8];
                is_damaged <= cq_last && cq_user[96];
                at <= '0;
                step <= cq_last ? AT_EXECUTE : AT_REST;
            end
            AT_REST: if (cq_valid) begin
                payload[511:32*FIRST_DWORDS] <= cq_data[127:0];
                is_damaged <= cq_user[96];
                step <= cq_last ? AT_EXECUTE : AT_SKIP;
            end
            AT_SKIP: if (cq_valid && cq_last) step <= AT_EXECUTE;   // longer than DWORDS_MAX
            AT_EXECUTE: begin
                // The next pair; a pair at an odd address begins a dword later.
                at <= at + (address[2] ? 5'd1 : 5'd2);
                if (doorbell_valid && !doorbell_ready) at <= at;
                else if (!is_posted) step <= AT_ANSWER;
                else if (kind != MEMORY_WRITE || bar != BAR2 || !has_pair) step <= AT_REQUEST;
            end
            default: step <= AT_REQUEST;
        endcase
        if (rst) step <= AT_REQUEST;
    end

    // ------------------------------------------------------------------------------------- completions
    logic answers_idle;
    assign idle = answers_idle && step == AT_REQUEST;
    pcie_completer_answers #(.COUNT_BITS(COUNT_BITS)) answers (
        .clk, .rst, .answer_valid(step == AT_ANSWER), .answer_request(descriptor),
        .answer_enables({last_enable, first_enable}), .answer_success(is_supported),
        .answer_empty(is_empty), .answer_data(is_empty ? '0 : read_data), .answer_after(written), .passed, .cq_np_req,
        .cc_valid, .cc_ready, .cc_data, .cc_keep, .cc_last, .cc_user, .idle(answers_idle)
    );

    always_ff @(posedge clk) begin
        if (!rst && doorbell_valid) assert (at < 5'd16);
    end
endmodule

`default_nettype wire
