-- What happens between the packets of RoCEv2, for Wireshark and tshark:
--
--   tshark -r FILE.pcapng -X lua_script:ferroce.lua -Y ferroce.retransmission
--
--   ferroce.retransmission   a request with a PSN that this sender has sent to this QP before
--   ferroce.first_in         the frame with the first one
--   ferroce.acknowledges     the frame that a response answers: the newest request with its PSN
--   ferroce.response_time    the time between the two
--   ferroce.nak              a NAK or an RNR NAK
--
-- An RC packet names the QP that receives it, not the one that has sent it. A response is matched
-- by the addresses and the PSN, which begins at random. Frames are looked at in the order of the
-- file; `reordercap` sorts a file that several programs have written.

local ferroce = Proto("ferroce", "RoCEv2 between packets (Ferroce)")

local retransmission = ProtoField.bool("ferroce.retransmission", "Retransmission")
local first_in = ProtoField.framenum("ferroce.first_in", "First sent in", base.NONE, frametype.DUP_ACK)
local acknowledges = ProtoField.framenum("ferroce.acknowledges", "Answers", base.NONE, frametype.ACK)
local response_time = ProtoField.relative_time("ferroce.response_time", "Time since the request")
local nak = ProtoField.bool("ferroce.nak", "NAK")
ferroce.fields = { retransmission, first_in, acknowledges, response_time, nak }

local opcode_field = Field.new("infiniband.bth.opcode")
local psn_field = Field.new("infiniband.bth.psn")
local qp_field = Field.new("infiniband.bth.destqp")
local syndrome_field = Field.new("infiniband.aeth.syndrome")

-- Opcodes of RC, IBTA vol 1, table 38: bits 7 to 5 are the service, 4 to 0 the operation.
local RC, XRC = 0, 5
local FIRST_RESPONSE, LAST_RESPONSE = 0x0d, 0x12 -- READ responses, ACK, atomic ACK
-- Bits 6 and 5 of a syndrome: 0 is an ACK, 1 an RNR NAK, 3 a NAK.
local ACK = 0

-- By sender, receiver, QP and PSN: frame of the first request with it.
local requests = {}
-- By sender, receiver and PSN: frame and time of the newest request with it.
local newest = {}
-- By frame: what was found when the frames were read in order.
local found = {}

function ferroce.init()
    requests, newest, found = {}, {}, {}
end

local function note_request(frame, from, to, qp, psn, time)
    local key = from .. " " .. to .. " " .. qp .. " " .. psn
    if requests[key] then
        found[frame] = { first = requests[key] }
    else
        requests[key] = frame
    end
    newest[from .. " " .. to .. " " .. psn] = { frame = frame, time = time }
end

local function note_response(frame, from, to, psn, time)
    local request = newest[to .. " " .. from .. " " .. psn]
    if request and request.time <= time then
        found[frame] = { request = request.frame, time = time - request.time }
    end
end

function ferroce.dissector(_, packet, tree)
    local opcode, psn, qp = opcode_field(), psn_field(), qp_field()
    if not (opcode and psn and qp) then
        return
    end
    local service, operation = math.floor(opcode.value / 32), opcode.value % 32
    if service ~= RC and service ~= XRC then
        return
    end
    local is_response = operation >= FIRST_RESPONSE and operation <= LAST_RESPONSE
    local frame = packet.number
    if not packet.visited then
        local from, to = tostring(packet.net_src), tostring(packet.net_dst)
        if is_response then
            note_response(frame, from, to, psn.value, packet.rel_ts)
        else
            note_request(frame, from, to, qp.value, psn.value, packet.rel_ts)
        end
    end
    local syndrome = syndrome_field()
    local is_nak = is_response and syndrome and math.floor(syndrome.value / 32) % 4 ~= ACK
    local what = found[frame]
    if not (what or is_nak) then
        return
    end
    local shown = tree:add(ferroce)
    if is_nak then
        shown:add(nak, true):set_generated()
    end
    if what and what.first then
        shown:add(retransmission, true):set_generated()
        shown:add(first_in, what.first):set_generated()
    end
    if what and what.request then
        shown:add(acknowledges, what.request):set_generated()
        local seconds = math.floor(what.time)
        local time = NSTime(seconds, math.floor((what.time - seconds) * 1e9 + 0.5))
        shown:add(response_time, time):set_generated()
    end
end

register_postdissector(ferroce)
