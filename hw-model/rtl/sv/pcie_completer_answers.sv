// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Completions of the card, on the completer completion interface (CC) of PG213: 512 bits,
// dword-aligned, one beat each.
//
// Ports: answer_* takes the answer to a non-posted request: its descriptor as it came on CQ, its last
// and first byte enables, and, with `answer_success`, data of 4 or 8 bytes. cq_np_req gives PG213's
// credits for non-posted requests. A completion leaves when `passed` has reached `answer_after`, both
// modulo 2^COUNT_BITS: it does not pass a posted write that came before it.
// Invariants: completions leave in the order of the requests; no answer comes without a credit, and
// each of the 2^LOG_ANSWERS credits comes back when its completion leaves.
module pcie_completer_answers #(
    parameter int COUNT_BITS = 12,
    parameter int LOG_ANSWERS = 3
) (
    input  logic         clk,
    input  logic         rst,
    input  logic         answer_valid,
    input  logic [127:0] answer_request,
    input  logic [7:0]   answer_enables,
    input  logic         answer_success,
    input  logic         answer_empty,     // a read of no bytes
    input  logic [63:0]  answer_data,
    input  logic [COUNT_BITS-1:0] answer_after,
    input  logic [COUNT_BITS-1:0] passed,
    output logic [1:0]   cq_np_req,
    output logic         cc_valid,
    input  logic         cc_ready,
    output logic [511:0] cc_data,
    output logic [15:0]  cc_keep,
    output logic         cc_last,
    output logic [80:0]  cc_user,
    output logic         idle
);
    localparam int BITS = 128 + 8 + 2 + 64 + COUNT_BITS;
    localparam logic [2:0] SUCCESSFUL = 3'd0, UNSUPPORTED = 3'd1;
    localparam logic [3:0] LOCKED_READ = 4'd7;

    logic         has_room, head_valid, leaves, success, empty;
    logic [127:0] request;
    logic [7:0]   enables;
    logic [63:0]  data;
    logic [COUNT_BITS-1:0] after, ahead;
    fifo #(.BITS(BITS), .LOG_DEPTH(LOG_ANSWERS)) waiting (
        .clk, .rst, .s_valid(answer_valid), .s_ready(has_room),
        .s_data({answer_request, answer_enables, answer_success, answer_empty, answer_data, answer_after}),
        .m_valid(head_valid), .m_ready(leaves), .m_data({request, enables, success, empty, data, after})
    );
    assign idle = !head_valid && !cc_valid;

    logic [LOG_ANSWERS:0] credits;         // to be given
    assign cq_np_req = {1'b0, credits != '0 && !rst};
    always_ff @(posedge clk) begin
        credits <= credits - (LOG_ANSWERS + 1)'(credits != '0) + (LOG_ANSWERS + 1)'(leaves);
        if (rst) credits <= (LOG_ANSWERS + 1)'(1 << LOG_ANSWERS);
    end

    // PG213, "Completer Completion Descriptor Format". A read of no bytes has a byte count of one and
    // a dword of data (PCIe base specification, 2.3.1.1). A completion without success has no data,
    // but five dwords with the request, for the block's error log.
    logic [95:0]  descriptor;
    logic [255:0] without_success;
    logic [10:0]  dwords;
    assign dwords = request[74:64];
    assign ahead = after - passed;
    assign leaves = head_valid && (ahead == '0 || ahead[COUNT_BITS-1]) && (!cc_valid || cc_ready);
    always_comb begin
        descriptor = '0;
        descriptor[6:0] = {request[6:2], 2'b00};
        descriptor[28:16] = empty ? 13'd1 : {dwords, 2'b00};
        descriptor[29] = request[78:75] == LOCKED_READ;
        descriptor[42:32] = success ? dwords : '0;
        descriptor[45:43] = success ? SUCCESSFUL : UNSUPPORTED;
        descriptor[63:48] = request[95:80];                    // requester ID
        descriptor[71:64] = request[103:96];                   // tag
        descriptor[79:72] = request[111:104];                  // function
        descriptor[94:89] = request[126:121];                  // traffic class, attributes
        without_success = {request, 24'b0, enables, descriptor};
    end
    assign cc_last = 1'b1;
    assign cc_user = '0;                   // not straddled: start and end are ignored
    always_ff @(posedge clk) begin
        if (cc_ready) cc_valid <= 1'b0;
        if (leaves) begin
            cc_valid <= 1'b1;
            cc_data <= success ? {352'b0, data, descriptor} : {256'b0, without_success};
            cc_keep <= success ? (dwords == 11'd2 ? 16'h001f : 16'h000f) : 16'h00ff;
        end
        if (rst) cc_valid <= 1'b0;
    end

    always_ff @(posedge clk) begin
        if (!rst && answer_valid) assert (has_room);
    end
endmodule

`default_nettype wire
