// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Determines when a QP may be forgotten: its answers have left the queue, and all work of any QP that
// was handed over before that has ended.
//
// Ports: `forgets` holds while the command waits; `asks` pulses when request_engine handles it, with
// `is_answered`: all answers of the QP have left the queue; `ends`: it is forgotten. taken_* is a
// packet that begins, `frames_done` is scatter's. Counts of completions and packets are modulo 2^8.
// `all_frames_done`: the payload of all taken packets is in memory.
module receive_forget (
    input  logic        clk,
    input  logic        rst,
    input  logic        forgets,
    input  logic        asks,
    input  logic        is_answered,
    input  logic        ends,
    output logic        may_forget,

    input  logic        taken_valid,
    input  logic [15:0] taken_frame,
    input  logic [15:0] frames_done,
    output logic        all_frames_done,
    input  logic        completion_queued,
    input  logic        completion_written,  // the oldest one, a pulse
    input  logic [7:0]  handed_packets,      // to transmit
    input  logic [7:0]  sent_packets
);
    // ---------------------------------------------------------------- frames that are not yet placed
    logic [15:0] newest, behind_newest, forget_frame, behind_forget;
    logic        placing;
    assign behind_newest = frames_done - newest;
    assign all_frames_done = !placing;
    always_ff @(posedge clk) begin
        if (taken_valid) begin
            newest <= taken_frame;
            placing <= 1'b1;
        end else if (behind_newest < 16'h8000) placing <= 1'b0;
        if (rst) placing <= 1'b0;
    end

    // ------------------------------------------------------------------------------------ the command
    logic       is_drained, is_placed, is_sent, is_written;
    logic [7:0] completions, written, forget_completions, forget_packets;
    logic [7:0] behind_completions, behind_packets;
    assign behind_forget = frames_done - forget_frame;
    assign behind_packets = sent_packets - forget_packets;
    assign behind_completions = written - forget_completions;
    assign may_forget = is_drained && is_placed && is_sent && is_written;
    always_ff @(posedge clk) begin
        completions <= completions + {7'd0, completion_queued};
        written <= written + {7'd0, completion_written};
        if (behind_forget < 16'h8000) is_placed <= 1'b1;
        if (behind_packets < 8'h80) is_sent <= 1'b1;
        if (behind_completions < 8'h80) is_written <= 1'b1;
        if (!forgets || ends) is_drained <= 1'b0;
        else if (asks && !is_drained && is_answered) begin
            is_drained <= 1'b1;
            forget_frame <= newest;
            forget_packets <= handed_packets;
            forget_completions <= completions;
            is_placed <= !placing;
            {is_sent, is_written} <= '0;
        end
        if (rst) {completions, written, is_drained} <= '0;
    end
endmodule

`default_nettype wire
