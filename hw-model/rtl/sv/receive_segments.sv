// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Receive WQEs on the chip: one for each QP, from its fetch until the QP takes the next one, and the
// later ones in the same line.
//
// Ports: fetch_valid holds until fetch_ready, which ends it: entry fetch.slot of 2^fetch.log_stride
// bytes at `fetch.iova` was read, or came with an earlier one; `fetch.posted` is the number of posted
// entries from it on, at most 4; `fetch_error`: it could not be read; `fetch_capacity` is the sum of
// its segments, at most 2^32 - 1. `segment` is segment `segment_number` of QP `segment_qp`, one cycle
// later, of the WQE at fetch.iova; not while one is fetched. clear_* drops the WQEs of a QP that is
// started or reset. read_* is DMA of lines, up to four outstanding.
// Invariants: entries of less than a line are inside one line (bases are 64-byte aligned); an entry
// that was not posted when its line was read is read again; a segment is valid unless an earlier one
// ends the list.
module receive_segments #(
    parameter int LOG_QPS = card_pkg::LOG_QPS
) (
    input  logic               clk,
    input  logic               rst,

    input  logic               fetch_valid,
    output logic               fetch_ready,
    input  card_pkg::fetch_t   fetch,
    output logic               fetch_error,
    output logic [31:0]        fetch_capacity,

    input  logic               clear_valid,
    input  logic [LOG_QPS-1:0] clear_qp,

    input  logic [LOG_QPS-1:0] segment_qp,
    input  logic [3:0]         segment_number,
    output logic [127:0]       segment,

    output card_pkg::read_t    read,
    input  logic               read_ready,
    input  card_pkg::line_t    line
);
    localparam int LOG_LINES = 2;              // of an entry
    localparam int LOG_LINE_BYTES = 6, LOG_SEGMENT_BYTES = 4;

    typedef enum logic [2:0] {IDLE, CHECK, READ, WAIT, LOOK, LOOKED, MEASURE, DONE} step_t;
    step_t step;

    logic [LOG_LINES:0] asked, arrived, count; // lines of the fetch
    logic [4:0]         measured;              // segments of it

    // -------------------------------------------------------------------------------------- the RAM
    logic [511:0] lines [1 << (LOG_QPS + LOG_LINES)];
    logic [511:0] looked_up;
    logic [LOG_QPS-1:0] look_qp;
    logic [3:0]   look_number;
    logic [1:0]   looked_place;                // in the line, in segments
    assign look_qp = step == IDLE ? segment_qp : fetch.qp;
    assign look_number = step == IDLE ? segment_number : measured[3:0];
    always_ff @(posedge clk) begin
        if (line.valid) lines[{fetch.qp, line.index[LOG_LINES-1:0]}] <= line.data;
    end
    always_ff @(posedge clk) begin
        looked_up <= lines[{look_qp, look_number[3:2]}];
        looked_place <= fetch.iova[5:4] + look_number[1:0];
    end
    assign segment = looked_up[{looked_place, 7'd0} +: 128];

    // -------------------------------------------------------------- entries that came with an earlier one
    logic [31:0] ends [1 << LOG_QPS];          // the slot after the last of them
    logic [(1 << LOG_QPS)-1:0] has_line;
    logic [31:0] line_end, left;
    logic [2:0]  in_line, present;
    logic        is_here;
    assign left = line_end - fetch.slot;
    assign is_here = has_line[fetch.qp] && left != '0 && left <= 32'd4;
    always_comb begin
        case (fetch.log_stride)
            4'd4: in_line = 3'd4 - {1'b0, fetch.iova[5:4]};
            4'd5: in_line = 3'd2 - {2'b0, fetch.iova[5]};
            default: in_line = 3'd1;
        endcase
        present = fetch.posted < in_line ? fetch.posted : in_line;
    end
    always_ff @(posedge clk) begin
        line_end <= ends[fetch.qp];
        if (step == WAIT) ends[fetch.qp] <= fetch.slot + {29'd0, present};
    end
    always_ff @(posedge clk) begin
        if (step == WAIT) has_line[fetch.qp] <= arrived == count && !fetch_error;
        if (clear_valid) has_line[clear_qp] <= 1'b0;
        if (rst) has_line <= '0;
    end

    // ------------------------------------------------------------------------------------ the fetch
    logic [4:0]         entry_segments;
    logic [32:0]        sum;
    assign count = fetch.log_stride <= 4'd6 ? 3'd1 : 3'd1 << (fetch.log_stride - 4'd6);
    assign entry_segments = 5'd1 << (fetch.log_stride - 4'd4);
    assign sum = {1'b0, fetch_capacity} + {1'b0, segment[95:64]};

    assign read.valid = step == READ;
    assign read.iova = {fetch.iova[63:LOG_LINE_BYTES] + {{61-LOG_LINE_BYTES{1'b0}}, asked}, {LOG_LINE_BYTES{1'b0}}};
    assign read.index = {{card_pkg::LOG_READS-3{1'b0}}, asked};
    assign fetch_ready = step == DONE;

    always_ff @(posedge clk) begin
        if (line.valid) begin
            arrived <= arrived + 1'b1;
            fetch_error <= fetch_error || line.error;
        end
        case (step)
            IDLE: begin
                {asked, arrived} <= '0;
                fetch_error <= 1'b0;
                measured <= '0;
                fetch_capacity <= '0;
                if (fetch_valid) step <= CHECK;
            end
            CHECK: step <= is_here ? LOOK : READ;
            READ: if (read_ready) begin
                asked <= asked + 1'b1;
                if (asked + 1'b1 == count) step <= WAIT;
            end
            WAIT: if (arrived == count) step <= fetch_error ? DONE : LOOK;
            LOOK: step <= LOOKED;
            LOOKED: begin
                if (segment[127:96] == ferroce_pkg::WQE_L_KEY_END) step <= DONE;
                else step <= MEASURE;
            end
            MEASURE: begin
                fetch_capacity <= sum[32] ? '1 : sum[31:0];
                measured <= measured + 1'b1;
                step <= measured + 1'b1 == entry_segments ? DONE : LOOK;
            end
            DONE: step <= IDLE;
            default: step <= IDLE;
        endcase
        if (rst) step <= IDLE;
    end

    always_ff @(posedge clk) begin
        if (!rst && line.valid) assert (step == READ || step == WAIT);
        if (!rst && line.valid) assert (line.index < card_pkg::LOG_READS'(1 << LOG_LINES));
        if (!rst && fetch_valid) assert (fetch.log_stride >= LOG_SEGMENT_BYTES[3:0] && fetch.log_stride <= 4'd8);
    end
endmodule

`default_nettype wire
