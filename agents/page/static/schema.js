// The wire numbers of LiveKit's messages: [field number, type]; a leading * is repeated.
// Written by tests/kit/page/schema.py from livekit.protocol; do not edit.

export const SCHEMA = {
  'WrappedJoinRequest': {
    compression: [1, 'int'],
    join_request: [2, 'bytes'],
  },
  'JoinRequest': {
    client_info: [1, 'ClientInfo'],
    connection_settings: [2, 'ConnectionSettings'],
    reconnect: [7, 'bool'],
    reconnect_reason: [8, 'int'],
    participant_sid: [9, 'string'],
  },
  'ClientInfo': {
    sdk: [1, 'int'],
    version: [2, 'string'],
    protocol: [3, 'int'],
    os: [4, 'string'],
    browser: [7, 'string'],
    browser_version: [8, 'string'],
    client_protocol: [12, 'int'],
  },
  'ConnectionSettings': {
    auto_subscribe: [1, 'bool'],
    adaptive_stream: [2, 'bool'],
  },
  'SignalRequest': {
    offer: [1, 'SessionDescription'],
    trickle: [3, 'TrickleRequest'],
    add_track: [4, 'AddTrackRequest'],
    mute: [5, 'MuteTrackRequest'],
    leave: [8, 'LeaveRequest'],
    sync_state: [12, 'SyncState'],
    ping_req: [16, 'Ping'],
    update_audio_track: [17, 'UpdateLocalAudioTrack'],
  },
  'SignalResponse': {
    join: [1, 'JoinResponse'],
    answer: [2, 'SessionDescription'],
    trickle: [4, 'TrickleRequest'],
    update: [5, 'ParticipantUpdate'],
    track_published: [6, 'TrackPublishedResponse'],
    leave: [8, 'LeaveRequest'],
    mute: [9, 'MuteTrackRequest'],
    speakers_changed: [10, 'SpeakersChanged'],
    room_update: [11, 'RoomUpdate'],
    connection_quality: [12, 'ConnectionQualityUpdate'],
    refresh_token: [16, 'string'],
    track_unpublished: [17, 'TrackUnpublishedResponse'],
    reconnect: [19, 'ReconnectResponse'],
    pong_resp: [20, 'Pong'],
    track_subscribed: [23, 'TrackSubscribed'],
    media_sections_requirement: [25, 'MediaSectionsRequirement'],
  },
  'JoinResponse': {
    room: [1, 'Room'],
    participant: [2, 'ParticipantInfo'],
    other_participants: [3, '*ParticipantInfo'],
    ice_servers: [5, '*ICEServer'],
    ping_timeout: [10, 'int'],
    ping_interval: [11, 'int'],
    server_info: [12, 'ServerInfo'],
  },
  'ReconnectResponse': {
    ice_servers: [1, '*ICEServer'],
  },
  'ICEServer': {
    urls: [1, '*string'],
    username: [2, 'string'],
    credential: [3, 'string'],
  },
  'ServerInfo': {
    version: [2, 'string'],
    protocol: [3, 'int'],
  },
  'Room': {
    sid: [1, 'string'],
    name: [2, 'string'],
    metadata: [8, 'string'],
  },
  'RoomUpdate': {
    room: [1, 'Room'],
  },
  'ParticipantInfo': {
    sid: [1, 'string'],
    identity: [2, 'string'],
    state: [3, 'int'],
    tracks: [4, '*TrackInfo'],
    metadata: [5, 'string'],
    name: [9, 'string'],
    version: [10, 'int'],
    kind: [14, 'int'],
    attributes: [15, 'map'],
    disconnect_reason: [16, 'int'],
  },
  'ParticipantUpdate': {
    participants: [1, '*ParticipantInfo'],
  },
  'TrackInfo': {
    sid: [1, 'string'],
    type: [2, 'int'],
    name: [3, 'string'],
    muted: [4, 'bool'],
    source: [9, 'int'],
    mid: [12, 'string'],
  },
  'AddTrackRequest': {
    cid: [1, 'string'],
    name: [2, 'string'],
    type: [3, 'int'],
    muted: [6, 'bool'],
    source: [8, 'int'],
    disable_red: [13, 'bool'],
    audio_features: [17, '*int'],
  },
  'UpdateLocalAudioTrack': {
    track_sid: [1, 'string'],
    features: [2, '*int'],
  },
  'TrackPublishedResponse': {
    cid: [1, 'string'],
    track: [2, 'TrackInfo'],
  },
  'TrackUnpublishedResponse': {
    track_sid: [1, 'string'],
  },
  'TrackSubscribed': {
    track_sid: [1, 'string'],
  },
  'SessionDescription': {
    type: [1, 'string'],
    sdp: [2, 'string'],
    id: [3, 'int'],
    mid_to_track_id: [4, 'map'],
  },
  'TrickleRequest': {
    candidateInit: [1, 'string'],
    target: [2, 'int'],
    final: [3, 'bool'],
  },
  'MuteTrackRequest': {
    sid: [1, 'string'],
    muted: [2, 'bool'],
  },
  'LeaveRequest': {
    can_reconnect: [1, 'bool'],
    reason: [2, 'int'],
    action: [3, 'int'],
  },
  'SpeakersChanged': {
    speakers: [1, '*SpeakerInfo'],
  },
  'SpeakerInfo': {
    sid: [1, 'string'],
    level: [2, 'float'],
    active: [3, 'bool'],
  },
  'ConnectionQualityUpdate': {
    updates: [1, '*ConnectionQualityInfo'],
  },
  'ConnectionQualityInfo': {
    participant_sid: [1, 'string'],
    quality: [2, 'int'],
    score: [3, 'float'],
  },
  'Ping': {
    timestamp: [1, 'int'],
    rtt: [2, 'int'],
  },
  'Pong': {
    last_ping_timestamp: [1, 'int'],
    timestamp: [2, 'int'],
  },
  'MediaSectionsRequirement': {
    num_audios: [1, 'int'],
    num_videos: [2, 'int'],
  },
  'SyncState': {
    answer: [1, 'SessionDescription'],
    offer: [5, 'SessionDescription'],
    subscription: [2, 'UpdateSubscription'],
    publish_tracks: [3, '*TrackPublishedResponse'],
    data_channels: [4, '*DataChannelInfo'],
    datachannel_receive_states: [7, '*DataChannelReceiveState'],
  },
  'UpdateSubscription': {
    track_sids: [1, '*string'],
    subscribe: [2, 'bool'],
  },
  'DataChannelInfo': {
    label: [1, 'string'],
    id: [2, 'int'],
    target: [3, 'int'],
  },
  'DataChannelReceiveState': {
    publisher_sid: [1, 'string'],
    last_seq: [2, 'int'],
  },
  'DataPacket': {
    kind: [1, 'int'],
    participant_identity: [4, 'string'],
    destination_identities: [5, '*string'],
    user: [2, 'UserPacket'],
    rpc_request: [10, 'RpcRequest'],
    rpc_ack: [11, 'RpcAck'],
    rpc_response: [12, 'RpcResponse'],
    stream_header: [13, 'DataStream.Header'],
    stream_chunk: [14, 'DataStream.Chunk'],
    stream_trailer: [15, 'DataStream.Trailer'],
    sequence: [16, 'int'],
    participant_sid: [17, 'string'],
  },
  'UserPacket': {
    payload: [2, 'bytes'],
    topic: [4, 'string'],
  },
  'RpcRequest': {
    id: [1, 'string'],
    method: [2, 'string'],
    payload: [3, 'string'],
    response_timeout_ms: [4, 'int'],
    version: [5, 'int'],
  },
  'RpcAck': {
    request_id: [1, 'string'],
  },
  'RpcResponse': {
    request_id: [1, 'string'],
    payload: [2, 'string'],
    error: [3, 'RpcError'],
  },
  'RpcError': {
    code: [1, 'int'],
    message: [2, 'string'],
    data: [3, 'string'],
  },
  'DataStream.Header': {
    stream_id: [1, 'string'],
    timestamp: [2, 'int'],
    topic: [3, 'string'],
    mime_type: [4, 'string'],
    total_length: [5, 'int'],
    attributes: [8, 'map'],
    text_header: [9, 'DataStream.TextHeader'],
    byte_header: [10, 'DataStream.ByteHeader'],
    inline_content: [11, 'bytes'],
  },
  'DataStream.TextHeader': {
    operation_type: [1, 'int'],
    version: [2, 'int'],
  },
  'DataStream.ByteHeader': {
    name: [1, 'string'],
  },
  'DataStream.Chunk': {
    stream_id: [1, 'string'],
    chunk_index: [2, 'int'],
    content: [3, 'bytes'],
  },
  'DataStream.Trailer': {
    stream_id: [1, 'string'],
    reason: [2, 'string'],
    attributes: [3, 'map'],
  },
};

export const DisconnectReason = { 0: 'UNKNOWN_REASON', 1: 'CLIENT_INITIATED', 2: 'DUPLICATE_IDENTITY', 3: 'SERVER_SHUTDOWN', 4: 'PARTICIPANT_REMOVED', 5: 'ROOM_DELETED', 6: 'STATE_MISMATCH', 7: 'JOIN_FAILURE', 8: 'MIGRATION', 9: 'SIGNAL_CLOSE', 10: 'ROOM_CLOSED', 11: 'USER_UNAVAILABLE', 12: 'USER_REJECTED', 13: 'SIP_TRUNK_FAILURE', 14: 'CONNECTION_TIMEOUT', 15: 'MEDIA_FAILURE', 16: 'AGENT_ERROR' };

export const ConnectionQuality = { 0: 'POOR', 1: 'GOOD', 2: 'EXCELLENT', 3: 'LOST' };
