"""Writes the page's schema.js: the fields of the LiveKit messages that it needs, by reflection from livekit.protocol.

Run as a script it rewrites the file; a test compares. Only fields that the page sends or reads are listed.
"""

from __future__ import annotations

from pathlib import Path

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from livekit.protocol import models, rtc

SCHEMA = Path(__file__).resolve().parents[3] / "agents/page/static/schema.js"

MESSAGES = {
    "WrappedJoinRequest": "compression join_request",
    "JoinRequest": "client_info connection_settings reconnect reconnect_reason participant_sid",
    "ClientInfo": "sdk version protocol os browser browser_version client_protocol",
    "ConnectionSettings": "auto_subscribe adaptive_stream",
    "SignalRequest": "offer trickle add_track mute leave sync_state ping_req update_audio_track",
    "SignalResponse": "join answer trickle update track_published leave mute speakers_changed room_update "
    "connection_quality refresh_token track_unpublished reconnect pong_resp track_subscribed "
    "media_sections_requirement",
    "JoinResponse": "room participant other_participants ice_servers ping_timeout ping_interval server_info",
    "ReconnectResponse": "ice_servers",
    "ICEServer": "urls username credential",
    "ServerInfo": "version protocol",
    "Room": "sid name metadata",
    "RoomUpdate": "room",
    "ParticipantInfo": "sid identity state tracks metadata name version kind attributes disconnect_reason",
    "ParticipantUpdate": "participants",
    "TrackInfo": "sid type name muted source mid",
    "AddTrackRequest": "cid name type muted source disable_red audio_features",
    "UpdateLocalAudioTrack": "track_sid features",
    "TrackPublishedResponse": "cid track",
    "TrackUnpublishedResponse": "track_sid",
    "TrackSubscribed": "track_sid",
    "SessionDescription": "type sdp id mid_to_track_id",
    "TrickleRequest": "candidateInit target final",
    "MuteTrackRequest": "sid muted",
    "LeaveRequest": "can_reconnect reason action",
    "SpeakersChanged": "speakers",
    "SpeakerInfo": "sid level active",
    "ConnectionQualityUpdate": "updates",
    "ConnectionQualityInfo": "participant_sid quality score",
    "Ping": "timestamp rtt",
    "Pong": "last_ping_timestamp timestamp",
    "MediaSectionsRequirement": "num_audios num_videos",
    "SyncState": "answer offer subscription publish_tracks data_channels datachannel_receive_states",
    "UpdateSubscription": "track_sids subscribe",
    "DataChannelInfo": "label id target",
    "DataChannelReceiveState": "publisher_sid last_seq",
    "DataPacket": "kind participant_identity destination_identities user rpc_request rpc_ack rpc_response "
    "stream_header stream_chunk stream_trailer sequence participant_sid",
    "UserPacket": "payload topic",
    "RpcRequest": "id method payload response_timeout_ms version",
    "RpcAck": "request_id",
    "RpcResponse": "request_id payload error",
    "RpcError": "code message data",
    "DataStream.Header": "stream_id timestamp topic mime_type total_length attributes text_header byte_header "
    "inline_content",
    "DataStream.TextHeader": "operation_type version",
    "DataStream.ByteHeader": "name",
    "DataStream.Chunk": "stream_id chunk_index content",
    "DataStream.Trailer": "stream_id reason attributes",
}
ENUMS = ("DisconnectReason", "ConnectionQuality")

TYPES = {
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_FLOAT: "float",
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_ENUM: "int",
    FieldDescriptor.TYPE_INT32: "int",
    FieldDescriptor.TYPE_INT64: "int",
    FieldDescriptor.TYPE_UINT32: "int",
    FieldDescriptor.TYPE_UINT64: "int",
}
"""Types that the codec supports; a fixed or zigzag integer would be a KeyError here, not wrong bytes there."""


def descriptor(name: str) -> Descriptor:
    """Return the descriptor of a LiveKit message, nested ones as `Outer.Inner`."""
    outer, _, inner = name.partition(".")
    files = (rtc.DESCRIPTOR, models.DESCRIPTOR)
    found: list[Descriptor] = [m for file in files if (m := file.message_types_by_name.get(outer)) is not None]
    nested: Descriptor = found[0].nested_types_by_name[inner] if inner else found[0]
    return nested


def kind(field: FieldDescriptor) -> str:
    """Return a field's type as schema.js writes it; `*` is repeated."""
    inner = field.message_type
    if inner is None:
        return ("*" if field.is_repeated else "") + TYPES[field.type]
    if inner.GetOptions().map_entry:
        assert {inner.fields_by_name[part].type for part in ("key", "value")} == {FieldDescriptor.TYPE_STRING}
        return "map"
    name = inner.full_name.removeprefix("livekit.")
    assert name in MESSAGES, f"{field.full_name} needs {name}"
    return ("*" if field.is_repeated else "") + name


def schema() -> str:
    """Return the text of schema.js."""
    lines = [
        "// The wire numbers of LiveKit's messages: [field number, type]; a leading * is repeated.",
        "// Written by tests/kit/page/schema.py from livekit.protocol; do not edit.",
        "",
        "export const SCHEMA = {",
    ]
    for name, wanted in MESSAGES.items():
        fields = descriptor(name).fields_by_name
        lines.append(f"  '{name}': {{")
        lines += [f"    {field}: [{fields[field].number}, '{kind(fields[field])}']," for field in wanted.split()]
        lines.append("  },")
    lines.append("};")
    for name in ENUMS:
        (enum,) = (e for file in (rtc, models) if (e := file.DESCRIPTOR.enum_types_by_name.get(name)) is not None)
        values = ", ".join(f"{value.number}: '{value.name}'" for value in enum.values)
        lines += ["", f"export const {name} = {{ {values} }};"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(schema())
