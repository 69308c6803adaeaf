// SPDX-License-Identifier: MIT OR Apache-2.0
`default_nettype none

// Passes valid packets to the engine of their QP: requests to the responder, answers to the
// completer, one at a time; while it is handled, the next one is checked. Drops all others.
//
// Ports: packet_* come from rx_buffer. `request_*` and `answer_*` hand `handed`, with the context of
// its QP, to the responder or the completer; `*_done` ends it, at the earliest with the hand-over.
// `*_place_*` are the pieces of each engine, place_* the pieces of all frames, to scatter: the place
// ports are connected in the same cycle while an engine works.
// Invariant: each frame has one run of pieces that ends with `last`. The engine that gets a frame
// with payload generates it; all other frames get an empty piece here.
module steer (
    input  logic                 clk,
    input  logic                 rst,

    input  logic                 packet_valid,
    output logic                 packet_ready,
    input  card_pkg::rx_packet_t packet,

    output logic [7:0]           qp_index,
    input  card_pkg::qp_t        qp,

    output logic                 request_valid,
    input  logic                 request_ready,
    input  logic                 request_done,
    output logic                 answer_valid,
    input  logic                 answer_ready,
    input  logic                 answer_done,
    output card_pkg::rx_packet_t handed,
    output card_pkg::qp_t        handed_qp,

    input  logic                 request_place_valid,
    output logic                 request_place_ready,
    input  card_pkg::piece_t     request_place,
    input  logic                 request_place_drop,
    input  logic                 answer_place_valid,
    output logic                 answer_place_ready,
    input  card_pkg::piece_t     answer_place,
    input  logic                 answer_place_drop,

    output logic                 place_valid,
    input  logic                 place_ready,
    output card_pkg::piece_t     place,
    output logic                 place_drop,

    output logic                 count_no_qp,
    output logic                 count_wrong_path,
    output logic                 idle
);
    // ------------------------------------------------------------------------------------ the checks
    // `next` waits for its turn with the current context of its QP: the state may change meanwhile.
    typedef enum logic [1:0] {EMPTY, LOOK, JUDGE} check_t;
    check_t check;
    card_pkg::rx_packet_t next;
    logic         is_rc, is_datagram, is_answer, is_known, receives, is_connected, has_p_key;
    logic [card_pkg::LOG_GIDS-1:0] own_gid;
    logic [127:0] peer, source;
    logic         is_dropped, takes_next;
    assign is_rc = next.opcode[7:5] == 3'd0;
    assign is_datagram = next.opcode[7:5] == card_pkg::UD_OPCODES[7:5];
    assign is_answer = is_rc && next.opcode[4:0] >= 5'h0d && next.opcode[4:0] <= 5'h12;
    assign is_known = next.dest_qpn[23:8] == card_pkg::QPN_BASE[23:8] && qp.exists
        && (qp.is_datagram || qp.state >= ferroce_pkg::QP_STATE_CODE_RTR[2:0]);
    always_comb begin
        for (int i = 0; i < 16; i++) peer[8*(15-i) +: 8] = qp.path.dest_gid[8*i +: 8];
        source = next.is_v6 ? next.source : {80'd0, 16'hffff, next.source[31:0]};
    end
    // A switch may flood a frame for another station that has a QP with this number and peer.
    assign own_gid = qp.path.source_gid_index[card_pkg::LOG_GIDS-1:0];
    // Datagrams come from anywhere, to any address of the card.
    assign is_connected = qp.is_datagram ? next.to_gid != '0 : peer == source && next.to_gid[own_gid];
    // The card's key is a full member: it matches members of either kind (IBTA vol 1, 10.9.3).
    assign has_p_key = next.p_key[14:0] == card_pkg::DEFAULT_P_KEY[14:0];
    always_comb begin
        if (is_answer) receives = qp.state == ferroce_pkg::QP_STATE_CODE_RTS[2:0]
            || qp.state == ferroce_pkg::QP_STATE_CODE_SQD[2:0];
        else receives = qp.state >= ferroce_pkg::QP_STATE_CODE_RTR[2:0]
            && qp.state != ferroce_pkg::QP_STATE_CODE_ERR[2:0];
    end
    assign is_dropped = !is_known || !is_connected || !(qp.is_datagram ? is_datagram : is_rc) || !has_p_key || !receives;

    assign packet_ready = check == EMPTY || takes_next;
    assign qp_index = next.dest_qpn[7:0];
    always_ff @(posedge clk) begin
        if (check == LOOK) check <= JUDGE;
        if (packet_ready) begin
            next <= packet;
            check <= packet_valid ? LOOK : EMPTY;
        end
        if (rst) check <= EMPTY;
    end

    // ----------------------------------------------------------------------- the packet that is handled
    typedef enum logic [1:0] {IDLE, ANNOUNCE, HAND, WORK} step_t;
    step_t step;
    logic to_answer, drops, is_done, has_payload, ends;
    assign has_payload = handed.payload_bytes != 13'd0;
    assign request_valid = step == HAND && !to_answer;
    assign answer_valid = step == HAND && to_answer;
    assign is_done = to_answer ? answer_done : request_done;
    // An engine that gives no pieces may still work on its packet while the other one gets the next one.
    assign ends = (step == ANNOUNCE && place_ready && drops)
               || (step == HAND && (to_answer ? answer_ready : request_ready) && (is_done || !has_payload))
               || (step == WORK && is_done);
    assign takes_next = check == JUDGE && (step == IDLE || ends);
    assign idle = step == IDLE && check == EMPTY && !packet_valid;

    always_ff @(posedge clk) begin
        case (step)
            ANNOUNCE: if (place_ready && !drops) step <= HAND;
            HAND: if (to_answer ? answer_ready : request_ready) step <= WORK;
            default: ;
        endcase
        if (ends) step <= IDLE;
        count_no_qp <= takes_next && !is_known;
        count_wrong_path <= takes_next && is_known && !is_connected;
        if (takes_next) begin
            handed <= next;
            handed_qp <= qp;
            to_answer <= is_answer;
            drops <= is_dropped;
            step <= is_dropped || next.payload_bytes == 13'd0 ? ANNOUNCE : HAND;
        end
        if (rst) step <= IDLE;
    end

    // ------------------------------------------------------------------------------------ the pieces
    logic works;
    assign works = step == HAND || step == WORK;
    assign request_place_ready = works && !to_answer && place_ready;
    assign answer_place_ready = works && to_answer && place_ready;
    always_comb begin
        place = request_place;
        place_drop = request_place_drop;
        place_valid = works && request_place_valid;
        if (step == ANNOUNCE) begin
            place = '0;
            place.last = 1'b1;
            place_drop = drops;
            place_valid = 1'b1;
        end else if (to_answer) begin
            place = answer_place;
            place_drop = answer_place_drop;
            place_valid = works && answer_place_valid;
        end
    end

    // Compares the runs of pieces with the frames that were taken.
    logic has_ended;
    always_ff @(posedge clk) begin
        if (rst || takes_next) has_ended <= 1'b0;
        else if (place_valid && place_ready) begin
            assert (!has_ended);
            has_ended <= place.last;
        end
        if (!rst && ends) assert (has_ended || (place_valid && place_ready && place.last));
    end
endmodule

`default_nettype wire
